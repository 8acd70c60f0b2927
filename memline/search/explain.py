"""Why a memory was found: numbers for a program, one short line for a reader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memline.contracts.ids import digest_of
from memline.language.ports import Analyser, Embedder
from memline.search.index.port import Index
from memline.search.namespace_weights import Weighing, weights_to_json
from memline.search.rerank.port import Reranker
from memline.search.results import Hit

__all__ = ["models_in_use", "score_details", "why"]

#: A cosine from which a paraphrase is worth a word.
_CLOSE = 0.35


def score_details(hit: Hit, *, threshold: float) -> dict[str, Any]:
    """mem0's `score_details`, from which the score can be computed again, with what is memline's own.

    `semantic_score`, `bm25_score` and `entity_boost` are raw signals (0 to 1; `entity_boost` 0 to 0.5, as mem0 has it). `raw_score` is
    the sum of all `weighted`; `final_score` is 1 / (1 + exp(-slope (raw_score - middle))), with slope and middle as `models_in_use` shows
    them, but for a memory with `below`: it is kept just below the score of the memory that superseded it. `ranks` are places in the legs.
    """
    signals = hit.signals
    return {
        "semantic_score": signals["meaning"].raw,
        "bm25_score": signals["words"].raw,
        "entity_boost": 0.5 * signals["entity"].raw,
        "raw_score": sum(value.weighted for value in signals.values()),
        "final_score": hit.score,
        "threshold": threshold,
        "signals": {name: {"raw": value.raw, "weighted": value.weighted} for name, value in signals.items()},
        "matched_terms": list(hit.terms),
        "matched_entities": list(hit.entities),
        "ranks": dict(hit.ranks),
        "why": why(hit),
        **({} if hit.below is None else {"below": hit.below}),
        **({} if hit.rerank_score is None else {"rerank_score": hit.rerank_score}),
    }


def models_in_use(
    embedder: Embedder, analyser: Analyser, index: Index, reranker: Reranker | None, weighing: Weighing, missing: Mapping[str, str]
) -> dict[str, Any]:
    """What an answer was made with, by kind: names with versions, and the weights' source, version (a digest) and map to a score.

    Of a part in *missing* the name is there all the same: it was asked. `reranker` is None where none was asked.
    """
    weights = weighing.weights
    return {
        "embedder": {"model": embedder.model, "dimension": embedder.dimension},
        "analyser": analyser.name,
        # one that is away may have to be asked for its version
        "index": type(index).__name__ if "index" in missing else index.name,
        "reranker": None if reranker is None else reranker.name,
        "weights": {
            "source": weighing.source,
            "version": digest_of("weights", json.dumps(weights_to_json(weights), sort_keys=True), size=4),
            "middle": weights.middle,
            "slope": weights.slope,
        },
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
    if signals["standing"].raw > 0:
        found.append((signals["standing"].weighted, "says how it is wanted"))
    if hit.row.verbatim and len(found) < 2 and (near := max(signals["meaning_near"].weighted, signals["words_near"].weighted)) > 0.5:
        found.append((0.5 * near, "said next to what matches"))
    if not found:
        found.append((0.0, f"distantly alike ({signals['meaning'].raw:.2f})"))
    reasons = [text for _, text in sorted(found, key=lambda reason: -reason[0])[:3]]
    if hit.row.superseded_by is not None:
        reasons.append("superseded by a newer one")
    return ", ".join(reasons)
