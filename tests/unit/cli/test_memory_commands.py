"""`memline add`, `receipt`, `search`, `get`, `list`, `history`, `delete`: what they write and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from memline.cli.options import wanted
from tests.unit.cli.program import memline, memline_json

pytestmark = pytest.mark.usefixtures("light")


def add(text: str, *options: str) -> Any:
    return memline_json("add", text, "--user-id", "mei", *options)


def test_adding_waits_until_the_memories_are_searchable() -> None:
    found = add("I work at Fabrikam.")
    assert found["status"] == "searchable"
    assert [(result["memory"], result["event"]) for result in found["results"]] == [("User works at Fabrikam", "ADD")]
    assert memline_json("receipt", found["id"])["results"] == found["results"]


def test_a_person_sees_the_memories_with_their_ids() -> None:
    shown = memline("add", "I work at Fabrikam.", "-u", "mei").stdout
    assert "searchable" in shown and "User works at Fabrikam" in shown and "ADD" in shown


def test_text_may_come_from_stdin() -> None:
    found = memline_json("add", "-", "--user-id", "mei", stdin="I work at Fabrikam.\n")
    assert found["results"][0]["memory"] == "User works at Fabrikam"


def test_what_is_no_text_on_stdin_is_said_so() -> None:
    assert "not text in utf-8" in memline("add", "-", "--user-id", "mei", stdin=b"I work \xff at", exit_code=1).stderr


def test_a_turn_without_a_fact_says_so() -> None:
    assert "nothing to extract" in memline("add", "Thanks!", "-u", "mei").stdout


def test_without_waiting_the_receipt_comes_at_once() -> None:
    found = add("I work at Fabrikam.", "--no-wait")
    assert found["status"] == "accepted" and found["results"] == []


def test_options_of_a_turn_reach_its_memory() -> None:
    found = add(
        "Box 12.", "--no-infer", "--metadata", '{"kind": "note"}', "--timestamp", "2026-03-14T10:00:00Z", "--expiration-date", "2999-01-01"
    )
    item = memline_json("get", found["results"][0]["id"])
    assert (item["memory"], item["metadata"], item["expiration_date"]) == ("Box 12.", {"kind": "note"}, "2999-01-01")
    assert item["occurred_at"].startswith("2026-03-14T10:00:00")


def test_one_key_is_one_turn_and_another_content_is_a_conflict() -> None:
    first, again = add("Box 12.", "--no-infer", "--key", "k1"), add("Box 12.", "--no-infer", "--key", "k1")
    assert again["results"] == first["results"]
    refused = memline("add", "Box 13.", "-u", "mei", "--no-infer", "--key", "k1", exit_code=1)
    assert "idempotency key" in refused.stderr and "Box 13" not in refused.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["hello"], "user_id, agent_id and run_id"),
        (["hello", "-u", "*"], "user_id"),
        ([" ", "-u", "mei"], "no text"),
        (["hello", "-u", "mei", "--timestamp", "yesterday"], "timestamp must be"),
        (["hello", "-u", "mei", "--expiration-date", "soon"], "YYYY-MM-DD"),
        (["hello", "-u", "mei", "--metadata", '{"user_id": "x"}'], "metadata must not contain user_id"),
    ],
)
def test_bad_input_changes_nothing_and_says_what_to_do(arguments: list[str], told: str) -> None:
    result = memline("add", *arguments, exit_code=1)
    assert result.stdout == "" and told in result.stderr
    assert memline_json("jobs") == {"jobs": []}


def test_a_search_shows_rank_date_and_score_and_when_asked_the_reason() -> None:
    add("My locker code is 4471.", "--timestamp", "2026-03-14T10:00:00Z")
    shown = memline("search", "locker 4471", "-u", "mei").stdout
    assert "User's locker code is 4471" in shown and "2026-03-14" in shown and "score" in shown
    assert "words: " not in shown
    assert "words: locker, 4471" in memline("search", "locker 4471", "-u", "mei", "--explain").stdout


def test_a_search_is_one_document_for_programs() -> None:
    add("My locker code is 4471.")
    found = memline_json("search", "locker", "-u", "mei", "--explain")
    assert found["results"][0]["memory"] == "User's locker code is 4471"
    assert found["results"][0]["score_details"]["why"]


def test_nothing_found_is_no_error() -> None:
    result = memline("search", "locker", "-u", "nobody")
    assert result.stdout == "" and "No memory was found" in result.stderr
    assert memline_json("search", "locker", "-u", "nobody")["results"] == []


def test_a_filter_narrows_a_search_and_a_list() -> None:
    add("Box 12.", "--no-infer", "--metadata", '{"kind": "note"}')
    add("Box 13.", "--no-infer")
    wanted_only = ["-u", "mei", "--filter", '{"kind": "note"}']
    assert [item["memory"] for item in memline_json("search", "box", "--threshold", "0", *wanted_only)["results"]] == ["Box 12."]
    assert [item["memory"] for item in memline_json("list", *wanted_only)["results"]] == ["Box 12."]
    assert [item["memory"] for item in memline_json("get-all", "-u", "mei")["results"]] == ["Box 12.", "Box 13."]


def test_a_scope_may_stand_in_the_filter_alone() -> None:
    assert wanted({}, '{"run_id": "r1"}') == {"run_id": "r1"}
    assert wanted({"user_id": "mei"}, None) == {"user_id": "mei"}
    assert memline_json("list", "--filter", '{"user_id": "mei"}') == {"results": [], "total": 0}


def test_a_list_says_when_there_may_be_more() -> None:
    add("Box 12.", "--no-infer")
    add("Box 13.", "--no-infer")
    result = memline("list", "-u", "mei", "--top-k", "1")
    assert "Box 12." in result.stdout and "Box 13." not in result.stdout and "1 of 2" in result.stderr


def test_what_was_true_once_is_marked_and_hidden_by_default() -> None:
    add("I live in Munich.", "--timestamp", "2026-03-02T10:00:00Z")
    add("I live in Lisbon now.", "--timestamp", "2026-03-14T10:00:00Z")
    assert "Munich" not in memline("search", "live", "-u", "mei", "--threshold", "0").stdout
    shown = memline("search", "live", "-u", "mei", "--threshold", "0", "--include-superseded").stdout
    assert "Munich" in shown and "until 2026-03-14" in shown
    assert shown.index("Lisbon") < shown.index("Munich")


def test_a_memory_is_deleted_once_and_keeps_its_history() -> None:
    memory_id = add("I work at Fabrikam.")["results"][0]["id"]
    assert memline_json("delete", memory_id)["id"] == memory_id
    assert memline_json("list", "-u", "mei")["results"] == []
    for command in ("get", "delete"):
        assert memory_id in memline(command, memory_id, exit_code=3).stderr
    assert [row["event"] for row in memline_json("history", memory_id)] == ["ADD", "DELETE"]
    assert "DELETE" in memline("history", memory_id).stdout


@pytest.mark.parametrize("command", ["get", "history", "delete", "receipt"])
def test_an_unknown_id_ends_with_3(command: str) -> None:
    result = memline(command, "nope", "--json", exit_code=3)
    assert result.stdout == "" and "nope" in result.stderr


def test_a_namespace_is_a_wall() -> None:
    memory_id = add("I work at Fabrikam.")["results"][0]["id"]
    memline("--namespace", "other", "get", memory_id, exit_code=3)
    assert memline_json("--namespace", "other", "list", "-u", "mei") == {"results": [], "total": 0}


def test_get_shows_every_field_to_a_person() -> None:
    memory_id = add("I work at Fabrikam.")["results"][0]["id"]
    shown = memline("get", memory_id).stdout
    assert memory_id in shown and "User works at Fabrikam" in shown and "user_id" in shown


def test_a_memory_with_control_characters_does_not_steer_the_terminal() -> None:
    add("Red \x1b[31m alert [bold]x[/bold]", "--no-infer")
    shown = memline("list", "-u", "mei").stdout
    assert "\x1b" not in shown and "[bold]x[/bold]" in shown
