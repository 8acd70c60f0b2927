"""`memline calibrate`: the table, the suggestion, and lines that are wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memline.search.signals import SIGNALS
from tests.unit.cli.program import memline, memline_json

pytestmark = pytest.mark.usefixtures("light")


def add(text: str, user: str = "mei", *options: str) -> str:
    found: str = memline_json("add", text, "-u", user, "--no-infer", *options)["results"][0]["id"]
    return found


def lines(*questions: Any) -> str:
    return "".join(json.dumps(question) + "\n" for question in questions)


def test_a_table_by_threshold_and_the_best_one() -> None:
    only_codes = {"signals": dict.fromkeys(SIGNALS, 0) | {"code": 4}, "middle": 2, "slope": 1}  # scores 0.12 without it, 0.88 with it
    memline("weights", "set", "-", stdin=json.dumps(only_codes))
    code = add("The locker code is 44711.")
    add("The garden is green.")
    add("The house is old.")
    asked = lines({"query": "locker 44711", "wanted": code})
    found = memline_json("calibrate", "-", "-u", "mei", stdin=asked)
    assert [point["threshold"] for point in found["points"]] == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert found["points"][0] == {
        "threshold": 0,
        "precision": pytest.approx(1 / 3),
        "recall": 1.0,
        "f1": pytest.approx(0.5),
        "results": 3.0,
    }
    assert (found["questions"], found["wanted"], found["weights"]) == (1, 1, "namespace")
    assert found["suggested"] == 0.2
    assert (found["points"][2]["precision"], found["points"][2]["recall"], found["points"][2]["f1"]) == (1.0, 1.0, 1.0)
    assert (found["points"][9]["precision"], found["points"][9]["recall"], found["points"][9]["f1"]) == (None, 0.0, 0.0)
    shown = memline("calibrate", "-", "-u", "mei", stdin=asked).stdout
    assert "precision" in shown and "Best F1 at threshold 0.2" in shown


def test_a_line_names_its_own_filters_and_several_memories() -> None:
    first, second = add("The tea is green.", "ann", "--metadata", '{"kind": "note"}'), add("The tea is black.", "ann")
    add("The tea is red.")
    both = {"query": "tea", "wanted": [first, second], "filters": {"user_id": "ann"}}
    one = {"query": "tea", "wanted": first, "filters": {"user_id": "ann", "kind": "note"}}
    found = memline_json("calibrate", "-", "-u", "mei", stdin=lines(both, one))
    assert found["points"][0]["recall"] == 1.0
    assert found["points"][0]["precision"] == 1.0


def test_what_was_said_in_two_runs_is_one_wanted_content() -> None:
    first, second = add("The tea is green.", "ann", "--run-id", "r1"), add("The tea is green.", "ann", "--run-id", "r2")
    found = memline_json("calibrate", "-", "-u", "ann", stdin=lines({"query": "tea", "wanted": [first, second]}))
    assert (found["wanted"], found["points"][0]["recall"]) == (1, 1.0)


def test_a_content_that_is_found_twice_counts_once() -> None:
    from memline.cli.calibrate import _taken

    left = {(1, "tea"), (1, "bread")}
    assert [_taken(left, content) for content in ((1, "tea"), (1, "tea"), (2, "bread"), (1, "bread"))] == [True, False, False, True]


def test_nothing_found_is_said() -> None:
    code = add("The locker code is 44711.")
    for number in range(3):
        add(f"The garden {number} is green.")
    asked = lines({"query": "garden", "wanted": code})
    assert "at any threshold" in memline("calibrate", "-", "-u", "mei", "-k", "3", stdin=asked).stderr


def test_bad_lines_are_told_by_number_and_without_text() -> None:
    mine, other = add("The tea is green."), add("The tea is black.", "ann")
    gone = add("The tea is gone.")
    memline_json("delete", gone)
    given = (
        lines(
            {"query": "tea", "wanted": mine},
            {"query": "tea", "wanted": "nobody"},
            {"query": "tea", "wanted": gone},
            {"query": "tea", "wanted": other},
            {"query": " ", "wanted": mine},
            {"query": "tea", "wanted": []},
            {"query": "tea"},
            {"query": "tea", "wanted": mine, "user_id": "mei"},
            {"query": "tea", "wanted": mine, "filters": {"kind": {"like": "secret"}}},
            ["secret"],
        )
        + "\nsecret\n"
    )
    told = memline("calibrate", "-", "-u", "mei", stdin=given, exit_code=1).stderr
    for part in (
        "Line 2: wanted names nobody",
        f"Line 3: wanted names {gone}",
        f"Line 4: wanted names {other}, which the filters",
        "Line 5: query is blank",
        "Line 6: wanted is empty",
        "Line 7: wanted is missing",
        "Line 8: unknown field user_id",
        "Line 9: filters.kind.like is no operator",
        "Line 10: a line is an object",
        "Line 12: this is not JSON",
    ):
        assert part in told
    assert "secret" not in told and "Line 1:" not in told


def test_a_line_without_a_scope_and_an_empty_file_are_refused() -> None:
    mine = add("The tea is green.")
    assert "names no scope id" in memline("calibrate", "-", stdin=lines({"query": "tea", "wanted": mine}), exit_code=1).stderr
    assert "holds no question" in memline("calibrate", "-", stdin="\n", exit_code=1).stderr
