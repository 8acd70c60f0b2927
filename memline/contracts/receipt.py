"""What `add` returns: where a turn is, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["Event", "ReceiptState", "Status"]


class Status(StrEnum):
    """Where a turn is; a status never says more than is true.

    On its way:

    | status      | the turn is                                                  |
    |-------------|--------------------------------------------------------------|
    | spooled     | in a file on this machine's disk                             |
    | queued      | in the Redis stream                                          |
    | accepted    | in the ledger                                                |
    | committed   | its memories are in the ledger, not yet all in the index     |

    End states: searchable (its memories are in the index; at once for a turn without one, with the reason), failed,
    cancelled, conflict (its idempotency key was used for another content), lost (Redis lost it before it was accepted).
    """

    SPOOLED = "spooled"
    QUEUED = "queued"
    ACCEPTED = "accepted"
    COMMITTED = "committed"
    SEARCHABLE = "searchable"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CONFLICT = "conflict"
    LOST = "lost"

    @property
    def ended(self) -> bool:
        return self in _ENDED

    @property
    def is_committed(self) -> bool:
        return self in (Status.COMMITTED, Status.SEARCHABLE)


_ENDED = frozenset({Status.SEARCHABLE, Status.FAILED, Status.CANCELLED, Status.CONFLICT, Status.LOST})


class Event(StrEnum):
    """What a turn did to a memory."""

    ADD = "ADD"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    EXPIRE = "EXPIRE"
    SUPERSEDE = "SUPERSEDE"
    #: Told by the feed of changes only: the memory is gone, its history, too.
    ERASE = "ERASE"
    #: Reported in a receipt only: the fact was already there, under this id.
    DUPLICATE = "DUPLICATE"


@dataclass(frozen=True, slots=True)
class ReceiptState:
    """A look at a turn at one moment."""

    id: str
    status: Status
    #: mem0's shape: {"id", "memory", "event"} for each fact of the turn; for one that is close to memories that were there also "near":
    #: [{"id", "similarity"}], nearest first.
    results: tuple[dict[str, Any], ...] = field(default_factory=tuple)
    #: Why it ended as it did, or why it has no memory; content-free.
    reason: str | None = None
    #: The first job, where this turn repeated an idempotency key.
    same_as: str | None = None
    #: The stage it is in or was last in.
    stage: str | None = None
    #: Every stage is done: entities are linked and messages saved, too.
    finished: bool = False
    #: What else there is to tell of its extraction, numbers only: `windows` it was asked in where it was long, `left_out` facts of the
    #: assistant beyond what a turn may have, `pasted` facts that only repeated memories which stood in the turn,
    #: `blanked` blocks of the turn that say they are memories, which were not read.
    notes: Mapping[str, int] = field(default_factory=dict)
    #: What the write policy masked in its text: {kind: how often}.
    masked: Mapping[str, int] = field(default_factory=dict)
