"""The contract's samples that `memline check` runs: each says what is promised, and tells what it saw.

Where a sample is about storage it writes verbatim, so that no model's freedom is in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from memline.contracts.errors import IdempotencyConflict, ServiceUnavailable, WaitTimeout
from memline.contracts.index_object import ObjectKey
from memline.contracts.receipt import Event

if TYPE_CHECKING:
    from memline.compose import House
    from memline.memory import Memory

__all__ = ["SAMPLES", "Bench", "Broken", "Sample", "Skipped"]

ANN, BOB, CAT = "check-ann", "check-bob", "check-cat"


class Broken(Exception):
    """A promise does not hold; the text says what was seen instead."""


class Skipped(Exception):
    """A sample says nothing here; the text says why."""


@dataclass(slots=True)
class Bench:
    """The throwaway namespace that the samples use."""

    memory: Memory
    house: House
    #: When it has to be over, by `time.monotonic`.
    deadline: float
    #: Ids of memories that samples made, by a word.
    ids: dict[str, str] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        return self.memory.namespace

    def left(self) -> float:
        """Seconds that are left; raises WaitTimeout when there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise WaitTimeout("The time of the check is over (--timeout).")
        return left

    def tell(self, text: str, user_id: str, **options: Any) -> list[dict[str, Any]]:
        """Hands a text over, kept as it is, and waits until it is found; the receipt's results, which are one."""
        receipt = self.memory.add(text, user_id=user_id, **{"infer": False, **options})
        results: list[dict[str, Any]] = receipt.wait(self.left()).results
        if len(results) != 1:
            raise Broken(f"{len(results)} memories came of one text that is kept as it is")
        return results

    def found(self, question: str, user_id: str, **options: Any) -> set[str]:
        """Ids that a search finds."""
        answer = self.memory.search(question, filters={"user_id": user_id}, threshold=0.0, **options)
        if missing := answer.get("missing"):
            raise Broken(f"the answer lacked: {', '.join(missing)}")
        return {item["id"] for item in answer["results"]}

    def listed(self, user_id: str, **options: Any) -> set[str]:
        """Ids that a listing shows."""
        return {item["id"] for item in self.memory.get_all(filters={"user_id": user_id}, **options)["results"]}

    def indexed(self, memory_id: str) -> bool:
        """Whether the index has the object of a memory."""
        key = ObjectKey("memory", self.namespace, memory_id)
        return key in self.house.index.look([key])


@dataclass(frozen=True, slots=True)
class Sample:
    """One promise, and the way to see whether it holds."""

    name: str
    promise: str
    run: Callable[[Bench], str]


def _kept(bench: Bench) -> str:
    (made,) = bench.tell("Ann keeps her bicycle in garage 4417.", ANN)
    bench.ids["bicycle"] = made["id"]
    _expect(made["id"] in bench.found("Where is the bicycle?", ANN), "the search did not find it")
    _expect(bench.indexed(made["id"]), "the index does not have it")
    return "found, and in the index"


def _apart(bench: Bench) -> str:
    (made,) = bench.tell("Bob keeps his bicycle in garage 9023.", BOB)
    anns, bobs = bench.ids["bicycle"], made["id"]
    question = "bicycle garage 4417 9023"
    for user, own, other in ((ANN, anns, bobs), (BOB, bobs, anns)):
        for name, ids in (("search", bench.found(question, user)), ("get_all", bench.listed(user))):
            _expect(own in ids, f"{name} lacks the user's own memory")
            _expect(other not in ids, f"{name} shows the other user's memory")
        _expect(bench.memory.count(filters={"user_id": user}) == 1, "count counts the other user's memory")
        _expect(bench.memory.get(other, within={"user_id": user}) is None, "get(within=…) shows the other user's memory")
    both = {"OR": [{"user_id": ANN}, {"user_id": BOB}]}
    _expect(len(bench.memory.get_all(filters=both)["results"]) == 2, "a filter with OR does not show both")
    return "search, get_all, count, get and filters each show one user's own"


def _foreign(bench: Bench) -> str:
    other = bench.memory.in_namespace(f"{bench.namespace}-x")
    _expect(other.get(bench.ids["bicycle"]) is None, "another namespace gets it by id")
    _expect(not other.get_all(filters={"user_id": ANN})["results"], "another namespace lists it")
    return "another namespace neither gets nor lists it"


def _once(bench: Bench) -> str:
    text, key = "Ann's locker has the number 5518.", "check-key"
    first = bench.memory.add(text, user_id=ANN, infer=False, idempotency_key=key).wait(bench.left())
    second = bench.memory.add(text, user_id=ANN, infer=False, idempotency_key=key).wait(bench.left())
    _expect([made["id"] for made in first.results] == [made["id"] for made in second.results], "the second call had an effect of its own")
    try:
        bench.memory.add("Ann's locker has the number 6629.", user_id=ANN, infer=False, idempotency_key=key).wait(bench.left())
    except IdempotencyConflict:
        return "the same content is the first job again, another content a conflict"
    raise Broken("another content under the same key was taken")


def _unique(bench: Bench) -> str:
    (again,) = bench.tell("Ann keeps her  bicycle in garage 4417.", ANN)
    _expect(again["event"] == Event.DUPLICATE, f"it was written again ({again['event']})")
    _expect(again["id"] == bench.ids["bicycle"], "it is a duplicate of another memory")
    return "a duplicate of the first"


def _changed(bench: Bench) -> str:
    now = bench.house.clock.now()
    options: dict[str, Any] = {"infer": True, "user_id": CAT}
    bench.memory.add("I live in Porto.", timestamp=now - timedelta(days=2), **options).wait(bench.left())
    first = bench.listed(CAT)
    bench.memory.add("I moved to Lisbon.", timestamp=now - timedelta(days=1), **options).wait(bench.left())
    current, everything = bench.listed(CAT), bench.listed(CAT, include_superseded=True)
    if bench.house.extractor.paid and (not first or first & current):
        raise Skipped("the model kept both facts, as it may")
    _expect(bool(first), "no memory came of the first turn")
    _expect(bool(current - first), "the new address is not there")
    _expect(not first & current, "the old address is still current")
    _expect(first <= everything, "the old address is not kept as past")
    _expect(not first & bench.found("Where do I live?", CAT), "a search finds the old address")
    return "the new address is current, the old one kept as past"


def _expired(bench: Bench) -> str:
    yesterday = (bench.house.clock.now() - timedelta(days=2)).date()
    (made,) = bench.tell("Bob's guest badge has the number 7731.", BOB, expiration_date=yesterday)
    _expect(made["id"] not in bench.found("guest badge number 7731", BOB), "a search finds it")
    _expect(made["id"] not in bench.listed(BOB), "a listing shows it")
    _expect(made["id"] in bench.listed(BOB, show_expired=True), "show_expired does not show it")
    return "no read shows it unless asked to"


def _part_down(bench: Bench) -> str:
    from memline.contracts.within import parse_within
    from memline.search.searcher import Searcher

    house, away = bench.house, _Away(bench.house.index)
    deadline = house.settings.search_deadline
    without = Searcher(house.ledger, away, house.analyser, house.embedder, house.clock, deadline=deadline)
    found = without.search(bench.namespace, "Where is the bicycle?", parse_within({"user_id": ANN}, None), top_k=5, threshold=0.0)
    _expect("index" in found.missing, "the answer does not say that the index was missing")
    _expect(bench.ids["bicycle"] in {hit.row.id for hit in found.results}, "the ledger alone did not find it")
    return "the answer came, from the ledger, and named what was missing"


def _deleted(bench: Bench) -> str:
    memory_id = bench.ids["bicycle"]
    bench.memory.delete(memory_id)
    for name, there in (
        ("search", memory_id in bench.found("Where is the bicycle?", ANN)),
        ("get_all", memory_id in bench.listed(ANN)),
        ("get", bench.memory.get(memory_id) is not None),
    ):
        _expect(not there, f"{name} still shows it")
    bench.memory.flush(bench.left())
    _expect(not bench.indexed(memory_id), "the index still has it")
    return "no read shows it, and it left the index"


def _equal(bench: Bench) -> str:
    bench.memory.flush(bench.left())
    with bench.house.ledger.read() as connection:
        committed = _committed(connection, bench.namespace)
    shown = {state.key.id for state in bench.house.index.walk("memory", bench.namespace)}
    _expect(shown == committed, f"{len(committed - shown)} memories are missing in the index, {len(shown - committed)} are too many")
    return f"{len(committed)} memories, the same in both"


def _erased(bench: Bench) -> str:
    certificate = bench.memory.erase(user_id=ANN)
    _expect(not bench.listed(ANN, show_expired=True, include_superseded=True), "a listing shows a memory of the subject")
    _expect(not bench.found("bicycle locker garage", ANN), "a search finds a memory of the subject")
    _expect(bench.memory.history(bench.ids["bicycle"]) == [], "its history is there")
    _expect(bool(bench.listed(BOB)), "another subject lost a memory")
    return f"nothing is left of the subject; certificate {certificate['erasure']}"


SAMPLES: tuple[Sample, ...] = (
    Sample("kept", "what is handed over is found", _kept),
    Sample("apart", "two users are kept apart", _apart),
    Sample("namespace", "a namespace is a wall", _foreign),
    Sample("once", "an idempotency key has one effect", _once),
    Sample("unique", "the same fact is kept once", _unique),
    Sample("changed", "a changed fact replaces the old one", _changed),
    Sample("expired", "what has expired is not shown", _expired),
    Sample("part down", "a search without its index still answers", _part_down),
    Sample("deleted", "what was deleted is gone", _deleted),
    Sample("equal", "the index equals the ledger", _equal),
    Sample("erased", "an erased subject leaves nothing", _erased),
)


class _Away:
    """An index that does not answer; as far as this process is concerned."""

    def __init__(self, index: Any) -> None:
        self.name, self.shares_ledger, self.remote = index.name, index.shares_ledger, index.remote

    def __getattr__(self, name: str) -> Any:
        if name in ("write", "nearest", "nearest_any", "matching", "walk", "look", "namespaces"):
            return self._away
        raise AttributeError(name)

    @staticmethod
    def _away(*_given: Any, **_options: Any) -> Any:
        raise ServiceUnavailable("The index was made unreachable by the check.")


def _committed(connection: Any, namespace: str) -> set[str]:
    from memline.ledger.memories import should_be_indexed

    return set(should_be_indexed(connection, "memory", namespace, after="", limit=1000))


def _expect(holds: bool, seen: str) -> None:
    if not holds:
        raise Broken(seen)
