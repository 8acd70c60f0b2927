"""Items of JSON files, whatever holds them, one at a time."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.cli.json_items import items_in
from memline.contracts.errors import InvalidInput

ONE, TWO = {"id": 1, "payload": {"data": "a"}}, {"id": 2, "payload": {"data": 'b ["]}'}}


def items(text: str) -> list[Any]:
    return [item for _, item in items_in(io.BytesIO(text.encode()))]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([ONE, TWO]),
        json.dumps([ONE, TWO], indent=2),
        json.dumps({"points": [ONE, TWO]}),
        json.dumps({"result": {"points": [ONE, TWO], "next_page_offset": None}, "status": "ok", "time": 0.1}),
        json.dumps({"time": 0.1, "result": [ONE, TWO]}),
        json.dumps({"deprecations": None, "objects": [ONE, TWO], "totalResults": 2}),
        json.dumps({"results": [ONE, TWO]}),
        json.dumps([[ONE, TWO], "next"]),
        f"{json.dumps(ONE)}\n\n{json.dumps(TWO)}\n",
        json.dumps({"points": [ONE]}) + json.dumps({"points": [TWO]}),
        "\ufeff" + json.dumps([ONE, TWO]),
    ],
)
def test_every_holder_gives_its_items_in_order(text: str) -> None:
    assert items(text) == [ONE, TWO]


def test_nothing_is_no_item() -> None:
    assert items("") == items(" \n") == items("[]") == items('{"points": []}') == []


def test_the_line_of_each_item_is_told() -> None:
    text = "[\n" + ",\n".join(json.dumps(each) for each in (ONE, TWO)) + "\n]"
    assert [line for line, _ in items_in(io.BytesIO(text.encode()))] == [2, 3]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[{"a": 1}', "line 1: it ends too early"),
        ('[{"a": 1}\n{"b": 2}]', "line 2: not JSON"),
        ('{"points": [\n{]', "line 2: not JSON"),
        ("{1: 2}", "line 1: not JSON"),
        ('["\ud800"'.encode("utf-8", "surrogatepass").decode("latin-1"), "not JSON|too early"),
    ],
)
def test_a_file_that_is_not_json_says_where(text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        items(text)


def test_what_is_not_utf_8_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not UTF-8"):
        list(items_in(io.BytesIO(b'["\xff"]')))


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b"]), st.text() | st.integers() | st.lists(st.integers(), max_size=3)), max_size=5))
def test_items_come_through_whatever_they_hold_and_however_long_they_are(found: list[dict[str, Any]]) -> None:
    found = [*found, {"long": "x" * 200_000}]
    assert items(json.dumps(found)) == items("\n".join(json.dumps(each) for each in found)) == found


def test_a_large_file_is_read_piece_by_piece() -> None:
    class Counting(io.BytesIO):
        read_so_far = 0

        def read(self, size: int | None = -1, /) -> bytes:
            found = super().read(size)
            self.read_so_far += len(found)
            return found

    handle = Counting(json.dumps([{"n": n, "text": "x" * 1000} for n in range(2000)]).encode())
    walk = items_in(handle)
    assert next(walk)[1]["n"] == 0
    assert handle.read_so_far < 200_000
    assert sum(1 for _ in walk) == 1999
