"""Walks the ledger and the index side by side, in id order, and says where they differ. Memory is bounded by one page of each.

What looks different is looked at a second time: the ledger's row, the outbox, the index, and the ledger's version again. So what a
write under way explains is lag, and never drift, however the reads and the write fall in time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from sqlalchemy.engine import Connection

from memline.contracts import failpoints
from memline.contracts.index_object import IndexObject, Kind, ObjectKey
from memline.ledger.memories import ids_ever_known, index_objects, namespaces_with_lanes, should_be_indexed
from memline.ledger.outbox import pending_objects
from memline.ledger.session import Ledger
from memline.search.index.port import Index, IndexState

__all__ = ["KINDS", "PAGE", "Difference", "Drift", "compare", "namespaces_of"]

KINDS: tuple[Kind, ...] = ("memory", "entity")

#: Objects of each side that are in memory at a time.
PAGE = 500


class Drift(StrEnum):
    """How an index can differ from the committed set."""

    MISSING = "missing"  # the ledger has it, the index does not
    STALE = "stale"  # the index has an older version
    CHANGED = "changed"  # the same version (or one that never was), another content
    ORPHANED = "orphaned"  # the ledger never had it in this namespace
    RESURRECTED = "resurrected"  # the ledger has deleted it (an entity that is gone leaves no trace: it is orphaned)
    LAG = "lag"  # one of the above, and the outbox knows: no drift


@dataclass(frozen=True, slots=True)
class Difference:
    """An object that is not the same on both sides, and the version the ledger has (0: none)."""

    key: ObjectKey
    drift: Drift
    version: int


def compare(
    ledger: Ledger, index: Index, kind: Kind, namespace: str, *, after: str = "", deep: bool = False, upcoming: bool = False
) -> Iterator[Difference | str]:
    """Differences in id order; between them, after each page, the id up to which both sides were compared.

    *deep*: vectors too. *after*: where to go on. *upcoming*: the index is that of the next embedder, while the ledger moves.
    """
    while True:
        with ledger.read() as connection:
            ids = should_be_indexed(connection, kind, namespace, after=after, limit=PAGE)
        failpoints.hit("reconcile.before_walk")
        states = list(islice(index.walk(kind, namespace, after=after, limit=PAGE, vectors=deep), PAGE))
        # A full page says nothing of what comes behind it: both sides are compared up to where both are known.
        ends = [page[-1] for page in (ids, [state.key.id for state in states]) if len(page) == PAGE]
        upto = min(ends) if ends else None
        keys = [ObjectKey(kind, namespace, object_id) for object_id in ids if upto is None or object_id <= upto]
        seen = {state.key: state for state in states if upto is None or state.key.id <= upto}
        with ledger.read() as connection:
            wanted = index_objects(connection, keys, whole=deep, upcoming=upcoming)
        suspects = [key for key in {**wanted, **seen} if _differs(wanted, seen, key, deep=deep)]
        yield from _second_look(ledger, index, suspects, deep=deep, upcoming=upcoming)
        if upto is None:
            return
        yield upto
        after = upto


def namespaces_of(ledger: Ledger, index: Index) -> list[str]:
    """Every namespace that either side knows."""
    indexed = index.namespaces()
    with ledger.read() as connection:
        return sorted({*namespaces_with_lanes(connection), *indexed})


def _second_look(ledger: Ledger, index: Index, suspects: Sequence[ObjectKey], *, deep: bool, upcoming: bool) -> Iterator[Difference]:
    """What of *suspects* differs.

    Where the ledger has one version before and after the index was read, and the outbox between them did not wait for the object, the
    index was told of that version before it was read: a difference is drift. In any other order of reads a write could slip through.
    """
    if not suspects:
        return
    with ledger.read() as connection:
        before = index_objects(connection, suspects, whole=deep, upcoming=upcoming)
    with ledger.read() as connection:
        pending = pending_objects(connection, suspects)
    failpoints.hit("reconcile.before_look")
    seen = index.look(suspects, vectors=deep)
    with ledger.read() as connection:
        now = index_objects(connection, suspects, whole=deep, upcoming=upcoming)
        known = _known(connection, suspects)
    for key in sorted(suspects, key=lambda key: key.id):
        drift = _differs(now, seen, key, deep=deep)
        if drift is None:
            continue
        if drift is Drift.ORPHANED and key in known:
            drift = Drift.RESURRECTED
        version = now[key].version if key in now else 0
        moved = (before[key].version if key in before else 0) != version
        yield Difference(key, Drift.LAG if moved or key in pending else drift, version)


def _differs(wanted: Mapping[ObjectKey, IndexObject], seen: Mapping[ObjectKey, IndexState], key: ObjectKey, *, deep: bool) -> Drift | None:
    should, is_there = wanted.get(key), seen.get(key)
    if should is None:
        return None if is_there is None else Drift.ORPHANED
    if is_there is None:
        return Drift.MISSING
    if is_there.version < should.version:
        return Drift.STALE
    if is_there.version != should.version or is_there.digest != should.digest:
        return Drift.CHANGED
    if deep and is_there.vector_digest != should.vector_digest:
        return Drift.CHANGED
    return None


def _known(connection: Connection, keys: Sequence[ObjectKey]) -> set[ObjectKey]:
    """Those of *keys* that were memories of their namespace."""
    ids = ids_ever_known(connection, [key.id for key in keys if key.kind == "memory"], namespace=keys[0].namespace)
    return {key for key in keys if key.id in ids}
