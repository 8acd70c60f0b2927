"""The index as one search asks it: within its share of the time, and with its answers looked at before they are believed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memline.contracts.errors import ServiceUnavailable
from memline.contracts.filters import ScopeIds
from memline.contracts.index_object import Kind
from memline.search.guard import Guard
from memline.search.index.port import Index, Nominee

__all__ = ["IndexInTime", "TimeLeft", "checked_nominees"]

#: The share of what is left that a part which may hang gets: the ledger's own legs need the rest, where it does not answer.
SHARE = 0.5


class TimeLeft(Protocol):
    """How long a search may still take."""

    @property
    def left(self) -> float: ...


class IndexInTime:
    """What a search asks of an index (`port.Index`, its reads).

    All calls of one search together take at most half of what is left at the first of them; an index in this process (not `remote`) is
    waited for as long as it takes. Raises ServiceUnavailable where the index is away, late or answers rubbish.
    """

    def __init__(self, index: Index, guard: Guard, time: TimeLeft) -> None:
        self._index, self._guard, self._time = index, guard, time
        self._kept: float | None = None
        #: Why it was taken for down.
        self.why: str | None = None

    def nearest(
        self, kind: Kind, namespace: str, scopes: Sequence[ScopeIds], vector: NDArray[np.float32], *, limit: int, offset: int = 0
    ) -> list[Nominee]:
        return self._ask(lambda: self._index.nearest(kind, namespace, scopes, vector, limit=limit, offset=offset), limit)

    def nearest_any(
        self, kind: Kind, namespace: str, scopes: Sequence[ScopeIds], vectors: Sequence[NDArray[np.float32]], *, limit: int
    ) -> list[Nominee]:
        return self._ask(lambda: self._index.nearest_any(kind, namespace, scopes, vectors, limit=limit), limit * len(vectors))

    def matching(self, namespace: str, scopes: Sequence[ScopeIds], terms: Sequence[str], *, limit: int, offset: int = 0) -> list[Nominee]:
        return self._ask(lambda: self._index.matching(namespace, scopes, terms, limit=limit, offset=offset), limit)

    def _ask(self, call: Callable[[], Any], limit: int) -> list[Nominee]:
        def asked() -> list[Nominee]:
            return checked_nominees(call(), limit)

        try:
            if not self._index.remote:
                return asked()
            if self._kept is None:
                self._kept = self._time.left * SHARE
            seconds = self._time.left - self._kept
            if seconds <= 0:
                raise ServiceUnavailable(f"{self._guard.what} has used up its share of the search's time.")
            return self._guard.call(asked, seconds, rests_on=ServiceUnavailable)
        except ServiceUnavailable as error:
            self.why = str(error)
            raise


def checked_nominees(answer: Any, limit: int) -> list[Nominee]:
    """*answer* as an index's nominees: each id once, at its first place, and at most *limit*.

    Raises ServiceUnavailable for what is no list of nominees with a text as id and a finite number as value: a ranking with such holes is
    none. Ids that the ledger does not know, or that are another's, are no matter: their rows decide.
    """
    found: dict[str, Nominee] = {}
    try:
        for nominee in answer:
            if not isinstance(nominee.id, str) or not nominee.id.isprintable() or not math.isfinite(nominee.value):
                raise TypeError  # an id with NUL or half a character in it is one that a database chokes on
            found.setdefault(nominee.id, nominee)
    except (TypeError, AttributeError, OverflowError):
        raise ServiceUnavailable("The index answered something that is no list of nominees.") from None
    return list(found.values())[:limit]
