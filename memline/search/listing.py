"""Listing: every memory that a filter matches, in the order of creation, page by page, straight from the ledger.

A page goes on after a ledger number, which a memory has from its commit to its end: one that exists (and matches) during a whole walk
comes exactly once, whatever is added, changed, superseded or deleted meanwhile. What is added during a walk may come in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.engine import Connection

from memline.contracts.filters import Filter
from memline.ledger.listing import Shown, count_shown, filter_pages, load_shown, shown_page
from memline.ledger.memories import MemoryRow
from memline.ledger.session import Ledger
from memline.search.check import check_limit
from memline.search.cursor import open_cursor, question_key, seal_cursor
from memline.search.rows import filter_view

__all__ = ["MOST_LOOKED_AT", "Page", "count_matching", "list_matching"]

#: Rows that one page looks at for the sake of its total, where a filter asks for more than scope ids.
MOST_LOOKED_AT = 50_000


@dataclass(frozen=True, slots=True)
class Page:
    """Some memories of a listing."""

    rows: list[MemoryRow]
    #: Where the next page begins; None after the last one.
    next_cursor: str | None
    #: How many memories match: now, where the filter asks for scope ids only, else when the walk began.
    total: int
    #: There may be more: counting ended at `MOST_LOOKED_AT` rows.
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """Ledger numbers of one page's memories (one more, where there is a next page), and what was counted on the way."""

    nos: list[int]
    total: int
    at_least: bool


def list_matching(
    ledger: Ledger,
    namespace: str,
    wanted: Filter,
    *,
    top_k: int,
    show_expired: bool,
    now: datetime,
    show_superseded: bool = False,
    cursor: object = None,
) -> Page:
    """The next *top_k* live memories that *wanted* matches.

    Raises InvalidInput for a bad *top_k*, InvalidCursor for a *cursor* that is none, or is another question's.
    """
    limit = check_limit(top_k)
    key = question_key("get_all", namespace, wanted, expired=show_expired, superseded=show_superseded)
    kinds = {"after": int} if wanted.narrows_only_by_scope else {"after": int, "total": int, "least": bool}
    place = {} if cursor is None else open_cursor(key, cursor, kinds)
    shown = Shown(now.date(), show_expired, show_superseded)
    if not wanted.scopes:
        return Page([], None, 0)
    after = place.get("after", 0)
    with ledger.read() as connection:
        if wanted.narrows_only_by_scope:
            total, at_least = count_shown(connection, namespace, wanted.scopes, shown), False
            found = shown_page(connection, namespace, wanted.scopes, shown, after=after, limit=limit + 1)
            rows, last = found[:limit], found[limit - 1].no if 0 < limit < len(found) else None
        else:
            counted = (place["total"], place["least"]) if place else None
            matched = _look(connection, namespace, wanted, shown, after=after, limit=limit, counted=counted)
            total, at_least = matched.total, matched.at_least
            # one that was changed since is asked again
            rows = [row for row in load_shown(connection, namespace, matched.nos[:limit], shown) if wanted.matches(filter_view(row))]
            last = matched.nos[limit - 1] if 0 < limit < len(matched.nos) else None
    further = {} if wanted.narrows_only_by_scope else {"total": total, "least": at_least}
    return Page(rows, None if last is None else seal_cursor(key, {"after": last, **further}), total, at_least)


def count_matching(ledger: Ledger, namespace: str, wanted: Filter, *, now: datetime) -> int:
    """How many live memories *wanted* matches: one statement where it asks for scope ids only, else a look at each row."""
    shown = Shown(now.date())
    if not wanted.scopes:
        return 0
    with ledger.read() as connection:
        if wanted.narrows_only_by_scope:
            return count_shown(connection, namespace, wanted.scopes, shown)
        pages = filter_pages(connection, namespace, wanted.scopes, shown)
        return sum(wanted.matches(filter_view(row)) for page in pages for row in page)


def _look(
    connection: Connection, namespace: str, wanted: Filter, shown: Shown, *, after: int, limit: int, counted: tuple[int, bool] | None
) -> _Found:
    """Asks the filter of rows until a page is full and, on the first one, until they are counted."""
    nos: list[int] = []
    number = looked_at = 0
    for page in filter_pages(connection, namespace, wanted.scopes, shown, after=after):
        looked_at += len(page)
        for row in page:
            if wanted.matches(filter_view(row)):
                number += 1
                if len(nos) <= limit:
                    nos.append(row.no)
        if len(nos) > limit and (counted is not None or looked_at >= MOST_LOOKED_AT):
            return _Found(nos, *(counted or (number, True)))
    return _Found(nos, *(counted or (number, False)))
