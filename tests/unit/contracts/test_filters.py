"""Filters: the truth table, missing keys, types, scopes and bad input."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from memline.contracts.errors import InvalidFilter, InvalidScopeId, ScopeRequired
from memline.contracts.filters import ScopeIds, parse
from tests.filter_table import REFUSED, ROWS, TRUTH_TABLE

Row = Mapping[str, Any]


def matches(condition: object, row: Row) -> bool:
    return parse(condition, need_scope=False).matches(row)


# --- the truth table ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("condition", "expected"), TRUTH_TABLE, ids=[str(condition) for condition, _ in TRUTH_TABLE])
def test_the_truth_table(condition: dict[str, Any], expected: str) -> None:
    checked = parse({"user_id": "u", **condition})
    assert [name for name, row in ROWS.items() if checked.matches({"user_id": "u", **row})] == expected.split()


# --- values ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [{"gt": "a"}, {"lt": 1}, {"contains": "a"}, {"icontains": "a"}, {"in": ["a"]}, {"eq": False}])
@pytest.mark.parametrize("row", [{}, {"k": None}])
def test_a_missing_or_null_key_matches_nothing_but_opposites_and_null(condition: dict[str, Any], row: Row) -> None:
    assert not matches({"k": condition}, row)
    assert matches({"k": {"ne": "a", "nin": ["a"], "exists": False, "eq": None}}, row)


@pytest.mark.parametrize(("found", "wanted"), [("5", 5), (5, "5"), (True, 1), (1, True), (0, False), ("true", True), ({"a": 1}, "a")])
def test_values_of_two_types_are_unequal_and_have_no_order(found: object, wanted: object) -> None:
    row = {"k": found}
    assert not matches({"k": wanted}, row)
    assert matches({"k": {"ne": wanted}}, row)
    if not isinstance(wanted, bool):
        assert not any(matches({"k": {operator: wanted}}, row) for operator in ("gt", "gte", "lt", "lte"))


def test_a_time_is_the_same_in_every_form_and_zone() -> None:
    berlin = timezone(timedelta(hours=2))
    forms = ["2024-05-01T10:00:00Z", "2024-05-01 10:00", "2024-05-01T12:00:00+02:00", "2024-05-01T12:00:00.000+0200"]
    moments = [datetime(2024, 5, 1, 10), datetime(2024, 5, 1, 10, tzinfo=UTC), datetime(2024, 5, 1, 12, tzinfo=berlin)]
    for found in [*forms, *moments]:
        for wanted in [*forms, *moments]:
            assert matches({"t": {"eq": wanted, "gte": wanted, "lte": wanted}}, {"t": found})
            assert not matches({"OR": [{"t": {"gt": wanted}}, {"t": {"lt": wanted}}, {"t": {"ne": wanted}}]}, {"t": found})


@pytest.mark.parametrize("day", ["2024-05-01", date(2024, 5, 1)])
@pytest.mark.parametrize(
    ("found", "true"),
    [
        ("2024-04-30T23:59:59.999999Z", {"lt", "lte", "ne"}),
        ("2024-05-01", {"eq", "gte", "lte"}),
        (date(2024, 5, 1), {"eq", "gte", "lte"}),
        ("2024-05-01T23:59:59.999999Z", {"eq", "gte", "lte"}),
        (datetime(2024, 5, 2, tzinfo=UTC), {"gt", "gte", "ne"}),
        ("2024-05-02T01:00:00+02:00", {"eq", "gte", "lte"}),
    ],
)
def test_a_bare_date_in_a_filter_is_the_whole_day(day: object, found: object, true: set[str]) -> None:
    operators = ("eq", "ne", "gt", "gte", "lt", "lte")
    assert {operator for operator in operators if matches({"t": {operator: day}}, {"t": found})} == true


def test_a_bare_date_in_a_row_is_its_first_moment() -> None:
    assert matches({"t": {"lt": "2024-05-01T00:00:01Z", "gte": "2024-05-01T00:00:00Z"}}, {"t": "2024-05-01"})


@pytest.mark.parametrize("text", ["20240501", "2024-W18-3", "2024-05", "2024-02-31", "10:00", "2024-05-01T10"])
def test_a_string_that_only_resembles_a_time_is_a_string(text: str) -> None:
    assert matches({"t": text}, {"t": text})
    assert not matches({"t": text}, {"t": "2024-05-01"})
    assert not matches({"t": {"eq": datetime(2024, 5, 1)}}, {"t": text})


def test_times_at_the_edge_of_the_calendar_compare() -> None:
    assert matches({"t": {"lt": "0001-01-01T00:00:00Z"}}, {"t": "0001-01-01T00:00:00+05:00"})
    assert matches({"t": {"lte": "9999-12-31"}}, {"t": "9999-12-31T23:59:59Z"})


def test_strings_that_are_no_times_are_ordered_by_code_point() -> None:
    assert matches({"k": {"gt": "Zebra", "lt": "é"}}, {"k": "ant"})
    assert matches({"k": {"gt": "2024-05-01"}}, {"k": "n/a"})


def test_a_list_matches_by_any_element_and_its_opposite_by_none() -> None:
    row = {"tags": ["Red", "blue", 3, "2024-05-01"]}
    hits: list[Any] = [
        "blue",
        {"eq": 3},
        ["x", "Red"],
        {"contains": "blue"},
        {"contains": 3},
        {"icontains": "BLUE"},
        "2024-05-01T00:00:00Z",
    ]
    misses: list[Any] = ["red", {"ne": "blue"}, {"nin": ["x", "Red"]}, {"contains": "blu"}, {"icontains": "blu"}, {"gt": 1}, None]
    for condition in hits:
        assert matches({"tags": condition}, row), condition
    for condition in misses:
        assert not matches({"tags": condition}, row), condition
    assert matches({"tags": {"ne": "green", "nin": ["x", 4], "exists": True}}, row)
    assert matches({"tags": {"exists": True, "ne": "x"}}, {"tags": []})


def test_icontains_folds_case_of_every_script() -> None:
    assert matches({"k": {"icontains": "STRASSE"}}, {"k": "Lange Straße 3"})
    assert not matches({"k": {"contains": "STRASSE"}}, {"k": "Lange Straße 3"})


def test_contains_a_star_is_a_star_to_the_letter() -> None:
    assert matches({"k": {"contains": "*"}}, {"k": "4*"})
    assert not matches({"k": {"contains": "*"}}, {"k": "4"})


def test_a_dotted_key_reaches_into_nested_dicts_unless_the_exact_key_is_there() -> None:
    assert matches({"a.b.c": 1}, {"a": {"b": {"c": 1}}})
    assert matches({"a.b": 2}, {"a": {"b": 1}, "a.b": 2})
    assert matches({"a.b": None}, {"a": {"b": 1}, "a.b": None})
    assert matches({"a.b": {"exists": False}}, {"a": 5})
    assert matches({"a.b": {"exists": False}}, {"a": {"x": 5}})


# --- scopes ------------------------------------------------------------------------------------------------------------------

SCOPES: list[tuple[dict[str, Any], tuple[ScopeIds, ...], bool]] = [
    ({"user_id": "a"}, (ScopeIds("a"),), True),
    ({"user_id": 7}, (ScopeIds("7"),), True),
    ({"user_id": " a "}, (ScopeIds("a"),), True),
    ({"user_id": "a", "run_id": "r"}, (ScopeIds("a", None, "r"),), True),
    ({"user_id": "a", "x": 1}, (ScopeIds("a"),), False),
    ({"user_id": "a", "NOT": [{"x": 1}]}, (ScopeIds("a"),), False),
    ({"OR": [{"user_id": "a"}, {"agent_id": "b"}]}, (ScopeIds("a"), ScopeIds(None, "b")), True),
    ({"OR": [{"user_id": "a"}, {"agent_id": "b", "kind": "x"}]}, (ScopeIds("a"), ScopeIds(None, "b")), False),
    ({"user_id": "a", "OR": [{"run_id": "r"}, {"agent_id": "b"}]}, (ScopeIds("a", None, "r"), ScopeIds("a", "b")), True),
    ({"user_id": "a", "OR": [{"user_id": "b"}, {"run_id": "r"}]}, (ScopeIds("a", None, "r"),), True),
    ({"user_id": "a", "OR": [{"user_id": "b"}, {"user_id": "c"}]}, (), True),
    ({"AND": [{"user_id": "a"}, {"user_id": "b"}]}, (), True),
    ({"AND": [{"user_id": "a"}, {"OR": [{"x": 1}, {"run_id": "r"}]}]}, (ScopeIds("a"),), False),
    ({"OR": [{"user_id": "a"}, {"user_id": "a", "run_id": "r"}, {"user_id": "a"}]}, (ScopeIds("a"),), True),
]


@pytest.mark.parametrize(("raw", "scopes", "only"), SCOPES, ids=[str(raw) for raw, _, _ in SCOPES])
def test_the_scopes_of_a_filter(raw: dict[str, Any], scopes: tuple[ScopeIds, ...], only: bool) -> None:
    checked = parse(raw)
    assert checked.scopes == scopes
    assert checked.narrows_only_by_scope is only


def test_without_need_of_a_scope_the_empty_filter_matches_every_row() -> None:
    nothing: list[object] = [None, {}]
    for raw in nothing:
        checked = parse(raw, need_scope=False)
        assert checked.scopes == (ScopeIds(),)
        assert checked.narrows_only_by_scope
        assert checked.matches({})


def test_ids_are_compared_to_the_letter() -> None:
    rows = [{"user_id": name, "category": "movies"} for name in ("ann.lee", "Ann_Lee", "ann", "ANN", "2024-05-01")]
    for row in rows:
        checked = parse({"user_id": row["user_id"], "category": "movies"})
        assert [other["user_id"] for other in rows if checked.matches(other)] == [row["user_id"]]
    assert not parse({"user_id": "2024-05-01"}).matches({"user_id": "2024-05-01T00:00:00Z"})
    assert not parse({"user_id": "ann"}).matches({"agent_id": "ann"})


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (None, "filters"),
        ({}, "filters"),
        ({"x": 1}, "filters"),
        ({"AND": [{"x": 1}, {"y": 1}]}, "filters"),
        ({"NOT": [{"x": 1}]}, "filters"),
        ({"OR": [{"user_id": "a"}, {"x": 1}]}, "filters.OR[1]"),
        ({"z": 1, "OR": [{"user_id": "a"}, {"OR": [{"x": 1}, {"run_id": "r"}]}]}, "filters.OR[1].OR[0]"),
    ],
)
def test_a_branch_without_a_scope_id_is_refused_by_its_path(raw: object, path: str) -> None:
    with pytest.raises(ScopeRequired) as caught:
        parse(raw)
    assert str(caught.value).startswith(f"{path} names no scope id")


@pytest.mark.parametrize(
    "value",
    [
        "",
        "  ",
        "*",
        "a*",
        "lee ann",
        "a\x00",
        "\ud800",
        "x" * 257,
        None,
        True,
        1.5,
        pytest.param(10**5000, id="a-long-number"),
        b"a",
        date(2024, 5, 1),
    ],
)
@pytest.mark.parametrize("key", ["user_id", "agent_id", "run_id"])
@pytest.mark.parametrize("need_scope", [True, False])
def test_a_bad_scope_id_is_refused_by_its_path(key: str, value: object, need_scope: bool) -> None:
    with pytest.raises(InvalidScopeId, match=rf"filters\.OR\[1\]\.{key}\b"):
        parse({"OR": [{"user_id": "a"}, {key: value}]}, need_scope=need_scope)


@pytest.mark.parametrize(
    "value", [{"eq": "a"}, {"ne": "a"}, {"in": ["a"]}, {"exists": True}, {"contains": "a"}, {}, ["a"], ("a",), [], {"a"}]
)
def test_an_operator_or_a_list_on_a_scope_id_is_refused(value: object) -> None:
    with pytest.raises(InvalidScopeId, match=r"filters\.user_id must be one id.*plain equality"):
        parse({"user_id": value, "agent_id": "b"})


@pytest.mark.parametrize("inner", [[{"user_id": "a"}], {"user_id": "a"}, [{"x": 1}, {"OR": [{"AND": [{"user_id": "a"}]}]}]])
def test_a_scope_id_inside_not_is_refused(inner: object) -> None:
    with pytest.raises(InvalidScopeId, match=r"filters\.NOT.*user_id stands inside NOT"):
        parse({"agent_id": "b", "NOT": inner})


# --- bad input ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("raw", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_every_path_refuses(raw: object, message: str) -> None:
    with pytest.raises((InvalidFilter, InvalidScopeId, ScopeRequired)) as caught:
        parse(raw)
    assert str(caught.value).startswith(message)


BAD: list[tuple[object, str]] = [
    ("text", "filters must be a dict"),
    ([{"user_id": "a"}], "filters must be a dict"),
    ({1: "a"}, "A key in filters is of type int"),
    ({" ": "a"}, "A key in filters is blank"),
    ({"a\x00": 1}, "A key in filters contains a NUL"),
    ({"a\ud800": 1}, "A key in filters contains a lone surrogate"),
    ({"$or": [{"a": 1}]}, "filters has a key that starts with $"),
    ({"a": {"$gt": 1}}, "filters.a has a key that starts with $"),
    ({"OR": []}, "filters.OR is an empty list"),
    ({"AND": []}, "filters.AND is an empty list"),
    ({"NOT": []}, "filters.NOT is an empty list"),
    ({"NOT": {}}, "filters.NOT is empty"),
    ({"OR": {"a": 1}}, "filters.OR must be a list of filters"),
    ({"AND": "secret"}, "filters.AND must be a list of filters"),
    ({"OR": [{"a": 1}, {}]}, "filters.OR[1] is empty"),
    ({"OR": [{"a": 1}, "secret"]}, "filters.OR[1] must be a dict"),
    ({"or": [{"a": 1}]}, "filters.or[0] must be one value"),
    ({"AND": [{"a": 1}, {"prio": {"above": "secret"}}]}, "filters.AND[1].prio.above is no operator"),
    ({"a": {"eq": 1, "EQ": 1}}, "filters.a.EQ is no operator"),
    ({"a": {}}, "filters.a has no operator"),
    ({"a": {1: 1}}, "A key in filters.a is of type int"),
    ({"a": "*"}, "filters.a is a wildcard"),
    ({"a": {"eq": "*"}}, "filters.a.eq is a wildcard"),
    ({"a": {"ne": "*"}}, "filters.a.ne is a wildcard"),
    ({"a": ["x", "*"]}, "filters.a[1] is a wildcard"),
    ({"a": {"nin": ["*"]}}, "filters.a.nin[0] is a wildcard"),
    ({"a": {"in": "secret"}}, "filters.a.in must be a list of values"),
    ({"a": {"in": {"secret"}}}, "filters.a.in must be a list of values"),
    ({"a": {"in": ["x", ["secret"]]}}, "filters.a.in[1] must be one value"),
    ({"a": {"eq": ["secret"]}}, "filters.a.eq must be one value"),
    ({"a": {"eq": {"secret": 1}}}, "filters.a.eq must be one value"),
    ({"a": {"gt": None}}, "filters.a.gt must be a number, string, date or datetime, not NoneType"),
    ({"a": {"lte": True}}, "filters.a.lte must be a number, string, date or datetime, not bool"),
    ({"a": {"exists": "secret"}}, "filters.a.exists must be true or false"),
    ({"a": {"exists": 1}}, "filters.a.exists must be true or false"),
    ({"a": {"contains": None}}, "filters.a.contains must not be null"),
    ({"a": {"icontains": 5}}, "filters.a.icontains must be a string"),
    ({"a": float("nan")}, "filters.a is not a finite number"),
    ({"a": {"gt": float("inf")}}, "filters.a.gt is not a finite number"),
    ({"a": b"secret"}, "filters.a is of type bytes"),
    ({"a": object()}, "filters.a is of type object"),
    ({"a": "secret\x00"}, "filters.a contains a NUL"),
    ({"a": {"contains": "secret\ud800"}}, "filters.a.contains contains a lone surrogate"),
]


@pytest.mark.parametrize(("raw", "message"), BAD, ids=[message for _, message in BAD])
def test_a_bad_filter_is_refused_by_its_path_and_its_values_are_not_told(raw: object, message: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse(raw)
    assert str(caught.value).startswith(message)
    if "secret" not in message:
        assert "secret" not in str(caught.value)


def test_a_wildcard_error_names_the_way_out() -> None:
    with pytest.raises(InvalidFilter, match=r'\{"exists": true\}'):
        parse({"user_id": "a", "cat": "*"})


def test_a_path_shows_long_and_odd_keys_shortened() -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse({"k\n" + "x" * 100_000: "*"})
    assert str(caught.value).startswith("filters.k?xxx")
    assert len(str(caught.value)) < 250


def nested(depth: int) -> dict[str, Any]:
    raw: dict[str, Any] = {"user_id": "a"}
    for _ in range(depth):
        raw = {"AND": [raw]}
    return raw


def test_nesting_is_bounded() -> None:
    assert parse(nested(32)).scopes == (ScopeIds("a"),)
    with pytest.raises(InvalidFilter, match="nested more than 32 deep"):
        parse(nested(33))
    endless: dict[str, Any] = {}
    endless["OR"] = [endless, endless]
    with pytest.raises(InvalidFilter, match="nested more than 32 deep"):
        parse(endless)


def test_the_number_of_conditions_and_scopes_is_bounded() -> None:
    wide: dict[str, Any] = {"x": 1}
    for _ in range(20):
        wide = {"AND": [wide, wide]}
    with pytest.raises(InvalidFilter, match="more than 1000 conditions"):
        parse({"user_id": "a", **wide})
    users = {"OR": [{"user_id": f"u{n}"} for n in range(256)]}
    agents = {"OR": [{"agent_id": f"a{n}"} for n in range(2)]}
    assert len(parse(users).scopes) == 256
    with pytest.raises(InvalidFilter, match="spans more than 256 scopes"):
        parse({"AND": [users, agents]})


def test_an_in_list_is_not_bounded_by_the_number_of_conditions() -> None:
    assert parse({"user_id": "a", "n": {"in": list(range(5000))}}).matches({"user_id": "a", "n": 4999})


def test_a_filter_keeps_what_it_was_when_the_callers_dict_changes() -> None:
    values = ["x"]
    raw = {"user_id": "a", "k": {"in": values}}
    checked = parse(raw)
    values.append("y")
    raw["user_id"] = "b"
    assert not checked.matches({"user_id": "a", "k": "y"})
    assert checked == parse({"user_id": "a", "k": {"in": ["x"]}})
    assert hash(checked) == hash(parse({"user_id": "a", "k": {"in": ["x"]}}))
