"""The feed of changes: an ordered list of what happened to which memory, written in the transaction that did it.

A number from a sequence is drawn before its transaction commits: on PostgreSQL a reader may see number 11 while 10 is not committed yet,
and a cursor at 11 would pass 10 by for ever. So rows carry their transaction's id, a read goes in the order of (`xid`, `no`) and only as
far as `pg_snapshot_xmin` of its own snapshot: every transaction below has ended, and whatever becomes visible later comes after. (Any
transaction of that server that is open and has written holds the feed back, never tears it.) SQLite has one writer: `xid` is 0.

A cursor names the last row that was read, which must still be there: so a pruned feed, and a ledger that was put back from an older
backup, are noticed. Ids of transactions mean nothing on another PostgreSQL: the first read there flattens those of the rows that came
along to 0 (they keep the order of their numbers, and come before all new ones), and cursors from before are refused.

Nothing of a memory's content or scope stands here. Erasing a memory leaves its id, in rows that all say ERASE at the time of the erasure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.ids import digest_of
from memline.contracts.receipt import Event
from memline.ledger.schema import changes, ledger_meta, memories
from memline.ledger.session import Ledger, insert

__all__ = ["Change", "Place", "Stale", "changes_after", "newest_place", "prune_changes", "tell_erased", "tell_retired", "write_changes"]

_SOURCE, _PRUNED = "changes.source", "changes.pruned:"


class Stale(Exception):
    """The feed can't go on at this place: rows after it may be gone."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader is: after the row *no* (0: before the first), which has *check*, of the database *source*."""

    no: int
    check: str
    source: str


@dataclass(frozen=True, slots=True)
class Change:
    """One change; `place` is right after it."""

    memory_id: str
    version: int
    event: str
    at: datetime
    place: Place


def write_changes(tx: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Adds rows, in this order; of each only `namespace`, `memory_id`, `version`, `event` and `at` are taken."""
    if rows:
        names = ("namespace", "memory_id", "version", "event", "at")
        tx.execute(sa.insert(changes).values(xid=_xid(tx)), [{name: row[name] for name in names} for row in rows])


def tell_retired(tx: Connection, which: sa.ColumnElement[bool], *, now: datetime) -> None:
    """Tells of the memories for which *which* holds that they are deleted, in the version they are about to have."""
    told: dict[str, sa.ColumnElement[Any]] = {
        "namespace": memories.c.namespace,
        "memory_id": memories.c.id,
        "version": memories.c.version + 1,
        "event": sa.literal(Event.DELETE.value),
        "at": sa.literal(now, changes.c.at.type),
        "xid": _xid(tx),
    }
    rows = sa.select(*(column.label(name) for name, column in told.items())).where(which).order_by(memories.c.no)
    tx.execute(sa.insert(changes).from_select(list(told), rows))


def tell_erased(tx: Connection, namespace: str, found: Sequence[tuple[str, int]], *, now: datetime) -> None:
    """Tells of memories (id, version) that they are erased. What was told of them before says so, too, and when they came is gone."""
    told = {"event": Event.ERASE.value, "at": now}
    tx.execute(sa.update(changes).where(changes.c.memory_id.in_([memory_id for memory_id, _ in found])).values(told))
    write_changes(tx, [told | {"namespace": namespace, "memory_id": memory_id, "version": version + 1} for memory_id, version in found])


def changes_after(ledger: Ledger, namespace: str, place: Place | None, *, limit: int) -> tuple[list[Change], Place]:
    """At most *limit* changes after *place* (None: from the first that is kept), in order, and where they end. Raises Stale."""
    source = _know_source(ledger)
    with ledger.read() as connection:
        after = (-1, 0) if place is None else _found(connection, namespace, place, source)
        rows = connection.execute(
            sa.select(changes)
            .where(changes.c.namespace == namespace, _in_order > sa.tuple_(*(sa.literal(each) for each in after)), *_settled(connection))
            .order_by(changes.c.xid, changes.c.no)
            .limit(limit)
        ).all()
        if place is not None:  # nothing after it was pruned before it was
            _found(connection, namespace, place, source)
    found = [Change(row.memory_id, row.version, row.event, row.at, _place_of(row, source)) for row in rows]
    return found, found[-1].place if found else place or Place(0, "", source)


def newest_place(ledger: Ledger, namespace: str) -> Place:
    """Where the feed ends now: changes that are committed later come after it."""
    source = _know_source(ledger)
    with ledger.read() as connection:
        row = connection.execute(
            sa.select(changes.c.no, changes.c.memory_id)
            .where(changes.c.namespace == namespace, *_settled(connection))
            .order_by(changes.c.xid.desc(), changes.c.no.desc())
            .limit(1)
        ).one_or_none()
    return Place(0, "", source) if row is None else _place_of(row, source)


def prune_changes(tx: Connection, *, until: datetime, limit: int) -> int:
    """Removes about *limit* changes at most that were made until *until*, from the beginning of each feed; how many.

    The newest of them stays: a reader that stands there has missed nothing.
    """
    removed = 0
    namespace = ""
    while removed < limit:
        following = sa.select(sa.func.min(changes.c.namespace)).where(changes.c.namespace > namespace)
        namespace = tx.execute(following).scalar_one()
        if namespace is None:
            break
        first = sa.select(changes.c.no, changes.c.at).where(changes.c.namespace == namespace, *_settled(tx))
        rows = tx.execute(first.order_by(changes.c.xid, changes.c.no).limit(limit - removed + 1)).all()
        # up to one that an erasure changes at the moment: it and this would wait for each other
        free = set(
            tx.execute(
                sa.select(changes.c.no).where(changes.c.no.in_([row.no for row in rows])).with_for_update(skip_locked=True)
            ).scalars()
        )
        old = next((place for place, row in enumerate(rows) if row.at > until or row.no not in free), len(rows))
        gone = [row.no for row in rows[: max(0, old - 1)]]
        if gone:
            tx.execute(sa.delete(changes).where(changes.c.no.in_(gone)))
            noted = insert(tx, ledger_meta).values(key=_PRUNED + namespace, value=str(gone[-1]))
            tx.execute(noted.on_conflict_do_update(index_elements=["key"], set_={"value": noted.excluded.value}))
            removed += len(gone)
    return removed


_in_order = sa.tuple_(changes.c.xid, changes.c.no)


def _xid(tx: Connection) -> sa.ColumnElement[int]:
    if tx.dialect.name == "sqlite":
        return sa.literal(0, sa.BigInteger)
    return sa.cast(sa.cast(sa.func.pg_current_xact_id(), sa.Text), sa.BigInteger)  # xid8 goes into a number by its text only


def _snapshot(edge: str) -> sa.ColumnElement[int]:
    return sa.cast(sa.cast(getattr(sa.func, f"pg_snapshot_{edge}")(sa.func.pg_current_snapshot()), sa.Text), sa.BigInteger)


def _settled(connection: Connection) -> tuple[sa.ColumnElement[bool], ...]:
    """No transaction that is still open can add a row before one of these."""
    return () if connection.dialect.name == "sqlite" else (changes.c.xid < _snapshot("xmin"),)


def _place_of(row: Any, source: str) -> Place:
    return Place(row.no, digest_of("change", row.memory_id, size=4), source)


def _found(connection: Connection, namespace: str, place: Place, source: str) -> tuple[int, int]:
    """The place in the order; raises Stale where it is not there any more."""
    if place.source != source:
        raise Stale
    if place.no == 0:
        pruned = sa.select(ledger_meta.c.key).where(ledger_meta.c.key == _PRUNED + namespace)
        if connection.execute(pruned).one_or_none() is not None:
            raise Stale
        return -1, 0
    row = connection.execute(
        sa.select(changes.c.no, changes.c.xid, changes.c.memory_id).where(changes.c.no == place.no, changes.c.namespace == namespace)
    ).one_or_none()
    if row is None or _place_of(row, source) != place:
        raise Stale
    return row.xid, row.no


def _know_source(ledger: Ledger) -> str:
    """Which database's transactions the ids are; at the first read in another one, the ids that came along are flattened."""
    if ledger.is_sqlite:
        return "sqlite"
    known = sa.select(ledger_meta.c.value).where(ledger_meta.c.key == _SOURCE)
    with ledger.read() as connection:
        source = str(connection.execute(sa.text("SELECT system_identifier FROM pg_control_system()")).scalar_one())
        if connection.execute(known).scalar_one_or_none() == source:
            return source
    with ledger.write() as tx:
        tx.execute(insert(tx, ledger_meta).values(key=_SOURCE, value="").on_conflict_do_nothing())
        if tx.execute(known.with_for_update()).scalar_one() != source:
            not_open = sa.or_(changes.c.xid < _snapshot("xmin"), changes.c.xid >= _snapshot("xmax"))
            tx.execute(sa.update(changes).where(not_open).values(xid=0))
            tx.execute(sa.update(ledger_meta).where(ledger_meta.c.key == _SOURCE).values(value=source))
    return source
