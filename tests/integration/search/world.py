"""A ledger with the embedded index, filled through the real stages, and a searcher on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from memline.contracts.errors import ServiceUnavailable
from memline.contracts.filters import parse
from memline.contracts.turn import Message, Turn
from memline.ledger.schema import memories
from memline.ledger.session import Ledger
from memline.search.guard import Guard
from memline.search.index.embedded import EmbeddedIndex
from memline.search.results import SearchResult
from memline.search.searcher import Searcher
from tests.parts import START, HandClock, TrigramEmbedder, WordAnalyser, accept, make_parts, make_relay, make_turn, run_all

__all__ = ["HURRIED", "PATIENT", "AwayIndex", "World", "standing", "statements"]

#: Seconds that a search takes at most which waits for a part that hangs (`World.hurried`).
HURRIED = 6.0
#: Seconds that one takes at most in which nothing hangs: a slow machine is no part that is down.
PATIENT = 240.0


def standing() -> float:
    """A timer that stands: a part that did not answer is left alone, and what was read stays fresh, as long as the test lasts, however slow
    the machine."""
    return 100.0


class _Patient(Guard):
    """Waits for a part that does not hang as long as a slow machine takes."""

    def call(self, function: Any, seconds: float, *, rests_on: Any = ()) -> Any:
        return super().call(function, max(seconds, PATIENT), rests_on=rests_on)


class World:
    """What a test says becomes memory at once, unless it says otherwise."""

    def __init__(self, ledger: Ledger, folder: Path, **given: Any) -> None:
        self.ledger = ledger
        self.store = ledger if ledger.is_sqlite else Ledger(f"sqlite:///{folder / 'index.db'}")
        self.index = EmbeddedIndex(self.store, ledger)
        self.clock = HandClock()
        self.analyser, self.embedder = WordAnalyser(), given.pop("embedder", TrigramEmbedder())
        self.parts = make_parts(ledger, index=self.index, clock=self.clock, analyser=self.analyser, embedder=self.embedder, **given)
        self.relay = make_relay(self.parts)
        self.searcher = self.search_with()
        self._numbers = count(1)

    def search_with(self, **given: Any) -> Searcher:
        """Another searcher on the same ledger; what is not given is as in this world."""
        plain = {"index": self.index, "analyser": self.analyser, "embedder": self.embedder, "clock": self.clock}
        plain |= {"deadline": PATIENT} | given
        return Searcher(self.ledger, **plain)

    def hurried(self, **given: Any) -> Searcher:
        """One that waits for a part that hangs, and not for long; the ledger, which answers, has the time that it takes."""
        searcher = self.search_with(deadline=HURRIED, **given)
        searcher._ledger_guard = _Patient("The ledger", rest=0)
        return searcher

    def say(self, text: str | Sequence[str], *, relay: bool = True, name: str | None = None, **options: Any) -> list[str]:
        """One turn; ids of the memories it became. *name*: of the speaker, verbatim."""
        turn = make_turn(text, **options)
        if name is not None:
            turn = Turn(**{field: getattr(turn, field) for field in turn.__dataclass_fields__} | _said_by(turn, name))
        accept(self.parts, turn)
        run_all(self.parts)
        if relay:
            self.relay.drain()
        with self.ledger.read() as connection:
            return list(
                connection.execute(sa.select(memories.c.id).where(memories.c.job_id == turn.id).order_by(memories.c.ordinal)).scalars()
            )

    def say_all(self, texts: Sequence[str], **options: Any) -> list[str]:
        """One turn a text, run together; ids of the memories in order."""
        turns = [make_turn(text, **options) for text in texts]
        accept(self.parts, *turns)
        run_all(self.parts)
        self.relay.drain()
        with self.ledger.read() as connection:
            query = sa.select(memories.c.job_id, memories.c.id)
            found = {job_id: memory_id for job_id, memory_id in connection.execute(query)}
        return [found[turn.id] for turn in turns]

    def find(self, query: str, filters: dict[str, Any] | None = None, *, searcher: Searcher | None = None, **options: Any) -> SearchResult:
        """The result of a search, of user ann where *filters* say nothing."""
        namespace = options.pop("namespace", "default")
        wanted = parse(filters if filters is not None else {"user_id": "ann"})
        return (searcher or self.searcher).search(namespace, query, wanted, **options)

    def texts(self, query: str, filters: dict[str, Any] | None = None, **options: Any) -> list[str]:
        """What is found, best first, at any score."""
        return [hit.row.text for hit in self.find(query, filters, **({"threshold": 0} | options)).results]

    def day(self, number: int) -> datetime:
        return START + timedelta(days=number)


def _said_by(turn: Turn, name: str) -> dict[str, Any]:
    return {"messages": tuple(Message("user", message.text, name) for message in turn.messages), "infer": False}


class AwayIndex:
    """An index that does not answer; *only*: but for this question."""

    name, shares_ledger, remote = "away", False, False

    def __init__(self, inner: EmbeddedIndex, only: str = "") -> None:
        self._inner, self._only = inner, only

    def nearest(self, kind: Any, namespace: str, scopes: Any, vector: NDArray[np.float32], *, limit: int, offset: int = 0) -> Any:
        return self._ask("nearest")(kind, namespace, scopes, vector, limit=limit, offset=offset)

    def nearest_any(self, kind: Any, namespace: str, scopes: Any, vectors: Any, *, limit: int) -> Any:
        return self._ask("nearest_any")(kind, namespace, scopes, vectors, limit=limit)

    def matching(self, namespace: str, scopes: Any, terms: Any, *, limit: int, offset: int = 0) -> Any:
        return self._ask("matching")(namespace, scopes, terms, limit=limit, offset=offset)

    def _ask(self, question: str) -> Any:
        if question != self._only:
            raise ServiceUnavailable("The index does not answer.")
        return getattr(self._inner, question)

    def __getattr__(self, name: str) -> Any:
        raise ServiceUnavailable(f"The index does not answer ({name}).") if name in ("write", "walk") else AttributeError(name)


@contextmanager
def statements(*ledgers: Ledger) -> Iterator[list[str]]:
    """The SQL that is run on *ledgers*, BEGIN left out."""
    found: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, _parameters: Any, _context: Any, _many: bool) -> None:
        if not statement.startswith("BEGIN"):
            found.append(statement)

    engines = list({id(ledger): ledger.engine for ledger in ledgers}.values())
    for engine in engines:
        sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        for engine in engines:
            sa.event.remove(engine, "before_cursor_execute", note)
