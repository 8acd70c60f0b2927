"""`memline update`, `delete`, `delete-all`, `reset`: what they write, ask and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli.program import memline, memline_json

pytestmark = pytest.mark.usefixtures("light")


def add(text: str, *options: str, user: str = "mei") -> str:
    found: Any = memline_json("add", text, "--user-id", user, "--no-infer", *options)
    return str(found["results"][0]["id"])


def listed(user: str = "mei") -> list[str]:
    return [item["memory"] for item in memline_json("list", "-u", user)["results"]]


def test_a_memory_is_changed_and_shows_what_was_changed() -> None:
    memory_id = add("Box 12.", "--metadata", '{"kind": "note"}')
    assert memline_json("update", memory_id, "Box 13.")["version"] == 2
    options = (
        "--metadata",
        '{"kind": null, "place": "cellar"}',
        "--expiration-date",
        "2999-01-01",
        "--actor",
        "tomas",
        "--reason",
        "moved",
    )
    assert memline_json("update", memory_id, *options, "--if-version", "2")["version"] == 3
    item = memline_json("get", memory_id)
    assert (item["memory"], item["metadata"], item["expiration_date"]) == ("Box 13.", {"place": "cellar"}, "2999-01-01")
    assert memline_json("update", memory_id, "--expiration-date", "never")["version"] == 4
    assert "expiration_date" not in memline_json("get", memory_id)
    rows = memline_json("history", memory_id)
    assert [(row["event"], row["actor_id"], row["reason"]) for row in rows[1:3]] == [("UPDATE", None, None), ("UPDATE", "tomas", "moved")]
    shown = memline("history", memory_id).stdout
    assert "kind: note → –" in shown and "place: – → cellar" in shown and "2999-01-01" in shown
    assert "version 5" in memline("update", memory_id, "Box 14.").stdout


def test_a_conflict_ends_with_1_and_an_unknown_id_with_3() -> None:
    memory_id = add("Box 12.")
    assert "version 1" in memline("update", memory_id, "Box 13.", "--if-version", "7", exit_code=1).stderr
    assert "nope" in memline("update", "nope", "x", exit_code=3).stderr
    assert "something to change" in memline("update", memory_id, exit_code=1).stderr
    assert listed() == ["Box 12."]


def test_a_redacted_deletion_leaves_no_text_in_the_history() -> None:
    memory_id = add("My locker code is 4471.")
    assert "redacted" in memline("delete", memory_id, "--redact").stdout
    assert "4471" not in memline("history", memory_id).stdout
    assert "4471" not in memline("history", memory_id, "--json").stdout


def test_a_scope_is_deleted_after_a_question_that_says_how_many() -> None:
    add("Box 12.")
    add("Box 13.")
    add("Box 14.", user="tomas")
    asked = memline("delete-all", "-u", "mei", stdin="n\n", exit_code=1)
    assert "Delete 2 memories of mei in default?" in asked.output
    assert listed() == ["Box 12.", "Box 13."]
    assert "2 memories are deleted" in memline("delete-all", "-u", "mei", stdin="y\n").stdout
    assert (listed(), listed("tomas")) == ([], ["Box 14."])
    assert memline_json("delete-all", "-u", "tomas", "--yes") == {"message": "Memories deleted successfully!", "deleted": 1, "cancelled": 0}


def test_without_an_id_or_an_answer_nothing_is_deleted() -> None:
    add("Box 12.")
    assert "--user-id" in memline("delete-all", "--yes", exit_code=1).stderr
    memline("delete-all", "-u", "*", "--yes", exit_code=1)
    memline("delete-all", "-u", "mei", "--json", exit_code=2)
    memline("reset", "--json", exit_code=2)
    memline("reset", stdin="n\n", exit_code=1)
    assert listed() == ["Box 12."]


def test_a_reset_empties_the_chosen_namespace() -> None:
    add("Box 12.")
    memline("--namespace", "other", "add", "Box 13.", "-u", "mei", "--no-infer")
    assert "namespace default" in memline("reset", stdin="y\n").output
    assert listed() == []
    assert len(memline_json("--namespace", "other", "list", "-u", "mei")["results"]) == 1
    assert memline_json("--namespace", "other", "reset", "--yes")["deleted"] == 1
