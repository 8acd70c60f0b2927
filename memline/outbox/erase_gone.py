"""Objects that the index may still have, and no row of the ledger: names that went with their last memory before an erasure, and what an
erasure of another subject, which was stopped, had in common with this one.

The outbox alone knows of them, and not whose they are: so what it still has to remove in the namespace is removed now, whoever's it was.
The rows are taken as a relay takes them, so that neither of the two writes over what the other knows better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

import sqlalchemy as sa

from memline.contracts.clock import Clock
from memline.contracts.errors import ServiceUnavailable
from memline.contracts.ids import IdSource
from memline.contracts.index_object import Kind, ObjectKey
from memline.ledger.outbox import OutboxRow, by_id, lock_rows, release, settle
from memline.ledger.schema import entities, erasure_objects, memories, outbox
from memline.ledger.session import Ledger
from memline.search.index.port import Index, Write

__all__ = ["forget_gone"]

_PAGE = 500
#: Seconds between two looks at rows that a relay has.
_LOOK = 0.1
_ROWS: dict[Kind, sa.Table] = {"entity": entities, "memory": memories}


def forget_gone(
    ledger: Ledger,
    indexes: Sequence[Index],
    *,
    namespace: str,
    erasure: str,
    clock: Clock,
    ids: IdSource,
    lease: float,
    sleep: Callable[[float], None],
) -> int:
    """Removes from *indexes* the objects that no row is left of, and settles their rows of the outbox; how many rows.

    Those of *erasure* itself are left to it. *lease*: seconds for which a page is taken, longer than a call to an index may last. Rows that
    a relay has are waited for until its lease ends. Raises ServiceUnavailable where an index does not answer, or refuses.
    """
    of_erasure = sa.exists().where(
        erasure_objects.c.erasure == erasure, erasure_objects.c.kind == outbox.c.kind, erasure_objects.c.object_id == outbox.c.object_id
    )
    done = 0
    for kind, rows_of in _ROWS.items():
        no_row = ~sa.exists().where(rows_of.c.id == outbox.c.object_id)
        gone = sa.and_(outbox.c.kind == kind, outbox.c.namespace == namespace, no_row, ~of_erasure)
        with ledger.read() as connection:  # what goes while this runs went after the erasure began
            found = connection.execute(sa.select(outbox.c.object_id).where(gone).order_by(outbox.c.object_id)).scalars().all()
        for start in range(0, len(found), _PAGE):
            page = sa.and_(gone, outbox.c.object_id.in_(found[start : start + _PAGE]))
            while True:
                name = ids.new()
                rows = _take(ledger, kind, page, lease=name, until=lease, clock=clock)
                if rows:
                    done += _forget(ledger, indexes, kind, rows, lease=name, clock=clock)
                with ledger.read() as connection:
                    left = connection.execute(sa.select(outbox.c.object_id).where(page).limit(1)).one_or_none()
                if left is None:
                    break
                sleep(_LOOK)
    return done


def _take(ledger: Ledger, kind: Kind, page: sa.ColumnElement[bool], *, lease: str, until: float, clock: Clock) -> list[OutboxRow]:
    """Those rows that no relay has, in the order in which everybody locks them."""
    now = clock.now()
    free = sa.and_(page, sa.or_(outbox.c.lease.is_(None), outbox.c.next_at <= now))
    with ledger.write() as tx:
        locked = sa.select(outbox).where(free).order_by(by_id(tx)).with_for_update()
        rows = [OutboxRow(ObjectKey(kind, row.namespace, row.object_id), row.version, row.attempts) for row in tx.execute(locked)]
        if rows:
            mine = sa.and_(outbox.c.kind == kind, outbox.c.object_id.in_([row.key.id for row in rows]))
            tx.execute(sa.update(outbox).where(mine).values(lease=lease, next_at=now + timedelta(seconds=until)))
    return rows


def _forget(ledger: Ledger, indexes: Sequence[Index], kind: Kind, rows: Sequence[OutboxRow], *, lease: str, clock: Clock) -> int:
    taken: list[OutboxRow] = []
    try:
        with ledger.read() as connection:
            ids = [row.key.id for row in rows]
            back = set(connection.execute(sa.select(_ROWS[kind].c.id).where(_ROWS[kind].c.id.in_(ids))).scalars())
        # a name that came back is a relay's to show: nobody writes it while its row is taken here
        still = [row for row in rows if row.key.id not in back]
        for index in indexes:
            refused = [answer for answer in index.write([Write(row.key, None) for row in still]) if answer.error is not None]
            if refused:
                raise ServiceUnavailable(
                    f"The index ({index.name}) did not remove {len(refused)} objects ({refused[0].error}): erase again when it does."
                )
        taken = still
    finally:
        with ledger.write() as tx:
            lock_rows(tx, rows)
            settle(tx, taken, lease=lease)
            release(tx, rows, lease=lease, next_at=clock.now())
    return len(taken)
