"""Listing: every memory that a filter matches, in order of creation, straight from the ledger."""

from __future__ import annotations

from datetime import datetime

from memline.contracts.filters import Filter
from memline.ledger.memories import MemoryRow, list_memories
from memline.ledger.session import Ledger
from memline.search.check import check_limit
from memline.search.rows import filter_view

__all__ = ["list_matching"]

_PAGE = 500


def list_matching(
    ledger: Ledger, namespace: str, wanted: Filter, *, top_k: int, show_expired: bool, now: datetime, show_superseded: bool = False
) -> list[MemoryRow]:
    """The first *top_k* live memories that *wanted* matches; raises InvalidInput for a bad *top_k*."""
    limit = check_limit(top_k)
    states = ["live"] + ["expired"] * show_expired + ["superseded"] * show_superseded
    found: list[MemoryRow] = []
    after = 0
    while len(found) < limit:
        with ledger.read() as connection:
            page = list_memories(connection, namespace, wanted.scopes, after=after, limit=_PAGE, states=states)
        for row in page:
            shown = show_expired or not row.is_expired(now.date())
            if shown and wanted.matches(filter_view(row)):
                found.append(row)
        if len(page) < _PAGE:
            break
        after = page[-1].no
    return found[:limit]
