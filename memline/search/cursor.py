"""Where a listing goes on: opaque to the caller, and good for the question that it came from and no other."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from typing import Any

from memline.contracts.errors import InvalidCursor
from memline.contracts.filters import Filter
from memline.contracts.ids import digest_of

__all__ = ["open_cursor", "question_key", "seal_cursor"]

_VERSION = 1
#: Longest cursor that is looked at, in characters; a name of an entity may stand in it.
_LONGEST = 16_384


def question_key(call: str, namespace: str, wanted: Filter, **options: object) -> str:
    """32 hex digits for what is asked: the call, the namespace, what the filter means, and the options that choose rows."""
    return digest_of("listing", call, namespace, json.dumps([_plain(wanted.tree), sorted(options.items())], ensure_ascii=False))


def seal_cursor(key: str, place: Mapping[str, Any]) -> str:
    """A cursor for the question *key* that goes on at *place* (JSON values by name)."""
    body = json.dumps({"v": _VERSION, "q": key, **place}, ensure_ascii=False, separators=(",", ":"))
    packed = base64.urlsafe_b64encode(body.encode("utf-8")).decode("ascii").rstrip("=")
    return digest_of("cursor", body, size=4) + packed


def open_cursor(key: str, cursor: object, kinds: Mapping[str, type]) -> dict[str, Any]:
    """The place in *cursor*, with values of *kinds*; raises InvalidCursor for what is none, a changed one, and another question's."""
    if not isinstance(cursor, str):
        raise InvalidCursor(f"cursor must be the next_cursor of an earlier page, not {type(cursor).__name__}.")
    found = _read(cursor)
    if found is None or found.pop("v", None) != _VERSION:
        raise InvalidCursor(
            f"This is no cursor of this version of memline ({len(cursor)} characters): pass a next_cursor on as it came, or begin anew."
        )
    if found.pop("q", None) != key:
        raise InvalidCursor(
            "This cursor belongs to another question: use it with the namespace, the filters and the options of the page it came from."
        )
    if any(not _fits(found.get(name), kind) for name, kind in kinds.items()):
        raise InvalidCursor("This cursor was changed on its way: pass a next_cursor on as it came.")
    return found


def _fits(value: object, kind: type) -> bool:
    """A number is one that both databases take."""
    return isinstance(value, kind) and (not isinstance(value, int) or abs(value) < 1 << 62)


def _read(cursor: str) -> dict[str, Any] | None:
    check, packed = cursor[:8], cursor[8:]
    if len(cursor) > _LONGEST or not cursor.isascii():
        return None
    try:
        body = base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True).decode("utf-8")
        if digest_of("cursor", body, size=4) != check:
            return None
        found = json.loads(body)
    except (binascii.Error, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _plain(value: Any) -> Any:
    """A filter tree as JSON: equal trees give equal texts, and the order of what AND, OR and IN join means nothing."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return [type(value).__name__, *(_plain(getattr(value, field.name)) for field in fields(value))]
    if isinstance(value, date):  # a datetime, too
        return value.isoformat()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return sorted((_plain(each) for each in value), key=lambda each: json.dumps(each, ensure_ascii=False))
    return value
