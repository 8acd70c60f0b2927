"""Small, deterministic parts for tests: whole implementations of the ports, kept in memory, and a clock that is moved by hand."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from memline.contracts.errors import ReplyUnreadable, ServiceUnavailable
from memline.contracts.fact import Analysis, EntityMention, Fact, Link, Relation
from memline.contracts.filters import ScopeIds
from memline.contracts.index_object import IndexObject, Kind, ObjectKey
from memline.contracts.scope import Scope
from memline.contracts.turn import Message, Turn
from memline.language.ports import Vectors
from memline.ledger.accept import Accepted, accept_turns
from memline.ledger.leases import Lease
from memline.ledger.schema import jobs, memories
from memline.ledger.session import Ledger
from memline.outbox.relay import Relay, RelayLimits
from memline.pipeline.extractors.port import Request
from memline.pipeline.parts import Parts
from memline.pipeline.runner import claim_and_send, run_through
from memline.search.index.port import Answer, IndexState, Nominee, Write

__all__ = [
    "START",
    "CountingIds",
    "HandClock",
    "LineExtractor",
    "MemoryIndex",
    "ScriptedExtractor",
    "TrigramEmbedder",
    "WordAnalyser",
    "accept",
    "job_of",
    "make_parts",
    "make_relay",
    "make_turn",
    "run_all",
    "table",
    "tell",
]

START = datetime(2026, 3, 1, 9, tzinfo=UTC)


class HandClock:
    """A clock that stands until it is moved."""

    def __init__(self, start: datetime = START) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> datetime:
        self._now += timedelta(seconds=seconds)
        return self._now


class CountingIds:
    """Ids in the order in which they were asked for."""

    def __init__(self, prefix: str = "id") -> None:
        self._prefix = prefix
        self._numbers = count(1)

    def new(self) -> str:
        return f"{self._prefix}-{next(self._numbers):06}"


class WordAnalyser:
    """Terms: lower-cased words. Entities: capitalised words that do not begin the text (PROPER), words with a digit (IDENTIFIER)."""

    name = "words"

    def analyse(self, texts: Sequence[str]) -> list[Analysis]:
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> Analysis:
        words = re.findall(r"[\w-]+", text)
        found: dict[str, EntityMention] = {}
        for place, word in enumerate(words):
            if any(c.isdigit() for c in word):
                found.setdefault(word.lower(), EntityMention(word, "IDENTIFIER"))
            elif place and word[0].isupper():
                found.setdefault(word.lower(), EntityMention(word, "PROPER"))
        return Analysis(tuple(word.lower() for word in words), tuple(found.values()))


class TrigramEmbedder:
    """A text's triples of letters, hashed into 64 places: equal texts are equal, similar spellings near. *fail* may raise for a call."""

    model, dimension = "trigrams", 64

    def __init__(self, *, paid: bool = False, fail: Callable[[Sequence[str]], None] | None = None) -> None:
        self.paid = paid
        self.fail = fail
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(list(texts))
        if self.fail is not None:
            self.fail(texts)
        return np.stack([self._one(text) for text in texts])

    def _one(self, text: str) -> NDArray[np.float32]:
        vector = np.zeros(self.dimension, dtype=np.float32)
        padded = f"  {text.lower()} "
        for start in range(len(padded) - 2):
            vector[hashlib.md5(padded[start : start + 3].encode()).digest()[0] % self.dimension] += 1.0
        length = float(np.linalg.norm(vector))
        return vector / length if length else np.eye(1, self.dimension, dtype=np.float32)[0]


def facts_of(lines: Iterable[str], known: dict[str, str] | None = None) -> list[Fact]:
    """`[slot] text` has a slot; `text >>0` says that the memory shown as 0 is replaced; `text ->0` only refers to it."""
    found = []
    for line in lines:
        slot, text = re.fullmatch(r"(?:\[(.*?)\] )?(.*)", line.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
        links = []
        for mark, short in re.findall(r"(>>|->)(\w+)", text):
            if known and short in known:
                links.append(Link(known[short], Relation.UPDATES if mark == ">>" else Relation.RELATES))
        found.append(Fact(re.sub(r"\s*(?:>>|->)\w+", "", text), links=tuple(links), slot=slot))
    return found


class LineExtractor:
    """Every line of a user's message is a fact (see `facts_of`); a message "hello" says nothing, one with "boom" breaks it."""

    name, paid, wants_context = "lines", False, False

    def ask(self, request: Request) -> str:
        lines = [line for message in request.messages if message.role == "user" for line in message.text.splitlines()]
        if any("boom" in line for line in lines):
            raise RuntimeError("this line breaks the extractor: secret")
        return json.dumps([line for line in lines if line.strip() != "hello"])

    def read(self, reply: str, request: Request) -> Sequence[Fact]:
        return facts_of(json.loads(reply))


class ScriptedExtractor:
    """A paid model that answers by a script: first line of the turn -> what each ask does: a reply, or an error to raise.

    The last step stands for all that follow. A reply is a JSON list of lines; everything else is unreadable. Without a script the
    turn's lines are the reply. *wait* is called before each answer.
    """

    name, paid = "scripted", True

    def __init__(
        self,
        script: dict[str, list[str | BaseException]] | None = None,
        *,
        wants_context: bool = False,
        wait: Callable[[str], None] | None = None,
    ) -> None:
        self.script = script or {}
        self.wants_context = wants_context
        self.wait = wait
        self.calls: list[str] = []
        self.requests: list[Request] = []
        self._lock = threading.Lock()

    def ask(self, request: Request) -> str:
        first = request.messages[0].text.splitlines()[0]
        with self._lock:
            asked = self.calls.count(first)
            self.calls.append(first)
            self.requests.append(request)
        if self.wait is not None:
            self.wait(first)
        steps = self.script.get(first, [json.dumps(request.messages[0].text.splitlines())])
        step = steps[min(asked, len(steps) - 1)]
        if isinstance(step, BaseException):
            raise step
        return step

    def read(self, reply: str, request: Request) -> Sequence[Fact]:
        try:
            lines = json.loads(reply)
        except ValueError:
            raise ReplyUnreadable(f"The reply ({len(reply)} characters) is no JSON.", reply=reply) from None
        return facts_of(lines, {known.short_id: known.memory_id for known in request.known})


class MemoryIndex:
    """An index in a dict, with the faults that real ones have.

    *away*: it does not answer. *refuses*: ids whose writes it refuses. *loses_answer*: it writes, and the answer is lost. *breaks_on*:
    an id that makes the client raise something unforeseen. *during*: called before a write is done.
    """

    name, shares_ledger, remote = "memory", False, False

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, IndexObject] = {}
        self.away = False
        self.loses_answer = False
        self.refuses: set[str] = set()
        self.breaks_on: str | None = None
        self.silent_about: set[str] = set()
        self.during: Callable[[Sequence[Write]], None] | None = None
        self.rounds: list[list[Write]] = []
        self._lock = threading.Lock()

    def write(self, writes: Sequence[Write], *, tx: Connection | None = None) -> list[Answer]:
        if self.away:
            raise ServiceUnavailable("The index does not answer.")
        if self.during is not None:
            self.during(writes)
        if any(write.key.id == self.breaks_on for write in writes):
            raise ValueError("a text that must not be told")
        with self._lock:
            self.rounds.append(list(writes))
            for write in writes:
                if write.key.id in self.refuses:
                    continue
                if write.object is None:
                    self.objects.pop(write.key, None)
                else:
                    self.objects[write.key] = write.object
        if self.loses_answer:
            raise ServiceUnavailable("The index's answer was lost.")
        return [
            Answer(write.key, "refused" if write.key.id in self.refuses else None)
            for write in writes
            if write.key.id not in self.silent_about
        ]

    def nearest(
        self, kind: Kind, namespace: str, scopes: Sequence[ScopeIds], vector: NDArray[np.float32], *, limit: int, offset: int = 0
    ) -> list[Nominee]:
        if self.away:
            raise ServiceUnavailable("The index does not answer.")
        found = [
            Nominee(found.key.id, float(np.frombuffer(found.vector, "<f4") @ vector)) for found in self._within(kind, namespace, scopes)
        ]
        return sorted(found, key=lambda nominee: (-nominee.value, nominee.id))[offset : offset + limit]

    def matching(self, namespace: str, scopes: Sequence[ScopeIds], terms: Sequence[str], *, limit: int, offset: int = 0) -> list[Nominee]:
        if self.away:
            raise ServiceUnavailable("The index does not answer.")
        found = [Nominee(each.key.id, float(len(set(terms) & set(each.terms)))) for each in self._within("memory", namespace, scopes)]
        hits = [nominee for nominee in found if nominee.value]
        return sorted(hits, key=lambda nominee: (-nominee.value, nominee.id))[offset : offset + limit]

    def nearest_any(
        self, kind: Kind, namespace: str, scopes: Sequence[ScopeIds], vectors: Sequence[NDArray[np.float32]], *, limit: int
    ) -> list[Nominee]:
        best: dict[str, float] = {}
        for vector in vectors:
            for nominee in self.nearest(kind, namespace, scopes, vector, limit=limit):
                best[nominee.id] = max(nominee.value, best.get(nominee.id, -2.0))
        return [Nominee(object_id, value) for object_id, value in sorted(best.items(), key=lambda item: (-item[1], item[0]))]

    def walk(self, kind: Kind, namespace: str, *, after: str = "", limit: int = 1000, vectors: bool = False) -> Iterator[IndexState]:
        for each in sorted(self._within(kind, namespace, [ScopeIds()]), key=lambda each: each.key.id):
            if each.key.id > after:
                yield _state(each, vectors)

    def look(self, keys: Sequence[ObjectKey], *, vectors: bool = False) -> dict[ObjectKey, IndexState]:
        with self._lock:
            return {key: _state(self.objects[key], vectors) for key in keys if key in self.objects}

    def namespaces(self) -> list[str]:
        with self._lock:
            return sorted({key.namespace for key in self.objects})

    def close(self) -> None:
        return None

    def _within(self, kind: Kind, namespace: str, scopes: Sequence[ScopeIds]) -> list[IndexObject]:
        with self._lock:
            found = [each for each in self.objects.values() if each.key.kind == kind and each.key.namespace == namespace]
        return [each for each in found if any(all(getattr(each, key) == value for key, value in scope.ids().items()) for scope in scopes)]


def _state(found: IndexObject, vectors: bool) -> IndexState:
    return IndexState(found.key, found.version, found.digest, found.vector_digest if vectors else None)


def make_parts(ledger: Ledger, **given: Any) -> Parts:
    """Parts on *ledger*, those not given being the plain ones of this module."""
    plain: dict[str, Any] = {
        "index": MemoryIndex(),
        "analyser": WordAnalyser(),
        "embedder": TrigramEmbedder(),
        "extractor": LineExtractor(),
        "clock": HandClock(),
        "ids": CountingIds("lease"),
    }
    return Parts(ledger=ledger, **(plain | given))


def make_relay(parts: Parts, limits: RelayLimits | None = None, ids: str = "relay") -> Relay:
    return Relay(parts.ledger, parts.index, parts.clock, CountingIds(ids), limits)


_turns = count(1)


def make_turn(
    text: str | Sequence[str] = "User likes tea",
    *,
    user: str | None = "ann",
    agent: str | None = None,
    run: str | None = None,
    id: str | None = None,
    at: datetime = START,
    namespace: str = "default",
    **options: Any,
) -> Turn:
    """A turn of one user message a text."""
    texts = [text] if isinstance(text, str) else text
    return Turn(
        id=id or f"turn-{next(_turns):06}",
        scope=Scope.of(namespace, user, agent, run),
        messages=tuple(Message("user", each) for each in texts),
        handed_at=at,
        **options,
    )


def accept(parts: Parts, *turns: Turn) -> list[Accepted]:
    with parts.ledger.write() as tx:
        return accept_turns(tx, turns, now=parts.clock.now(), order_wait=parts.order_wait)


def run_all(parts: Parts, *, rounds: int = 1000) -> None:
    """Claims and runs, in this thread, until nothing is ready."""
    waiting: list[Lease] = []
    for _ in range(rounds):
        claim_and_send(parts, waiting.extend)
        if not waiting:
            return
        while waiting:
            run_through(parts, waiting.pop(0), worker="test", send=waiting.extend, stopped=lambda: False)
    raise AssertionError(f"after {rounds} rounds something is still ready")


def tell(parts: Parts, *texts: str, **options: Any) -> list[str]:
    """Runs one turn to its end; the ids of the memories that it made."""
    turn = make_turn(texts, **options)
    accept(parts, turn)
    run_all(parts)
    return [row.id for row in table(parts.ledger, memories, memories.c.job_id == turn.id)]


def job_of(ledger: Ledger, job_id: str) -> Any:
    """The row of a job."""
    with ledger.read() as connection:
        return connection.execute(sa.select(jobs).where(jobs.c.id == job_id)).one()


def table(ledger: Ledger, source: sa.Table, *where: sa.ColumnElement[bool]) -> list[Any]:
    """Rows of a table, in the order of its primary key."""
    with ledger.read() as connection:
        return list(connection.execute(sa.select(source).where(*where).order_by(*source.primary_key.columns)))
