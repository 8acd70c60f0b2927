"""Deleting a whole scope, or a whole namespace: its memories, what was said in it, and the turns that were handed over before.

One transaction of set-based statements: a reader sees all of it or none, and whoever stops in the middle has deleted nothing. In it

- the lock of a subject that all matching scopes share is held exclusively (delete_all: of the narrowest id that was given; reset: of the
  namespace), so that no turn is accepted and none committed beside it;
- what the ledger holds is before it: matching jobs that are not committed end cancelled, those under a lease, too (`runner` finds them
  gone when it comes to commit), and memories, messages, names, payloads and replies go;
- a mark is left for turns that are still on their way (`ledger.marks`). Its place in the stream was drawn before: what a turn between the
  two was handed over beside the deletion, and ends on whichever side the ledger met it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts import failpoints
from memline.contracts.filters import ScopeIds
from memline.contracts.scope import Scope, Subject
from memline.ledger.cancel import cancel_where, lock_to_cancel
from memline.ledger.history import HistoryMode, redact_history
from memline.ledger.locks import lock_one_of, lock_owners
from memline.ledger.marks import place_at, set_mark
from memline.ledger.memories import within
from memline.ledger.retire import retire
from memline.ledger.schema import jobs, lanes, memories, messages, owners
from memline.ledger.session import Ledger

__all__ = ["Cleared", "delete_all", "reset_namespace"]


@dataclass(frozen=True, slots=True)
class Cleared:
    """What a deletion did: memories deleted, and turns in the ledger that end cancelled (those still on their way are not counted)."""

    deleted: int
    cancelled: int


def delete_all(
    ledger: Ledger,
    scope: Scope,
    *,
    now: datetime,
    place: str | None = None,
    redact: bool = False,
    actor: str | None = None,
    reason: str | None = None,
    keep: HistoryMode = HistoryMode.FULL,
) -> Cleared:
    """Deletes the memories of all scopes that have the ids of *scope*, whatever others they have.

    *place*: where in the stream (`marks.place_of`); None where there is none to ask. *redact*: their history loses every text, too.
    """
    alone, *beside = sorted(scope.subjects, key=lambda subject: _NARROWEST.index(subject.kind))
    ids = scope.ids()
    which = sa.select(owners.c.no).where(
        owners.c.namespace == scope.namespace, *(owners.c[name] == value for name, value in ids.items() if name != "run_id")
    )
    of_lane = [lanes.c.namespace == scope.namespace, *(lanes.c[name] == value for name, value in ids.items())]
    if scope.user_id is not None or scope.agent_id is not None:
        of_lane.append(lanes.c.owner_no.in_(which))  # lanes are looked up by their owner, or by their run
    with ledger.write() as tx:
        lock_one_of(tx, alone, beside)
        # another delete_all, of the same memories by another id, and a reembedding hold no lock of this subject: owners part them
        own = sa.select(owners.c.key).where(owners.c.no.in_(sa.select(lanes.c.owner_no).where(*of_lane)))
        lock_owners(tx, tx.execute(own).scalars().all())
        set_mark(tx, scope.namespace, ids, place=place or place_at(now), at=now, reason="delete_all removed its scope")
        cleared = _clear(
            tx,
            sa.select(lanes.c.key).where(*of_lane),
            within(scope.namespace, [ScopeIds(scope.user_id, scope.agent_id, scope.run_id)]),
            {
                "actor": actor,
                "reason": reason,
                "now": now,
                "redact": redact,
                "keep": keep,
                "whole_owners": which if scope.run_id is None else None,
            },
            cancelled_for="delete_all removed its scope",
        )
        failpoints.hit("delete_all.before_commit")
    failpoints.hit("delete_all.after_commit")
    return cleared


def reset_namespace(ledger: Ledger, namespace: str, *, now: datetime, place: str | None = None) -> Cleared:
    """Deletes everything in a namespace, texts of the history too. Ids, events and times of history, and receipts' states, remain."""
    with ledger.write() as tx:
        lock_one_of(tx, Subject(namespace, "namespace", namespace), ())
        set_mark(tx, namespace, {}, place=place or place_at(now), at=now, reason="its namespace was reset")
        cleared = _clear(
            tx,
            sa.select(lanes.c.key).where(lanes.c.namespace == namespace),
            memories.c.namespace == namespace,
            {
                "actor": None,
                "reason": "reset",
                "now": now,
                "redact": True,
                "whole_owners": sa.select(owners.c.no).where(owners.c.namespace == namespace),
            },
            cancelled_for="its namespace was reset",
        )
        # what was deleted before kept its texts in the history until now
        deleted_before = sa.select(memories.c.id).where(memories.c.namespace == namespace)
        redact_history(tx, deleted_before)
        hashes = {"md5": "", "content_hash": "", "digest": ""}
        tx.execute(sa.update(memories).where(memories.c.namespace == namespace, memories.c.md5 != "").values(hashes))
        failpoints.hit("reset.before_commit")
    failpoints.hit("reset.after_commit")
    return cleared


#: Subjects by how many others wait while one is locked.
_NARROWEST = ("run", "user", "agent", "namespace")


def _clear(
    tx: Connection,
    of_lanes: sa.Select[str],
    which: sa.ColumnElement[bool],
    told: Mapping[str, Any],
    *,
    cancelled_for: str,
) -> Cleared:
    keys = tx.execute(of_lanes).scalars().all()
    cancelled = 0
    locked = frozenset(lock_to_cancel(tx, jobs.c.lane.in_(of_lanes))) if len(keys) > _CHUNK else None
    for start in range(0, len(keys), _CHUNK):
        some = keys[start : start + _CHUNK]
        idle = None if locked is None else [key for key in some if key in locked]
        cancelled += cancel_where(tx, jobs.c.lane.in_(some), reason=cancelled_for, now=told["now"], idle=idle)
        tx.execute(sa.delete(messages).where(messages.c.lane.in_(some)))
    return Cleared(retire(tx, which, **told), cancelled)


#: Lanes a statement.
_CHUNK = 5000
