"""`memline weights show`, `set`, `clear`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memline.search.signals import SIGNALS
from memline.search.weights import DEFAULT
from tests.unit.cli.program import memline, memline_json

pytestmark = pytest.mark.usefixtures("light")


def put(content: Any, *options: str, exit_code: int = 0) -> Any:
    return memline(*options, "weights", "set", "-", stdin=json.dumps(content), exit_code=exit_code)


def test_without_its_own_a_namespace_shows_the_published_weights() -> None:
    shown = memline_json("weights", "show")
    assert (shown["namespace"], shown["source"], shown["middle"]) == ("default", "default", DEFAULT.middle)
    assert shown["signals"] == dict(DEFAULT.signals)
    assert "published" in memline("weights", "show").output


def test_weights_that_are_set_are_shown_in_their_namespace_only_until_they_are_cleared() -> None:
    put({"signals": {"words": 9}, "slope": 0.5})
    shown = memline_json("weights", "show")
    assert (shown["source"], shown["slope"], shown["middle"]) == ("namespace", 0.5, DEFAULT.middle)
    assert shown["signals"] == dict(DEFAULT.signals) | {"words": 9}
    assert memline_json("--namespace", "other", "weights", "show")["source"] == "default"
    assert memline_json("weights", "clear") == {"namespace": "default", "cleared": True}
    assert memline_json("weights", "clear") == {"namespace": "default", "cleared": False}
    assert memline_json("weights", "show")["source"] == "default"


def test_what_show_writes_set_reads(tmp_path: Path) -> None:
    put({"signals": {"meaning": 1.5}})
    shown = memline_json("weights", "show")
    file = tmp_path / "weights.json"
    file.write_text(json.dumps(shown))
    memline_json("weights", "clear")
    assert memline_json("weights", "set", str(file)) == shown


def test_a_search_uses_them_and_says_so() -> None:
    memline_json("add", "My locker code is 4471.", "-u", "mei")
    before = memline_json("search", "locker", "-u", "mei", "--explain")
    put({"signals": dict.fromkeys(SIGNALS, 0) | {"words": 1}, "middle": 0})
    after = memline_json("search", "locker", "-u", "mei", "--explain")
    assert (before["weights"], after["weights"]) == ("default", "namespace")
    assert before["results"][0]["score"] != after["results"][0]["score"]
    assert after["results"][0]["score_details"]["signals"]["meaning"]["weighted"] == 0


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([], "must be a JSON object"),
        ({"weights": {}}, "'weights'"),
        ({"signals": []}, "signals must be an object"),
        ({"signals": {"luck": 1}}, "'luck'"),
        ({"signals": {"words": "much"}}, "signals.words must be a number, not str"),
        ({"signals": {"words": True}}, "signals.words must be a number, not bool"),
        ({"signals": {"words": float("nan")}}, "signals.words must be a finite number"),
        ({"signals": {"words": 10**400}}, "signals.words must be a finite number"),
        ({"middle": float("inf")}, "middle must be a finite number"),
        ({"slope": 0}, "slope must be above 0"),
        ({"slope": 1e6}, "too steep"),
        ({"signals": dict.fromkeys(SIGNALS, 0)}, "No signal has a weight above 0"),
    ],
)
def test_bad_weights_change_nothing(content: Any, told: str) -> None:
    put({"signals": {"words": 9}})
    refused = put(content, exit_code=1)
    assert told in refused.stderr and refused.stdout == ""
    assert memline_json("weights", "show")["signals"]["words"] == 9


def test_a_file_that_is_no_json_is_told_by_its_line() -> None:
    assert "not JSON (line 2)" in memline("weights", "set", "-", stdin="{\n,", exit_code=1).stderr
    assert "UTF-8" in memline("weights", "set", "-", stdin=b"\xff\xfe", exit_code=1).stderr
