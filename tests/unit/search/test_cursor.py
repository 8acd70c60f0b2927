"""Cursors: they come back as they went, belong to one question, and are refused in every other form."""

from __future__ import annotations

import base64
import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.contracts.errors import InvalidCursor
from memline.contracts.filters import parse
from memline.contracts.ids import digest_of
from memline.search.cursor import open_cursor, question_key, seal_cursor

ANN = parse({"user_id": "ann"})
KEY = question_key("get_all", "default", ANN, expired=False)
PLACE = {"after": int}


def key_of(filters: dict[str, Any], namespace: str = "default", call: str = "get_all", expired: bool = False) -> str:
    return question_key(call, namespace, parse(filters), expired=expired)


def forged(body: object) -> str:
    text = json.dumps(body, separators=(",", ":"))
    return digest_of("cursor", text, size=4) + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def test_a_cursor_gives_back_its_place() -> None:
    place = {"after": 7, "norm": "søren · 北京"}
    assert open_cursor(KEY, seal_cursor(KEY, place), {"after": int, "norm": str}) == place


@pytest.mark.parametrize(
    "other",
    [
        key_of({"user_id": "bob"}),
        key_of({"user_id": "ann", "kind": "note"}),
        key_of({"user_id": "ann"}, namespace="other"),
        key_of({"user_id": "ann"}, call="entities"),
        key_of({"user_id": "ann"}, expired=True),
    ],
)
def test_a_cursor_of_another_question_is_refused(other: str) -> None:
    with pytest.raises(InvalidCursor, match="another question"):
        open_cursor(KEY, seal_cursor(other, {"after": 7}), PLACE)


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ({"user_id": "ann", "kind": "a"}, {"kind": "a", "user_id": "ann"}),
        ({"user_id": "ann", "kind": ["a", "b"]}, {"user_id": "ann", "kind": {"in": ["b", "a"]}}),
        ({"OR": [{"user_id": "ann"}, {"user_id": "bob"}]}, {"OR": [{"user_id": "bob"}, {"user_id": "ann"}]}),
        ({"user_id": 7}, {"user_id": "7"}),
        ({"user_id": "ann", "created_at": {"gt": date(2026, 3, 1)}}, {"user_id": "ann", "created_at": {"gt": date(2026, 3, 1)}}),
    ],
)
def test_filters_that_mean_the_same_are_one_question(one: dict[str, Any], same: dict[str, Any]) -> None:
    assert key_of(one) == key_of(same)


@pytest.mark.parametrize(
    "other",
    [
        {"user_id": "ann", "n": 1},
        {"user_id": "ann", "n": "1"},
        {"user_id": "ann", "n": True},
        {"user_id": "ann", "n": {"ne": 1}},
        {"user_id": "ann", "m": 1},
        {"user_id": "ann", "NOT": [{"n": 1}]},
        {"user_id": "ann", "n": datetime(2026, 3, 1, tzinfo=UTC)},
    ],
)
def test_filters_that_differ_in_a_value_a_type_or_an_operator_are_not(other: dict[str, Any]) -> None:
    keys = {key_of(other), key_of({"user_id": "ann", "n": 2}), KEY}
    assert len(keys) == 3


@given(st.text(max_size=200) | st.from_regex(r"[0-9a-f]{8}[A-Za-z0-9_=-]{0,200}", fullmatch=True))
def test_garbage_is_refused(garbage: str) -> None:
    with pytest.raises(InvalidCursor):
        open_cursor(KEY, garbage, PLACE)


@given(st.data())
def test_a_cursor_with_a_changed_character_is_refused(data: st.DataObject) -> None:
    cursor = seal_cursor(KEY, {"after": 12345})
    at = data.draw(st.integers(0, len(cursor) - 1))
    other = data.draw(st.characters(codec="utf-8").filter(lambda c: c != cursor[at]))
    changed = cursor[:at] + other + cursor[at + 1 :]
    try:
        found = open_cursor(KEY, changed, PLACE)
    except InvalidCursor:
        return
    assert found == {"after": 12345}  # bits of base64 that mean nothing


@pytest.mark.parametrize("value", [7, b"x", ["x"], True])
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(InvalidCursor, match="next_cursor"):
        open_cursor(KEY, value, PLACE)


@pytest.mark.parametrize(
    "body", [{"v": 1, "q": KEY}, {"v": 1, "q": KEY, "after": "7"}, {"v": 1, "q": KEY, "after": 1 << 70}, {"v": 2, "q": KEY}, [1], 7]
)
def test_what_is_built_by_hand_is_refused(body: object) -> None:
    with pytest.raises(InvalidCursor):
        open_cursor(KEY, forged(body), PLACE)
