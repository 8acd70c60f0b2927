"""What an extractor keeps of conversations, and what of pleasantries: `make bench-extract DATA=FOLDER`.

    python -m bench.extract_quality FOLDER [--model] [--yes] [--limit N] [--json FILE]

FOLDER holds `locomo/*.json` as published. Each of its turns is a message of a named speaker, extracted alone, as `add` hands it over; the
turns that its observations name are evidence. Measured are the share of evidence turns that yield a memory, memories a turn, the share of
pure pleasantries that yield none (`bench/pleasantries.py`: 200 listed ones, others in other wording, some of them held out), and the share
of turns that only look like them that do yield one (`bench/look_alikes.py`). The rules are always measured; *--model* measures the model
that MEMLINE_* names (or its extractor) beside them, after it said what that costs and was told --yes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import look_alikes as said_for_something
from bench import pleasantries as said_for_nothing
from memline.compose import House
from memline.contracts.errors import MemlineError, ReplyUnreadable
from memline.contracts.message import Message
from memline.pipeline.extractors.port import Extractor, Request
from memline.pipeline.extractors.rules import RuleExtractor
from memline.pipeline.extractors.tokens import tokens_of
from memline.settings import load_settings

__all__ = ["EVIDENCE_KEPT", "PLEASANTRIES_DROPPED", "Said", "facts_of", "load_turns", "look_alikes", "measure", "pleasantries"]

#: The marks: shares that have to be reached.
EVIDENCE_KEPT, PLEASANTRIES_DROPPED = 0.90, 0.80

#: Tokens of a model's rules and reply beside the turn itself, for the estimate of costs: 2,000 in, 60 out.
_RULES, _REPLY = 2000, 60
#: Calls at a time.
_PARALLEL = 8

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Said:
    """A turn of a conversation; `evidence`: an observation names it."""

    text: str
    name: str | None = None
    said_at: datetime = NOON
    evidence: bool = False


@dataclass(slots=True)
class Yield:
    """How many memories each of some turns gave; None: the reply could not be read, or the call failed."""

    of: list[int | None] = field(default_factory=list)

    @property
    def kept(self) -> int:
        return sum(1 for number in self.of if number)

    @property
    def failed(self) -> int:
        return sum(1 for number in self.of if number is None)


def load_turns(folder: Path) -> list[Said]:
    """Every turn of every conversation under *folder*/locomo, with what its pictures show."""
    found: list[Said] = []
    for path in sorted((folder / "locomo").glob("*.json")):
        for raw in json.loads(path.read_text()):
            named = frozenset(_named(raw["observation"]))
            talk = raw["conversation"]
            for number in sorted(int(key.split("_")[1]) for key in talk if re.fullmatch(r"session_\d+", key)):
                at = datetime.strptime(talk[f"session_{number}_date_time"] + " +0000", "%I:%M %p on %d %B, %Y %z")
                for turn in talk[f"session_{number}"]:
                    caption = f"\n[image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
                    found.append(Said(turn["text"] + caption, turn["speaker"], at, turn["dia_id"] in named))
    return found


def _named(value: Any) -> Iterator[str]:
    """Ids of turns, wherever they stand in the observations."""
    if isinstance(value, str):
        yield from re.findall(r"D\d+:\d+", value)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _named(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _named(inner)


def pleasantries() -> dict[str, list[Said]]:
    """The lists, by name."""
    return {name.lower().replace("_", " "): [Said(text) for text in getattr(said_for_nothing, name)] for name in said_for_nothing.__all__}


def look_alikes() -> dict[str, list[Said]]:
    """The lists of turns that only look like pleasantries, by name."""
    return {
        name.lower().replace("_", " "): [Said(text) for text in getattr(said_for_something, name)] for name in said_for_something.__all__
    }


def facts_of(extractor: Extractor, said: Said) -> list[str]:
    """The facts of one turn. Raises what the extractor raises."""
    request = Request(messages=(Message("user", said.text, said.name),), said_at=said.said_at)
    return [fact.text for fact in extractor.read(extractor.ask(request), request)]


def measure(extractor: Extractor, turns: Sequence[Said]) -> dict[str, Any]:
    """The figures of one extractor."""
    began = time.process_time()
    of_turns = _yields(extractor, turns)
    evidence = [number for said, number in zip(turns, of_turns.of, strict=True) if said.evidence]
    lists = {name: (len(some), _yields(extractor, some)) for name, some in pleasantries().items()}
    alike = {name: (len(some), _yields(extractor, some)) for name, some in look_alikes().items()}
    kept = sum(1 for number in evidence if number)
    listed = _dropped([lists["pleasantries english"], lists["pleasantries chinese"]])
    report: dict[str, Any] = {
        "extractor": extractor.name,
        "turns": len(turns),
        "evidence_turns": len(evidence),
        "evidence_turns_kept": _share(kept, len(evidence)),
        "memories_per_turn": _share(sum(number or 0 for number in of_turns.of), len(turns)),
        "memories_per_evidence_turn": _share(sum(number or 0 for number in evidence), len(evidence)),
        "unreadable": of_turns.failed + sum(found.failed for _, found in (*lists.values(), *alike.values())),
        "pleasantries_dropped": listed,
        "pleasantries_kept": _share(round((1 - listed) * 200), 200),
        "pleasantries_dropped_by_list": {name: _dropped([found]) for name, found in lists.items()},
        "pleasantries_dropped_other": _dropped([lists["other english"], lists["other chinese"]]),
        "pleasantries_dropped_held_out": _dropped([lists["held out english"], lists["held out chinese"]]),
        "pleasantries_dropped_held_out_later": _dropped([lists["held out later english"], lists["held out later chinese"]]),
        "look_alikes_kept": _kept([alike["look alikes english"], alike["look alikes chinese"]]),
        "look_alikes_kept_held_out": _kept([alike["held out english"], alike["held out chinese"]]),
        "cpu_seconds": round(time.process_time() - began, 2),
    }
    evidence_mark = (not evidence) or report["evidence_turns_kept"] >= EVIDENCE_KEPT
    return report | {"marks_reached": bool(evidence_mark and listed >= PLEASANTRIES_DROPPED)}


def _yields(extractor: Extractor, some: Sequence[Said]) -> Yield:
    def one(said: Said) -> int | None:
        try:
            return len(facts_of(extractor, said))
        except (ReplyUnreadable, MemlineError) as error:
            print(f"not extracted: {type(error).__name__}", file=sys.stderr)
            return None

    if not extractor.paid:
        return Yield([one(said) for said in some])
    with ThreadPoolExecutor(_PARALLEL) as pool:
        return Yield(list(pool.map(one, some)))


def _dropped(lists: Sequence[tuple[int, Yield]]) -> float:
    number = sum(size for size, _ in lists)
    return _share(number - sum(found.kept + found.failed for _, found in lists), number)


def _kept(lists: Sequence[tuple[int, Yield]]) -> float:
    return _share(sum(found.kept for _, found in lists), sum(size for size, _ in lists))


def _share(part: float, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def _configured() -> tuple[Extractor | None, str]:
    """The extractor that the settings name, where it is not the rules; else why there is none."""
    settings = load_settings()
    if not settings.uses_model() and settings.extractor in ("auto", "rules"):
        return None, "no model is configured: set MEMLINE_OPENAI_API_KEY (and MEMLINE_OPENAI_BASE_URL), or MEMLINE_EXTRACTOR"
    return House(settings).extractor, ""


def _cost(extractor: Extractor, turns: Sequence[Said]) -> str:
    every = [*turns, *(said for some in (*pleasantries().values(), *look_alikes().values()) for said in some)]
    said = sum(tokens_of(each.text) for each in every)
    return (
        f"{extractor.name}: {len(every)} calls, about {len(every) * _RULES + said:,} tokens in and {len(every) * _REPLY:,} out. "
        "Nothing was asked yet: say --yes, and --limit N for fewer turns."
    )


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="with locomo/*.json; without it only the pleasantries are measured")
    parser.add_argument("--model", action="store_true", help="also the model that the settings name")
    parser.add_argument("--yes", action="store_true", help="pay for it")
    parser.add_argument("--limit", type=int, help="at most so many turns of the conversations")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    turns = load_turns(given.folder) if given.folder is not None else []
    turns = turns[: given.limit] if given.limit is not None else turns
    report: dict[str, Any] = {"rules": measure(RuleExtractor(), turns), "model": None}
    if not turns:
        report["not_run"] = "evidence: no folder with locomo/*.json was given"
    if given.model:
        extractor, why = _configured()
        if extractor is None:
            report["model_not_run"] = why
        elif extractor.paid and not given.yes:
            report["model_not_run"] = _cost(extractor, turns)
        else:
            report["model"] = measure(extractor, turns)
    written = json.dumps(report, indent=2, ensure_ascii=False)
    if given.json is not None:
        given.json.write_text(written + "\n")
    print(written)
    return 0


if __name__ == "__main__":
    sys.exit(main())
