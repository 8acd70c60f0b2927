"""`memline import`: counts, bad lines, conflicts, and a second import that changes nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memline.cli import import_run
from memline.cli.houses import OpenHouse
from memline.cli.import_gates import Given
from memline.cli.import_lines import Numbered
from memline.contracts.errors import WaitTimeout
from memline.contracts.receipt import ReceiptState, Status
from tests.unit.cli.program import memline, memline_json

pytestmark = pytest.mark.usefixtures("light")


def line(content: str, **fields: Any) -> dict[str, Any]:
    return {"content": content, "user_id": "mei", "timestamp": "2026-03-14T10:00:00Z", "infer": False} | fields


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Three turns, two of them equal."""
    return write(tmp_path / "turns.jsonl", line("Box 12."), line("Box 12."), line("Box 13."))


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join(each if isinstance(each, str) else json.dumps(each) + "\n" for each in lines), encoding="utf-8")
    return path


def memories(user: str = "mei") -> list[str]:
    return [item["memory"] for item in memline_json("list", "-u", user)["results"]]


def test_turns_are_imported_with_their_times_and_counted(file: Path) -> None:
    found = memline_json("import", str(file))
    assert (found["turns"], found["new"], found["known"], found["memories"], found["duplicates"]) == (3, 3, 0, 2, 1)
    assert found["on_the_way"] == found["failed"] == found["conflicts"] == found["skipped"] == 0
    assert memories() == ["Box 12.", "Box 13."]
    assert {item["occurred_at"][:10] for item in memline_json("list", "-u", "mei")["results"]} == {"2026-03-14"}


def test_a_second_import_changes_nothing_and_says_so(file: Path) -> None:
    memline("import", str(file))
    before = memline_json("jobs")
    shown = memline("import", str(file)).stdout
    assert "0 new, 3 known" in shown and "nothing was added" in shown
    assert memline_json("jobs") == before


def test_what_was_added_to_a_file_is_all_that_is_new(file: Path) -> None:
    memline("import", str(file))
    write(file, line("Box 14."), line("Box 13."), line("Box 12."), line("Box 12."), line("Box 12."))
    found = memline_json("import", str(file))
    assert (found["new"], found["known"]) == (2, 3)


def test_scope_and_extraction_may_come_from_options(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.jsonl", {"content": "I work at Fabrikam."}, {"content": "Box 12.", "user_id": "ann"})
    memline("import", str(plain), "--user-id", "mei", "--no-infer")
    assert memories() == ["I work at Fabrikam."]
    assert memories("ann") == ["Box 12."]


def test_the_demo_conversation_is_a_file_like_any_other(tmp_path: Path) -> None:
    from memline.cli import demo_run

    turns = [{key: value for key, value in turn.items() if key != "session"} for turn in demo_run.conversation()[:6]]
    found = memline_json("import", str(write(tmp_path / "demo.jsonl", *turns)))
    assert found["new"] == 6 and found["memories"] > 6


def test_a_file_may_come_through_a_pipe() -> None:
    found = memline_json("import", "-", stdin=json.dumps(line("Box 12.")) + "\n\n")
    assert (found["file"], found["new"]) == ("stdin", 1)


def test_an_empty_file_is_no_error(tmp_path: Path) -> None:
    assert memline_json("import", str(write(tmp_path / "empty.jsonl")))["turns"] == 0


def test_a_bad_line_stops_before_anything_of_it_is_written(tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.jsonl", line("Box 12."), line("secret", role="robot"), line("Box 13."))
    result = memline("import", str(bad), "--json", exit_code=1)
    assert result.stdout == ""
    assert f"{bad}, line 2: messages[0].role must be one of" in result.stderr
    assert "the 1 turns before it were handed over" in result.stderr and "--skip-bad" in result.stderr
    assert "secret" not in result.stderr
    assert memories() == ["Box 12."]


def test_corrected_the_file_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = write(tmp_path / "turns.jsonl", line("Box 12."), "{\n", line("Box 13."))
    memline("import", str(path), exit_code=1)
    found = memline_json("import", str(write(path, line("Box 12."), line("Box 14."), line("Box 13."))))
    assert (found["new"], found["known"]) == (2, 1)


def test_bad_lines_can_be_passed_over_and_are_named(tmp_path: Path) -> None:
    bad = write(tmp_path / "bad.jsonl", *["{\n"] * 7, line("Box 12."))
    result = memline("import", str(bad), "--skip-bad", "--json")
    found = json.loads(result.stdout)
    assert (found["skipped"], found["new"]) == (7, 1)
    assert [each.split(":")[0] for each in found["trouble"]] == [f"line {number}" for number in range(1, 6)]
    assert "line 1: not JSON" in result.stderr


def test_a_key_that_was_used_for_another_content_is_a_conflict_and_the_rest_goes_in(tmp_path: Path) -> None:
    memline("import", str(write(tmp_path / "one.jsonl", line("Box 12.", key="k1"))))
    found = memline_json("import", str(write(tmp_path / "two.jsonl", line("Box 13.", key="k1"), line("Box 14.", key="k2"))), exit_code=1)
    assert (found["conflicts"], found["new"]) == (1, 1)
    assert found["trouble"] == ["line 1: its key was used before in this scope, for another content; the first one stands"]
    assert memories() == ["Box 12.", "Box 14."]


def test_turns_that_fail_are_counted_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLINE_EXTRACTOR", "tests.unit.cli.parts:Broken")
    monkeypatch.setenv("MEMLINE_MAX_ATTEMPTS", "1")
    found = memline_json("import", str(write(tmp_path / "one.jsonl", line("I work at Fabrikam.", infer=True))), exit_code=1)
    assert found["failed"] == 1
    assert found["trouble"][0].startswith("line 1: turn ") and "no such model" in found["trouble"][0]


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert "No such file" in memline("import", str(tmp_path / "nope"), exit_code=1).stderr
    assert "can't be read" in memline("import", str(tmp_path), exit_code=1).stderr


def test_an_import_over_redis_does_not_begin_while_redis_is_away(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLINE_REDIS_URL", "redis://127.0.0.1:1/0")
    assert "does not answer" in memline("import", str(file), exit_code=1).stderr
    assert memline_json("spool", "status")["turns"] == 0


@pytest.mark.usefixtures("patient_redis")
def test_without_workers_an_import_over_redis_gives_up_and_says_how_to_go_on(file: Path) -> None:
    result = memline("import", str(file), "--patience", "1", exit_code=1)
    assert "3 turns are on their way" in result.stderr and "memline worker" in result.stderr
    found = memline_json("import", str(file), "--no-wait")
    assert (found["turns"], found["on_the_way"]) == (3, 3)


class _Gate:
    """Takes everything."""

    batch = 1

    def __init__(self) -> None:
        self.given = 0

    def give(self, turns: Sequence[Numbered]) -> list[Given]:
        self.given += len(turns)
        return [Given(each.number, each.turn.id) for each in turns]


def numbered(count: int) -> list[Numbered]:
    from memline.cli.import_lines import LineReader
    from memline.contracts.clock import SystemClock
    from memline.contracts.ids import TimeOrderedIds

    reader = LineReader("default", {"user_id": "mei"}, infer=False, max_turn=999, id_source=TimeOrderedIds(), clock=SystemClock())
    found = reader.read(json.dumps({"content": f"Box {number}."}).encode() for number in range(count))
    return [each for each in found if isinstance(each, Numbered)]


class _House(OpenHouse):
    """A ledger in which nothing is ever through, or everything at once."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def states_of(self, turn_ids: Any) -> list[ReceiptState | None]:
        return [ReceiptState(turn_id, self._status, finished=self._status.ended) for turn_id in turn_ids]


def test_an_import_is_never_more_than_so_many_turns_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = _Gate()
    run = import_run.ImportRun(_House(Status.ACCEPTED), gate, skip_bad=False, patience=0.3, told=lambda _: None, ahead=10)
    with pytest.raises(WaitTimeout, match="11 turns are on their way"):
        run.hand_over(numbered(40))
    assert gate.given == 11


def test_progress_is_told_until_everything_is_through() -> None:
    told: list[int] = []
    run = import_run.ImportRun(
        _House(Status.SEARCHABLE), _Gate(), skip_bad=False, patience=300, told=lambda tally: told.append(tally.new), ahead=10
    )
    run.hand_over(numbered(40))
    run.finish()
    assert run.on_the_way == 0 and told[-1] == run.tally.new == 40
    assert told == sorted(told)


def test_imported_turns_are_masked_and_a_refused_one_is_a_bad_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "turns.jsonl", line("My password is hunter2!"), line("Pay with 4929 1234 5678 9008.", user_id="ann"))
    found = memline_json("import", str(file))
    assert (found["new"], found["memories"]) == (2, 2)
    assert memories() == ["My password is [masked: password]"]
    assert memline_json("import", str(file))["known"] == 2
    monkeypatch.setenv("MEMLINE_WRITE_POLICY", "password=refuse")
    refused = memline("import", str(file), exit_code=1).stderr
    assert "line 1" in refused and "write policy refuses (password)" in refused and "hunter2" not in refused


def test_imported_memories_are_masked_with_their_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLINE_WRITE_POLICY", "password=keep")
    memline("import", str(write(tmp_path / "turns.jsonl", line("My password is hunter2!", metadata={"password": "sunflower"}))))
    export = tmp_path / "export.jsonl"
    memline("export", "--all", "--output", str(export), "--vectors")
    assert "hunter2" in export.read_text(encoding="utf-8")
    monkeypatch.delenv("MEMLINE_WRITE_POLICY")
    found = memline_json("--namespace", "other", "import", str(export), "--new-ids")
    assert (found["new"], found["vectors_used"]) == (1, 0)
    assert found["masked"]["password"] >= 2
    (item,) = memline_json("--namespace", "other", "list", "-u", "mei")["results"]
    assert (item["memory"], item["metadata"]) == ("My password is [masked: password]", {"password": "[masked: password]"})
    assert "hunter2" not in json.dumps(memline_json("--namespace", "other", "history", item["id"]))
    came = memline_json("--namespace", "other", "why", item["id"])
    assert (came["decision"]["event"], came["source"]["messages"]) == ("IMPORT", [])
