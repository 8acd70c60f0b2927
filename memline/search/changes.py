"""The feed of changes as callers read it: a page of ids, events and versions, each with the cursor right after it."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from memline.contracts.errors import InvalidCursor, InvalidInput, StaleCursor
from memline.contracts.ids import digest_of
from memline.ledger.changes import Place, Stale, changes_after, newest_place
from memline.ledger.session import Ledger
from memline.search.cursor import open_cursor, seal_cursor

__all__ = ["LARGEST_PAGE", "read_changes"]

#: Most changes a page.
LARGEST_PAGE = 10_000

_KINDS = {"no": int, "row": str, "of": str}


def read_changes(ledger: Ledger, namespace: str, since: object, *, limit: object) -> dict[str, Any]:
    """`{"results": [{"id", "event", "version", "at", "cursor"}], "cursor"}`; see `Memory.changes`.

    Raises InvalidInput for a *limit* that is no number from 1 to LARGEST_PAGE, InvalidCursor, and StaleCursor.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= LARGEST_PAGE:
        raise InvalidInput(f"limit must be a whole number from 1 to {LARGEST_PAGE}.")
    key = digest_of("changes", namespace)
    if since == "now":
        return {"results": [], "cursor": _seal(key, newest_place(ledger, namespace))}
    place = None if since is None else _open(key, since)
    try:
        found, end = changes_after(ledger, namespace, place, limit=limit)
    except Stale:
        raise StaleCursor from None
    results = [
        {
            "id": each.memory_id,
            "event": each.event,
            "version": each.version,
            "at": each.at.astimezone(UTC).isoformat(),
            "cursor": _seal(key, each.place),
        }
        for each in found
    ]
    return {"results": results, "cursor": _seal(key, end)}


def _seal(key: str, place: Place) -> str:
    return seal_cursor(key, {"no": place.no, "row": place.check, "of": place.source})


def _open(key: str, since: object) -> Place:
    if not isinstance(since, str):
        raise InvalidCursor(f'since must be the cursor of an earlier answer, "now" or None, not {type(since).__name__}.')
    found = open_cursor(key, since, _KINDS)
    return Place(found["no"], found["row"], found["of"])
