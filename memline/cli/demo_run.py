"""The demo at work: hands a conversation over, waits for its memories, asks its questions."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any

from memline.contracts.errors import TurnFailed, WaitTimeout
from memline.contracts.ids import handed_over_at
from memline.contracts.receipt import Event, Status

if TYPE_CHECKING:
    from datetime import datetime

    from memline.contracts.receipt import ReceiptState
    from memline.memory import Memory
    from memline.receipt import Receipt

__all__ = ["NAMESPACE", "Asked", "Told", "ask", "conversation", "questions", "tell"]

#: The demo's own namespace: nothing of it mixes with an application's memory.
NAMESPACE = "demo"

#: Results shown for a question.
TOP = 3

#: Results among which what was true once is looked for.
_DEEP = 100

_LOOK = 0.05


@dataclass(slots=True)
class Told:
    """What came of the conversation."""

    turns: int
    #: How many of them are through.
    through: int = 0
    #: Turns that an earlier run had handed over.
    already: int = 0
    #: Memories that this run made.
    added: int = 0
    #: Facts said again that were a memory before.
    duplicates: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and what was found for it."""

    question: str
    kind: str
    why: str
    #: Every expected text stands in one of the results.
    found: bool
    results: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"question": self.question, "kind": self.kind, "found": self.found, "results": self.results}


def conversation() -> list[dict[str, Any]]:
    """The turns of the conversation that comes with memline, in order."""
    return [json.loads(line) for line in _read("conversation.jsonl").splitlines() if line.strip()]


def questions() -> list[dict[str, Any]]:
    """Its questions, each with the kind, the texts that the answer must hold, and what it shows."""
    found: list[dict[str, Any]] = json.loads(_read("questions.json"))
    return found


def tell(memory: Memory, turns: Sequence[Mapping[str, Any]], *, timeout: float, now: datetime, progress: Callable[[Told], None]) -> Told:
    """Hands every turn over and waits until its memories are searchable.

    *now*: the time before the first turn, which tells turns of an earlier run. *progress* hears of every turn that is through.
    Raises WaitTimeout where nothing moves for *timeout* seconds, TurnFailed where a turn fails.
    """
    told = Told(len(turns))
    began = moved = time.monotonic()
    on_the_way: deque[Receipt] = deque(
        memory.add(turn["messages"], user_id=turn["user_id"], timestamp=turn["timestamp"], idempotency_key=turn["key"]) for turn in turns
    )
    while on_the_way:
        if on_the_way[0].refresh().status.ended:
            _count(told, on_the_way.popleft().seen, before=now)
            moved = time.monotonic()
            progress(told)
        elif time.monotonic() - moved > timeout:
            raise _nobody_works(memory, f"{len(on_the_way)} turns of the demo", timeout)
        else:
            time.sleep(_LOOK)
    try:
        memory.flush(timeout)
    except WaitTimeout:
        raise _nobody_works(memory, "what the demo handed over", timeout) from None
    told.seconds = time.monotonic() - began
    return told


def ask(memory: Memory, question: Mapping[str, Any], *, user_id: str) -> Asked:
    """The first `TOP` memories for a question, whatever their score; below one that took another's place, what was true before it."""
    filters = {"user_id": user_id}
    began = time.monotonic()
    answer = memory.search(question["question"], filters=filters, top_k=TOP, threshold=0.0, explain=True)
    seconds = time.monotonic() - began
    results: list[dict[str, Any]] = answer["results"]
    shown = " ".join(item["memory"] for item in results)
    found = all(text in shown for text in question["expect"])
    if question["kind"] == "changed":
        everything = memory.search(question["question"], filters=filters, top_k=_DEEP, threshold=0.0, explain=True, include_superseded=True)
        past = [item for item in everything["results"] if item.get("superseded_by")]
        results = [each for item in results for each in (item, *_before(item, past))]
    return Asked(question["question"], question["kind"], question["why"], found, results, seconds)


def _before(item: Mapping[str, Any], past: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What *item* took the place of, newest first, and what that had taken the place of."""
    found: list[dict[str, Any]] = []
    for older in sorted(past, key=lambda each: str(each["occurred_at"]), reverse=True):
        if older["superseded_by"] == item["id"]:
            found += [older, *_before(older, past)]
    return found


def _count(told: Told, state: ReceiptState, *, before: datetime) -> None:
    if state.status is not Status.SEARCHABLE:
        raise TurnFailed(f"Turn {state.id} of the demo is {state.status}: {state.reason}. `memline --namespace {NAMESPACE} jobs` shows it.")
    first_run = handed_over_at(state.id)
    # Straight into the ledger a known turn's receipt is the first one's; over Redis it says whose repetition it is.
    again = state.same_as is not None or (first_run is not None and first_run < before)
    told.through += 1
    told.already += again
    told.added += 0 if again else sum(result["event"] == Event.ADD for result in state.results)
    told.duplicates += sum(result["event"] == Event.DUPLICATE for result in state.results)


def _nobody_works(memory: Memory, what: str, timeout: float) -> WaitTimeout:
    if memory.settings.redis_url is None:
        return WaitTimeout(f"Nothing moved for {timeout:g} s with {what} on the way. `memline doctor` says what is wrong.")
    return WaitTimeout(
        f"Nothing moved for {timeout:g} s with {what} on the way: does a worker run? MEMLINE_REDIS_URL is set, so turns go through Redis: "
        "start `memline worker` with the same settings, or unset MEMLINE_REDIS_URL to run everything here. The demo goes on where it was."
    )


def _read(name: str) -> str:
    return (resources.files("memline.cli") / "demo_data" / name).read_text(encoding="utf-8")
