"""From the dict a caller gives to a checked filter tree, with the scopes it stays within."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import combinations
from typing import Any

from memline.contracts.errors import InvalidFilter, InvalidMessage, InvalidScopeId
from memline.contracts.filter_tree import All, AnyOf, Condition, Node, NoneOf, Operand, Operator, ScopeIs, moment_of
from memline.contracts.scope import ID_KEYS, check_scope_id
from memline.contracts.turn import check_text

__all__ = ["MAX_CONDITIONS", "MAX_DEPTH", "MAX_SCOPES", "Parsed", "ScopeIds", "parse_tree"]

#: Deepest nesting of AND, OR and NOT.
MAX_DEPTH = 32

#: Most conditions of one filter.
MAX_CONDITIONS = 1000

#: Most scopes one filter may span, once what lies within another is left out.
MAX_SCOPES = 256

_CONNECTIVES = ("AND", "OR", "NOT")
_ORDER = (Operator.GT, Operator.GTE, Operator.LT, Operator.LTE)

#: Keys of a row that hold a time: asked for anything else they would never match, and nobody would learn why.
_TIMES = ("created_at", "updated_at", "occurred_at", "expiration_date")
_COMPARES_TIME = (*_ORDER, Operator.EQ, Operator.NE, Operator.IN, Operator.NIN)


@dataclass(frozen=True, slots=True)
class ScopeIds:
    """Scope ids that a filter asks for; None leaves that id open, so without any every row lies within."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    def ids(self) -> dict[str, str]:
        """The ids that are asked for."""
        return {name: value for name in ID_KEYS if (value := getattr(self, name)) is not None}

    def both(self, other: ScopeIds) -> ScopeIds | None:
        """What lies within both; None where they ask for two values of one id."""
        mine, theirs = self.ids(), other.ids()
        if any(mine[name] != theirs[name] for name in mine.keys() & theirs.keys()):
            return None
        return ScopeIds(**mine | theirs)

    def wider(self) -> Iterator[ScopeIds]:
        """Every scope that this one lies within, itself left out (at most 7)."""
        ids = self.ids()
        for count in range(len(ids)):
            for names in combinations(ids, count):
                yield ScopeIds(**{name: ids[name] for name in names})


_EVERYWHERE = (ScopeIds(),)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A part of a filter, and where its rows can be."""

    node: Node
    #: A matching row lies within one of them.
    scopes: tuple[ScopeIds, ...]
    #: The path of a branch that names no scope id; None if every branch does.
    unscoped: str | None
    #: At least one branch names a scope id.
    names_id: bool
    #: There is nothing but scope ids under AND and OR.
    only_scope: bool


def parse_tree(filters: object) -> Parsed:
    """The checked tree of *filters*; raises InvalidFilter or InvalidScopeId with the path of what is wrong."""
    if filters is None or (isinstance(filters, Mapping) and not filters):
        return Parsed(All(()), _EVERYWHERE, "filters", names_id=False, only_scope=True)
    return _Parser().branch("filters", filters, depth=0, negated=False)


class _Parser:
    """One filter being read; counts its conditions."""

    def __init__(self) -> None:
        self._conditions = 0

    def branch(self, path: str, raw: object, *, depth: int, negated: bool) -> Parsed:
        """A dict: all of its keys hold."""
        if not isinstance(raw, Mapping):
            raise InvalidFilter(f"{path} must be a dict of conditions, not {type(raw).__name__}.")
        if not raw:
            raise InvalidFilter(f"{path} is empty: give it a condition, or leave it out.")
        if depth > MAX_DEPTH:
            raise InvalidFilter(f"The filter is nested more than {MAX_DEPTH} deep: flatten it.")
        parts: list[Parsed] = []
        for key, value in raw.items():
            at = f"{path}.{_shown(path, key)}"
            if key in _CONNECTIVES:
                parts.append(self._connective(at, key, value, depth=depth + 1, negated=negated))
            elif key in ID_KEYS:
                parts.append(self._scope_id(at, key, value, negated=negated))
            else:
                parts.append(self._field(at, key, value))
        return _all_of(path, parts)

    def _connective(self, path: str, name: str, raw: object, *, depth: int, negated: bool) -> Parsed:
        if name == "NOT" and isinstance(raw, Mapping):
            return _none_of(path, [self.branch(path, raw, depth=depth, negated=True)])
        if not isinstance(raw, (list, tuple)):
            raise InvalidFilter(f"{path} must be a list of filters, not {type(raw).__name__}.")
        if not raw:
            raise InvalidFilter(f"{path} is an empty list: give it at least one filter, or leave it out.")
        negated = negated or name == "NOT"
        parts = [self.branch(f"{path}[{index}]", item, depth=depth, negated=negated) for index, item in enumerate(raw)]
        return {"AND": _all_of, "OR": _any_of, "NOT": _none_of}[name](path, parts)

    def _scope_id(self, path: str, key: str, raw: object, *, negated: bool) -> Parsed:
        self._count()
        if negated:
            raise InvalidScopeId(
                f"{path} stands inside NOT: a scope id can only be asked for by equality. Name the scopes you want instead."
            )
        if isinstance(raw, (Mapping, list, tuple, set, frozenset)) or raw is None:
            raise InvalidScopeId(
                f"{path} must be one id, not {type(raw).__name__}: scope ids know plain equality only, no operators, lists or null."
                " For several ids write an OR of filters."
            )
        value = check_scope_id(path, raw)
        return Parsed(ScopeIs(key, value), (ScopeIds(**{key: value}),), None, names_id=True, only_scope=True)

    def _field(self, path: str, key: str, raw: object) -> Parsed:
        if isinstance(raw, Mapping):
            if not raw:
                raise InvalidFilter(f"{path} has no operator: use one of {', '.join(Operator)}.")
            conditions = [self._condition(f"{path}.{_shown(path, name)}", key, name, value) for name, value in raw.items()]
        elif isinstance(raw, (list, tuple)):  # mem0's shorthand
            conditions = [self._condition(path, key, Operator.IN, raw)]
        else:
            conditions = [self._condition(path, key, Operator.EQ, raw)]
        node = conditions[0] if len(conditions) == 1 else All(tuple(conditions))
        return Parsed(node, _EVERYWHERE, path, names_id=False, only_scope=False)

    def _condition(self, path: str, key: str, name: str, raw: object) -> Condition:
        self._count()
        try:
            operator = Operator(name)
        except ValueError:
            raise InvalidFilter(f"{path} is no operator: use one of {', '.join(Operator)}.") from None
        if operator in (Operator.IN, Operator.NIN):
            if not isinstance(raw, (list, tuple)):
                raise InvalidFilter(f"{path} must be a list of values, not {type(raw).__name__}.")
            named = [(f"{path}[{index}]", item) for index, item in enumerate(raw)]
        else:
            named = [(path, raw)]
        operands = tuple(_operand(at, operator, item) for at, item in named)
        if key in _TIMES and operator in _COMPARES_TIME:
            for (at, item), operand in zip(named, operands, strict=True):
                if operand.moment is None and item is not None:
                    raise InvalidFilter(f"{at} is no time: compare {key} with a date, a datetime, YYYY-MM-DD or an ISO-8601 time.")
        return Condition(key, operator, operands)

    def _count(self) -> None:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise InvalidFilter(f"The filter has more than {MAX_CONDITIONS} conditions: use in and nin for lists of values.")


def _shown(path: str, key: object) -> str:
    """A checked key as it stands in a path."""
    if not isinstance(key, str):
        raise InvalidFilter(f"A key in {path} is of type {type(key).__name__}: keys must be strings.")
    if not key.strip():
        raise InvalidFilter(f"A key in {path} is blank.")
    try:
        check_text(f"A key in {path}", key)
    except InvalidMessage as error:
        raise InvalidFilter(str(error)) from None
    if key.startswith("$"):
        raise InvalidFilter(f"{path} has a key that starts with $: operators and AND, OR, NOT are written without it.")
    return "".join(c if c.isprintable() else "?" for c in key[:64])


def _operand(path: str, operator: Operator, raw: Any) -> Operand:
    if operator is Operator.EXISTS:
        if not isinstance(raw, bool):
            raise InvalidFilter(f"{path} must be true or false, not {type(raw).__name__}.")
        return Operand(raw)
    if isinstance(raw, (Mapping, list, tuple)):
        raise InvalidFilter(
            f"{path} must be one value, not {type(raw).__name__}: values are listed under in and nin, filters under AND, OR and NOT."
        )
    if not (raw is None or isinstance(raw, (str, int, float, date))):
        raise InvalidFilter(f"{path} is of type {type(raw).__name__}: compare with a string, number, boolean, date, datetime or null.")
    if isinstance(raw, float) and not math.isfinite(raw):
        raise InvalidFilter(f"{path} is not a finite number.")
    if isinstance(raw, str):
        _check_string(path, operator, raw)
    if operator is Operator.ICONTAINS and not isinstance(raw, str):
        raise InvalidFilter(f"{path} must be a string, not {type(raw).__name__}.")
    if operator is Operator.CONTAINS and raw is None:
        raise InvalidFilter(f"{path} must not be null: use exists to ask for a missing key.")
    if operator in _ORDER and (raw is None or isinstance(raw, bool)):
        raise InvalidFilter(f"{path} must be a number, string, date or datetime, not {type(raw).__name__}.")
    return Operand(raw, moment_of(raw))


def _check_string(path: str, operator: Operator, text: str) -> None:
    if text == "*" and operator not in (Operator.CONTAINS, Operator.ICONTAINS):
        raise InvalidFilter(f'{path} is a wildcard, and there are none: to ask for any value use {{"exists": true}}.')
    try:
        check_text(path, text)
    except InvalidMessage as error:
        raise InvalidFilter(str(error)) from None


def _all_of(path: str, parts: Sequence[Parsed]) -> Parsed:
    scopes: tuple[ScopeIds, ...] = _EVERYWHERE
    for part in parts:
        scopes = _compact([both for left in scopes for right in part.scopes if (both := left.both(right)) is not None])
    unscoped: str | None = None
    if all(part.unscoped for part in parts):
        # a part that names ids in some of its branches knows best where one is wanting
        unscoped = next((part.unscoped for part in parts if part.names_id), path)
    return Parsed(
        parts[0].node if len(parts) == 1 else All(tuple(part.node for part in parts)),
        scopes,
        unscoped,
        any(part.names_id for part in parts),
        all(part.only_scope for part in parts),
    )


def _any_of(_path: str, parts: Sequence[Parsed]) -> Parsed:
    return Parsed(
        AnyOf(tuple(part.node for part in parts)),
        _compact([scope for part in parts for scope in part.scopes]),
        next((part.unscoped for part in parts if part.unscoped), None),
        any(part.names_id for part in parts),
        all(part.only_scope for part in parts),
    )


def _none_of(path: str, parts: Sequence[Parsed]) -> Parsed:
    return Parsed(NoneOf(tuple(part.node for part in parts)), _EVERYWHERE, path, names_id=False, only_scope=False)


def _compact(scopes: Sequence[ScopeIds]) -> tuple[ScopeIds, ...]:
    """*scopes* in their order, each once, without those that lie within another."""
    found = dict.fromkeys(scopes)
    kept = tuple(scope for scope in found if not any(wider in found for wider in scope.wider()))
    if len(kept) > MAX_SCOPES:
        raise InvalidFilter(f"The filter spans more than {MAX_SCOPES} scopes: ask in parts.")
    return kept
