"""What becomes of each memory that is imported, decided before anything is made of it, and again under the locks of who writes it.

No id is overwritten, no live text is doubled, and nothing that was deleted here comes back by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.content_hash import content_hash
from memline.contracts.portable import PortableMemory
from memline.ledger.pairs import has_pair
from memline.ledger.schema import memories, owners
from memline.ledger.tombstones import is_erased

__all__ = ["Decision", "Fate", "Known", "Twin", "decide", "deleted_here", "erased_here", "is_placeholder", "known_of"]


class Fate(StrEnum):
    """What becomes of a memory that arrives."""

    NEW = "new"
    #: It is here already, with this content: nothing is done.
    KNOWN = "known"
    #: Another live memory of its scope says the same.
    DUPLICATE = "duplicate"
    #: Its id is here with another content, or elsewhere in this ledger.
    CONFLICT = "conflict"
    #: It was deleted here, or its subject was erased, and it stays so.
    DELETED = "deleted"
    #: It was deleted here, and comes back since that was asked for.
    RESTORED = "restored"

    @property
    def stores(self) -> bool:
        return self in (Fate.NEW, Fate.RESTORED)


@dataclass(frozen=True, slots=True)
class Decision:
    """*reason*: of a conflict, content-free. *other*: the id of the memory that says the same."""

    fate: Fate
    reason: str = ""
    other: str | None = None


@dataclass(frozen=True, slots=True)
class Twin:
    """A live memory with a certain text. `no` is None where it comes in the same batch."""

    id: str
    expires_on: date | None
    no: int | None

    def is_over(self, now: datetime) -> bool:
        """It is past its day, and stands in nobody's way."""
        return self.expires_on is not None and self.expires_on < now.date()


@dataclass(slots=True)
class Known:
    """What the ledger has of the ids and texts of a batch."""

    #: Rows by id, in whatever namespace and state, with `owner_key`.
    by_id: dict[str, Any] = field(default_factory=dict)
    #: By (lane, content hash).
    live: dict[tuple[str, str], Twin] = field(default_factory=dict)


def is_placeholder(row: Any) -> bool:
    """*row* keeps the place of what superseded an imported memory and was not imported: a real deletion is a second version at least."""
    return bool(row.state == "deleted" and row.version == 1)


def deleted_here(connection: Connection, found: Sequence[PortableMemory]) -> set[str]:
    """Ids of memories that were here and were deleted: an import brings them back only where that is asked for."""
    gone: set[str] = set()
    ids = [memory.id for memory in found]
    for start in range(0, len(ids), 500):
        deleted = sa.and_(memories.c.state == "deleted", memories.c.version > 1)
        gone |= set(connection.execute(sa.select(memories.c.id).where(memories.c.id.in_(ids[start : start + 500]), deleted)).scalars())
    return gone


def erased_here(connection: Connection, found: Sequence[PortableMemory], *, dated: bool = True) -> set[str]:
    """Ids of memories that are older than an erasure of their subject, or whose subject is being erased: nothing brings them back (G9).

    *dated* False: the times of *found* are not to be trusted, and everything of a subject that was ever erased counts as from before.
    """
    gone: set[str] = set()
    for scope in {memory.scope for memory in found}:
        own = [memory for memory in found if memory.scope == scope]
        first = min(memory.created_at for memory in own) if dated else datetime.min.replace(tzinfo=UTC)
        if is_erased(connection, scope, first):
            gone |= {memory.id for memory in own if not dated or is_erased(connection, scope, memory.created_at)}
    return gone


def known_of(connection: Connection, found: Sequence[PortableMemory]) -> Known:
    """What the ledger has now of the ids and live texts of *found*, and of what superseded them."""
    known = Known()
    ids = sorted({memory.id for memory in found} | {memory.superseded_by for memory in found if memory.superseded_by is not None})
    columns = [memories.c[name] for name in _COMPARED]
    for start in range(0, len(ids), 500):
        query = sa.select(*columns, owners.c.key.label("owner_key")).join(owners, owners.c.no == memories.c.owner_no)
        known.by_id |= {row.id: row for row in connection.execute(query.where(memories.c.id.in_(ids[start : start + 500])))}
    pairs = sorted({_text_of(memory) for memory in found if memory.state == "live"})
    live = sa.select(memories.c.no, memories.c.id, memories.c.lane, memories.c.content_hash, memories.c.expires_on)
    for start in range(0, len(pairs), 400):
        some = has_pair(live.where(memories.c.state == "live"), memories.c.lane, memories.c.content_hash, pairs[start : start + 400])
        for row in connection.execute(some):
            known.live[row.lane, row.content_hash] = Twin(row.id, row.expires_on, row.no)
    return known


_COMPARED = ("no", "id", "namespace", "lane", "state", "version", "md5", "metadata", "expires_on", "job_id", "ordinal", "place")


def decide(
    connection: Connection, found: Sequence[PortableMemory], *, restore_deleted: bool, dated: bool = True, now: datetime
) -> tuple[list[Decision], Known]:
    """What becomes of each of *found*, in order, an earlier one counting as here for a later one; and what was known before."""
    known = known_of(connection, found)
    erased = erased_here(connection, found, dated=dated)
    gone = set() if restore_deleted else deleted_here(connection, found)
    taken: dict[str, PortableMemory] = {}
    live = dict(known.live)
    decisions = []
    for memory in found:
        decision = Decision(Fate.DELETED) if memory.id in erased else _by_id(known, taken, memory, gone)
        if decision.fate.stores and memory.state == "live":
            twin = live.get(_text_of(memory))
            if twin is not None and not twin.is_over(now):
                decision = Decision(Fate.DUPLICATE, other=twin.id)
            else:
                live[_text_of(memory)] = Twin(memory.id, memory.expires_on, None)
        if decision.fate.stores:
            taken[memory.id] = memory
        decisions.append(decision)
    return decisions, known


def _text_of(memory: PortableMemory) -> tuple[str, str]:
    return memory.scope.lane, content_hash(memory.text)


def _by_id(known: Known, taken: dict[str, PortableMemory], memory: PortableMemory, gone: set[str]) -> Decision:
    earlier, here = taken.get(memory.id), known.by_id.get(memory.id)
    if earlier is not None:
        same = (earlier.scope, earlier.md5, earlier.metadata, earlier.expires_on) == _content(memory)
        return Decision(Fate.KNOWN) if same else Decision(Fate.CONFLICT, "its id came before, with another content")
    if here is not None and here.namespace != memory.scope.namespace:
        return Decision(Fate.CONFLICT, "its id is taken in another namespace of this ledger: --new-ids gives new ones")
    if memory.id in gone:
        return Decision(Fate.DELETED)
    if here is not None and here.state == "deleted" and not is_placeholder(here):
        here_too = here.lane == memory.scope.lane
        return Decision(Fate.RESTORED) if here_too else Decision(Fate.CONFLICT, "it was deleted here in another scope")
    if here is None:
        return Decision(Fate.NEW)
    if is_placeholder(here):
        if here.owner_key != memory.scope.owner.key:
            return Decision(Fate.CONFLICT, "it belongs to another owner than a memory that it superseded")
        return Decision(Fate.NEW)
    same = (here.lane, here.md5, here.metadata, here.expires_on) == (memory.scope.lane, *_content(memory)[1:])
    return Decision(Fate.KNOWN) if same else Decision(Fate.CONFLICT, "its id is here with another content, which stays")


def _content(memory: PortableMemory) -> tuple[Any, ...]:
    return memory.scope, memory.md5, memory.metadata, memory.expires_on
