"""The outer world of the model: a stream in a list, an index in a dict, extractors, and a pool without threads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.engine import Connection

from memline.contracts.errors import ProviderUnavailable, ReplyUnreadable, ServiceUnavailable
from memline.contracts.fact import Fact
from memline.contracts.index_object import IndexObject, Kind, ObjectKey
from memline.contracts.turn import Turn
from memline.pipeline.extractors.port import Request
from memline.search.index.port import Answer, IndexState, Write
from tests.parts import HandClock, LineExtractor, MemoryIndex, facts_of

__all__ = ["Killed", "Lines", "ListStream", "ModelIndex", "SameThread", "one_at_a_time"]


class Killed(BaseException):
    """The process is gone: nothing catches it, an open transaction is rolled back, a lease stays taken."""


@dataclass(slots=True)
class _Entry:
    id: str
    wire: bytes
    since: datetime | None = None


class ListStream:
    """A stream with a consumer group. *loses*: the next `done` is lost before, or after, it had its effect."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self._appended = 0
        self.entries: list[_Entry] = []
        self.loses: str | None = None
        self.set_aside_ids: list[str] = []
        #: Turns that it acknowledged and did not forget since.
        self.owed: set[str] = set()

    def append(self, turn: Turn, *, first: bool = False) -> None:
        """*first*: before what nobody has read yet, as a turn that overtakes another."""
        self._appended += 1
        self.owed.add(turn.id)
        self.entries.append(_Entry(f"{self._appended:06}-0", turn.to_wire().encode()))
        unread = [entry for entry in self.entries if entry.since is None]
        if first:  # ids stay in order
            wires = [unread[-1].wire, *(entry.wire for entry in unread[:-1])]
            for entry, wire in zip(unread, wires, strict=True):
                entry.wire = wire

    def draw_place(self) -> str:
        """The id of an entry that nobody meets."""
        self._appended += 1
        return f"{self._appended:06}-0"

    def lose_unread(self) -> None:
        """Redis forgets what it acknowledged."""
        self.owed -= {Turn.from_wire(entry.wire).id for entry in self.entries if entry.since is None}
        self.entries = [entry for entry in self.entries if entry.since is not None]

    def read(self, _consumer: str, *, count: int, block_ms: int) -> Sequence[_Entry]:
        return self._deliver([entry for entry in self.entries if entry.since is None][:count])

    def claim_idle(self, _consumer: str, *, min_idle_ms: int, count: int, after: str) -> Sequence[_Entry]:
        before = self._clock.now() - timedelta(milliseconds=min_idle_ms)
        idle = [entry for entry in self.entries if entry.since is not None and entry.since <= before and entry.id > after]
        return self._deliver(idle[:count])

    def _deliver(self, found: list[_Entry]) -> list[_Entry]:
        for entry in found:
            entry.since = self._clock.now()
        return found

    def done(self, entry_ids: Sequence[str]) -> None:
        loses, self.loses = self.loses, None
        if loses != "before":
            self.entries = [entry for entry in self.entries if entry.id not in entry_ids]
        if loses is not None:
            raise ServiceUnavailable("Redis does not answer.")

    def set_aside(self, entry_ids: Sequence[str]) -> None:
        self.set_aside_ids += entry_ids
        self.done(entry_ids)

    def leave(self, _consumer: str, _entry_ids: Sequence[str], *, idle_ms: int) -> int:
        raise AssertionError("no turn of the model is of a newer version")


class ModelIndex(MemoryIndex):
    """The whole port, and hands that damage it. *partial*: only every second object of the next write is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.partial = False
        self._snapshot: dict[ObjectKey, IndexObject] = {}

    def heal(self) -> None:
        self.away = self.loses_answer = self.partial = False
        self.refuses, self.silent_about, self.breaks_on = set(), set(), None

    def write(self, writes: Sequence[Write], *, tx: Connection | None = None) -> list[Answer]:
        if self.partial:
            self.refuses = {write.key.id for write in writes[::2]}
        try:
            return super().write(writes, tx=tx)
        finally:
            if self.partial:
                self.refuses = set()

    def walk(self, kind: Kind, namespace: str, *, after: str = "", limit: int = 1000, vectors: bool = False) -> Iterator[IndexState]:
        self._answers()
        return super().walk(kind, namespace, after=after, limit=limit, vectors=vectors)

    def look(self, keys: Sequence[ObjectKey], *, vectors: bool = False) -> dict[ObjectKey, IndexState]:
        self._answers()
        found = [self.objects[key] for key in keys if key in self.objects]
        return {each.key: IndexState(each.key, each.version, each.digest, each.vector_digest if vectors else None) for each in found}

    def namespaces(self) -> list[str]:
        self._answers()
        return sorted({key.namespace for key in self.objects})

    def _answers(self) -> None:
        if self.away:
            raise ServiceUnavailable("The index does not answer.")

    def damage(self, how: str, which: int, strangers: Sequence[tuple[str, str]]) -> None:
        """Somebody does this by hand. *strangers*: (namespace, id) of memories, whatever became of them."""
        keys = sorted(self.objects, key=lambda key: (key.kind, key.namespace, key.id))
        if how == "snapshot":
            self._snapshot = dict(self.objects)
        elif how == "restore":
            self.objects = dict(self._snapshot)
        elif not keys:
            return
        elif how == "delete":
            del self.objects[keys[which % len(keys)]]
        elif how == "older":
            self._change(keys[which % len(keys)], version=0)
        elif how == "newer":
            self._change(keys[which % len(keys)], version=99)
        elif how == "terms":
            self._change(keys[which % len(keys)], terms=("changed",))
        elif how == "vector":
            self._change(keys[which % len(keys)], vector=self.objects[keys[-1 - which % len(keys)]].vector)
        elif how == "foreign":
            # an object under the id of a memory of somebody else, or of one that is gone, that claims to be Ann's
            model = self.objects[keys[which % len(keys)]]
            for namespace in ("default", "other"):
                for object_id in ["a-foreign-id", *(found for _, found in strangers)]:
                    key = ObjectKey(model.key.kind, namespace, object_id)
                    if key not in self.objects:
                        self.objects[key] = replace(model, key=key, user_id="ann", agent_id=None, run_id=None)
                        return

    def _change(self, key: ObjectKey, **values: Any) -> None:
        self.objects[key] = replace(self.objects[key], **values)


class Lines(LineExtractor):
    """Every line is a fact. As a paid model it is shown the context, answers once what nobody can read, or is away once."""

    def __init__(self, *, paid: bool) -> None:
        self.paid = self.wants_context = paid
        self._asked: dict[str, int] = {}

    def ask(self, request: Request) -> str:
        text = request.messages[0].text
        self._asked[text] = self._asked.get(text, 0) + 1
        if self.paid and self._asked[text] % 2 == 1:
            if text == "User was away":
                raise ProviderUnavailable("The model does not answer.")
            if text == "User mumbled":
                return "mumbling"
        return super().ask(request)

    def read(self, reply: str, request: Request) -> Sequence[Fact]:
        try:
            lines = json.loads(reply)
        except ValueError:
            raise ReplyUnreadable("The reply is no JSON.") from None
        return facts_of(lines, {known.short_id: known.memory_id for known in request.known})


class SameThread:
    """A pool that runs everything at once, in the caller's thread."""

    def __init__(self, **_given: Any) -> None:
        return None

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args))
        except BaseException as error:
            future.set_exception(error)
        return future

    def shutdown(self, **_given: Any) -> None:
        return None


def one_at_a_time() -> Callable[..., tuple[set[Future[Any]], set[Future[Any]]]]:
    """A `concurrent.futures.wait` that every second time sees one call end, and otherwise none: so a batch is divided."""
    calls = 0

    def wait(running: dict[Future[Any], Any], **_given: Any) -> tuple[set[Future[Any]], set[Future[Any]]]:
        nonlocal calls
        calls += 1
        done = set(list(running)[:1]) if calls % 2 else set()
        return done, set(running) - done

    return wait
