"""`memline costs`: what calls used, added up; and of one job."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from memline.cli.simulator import Simulator
from tests.unit.cli.program import memline, memline_json


@pytest.fixture
def simulator(memline_home: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulator]:
    with Simulator(dimension=32) as found:
        monkeypatch.setenv("MEMLINE_OPENAI_BASE_URL", found.url)
        monkeypatch.setenv("MEMLINE_OPENAI_API_KEY", "anything")
        monkeypatch.setenv("MEMLINE_EMBEDDING_DIMENSION", "32")
        monkeypatch.setenv("MEMLINE_EXIT_DRAIN", "120")
        yield found


def test_calls_tokens_and_money_are_told_by_kind_and_model(simulator: Simulator) -> None:
    began = datetime.now(UTC)
    job = memline_json("add", "I live in Porto.", "-u", "mei")["id"]
    found = memline_json("costs")
    rows = {row["call"]: row for row in found["rows"]}
    assert rows["extract"]["model"] == "gpt-5-mini" and rows["embed"]["model"] == "text-embedding-3-small"
    assert rows["extract"]["tokens_in"] > 500 and rows["extract"]["tokens_out"] > 0
    assert rows["embed"]["calls"] >= 1 and rows["embed"]["tokens_in"] > 0
    assert found["total"]["dollars"] == pytest.approx(sum(row["dollars"] for row in found["rows"])) and found["total"]["dollars"] > 0
    of_job = memline_json("costs", "--job", job)
    assert of_job["total"]["tokens_in"] == found["total"]["tokens_in"]
    assert {row["call"] for row in memline_json("jobs", "show", job)["usage"]} == {"extract", "embed"}
    shown = memline("jobs", "show", job).stdout
    assert "gpt-5-mini" in shown and "$" in shown
    days = {row["day"] for row in memline_json("costs", "--by", "day", "--since", "1d")["rows"]}
    table = memline("costs", "--by", "day", "--since", "1d").stdout
    assert days and days <= {began.date().isoformat(), datetime.now(UTC).date().isoformat()}
    assert all(day in table for day in days) and "total" in table


def test_money_that_is_not_known_is_said_so_and_a_price_of_the_settings_counts(
    simulator: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMLINE_CHAT_MODEL", "llama3.1:8b")
    memline("add", "I live in Porto.", "-u", "mei")
    (row,) = [row for row in memline_json("costs")["rows"] if row["call"] == "extract"]
    assert row["dollars"] is None and row["unpriced_calls"] == 1
    result = memline("costs")
    assert "unknown" in result.stdout and "MEMLINE_PRICES" in result.stderr + result.stdout
    monkeypatch.setenv("MEMLINE_PRICES", '{"llama3.1:8b": {"in": 1, "out": 1}}')
    memline("add", "I work in Faro.", "-u", "mei")
    (row,) = [row for row in memline_json("costs")["rows"] if row["call"] == "extract"]
    assert row["dollars"] > 0 and row["unpriced_calls"] == 1


def test_namespaces_are_apart_and_all_is_all(simulator: Simulator) -> None:
    memline("add", "I live in Porto.", "-u", "mei")
    assert memline_json("--namespace", "other", "costs")["rows"] == []
    assert "No paid call" in memline("--namespace", "other", "costs").stderr
    assert {row["namespace"] for row in memline_json("--namespace", "other", "costs", "--all")["rows"]} == {"default"}


@pytest.mark.usefixtures("light")
def test_what_costs_nothing_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    memline("add", "I live in Porto.", "-u", "mei")
    assert memline_json("costs")["rows"] == []


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize("wrong", [("--since", "yesterday"), ("--by", "user")])
def test_wrong_options_are_refused(wrong: tuple[str, str]) -> None:
    memline("costs", *wrong, exit_code=2)


@pytest.mark.usefixtures("light")
def test_an_unknown_job_is_not_found() -> None:
    memline("costs", "--job", "nope", exit_code=3)
