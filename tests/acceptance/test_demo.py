"""`memline demo` on a fresh machine: every question is answered, a second run adds nothing and says so, on any screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memline.cli import demo_run
from tests.acceptance.program import Program, widest
from tests.patience import patient_url

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first run was, with what it wrote beside it."""
    home = tmp_path_factory.mktemp("demo") / "home"
    told = Program(home).run("demo")
    (home.parent / "first.txt").write_text(told.stdout, encoding="utf-8")
    return home


@pytest.fixture(scope="module")
def first(home: Path) -> str:
    return (home.parent / "first.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def second(home: Path) -> dict[str, Any]:
    """What a second run tells a program."""
    found: dict[str, Any] = Program(home).json("demo")
    return found


def test_the_first_run_makes_memories_and_answers_every_question(first: str) -> None:
    assert "57 turns became" in first
    for question in demo_run.questions():
        assert f"{question['question']} ✓" in first
        assert question["why"].split()[0] in first
    assert f"{len(demo_run.questions())} of {len(demo_run.questions())} answers" in first
    assert "✗" not in first


def test_it_shows_dates_scores_and_reasons(first: str) -> None:
    assert "2026-03-04" in first and "exact code" in first and "means the same" in first


def test_the_fact_that_changed_comes_newest_first_with_what_was_true_before(first: str, second: dict[str, Any]) -> None:
    assert first.index("User lives in Lisbon now") < first.index("User lives in Munich")
    assert "until" in first and "2026-03-14" in first
    (changed,) = (asked for asked in second["questions"] if asked["kind"] == "changed")
    now, before = changed["results"][:2]
    assert now["memory"] == "User lives in Lisbon now" and "valid_to" not in now
    assert before["memory"] == "User lives in Munich" and before["superseded_by"] == now["id"]


def test_a_second_run_finds_everything_again_and_adds_nothing(home: Path, second: dict[str, Any]) -> None:
    assert (second["turns"], second["already"], second["added"]) == (57, 57, 0)
    assert all(asked["found"] for asked in second["questions"])
    assert [asked["question"] for asked in second["questions"]] == [question["question"] for question in demo_run.questions()]
    shown = Program(home).run("demo").stdout
    assert "57 turns were there already: nothing was added twice" in shown
    assert "✗" not in shown


def test_other_questions_are_searched_in_the_demos_namespace_and_nothing_is_in_the_applications(home: Path, second: dict[str, Any]) -> None:
    assert second["turns"] == 57
    program = Program(home)
    assert program.json("-n", "demo", "search", "INC-48213", "-u", "mei")["results"]
    assert program.json("search", "INC-48213", "-u", "mei")["results"] == []
    assert len(program.json("-n", "demo", "jobs", "--limit", "100")["jobs"]) == 57


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_screen_and_no_colour_goes_into_a_pipe(home: Path, columns: int) -> None:
    shown = Program(home, columns=columns).run("demo").stdout
    # The command at the end is one line, so that it can be copied.
    assert widest("\n".join(line for line in shown.splitlines() if " search " not in line)) <= columns
    assert "\x1b" not in shown


def test_one_question_is_answered_with_at_most_three_current_memories(second: dict[str, Any]) -> None:
    for asked in second["questions"]:
        assert 1 <= sum("valid_to" not in item for item in asked["results"]) <= 3


@pytest.mark.services
def test_with_redis_and_no_worker_it_says_what_is_missing(tmp_path: Path, redis_url: str) -> None:
    refused = Program(tmp_path / "home", redis_url=patient_url(redis_url)).run("demo", "--timeout", "1", exit_code=1)
    assert "does a worker run?" in refused.stderr and "MEMLINE_REDIS_URL" in refused.stderr
