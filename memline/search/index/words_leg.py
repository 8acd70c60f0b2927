"""The BM25 leg over the ledger's postings: the embedded backend's own, and what remains of any backend that does not answer."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.filters import ScopeIds
from memline.ledger.memories import owners_of, within
from memline.ledger.postings import TermStatistics, bm25, term_statistics
from memline.ledger.schema import memories
from memline.search.index.port import Nominee

__all__ = ["match_in_ledger"]

#: Postings that one question reads. Terms are taken from the rarest on until there are as many; the rest rank nothing that the rare
#: ones do not, are most of the work, and count in the score all the same.
MOST_POSTINGS = 10_000


def match_in_ledger(
    connection: Connection, namespace: str, scopes: Sequence[ScopeIds], terms: Sequence[str], *, limit: int, offset: int = 0
) -> list[Nominee]:
    """Live and superseded memories in one of *scopes* that hold any of *terms*, best BM25 first; at most five statements a call."""
    if not terms or not scopes or limit <= 0:
        return []
    owner_nos = owners_of(connection, namespace, scopes)
    if not owner_nos:
        return []
    statistics = term_statistics(connection, owner_nos, terms)
    # An owner reaches over runs, and a posting knows no run: only there the memory itself has to be looked at.
    narrowed = within(namespace, scopes) if any(scope.run_id is not None for scope in scopes) else None
    ranked = bm25(connection, owner_nos, _ranking(terms, statistics), statistics, limit=limit, offset=offset, past=True, where=narrowed)
    if not ranked:
        return []
    ids = {no: memory_id for no, memory_id in connection.execute(_IDS, {"nos": [no for no, _ in ranked]})}
    return [Nominee(ids[no], value) for no, value in ranked if no in ids]


_IDS = sa.select(memories.c.no, memories.c.id).where(memories.c.no.in_(sa.bindparam("nos", expanding=True)))


def _ranking(terms: Sequence[str], statistics: TermStatistics) -> list[str]:
    """The terms to rank by: the rarest whose postings are few enough together, at least one that is there at all."""
    kept: list[str] = []
    read = 0
    for term in sorted(dict.fromkeys(terms), key=lambda term: statistics.frequency.get(term, 0)):
        read += statistics.frequency.get(term, 0)
        if read > MOST_POSTINGS and any(statistics.frequency.get(before) for before in kept):
            break
        kept.append(term)
    return kept
