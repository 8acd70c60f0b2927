"""What an erasure looks for: how a subject is told from others in a turn, a line of a spool or an entry of the stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from memline.contracts.scope import ID_KEYS, Scope, SubjectKind

__all__ = ["MarkedTurn", "Moment", "Sought", "TurnStore"]


@dataclass(frozen=True, slots=True)
class MarkedTurn:
    """Of a turn on its way what an erasure keeps: its id, and the number that it used in its lane."""

    id: str
    namespace: str
    lane: str
    producer: str
    number: int
    handed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment in the order of the stream (an entry's id; `ledger.marks` has the form), and by the clock of who drew it."""

    place: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Sought:
    """The subject that is erased. *value*: its id; None where a resumed erasure does not know it: damaged lines are not told then."""

    key: str
    namespace: str
    kind: SubjectKind
    value: str | None = None

    def is_in(self, scope: Scope) -> bool:
        """Whether the scope belongs to the subject."""
        return any(subject.key == self.key for subject in scope.subjects)

    def turn_in(self, wire: bytes) -> MarkedTurn | None:
        """The turn in *wire* (a line of JSON of any version), if it is one of the subject's; None for every other, and for no turn."""
        try:
            raw: Any = json.loads(wire)
            ids = {name: raw[name] for name in ID_KEYS if isinstance(raw.get(name), str)}
            scope = Scope(str(raw["namespace"]), **ids)
            if not self.is_in(scope):
                return None
            handed_at = datetime.fromisoformat(raw["handed_at"]) if "handed_at" in raw else None
            producer, number = str(raw.get("producer") or ""), int(raw.get("number") or 0)
            return MarkedTurn(str(raw["id"]), scope.namespace, scope.lane, producer, number, handed_at)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def is_damaged_turn(self, data: bytes) -> bool:
        """Whether bytes that are no turn may be what is left of one of the subject's: its id stands in them, as JSON writes it."""
        if self.value is None:
            return False
        return any(json.dumps(self.value, ensure_ascii=ascii_only).encode("utf-8") in data for ascii_only in (False, True))

    def holds(self, data: bytes) -> bool:
        """Whether *data* is a turn of the subject's, or what is left of one."""
        if self.turn_in(data) is not None:
            return True
        return not _is_turn(data) and self.is_damaged_turn(data)


def _is_turn(data: bytes) -> bool:
    try:
        raw = json.loads(data)
        return isinstance(raw["namespace"], str) and isinstance(raw["id"], str)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


class TurnStore(Protocol):
    """A place in which turns wait on their way to the ledger, as an erasure sees it."""

    @property
    def name(self) -> str:
        """What it is and where, without secrets."""
        ...

    def erase(self, sought: Sought, record: Callable[[Sequence[MarkedTurn]], None]) -> int:
        """Removes the turns of *sought*; *record* is called with some of them, and returns, before these are removed. How many."""
        ...

    def count(self, sought: Sought, before: Moment | None = None) -> int:
        """How many turns of *sought* are there, and remains of such; those that were handed over *before*, where that is given."""
        ...
