"""Every filter agrees with a naive evaluator, which is written from the rules of `filter_tree` and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memline.contracts.errors import InvalidInput, ScopeRequired
from memline.contracts.filters import Filter, ScopeIds, parse

Row = Mapping[str, Any]


def as_time(value: Any) -> datetime | None:
    if isinstance(value, str) and value[:4].isdigit() and value[4:5] == "-":
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def is_day(value: Any) -> bool:
    return len(value) == 10 if isinstance(value, str) else not isinstance(value, datetime)


def kind(value: Any) -> str:
    for name, types in (("bool", bool), ("number", (int, float)), ("text", str), ("time", date)):
        if isinstance(value, types):
            return name
    return "other"


def compare(found: Any, wanted: Any) -> int | None:
    """-1, 0 or 1; None where the two can't be compared."""
    left, right = as_time(found), as_time(wanted)
    if left and right:
        if is_day(wanted) and left.astimezone(UTC).date() == right.date():
            return 0
        return (left > right) - (left < right)
    if kind(found) != kind(wanted) or kind(found) in ("time", "other"):
        return None
    return int(found > wanted) - int(found < wanted)


def naive_condition(found: Any, operator: str, wanted: Any) -> bool:
    if operator == "ne":
        return not naive_condition(found, "eq", wanted)
    if operator == "nin":
        return not naive_condition(found, "in", wanted)
    if operator == "in":
        return any(naive_condition(found, "eq", item) for item in wanted)
    if operator == "exists":
        return bool((found is None) != wanted)
    if operator == "eq":
        if isinstance(found, list):
            return any(naive_condition(item, "eq", wanted) for item in found)
        return found is None if wanted is None else found is not None and compare(found, wanted) == 0
    if operator == "contains":
        if isinstance(found, list):
            return naive_condition(found, "eq", wanted)
        return isinstance(found, str) and isinstance(wanted, str) and found.find(wanted) >= 0
    if operator == "icontains":
        if isinstance(found, list):
            return wanted.casefold() in [item.casefold() for item in found if isinstance(item, str)]
        return isinstance(found, str) and found.casefold().find(wanted.casefold()) >= 0
    if kind(found) == "bool":
        return False
    order = compare(found, wanted)
    return order is not None and {"gt": order > 0, "gte": order >= 0, "lt": order < 0, "lte": order <= 0}[operator]


def naive(raw: Any, row: Row) -> bool:
    for key, value in raw.items():
        if key == "AND":
            holds = all(naive(item, row) for item in value)
        elif key == "OR":
            holds = any(naive(item, row) for item in value)
        elif key == "NOT":
            holds = not any(naive(item, row) for item in (value if isinstance(value, list) else [value]))
        elif key in ("user_id", "agent_id", "run_id"):
            holds = row.get(key) == value
        else:
            found = row.get(key) if key != "deep.k" else (row.get("deep") or {}).get("k")
            asked = value if isinstance(value, dict) else {"in" if isinstance(value, list) else "eq": value}
            holds = all(naive_condition(found, operator, wanted) for operator, wanted in asked.items())
        if not holds:
            return False
    return True


TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "Straße",
    "STRASSE",
    "5",
    "2024-05-01",
    "2024-05-02",
    "2024-05-01T12:00:00Z",
    "2024-05-01T23:00:00-02:00",
    "2024-13-01",
]
NUMBERS: list[Any] = [0, 1, 5, 5.0, 5.5, -1, 2**53 + 1, float(2**53)]
TIMES: list[Any] = [
    date(2024, 5, 1),
    datetime(2024, 5, 1),
    datetime(2024, 5, 1, 12, tzinfo=UTC),
    datetime(2024, 5, 2, 1, tzinfo=timezone(timedelta(hours=2))),
]
texts = st.sampled_from(TEXTS)
ordered = texts | st.sampled_from(NUMBERS) | st.sampled_from(TIMES)
scalars = ordered | st.booleans() | st.none()
found_values = scalars | st.lists(scalars, max_size=3)
KEYS = ["k", "m", "when", "deep.k"]
SCOPE_IDS = {"user_id": ["a", "b"], "agent_id": ["x", "y"], "run_id": ["r"]}

rows = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("k", "m", "when"), found_values),
        "deep": st.fixed_dictionaries({}, optional={"k": found_values}),
        **{key: st.sampled_from([*values, None]) for key, values in SCOPE_IDS.items()},
    },
)
operators = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("eq", "ne"), scalars),
        **dict.fromkeys(("gt", "gte", "lt", "lte"), ordered),
        **dict.fromkeys(("in", "nin"), st.lists(scalars, max_size=3)),
        "contains": ordered | st.booleans(),
        "icontains": texts,
        "exists": st.booleans(),
    },
).filter(bool)
few_operators = operators.map(lambda asked: dict(list(asked.items())[:2]))
fields = st.dictionaries(st.sampled_from(KEYS), few_operators | scalars | st.lists(scalars, max_size=2), min_size=1, max_size=2)
scope_fields = st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in SCOPE_IDS.items()}).filter(bool)


def connected(inner: st.SearchStrategy[Any], *, negate: bool) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, min_size=1, max_size=3)
    names = ["AND", "OR", "NOT"] if negate else ["AND", "OR"]
    return st.one_of([st.builds(lambda items, extra, name=name: {**extra, name: items}, lists, st.just({}) | fields) for name in names])


unscoped = st.recursive(fields, lambda inner: connected(inner, negate=True), max_leaves=8)
filters = st.recursive(
    unscoped | scope_fields | st.builds(lambda a, b: {**a, **b}, fields, scope_fields),
    lambda inner: connected(inner, negate=False),
    max_leaves=6,
)
#: Shapes that only have ids, so that rows often lie within.
only_scopes = st.recursive(
    scope_fields,
    lambda inner: st.builds(lambda name, items: {name: items}, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=1, max_size=3)),
)


def within(row: Row, scope: ScopeIds) -> bool:
    return all(row.get(key) == value for key, value in scope.ids().items())


def in_scopes(row: Row, checked: Filter) -> bool:
    return any(within(row, scope) for scope in checked.scopes)


@settings(max_examples=300, deadline=None)
@given(filters, st.lists(rows, min_size=1, max_size=5))
def test_every_filter_agrees_with_the_naive_evaluator_and_stays_within_its_scopes(raw: dict[str, Any], some: list[Row]) -> None:
    checked = parse(raw, need_scope=False)
    for row in some:
        assert checked.matches(row) == naive(raw, row)
        if checked.matches(row):
            assert in_scopes(row, checked)
        if checked.narrows_only_by_scope:
            assert checked.matches(row) == in_scopes(row, checked)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(KEYS), few_operators, rows)
def test_every_single_condition_agrees_with_the_naive_evaluator(key: str, asked: dict[str, Any], row: Row) -> None:
    assert parse({key: asked}, need_scope=False).matches(row) == naive({key: asked}, row)


@settings(max_examples=150, deadline=None)
@given(only_scopes, rows)
def test_a_filter_of_ids_alone_is_its_scopes(raw: dict[str, Any], row: Row) -> None:
    checked = parse(raw)
    assert checked.narrows_only_by_scope
    assert checked.matches(row) == naive(raw, row) == in_scopes(row, checked)
    assert not any(
        one != other and all(item in one.ids().items() for item in other.ids().items())
        for one in checked.scopes
        for other in checked.scopes
    )


@settings(max_examples=150, deadline=None)
@given(filters)
def test_a_filter_that_needs_no_scope_is_refused_or_every_scope_names_an_id(raw: dict[str, Any]) -> None:
    unbound = parse(raw, need_scope=False)
    try:
        bound = parse(raw)
    except ScopeRequired:
        assert ScopeIds() in unbound.scopes
    else:
        assert bound == unbound
        assert all(scope.ids() for scope in bound.scopes)


junk = st.recursive(
    scalars | st.binary(max_size=3) | st.text(max_size=3) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["AND", "OR", "NOT", "user_id", "eq", "in", "exists", "k", ""]) | st.text(max_size=2) | st.integers(),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=300, deadline=None)
@given(junk, rows)
def test_rubbish_is_a_filter_or_a_typed_error(raw: object, row: Row) -> None:
    try:
        checked = parse(raw)
    except InvalidInput:
        return
    assert isinstance(checked.matches(row), bool)
