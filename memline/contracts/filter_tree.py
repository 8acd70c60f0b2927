"""A checked filter as a tree, and when a row matches it.

Rules, the same for every operator and both index backends:

- **Missing.** A key that is absent or null is *missing*. `ne` and `nin` are the exact opposites of `eq` and `in`, so they match a
  missing key; `eq: null` matches only a missing key (or a null inside a list), `exists: false` too; nothing else does.
- **Types.** Numbers compare with numbers (a bool is none), strings with strings by code point, times with times. Values of
  different types are unequal, and neither less nor greater.
- **Times.** Two values that are dates or ISO-8601 times (`2024-05-01`, `2024-05-01T09:30:00Z`; date and datetime objects too)
  compare as times; without a zone they are UTC. In a filter a bare date is the whole day: `eq` is within it, `lt` before it,
  `lte` not after it, `gt` after it. In a row a bare date is its first moment.
- **Lists.** For a list in a row `eq`, `in`, `contains` and `icontains` match if any element does, `ne` and `nin` if none does;
  a list has no order.
- **Text.** On a string `contains` is a case-sensitive substring, `icontains` one after case folding; on a list they ask for an element.
- **Keys.** `a.b` reaches into a nested dict where there is no key `a.b` itself.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

__all__ = ["All", "AnyOf", "Condition", "Moment", "Node", "NoneOf", "Operand", "Operator", "ScopeIs", "Test", "moment_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1) // _MICROSECOND
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:?\d\d)?)?", re.ASCII)


class Operator(StrEnum):
    """What can be asked of a key."""

    EQ = "eq"
    NE = "ne"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    IN = "in"
    NIN = "nin"
    CONTAINS = "contains"
    ICONTAINS = "icontains"
    EXISTS = "exists"


class Moment(NamedTuple):
    """A stretch of time in microseconds since 1970 (UTC): a day, or one microsecond. *end* lies outside."""

    start: int
    end: int


def moment_of(value: object) -> Moment | None:
    """The time that *value* names; None if it is no date, no datetime, and no string that holds one in ISO-8601."""
    if isinstance(value, str):
        if not _ISO.fullmatch(value):
            return None
        try:
            value = date.fromisoformat(value) if len(value) == 10 else datetime.fromisoformat(value)
        except ValueError:  # the 31st of February
            return None
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        start = (aware - _EPOCH) // _MICROSECOND
        return Moment(start, start + 1)
    if isinstance(value, date):
        start = (datetime(value.year, value.month, value.day, tzinfo=UTC) - _EPOCH) // _MICROSECOND
        return Moment(start, start + _DAY)
    return None


@dataclass(frozen=True, slots=True)
class Operand:
    """A value of a filter, and the time that it names."""

    value: str | int | float | bool | date | None
    moment: Moment | None = None


#: Asks the operands of a value found in a row; None stands for a missing one.
Test = Callable[[Any, tuple[Operand, ...]], bool]


class Node(Protocol):
    """A part of a filter."""

    def matches(self, row: Mapping[str, Any]) -> bool: ...


@dataclass(frozen=True, slots=True)
class All:
    """Every child matches; without children every row does."""

    children: tuple[Node, ...]

    def matches(self, row: Mapping[str, Any]) -> bool:
        return all(child.matches(row) for child in self.children)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one child matches."""

    children: tuple[Node, ...]

    def matches(self, row: Mapping[str, Any]) -> bool:
        return any(child.matches(row) for child in self.children)


@dataclass(frozen=True, slots=True)
class NoneOf:
    """No child matches."""

    children: tuple[Node, ...]

    def matches(self, row: Mapping[str, Any]) -> bool:
        return not any(child.matches(row) for child in self.children)


@dataclass(frozen=True, slots=True)
class ScopeIs:
    """A scope id, to the letter: an id that looks like a date is no date."""

    key: str
    id: str

    def matches(self, row: Mapping[str, Any]) -> bool:
        return bool(row.get(self.key) == self.id)


@dataclass(frozen=True, slots=True)
class Condition:
    """One operator on one key; only `in` and `nin` have other than one operand."""

    key: str
    operator: Operator
    operands: tuple[Operand, ...]

    def matches(self, row: Mapping[str, Any]) -> bool:
        return _TESTS[self.operator](_look_up(row, self.key), self.operands)


def _look_up(row: Mapping[str, Any], key: str) -> Any:
    if key in row or "." not in key:
        return row.get(key)
    found: Any = row
    for part in key.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same_type(left: object, right: object) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return isinstance(left, bool) and isinstance(right, bool)
    return (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))


def _equal(found: object, wanted: Operand) -> bool:
    if found is None or wanted.value is None:
        return found is wanted.value
    if wanted.moment is not None and (moment := moment_of(found)) is not None:
        return wanted.moment.start <= moment.start < wanted.moment.end
    return _same_type(found, wanted.value) and found == wanted.value


def _any_equal(found: object, operands: tuple[Operand, ...]) -> bool:
    elements = found if isinstance(found, (list, tuple)) else (found,)
    return any(_equal(element, wanted) for element in elements for wanted in operands)


def _contains(found: object, operands: tuple[Operand, ...]) -> bool:
    wanted = operands[0].value
    if isinstance(found, str):
        return isinstance(wanted, str) and wanted in found
    return isinstance(found, (list, tuple)) and _any_equal(found, operands)


def _icontains(found: object, operands: tuple[Operand, ...]) -> bool:
    wanted = str(operands[0].value).casefold()
    if isinstance(found, str):
        return wanted in found.casefold()
    return isinstance(found, (list, tuple)) and any(isinstance(element, str) and element.casefold() == wanted for element in found)


def _ordered(compare: Callable[[Any, Any], bool], compare_time: Callable[[int, Moment], bool]) -> Test:
    """The test of an order operator: *compare* for numbers and strings, *compare_time* for a time of the row and one of the filter."""

    def test(found: Any, operands: tuple[Operand, ...]) -> bool:
        wanted = operands[0]
        if wanted.moment is not None and (moment := moment_of(found)) is not None:
            return compare_time(moment.start, wanted.moment)
        return _same_type(found, wanted.value) and compare(found, wanted.value)

    return test


_TESTS: Mapping[Operator, Test] = {
    Operator.EQ: _any_equal,
    Operator.NE: lambda found, operands: not _any_equal(found, operands),
    Operator.IN: _any_equal,
    Operator.NIN: lambda found, operands: not _any_equal(found, operands),
    Operator.GT: _ordered(operator.gt, lambda time, wanted: time >= wanted.end),
    Operator.GTE: _ordered(operator.ge, lambda time, wanted: time >= wanted.start),
    Operator.LT: _ordered(operator.lt, lambda time, wanted: time < wanted.start),
    Operator.LTE: _ordered(operator.le, lambda time, wanted: time < wanted.end),
    Operator.CONTAINS: _contains,
    Operator.ICONTAINS: _icontains,
    Operator.EXISTS: lambda found, operands: (found is not None) is operands[0].value,
}
