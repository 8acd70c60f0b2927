"""Questions with known answers, one a line: `{"query": …, "wanted": id or [ids], "filters": {…}}`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from memline.contracts.errors import InvalidInput
from memline.contracts.filters import Filter, parse
from memline.contracts.options import check_handle

__all__ = ["BadQuestion", "JudgedLine", "read_judged"]

_FIELDS = ("query", "wanted", "filters")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class JudgedLine:
    """A question, the memories that answer it, and where they are looked for."""

    #: From 1.
    number: int
    query: str
    wanted: frozenset[str]
    filter: Filter


@dataclass(frozen=True, slots=True)
class BadQuestion:
    """A line that is none: its number, from 1, and what is wrong with it (never its text)."""

    number: int
    reason: str


def read_judged(lines: Iterable[bytes], ids: Mapping[str, str]) -> Iterator[JudgedLine | BadQuestion]:
    """Questions in the order of their lines; blank lines are passed over.

    *ids*: scope ids that every line's filter gets, unless it names that id at its top level itself.
    """
    from memline.search.check import check_query

    for number, raw in enumerate(lines, 1):
        line = raw.removeprefix(_BOM) if number == 1 else raw
        if not line.strip():
            continue
        try:
            found = _object_in(line)
            wanted, filters = _wanted(found["wanted"]), found.get("filters") or {}
            if not isinstance(filters, dict):
                raise InvalidInput(f"filters must be an object, not {type(filters).__name__}.")
            yield JudgedLine(number, check_query(found["query"]), wanted, parse({**ids, **filters}))
        except InvalidInput as error:
            yield BadQuestion(number, str(error))


def _object_in(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except UnicodeDecodeError:
        raise InvalidInput("this is no text in UTF-8.") from None
    except (ValueError, RecursionError):
        raise InvalidInput("this is not JSON.") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"a line is an object with {', '.join(_FIELDS)}, not {type(found).__name__}.")
    if unknown := sorted(found.keys() - set(_FIELDS)):
        raise InvalidInput(f"unknown field {', '.join(name[:40] for name in unknown[:5])}. Known: {', '.join(_FIELDS)}.")
    if missing := [name for name in ("query", "wanted") if name not in found]:
        raise InvalidInput(f"{' and '.join(missing)} is missing.")
    return found


def _wanted(value: object) -> frozenset[str]:
    named = value if isinstance(value, list) else [value]
    if not named:
        raise InvalidInput("wanted is empty: name at least one memory.")
    return frozenset(check_handle(f"wanted[{index}]" if isinstance(value, list) else "wanted", each) for index, each in enumerate(named))
