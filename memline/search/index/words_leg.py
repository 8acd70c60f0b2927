"""The BM25 leg over the ledger's postings: the embedded backend's own, and what remains of any backend that does not answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.filters import ScopeIds
from memline.ledger.lists import in_list, tuples
from memline.ledger.memories import owners_of, within
from memline.ledger.postings import TermStatistics, bm25, read_postings, term_statistics
from memline.ledger.schema import memories
from memline.search.index.port import Nominee

__all__ = ["match_in_ledger", "match_known", "with_postings"]

#: Postings that one question reads. Terms are taken from the rarest on until there are as many; the rest rank nothing that the rare
#: ones do not, are most of the work, and count in the score all the same.
MOST_POSTINGS = 10_000


def match_in_ledger(
    connection: Connection, namespace: str, scopes: Sequence[ScopeIds], terms: Sequence[str], *, limit: int, offset: int = 0
) -> list[Nominee]:
    """Live and superseded memories in one of *scopes* that hold any of *terms*, best BM25 first; four statements, and one a scope."""
    if not terms or not scopes or limit <= 0:
        return []
    owner_nos = owners_of(connection, namespace, scopes)
    if not owner_nos:
        return []
    statistics = term_statistics(connection, owner_nos, terms)
    if any(scope.run_id is not None for scope in scopes):
        # an owner reaches over runs, and a posting knows no run: only here the memory itself has to be looked at
        found = read_postings(connection, owner_nos, _ranking(terms, statistics), where=within(namespace, scopes))
        statistics = replace(statistics, postings=found)
    ranked = match_known(with_postings(connection, owner_nos, terms, statistics), limit=limit, offset=offset)
    ids = dict(tuples(connection.execute(_ids(connection.dialect.name), {"nos": [no for no, _ in ranked]}))) if ranked else {}
    return [Nominee(ids[no], value) for no, value in ranked if no in ids]


def match_known(statistics: TermStatistics, *, limit: int, offset: int = 0) -> list[tuple[int, float]]:
    """The same of the postings that *statistics* hold, by ledger number."""
    return bm25(statistics.postings, statistics, limit=limit, offset=offset) if statistics.postings is not None else []


def with_postings(connection: Connection, owner_nos: Sequence[int], terms: Sequence[str], statistics: TermStatistics) -> TermStatistics:
    """*statistics* with the postings that *terms* are ranked by: all of them in a small scope, those of the rarest in a large one."""
    if statistics.postings is not None:
        return statistics
    return replace(statistics, postings=read_postings(connection, owner_nos, _ranking(terms, statistics)))


@cache
def _ids(dialect: str) -> sa.Select[Any]:
    return sa.select(memories.c.no, memories.c.id).where(in_list(dialect, memories.c.no, "nos"))


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
