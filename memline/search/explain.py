"""Why a memory was found: numbers for a program, one short line for a reader."""

from __future__ import annotations

from typing import Any

from memline.search.results import Hit

__all__ = ["score_details", "why"]

#: A cosine from which a paraphrase is worth a word.
_CLOSE = 0.35


def score_details(hit: Hit, *, threshold: float) -> dict[str, Any]:
    """mem0's `score_details`, from which the score can be computed again, with what is memline's own.

    `semantic_score`, `bm25_score` and `entity_boost` are raw signals (0 to 1; `entity_boost` 0 to 0.5, as mem0 has it).
    """
    signals = hit.signals
    return {
        "semantic_score": signals["meaning"].raw,
        "bm25_score": signals["words"].raw,
        "entity_boost": 0.5 * signals["entity"].raw,
        "final_score": hit.score,
        "threshold": threshold,
        "signals": {name: {"raw": value.raw, "weighted": value.weighted} for name, value in signals.items()},
        "matched_terms": list(hit.terms),
        "matched_entities": list(hit.entities),
        "ranks": dict(hit.ranks),
        "why": why(hit),
    }


def why(hit: Hit) -> str:
    """The strongest reasons, strongest first, at most three: "exact code inc-48213", "means the same (0.71)", "words: hotel, kyoto"."""
    signals = hit.signals
    found: list[tuple[float, str]] = []
    codes = [term for term in hit.terms if any(character.isdigit() for character in term)]
    if signals["code"].raw > 0 and codes:
        found.append((signals["code"].weighted + signals["coverage"].weighted, f"exact code {max(codes, key=len)}"))
    elif hit.terms:
        found.append((signals["words"].weighted + signals["coverage"].weighted, "words: " + ", ".join(hit.terms[:4])))
    if signals["meaning"].raw >= _CLOSE:
        found.append((signals["meaning"].weighted, f"means the same ({signals['meaning'].raw:.2f})"))
    if hit.entities:
        found.append((signals["entity"].weighted, "names " + ", ".join(hit.entities[:2])))
    if signals["same_actor"].raw > 0 and hit.row.actor_id:
        found.append((signals["same_actor"].weighted, f"said by {hit.row.actor_id}"))
    if signals["same_date"].raw > 0:
        found.append((signals["same_date"].weighted, f"from {hit.row.occurred_at:%B %Y}"))
    if signals["answers"].raw > 0:
        found.append((signals["answers"].weighted, "answers a question about it"))
    if signals["time_words"].raw > 0:
        found.append((signals["time_words"].weighted, "says when"))
    if hit.row.verbatim and len(found) < 2 and (near := max(signals["meaning_near"].weighted, signals["words_near"].weighted)) > 0.5:
        found.append((0.5 * near, "said next to what matches"))
    if not found:
        found.append((0.0, f"distantly alike ({signals['meaning'].raw:.2f})"))
    reasons = [text for _, text in sorted(found, key=lambda reason: -reason[0])[:3]]
    if hit.row.superseded_by is not None:
        reasons.append("superseded by a newer one")
    return ", ".join(reasons)
