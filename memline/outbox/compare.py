"""Walks the ledger and the index side by side, in id order, and says where they differ. Memory is bounded by one page of each.

What looks different is looked at a second time: the ledger's row, the outbox, then the index again. So a difference that a write
under way explains is lag, and never drift.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy.engine import Connection

from memline.contracts.index_object import IndexObject, Kind, ObjectKey
from memline.ledger.memories import ids_ever_known, index_objects, namespaces_with_lanes, should_be_indexed
from memline.ledger.outbox import pending_objects
from memline.ledger.session import Ledger
from memline.search.index.port import Index, IndexState

__all__ = ["Difference", "Drift", "compare", "namespaces_of"]

#: Objects of each side that are in memory at a time.
PAGE = 500


class Drift(StrEnum):
    """How an index can differ from the committed set."""

    MISSING = "missing"  # the ledger has it, the index does not
    STALE = "stale"  # the index has an older version
    CHANGED = "changed"  # the same version, another content
    ORPHANED = "orphaned"  # the ledger never had it
    RESURRECTED = "resurrected"  # the ledger has deleted it
    LAG = "lag"  # one of the above, and the outbox knows: no drift


@dataclass(frozen=True, slots=True)
class Difference:
    """An object that is not the same on both sides, and the version the ledger has (0: none)."""

    key: ObjectKey
    drift: Drift
    version: int


def compare(ledger: Ledger, index: Index, kind: Kind, namespace: str, *, after: str = "", deep: bool = False) -> Iterator[Difference | str]:
    """Differences in id order; between them, after each page, the id up to which both sides were compared.

    *deep*: vectors too. *after*: where to go on.
    """
    states = index.walk(kind, namespace, after=after, limit=PAGE, vectors=deep)
    state = next(states, None)
    while True:
        with ledger.read() as connection:
            ids = should_be_indexed(connection, kind, namespace, after=after, limit=PAGE)
            wanted = index_objects(connection, [ObjectKey(kind, namespace, object_id) for object_id in ids])
        last = ids[-1] if len(ids) == PAGE else None
        seen: dict[ObjectKey, IndexState] = {}
        while state is not None and (last is None or state.key.id <= last):
            seen[state.key] = state
            state = next(states, None)
            if len(seen) >= PAGE and last is None:
                break
        else:
            if last is None:
                yield from _second_look(ledger, index, [*wanted, *seen], wanted, seen, deep=deep)
                return
        # Where the ledger's page is the last one and the index goes on, its page ends this round.
        upto = last or max(key.id for key in seen)
        part = {key: found for key, found in wanted.items() if key.id <= upto}
        yield from _second_look(ledger, index, [*part, *seen], part, seen, deep=deep)
        yield upto
        after = upto


def namespaces_of(ledger: Ledger, index: Index) -> list[str]:
    """Every namespace that either side knows."""
    with ledger.read() as connection:
        return sorted({*namespaces_with_lanes(connection), *index.namespaces()})


def _second_look(
    ledger: Ledger,
    index: Index,
    keys: Sequence[ObjectKey],
    wanted: dict[ObjectKey, IndexObject],
    seen: dict[ObjectKey, IndexState],
    *,
    deep: bool,
) -> Iterator[Difference]:
    suspects = [key for key in dict.fromkeys(keys) if _differs(wanted.get(key), seen.get(key), deep=deep)]
    if not suspects:
        return
    with ledger.read() as connection:
        now_wanted = index_objects(connection, suspects)
        pending = pending_objects(connection, suspects)
        known = _known(connection, suspects)
    now_seen = index.look(suspects, vectors=deep)
    for key in sorted(suspects, key=lambda key: key.id):
        drift = _differs(now_wanted.get(key), now_seen.get(key), deep=deep)
        if drift is None:
            continue
        if drift is Drift.ORPHANED and key in known:
            drift = Drift.RESURRECTED
        version = now_wanted[key].version if key in now_wanted else 0
        yield Difference(key, Drift.LAG if key in pending else drift, version)


def _differs(wanted: IndexObject | None, seen: IndexState | None, *, deep: bool) -> Drift | None:
    if wanted is None:
        return None if seen is None else Drift.ORPHANED
    if seen is None:
        return Drift.MISSING
    if seen.version < wanted.version:
        return Drift.STALE
    if seen.version != wanted.version or seen.digest != wanted.digest:
        return Drift.CHANGED
    if deep and seen.vector_digest != wanted.vector_digest:
        return Drift.CHANGED
    return None


def _known(connection: Connection, keys: Sequence[ObjectKey]) -> set[ObjectKey]:
    ids = ids_ever_known(connection, [key.id for key in keys if key.kind == "memory"])
    return {key for key in keys if key.id in ids}
