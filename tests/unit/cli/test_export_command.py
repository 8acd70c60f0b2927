"""`memline export` and `memline import` of what it wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memline.cli import import_memories
from tests.unit.cli.program import memline, memline_json

pytestmark = pytest.mark.usefixtures("light")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three memories of two users, exported."""
    for user, text in (("ann", "Box 12."), ("ann", "Box 13."), ("bob", "Box 14.")):
        memline("add", text, "-u", user, "--no-infer")
    memline("export", "--all", "--vectors", "-o", str(tmp_path / "all.jsonl"))
    return tmp_path / "all.jsonl"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: Path) -> Path:
    """The file, and an empty ledger to import it into."""
    monkeypatch.setenv("MEMLINE_HOME", str(tmp_path / "elsewhere"))
    return file


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_an_export_is_a_header_and_one_line_a_memory_in_the_order_in_which_they_were_made(file: Path) -> None:
    header, *found = lines(file)
    assert (header["format"], header["version"], header["memories"], header["namespace"]) == ("memline-export", 1, 3, "default")
    assert header["embedder"] == {"model": "tiny-1", "dimension": 2} and header["scope"] == {}
    assert [memory["text"] for memory in found] == ["Box 12.", "Box 13.", "Box 14."]
    assert all(memory["vector"] and memory["history"] and memory["hash"] for memory in found)
    assert file.stat().st_mode & 0o077 == 0


def test_one_scope_goes_to_stdout_and_the_summary_to_stderr(file: Path) -> None:
    result = memline("export", "-u", "ann", "--no-history", "--json")
    header, *found = [json.loads(line) for line in result.stdout.splitlines()]
    assert header["scope"] == {"user_id": "ann"} and [memory["user_id"] for memory in found] == ["ann", "ann"]
    assert not any("vector" in memory or "history" in memory for memory in found)
    assert json.loads(result.stderr)["memories"] == 2
    assert memline_json("export", "--all", "-o", str(file))["file"] == str(file)


def test_what_to_export_must_be_said(tmp_path: Path) -> None:
    assert "--all" in memline("export", exit_code=1).stderr
    assert "--all" in memline("export", "--all", "-u", "ann", exit_code=1).stderr
    assert "can't be written" in memline("export", "--all", "-o", str(tmp_path / "no" / "x.jsonl"), exit_code=1).stderr


def test_an_import_elsewhere_keeps_ids_times_and_vectors_and_a_second_one_changes_nothing(elsewhere: Path) -> None:
    found = memline_json("import", str(elsewhere))
    assert (found["memories"], found["new"], found["vectors_used"], found["embedded"], found["cut_off"]) == (3, 3, 3, 0, False)
    assert memline_json("verify", "--deep")["sound"]
    again = memline("import", str(elsewhere))
    assert "3 known" in again.stdout and "nothing was changed" in again.stdout
    memline("export", "--all", "--vectors", "-o", str(elsewhere.with_suffix(".again")))
    assert [memory | {"turn": ""} for memory in lines(elsewhere.with_suffix(".again"))[1:]] == [
        m | {"turn": ""} for m in lines(elsewhere)[1:]
    ]
    assert memline_json("search", "Box", "-u", "bob")["results"][0]["memory"] == "Box 14."


def test_a_file_may_come_through_a_pipe(elsewhere: Path) -> None:
    assert memline_json("import", "-", stdin=elsewhere.read_bytes())["new"] == 3


def test_vectors_of_another_embedder_are_not_used(elsewhere: Path) -> None:
    header, *found = lines(elsewhere)
    header["embedder"]["model"] = "another"
    elsewhere.write_text("".join(json.dumps(line) + "\n" for line in (header, *found)), encoding="utf-8")
    done = memline_json("import", str(elsewhere))
    assert (done["vectors_used"], done["embedded"]) == (0, 3)
    assert memline_json("verify", "--deep")["sound"]


def test_another_namespace_of_the_same_ledger_needs_new_ids_which_are_always_the_same(file: Path) -> None:
    refused = memline("--namespace", "shop", "import", str(file), "--json", exit_code=1)
    assert json.loads(refused.stdout)["conflicts"] == 3 and "--new-ids" in refused.stderr
    found = memline_json("--namespace", "shop", "import", str(file), "--new-ids")
    assert (found["new"], found["from_namespace"], found["namespace"]) == (3, "default", "shop")
    assert memline_json("--namespace", "shop", "import", str(file), "--new-ids")["known"] == 3
    assert memline_json("verify", "--deep")["sound"]


def test_a_deleted_memory_stays_deleted_unless_it_is_asked_for(file: Path) -> None:
    memory_id = lines(file)[1]["id"]
    memline("delete", memory_id)
    assert memline_json("import", str(file))["deleted_before"] == 1
    memline("get", memory_id, exit_code=3)
    assert memline_json("import", str(file), "--restore-deleted")["restored"] == 1
    assert memline_json("get", memory_id)["memory"] == "Box 12."


def test_a_bad_line_is_named_by_its_field_and_what_came_before_it_is_stored(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header, one, two, three = lines(elsewhere)
    two["created_at"] = "Box 13 secret"
    elsewhere.write_text("".join(json.dumps(line) + "\n" for line in (header, one, two, three)), encoding="utf-8")
    result = memline("import", str(elsewhere), exit_code=1)
    assert f"{elsewhere}, line 3: created_at must be an ISO-8601 time" in result.stderr and "secret" not in result.stderr
    assert "the 1 memories before it were looked at" in result.stderr
    found = memline_json("import", str(elsewhere), "--skip-bad")
    assert (found["known"], found["new"], found["skipped"]) == (1, 1, 1)


def test_a_file_that_was_cut_off_is_told(elsewhere: Path) -> None:
    elsewhere.write_text("".join(elsewhere.read_text(encoding="utf-8").splitlines(keepends=True)[:2]), encoding="utf-8")
    result = memline("import", str(elsewhere), "--json", exit_code=1)
    assert json.loads(result.stdout)["cut_off"] is True
    assert "1 of 3 memories are there" in result.stderr


def test_an_unknown_field_is_passed_over_on_request(elsewhere: Path) -> None:
    header, *found = lines(elsewhere)
    elsewhere.write_text("".join(json.dumps(line) + "\n" for line in (header, *(each | {"note": 1} for each in found))), encoding="utf-8")
    assert "line 2: unknown field note" in memline("import", str(elsewhere), exit_code=1).stderr
    assert memline_json("import", str(elsewhere), "--ignore", "note")["new"] == 3


def test_a_newer_format_is_refused(elsewhere: Path) -> None:
    header = lines(elsewhere)[0]
    elsewhere.write_text(json.dumps(header | {"version": 9}) + "\n", encoding="utf-8")
    assert "line 1: version is 9" in memline("import", str(elsewhere), exit_code=1).stderr


def test_options_that_do_not_fit_are_usage_errors(elsewhere: Path, tmp_path: Path) -> None:
    memline("import", str(elsewhere), "-u", "ann", exit_code=2)
    memline("import", str(elsewhere), str(elsewhere), exit_code=2)
    memline("import", str(elsewhere), "--history-db", str(elsewhere), exit_code=2)
    plain = tmp_path / "plain.jsonl"
    plain.write_text('{"content": "x", "user_id": "ann"}\n', encoding="utf-8")
    memline("import", str(plain), "--from", "memline", exit_code=2)
    memline("import", str(plain), "--new-ids", exit_code=2)


def test_batches_are_bounded_by_number_and_by_text(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    take = import_memories.Importer.take
    monkeypatch.setattr(import_memories.Importer, "take", lambda self, found: given.append(len(found)) or take(self, found))
    monkeypatch.setattr(import_memories, "_BATCH", 2)
    memline("import", str(elsewhere))
    monkeypatch.setattr(import_memories, "_TEXT", 1)
    memline("import", str(elsewhere))
    assert given == [2, 1, 1, 1, 1]
