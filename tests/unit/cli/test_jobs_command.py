"""`memline jobs`: what became of turns, and another try for those that failed."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.unit.cli.program import memline, memline_json

pytestmark = pytest.mark.usefixtures("light")


@pytest.fixture
def failed(monkeypatch: pytest.MonkeyPatch) -> str:
    """The id of a job that failed, by an extractor that is well again."""
    with monkeypatch.context() as broken:
        broken.setenv("MEMLINE_EXTRACTOR", "tests.unit.cli.parts:Broken")
        broken.setenv("MEMLINE_MAX_ATTEMPTS", "1")
        result = memline("add", "I work at Fabrikam.", "-u", "mei", exit_code=1)
    assert "failed" in result.stderr and "memline jobs retry" in result.stderr and "Fabrikam" not in result.stderr
    assert ".." not in result.stderr
    (job,) = memline_json("jobs")["jobs"]
    return str(job["id"])


def test_a_failed_job_is_listed_with_its_reason(failed: str) -> None:
    (job,) = memline_json("jobs", "--state", "failed")["jobs"]
    assert (job["id"], job["state"], job["stage"]) == (failed, "failed", "extract")
    assert "no such model" in job["reason"]
    shown = memline("jobs").stdout
    assert failed in shown and "failed" in shown and "no such model" in shown


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_an_id_is_whole_on_every_terminal_and_a_reason_has_its_own_lines(
    failed: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    memline("add", "I live in Porto.", "-u", "mei")
    lines = memline("jobs").stdout.splitlines()
    assert sum(line.startswith(failed) for line in lines) == 1
    if columns != "120":
        (below,) = [after for line, after in pairwise(lines) if line.startswith(failed)]
        assert below.startswith("  ") and "no such model" in below


def test_one_job_is_shown_with_what_it_made(failed: str) -> None:
    assert "no such model" in memline("jobs", "show", failed).stdout
    made = memline_json("add", "I live in Porto.", "-u", "mei")["id"]
    found = memline_json("jobs", "show", made)
    assert (found["status"], found["stage"], found["finished"]) == ("searchable", "done", True)
    assert found["results"][0]["memory"] == "User lives in Porto"


def test_a_failed_job_is_tried_again_and_its_memory_is_there(failed: str) -> None:
    (line,) = memline_json("jobs", "retry", failed)["jobs"]
    assert (line["retried"], line["status"], line["finished"]) == (True, "searchable", True)
    assert [item["memory"] for item in memline_json("list", "-u", "mei")["results"]] == ["User works at Fabrikam"]
    assert "it had not failed" in memline("jobs", "retry", failed).stdout


def test_a_job_that_fails_again_ends_with_1(failed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLINE_EXTRACTOR", "tests.unit.cli.parts:Broken")
    monkeypatch.setenv("MEMLINE_MAX_ATTEMPTS", "1")
    result = memline("jobs", "retry", failed, exit_code=1)
    assert "no such model" in result.stdout


def test_one_unknown_id_keeps_the_others_from_being_tried(failed: str) -> None:
    memline("jobs", "retry", failed, "nope", exit_code=3)
    assert memline_json("jobs")["jobs"][0]["state"] == "failed"


def test_a_job_of_another_namespace_is_not_found(failed: str) -> None:
    memline("--namespace", "other", "jobs", "retry", failed, exit_code=3)
    memline("--namespace", "other", "jobs", "show", failed, exit_code=3)


def test_the_newest_come_first_and_a_limit_says_so() -> None:
    ids = [memline_json("add", f"Box {number}.", "-u", "mei", "--no-infer")["id"] for number in range(3)]
    result = memline("jobs", "--limit", "2")
    assert "newest 2" in result.stderr
    assert [job["id"] for job in memline_json("jobs", "--limit", "2")["jobs"]] == ids[:0:-1]


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_fits_the_screen(failed: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = memline("jobs").stdout.splitlines()
    assert max(map(len, lines)) <= columns
    assert any(failed in line and "extract" in line for line in lines)
