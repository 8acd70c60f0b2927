"""What a line of the log and an alert say has been committed: a transaction that is rolled back tells nobody, on both databases."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from memline.contracts import failpoints, incidents
from memline.contracts.errors import ProviderRefused, ProviderUnavailable
from memline.contracts.incidents import FailedJob
from memline.ledger.session import Ledger
from memline.pipeline.parts import RetryPolicy
from tests.integration.pipeline.steps import clock, state
from tests.parts import ScriptedExtractor, accept, make_parts, make_relay, make_turn, run_all


class Heard:
    """Keeps the jobs that failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def job_failed(self, failed: FailedJob) -> None:
        self.failed.append(failed.job)


@pytest.fixture
def heard() -> Iterator[Heard]:
    found = Heard()
    incidents.use(found)  # type: ignore[arg-type]
    yield found
    incidents.use(None)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="memline")
    return caplog


def break_once(monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    """The first transaction that comes to *point* does not commit."""
    left = [point]

    def hit(name: str) -> None:
        if name in left:
            left.remove(name)
            raise RuntimeError

    monkeypatch.setattr(failpoints, "hit", hit)


def events(lines: pytest.LogCaptureFixture, event: str) -> int:
    return [record.getMessage() for record in lines.records].count(event)


def test_a_job_that_failed_is_told_of_once_by_the_commit_that_says_so(
    ledger: Ledger, heard: Heard, lines: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_once(monkeypatch, "extract.before_commit")
    extractor = ScriptedExtractor({"one": [ProviderRefused("no")] * 9})
    parts = make_parts(ledger, extractor=extractor, retry=RetryPolicy(max_attempts=2, first_delay=5))
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    assert state(ledger, "a")[0] == "accepted"  # the commit that said failed was rolled back
    assert (heard.failed, events(lines, "job failed")) == ([], 0)
    clock(parts).advance(60)
    run_all(parts)
    assert state(ledger, "a")[0] == "failed"
    assert (heard.failed, events(lines, "job failed")) == (["a"], 1)


def test_a_retry_is_a_line_when_it_is_committed(ledger: Ledger, lines: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    break_once(monkeypatch, "extract.before_commit")
    extractor = ScriptedExtractor({"one": [ProviderUnavailable("away")] * 9})
    parts = make_parts(ledger, extractor=extractor, retry=RetryPolicy(max_attempts=9, first_delay=5))
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    assert events(lines, "job retried") == 0
    clock(parts).advance(60)
    run_all(parts)
    assert events(lines, "job retried") == 1


def test_what_the_relay_showed_is_a_line_when_it_is_settled(
    ledger: Ledger, lines: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    break_once(monkeypatch, "relay.before_settle")
    relay = make_relay(parts)
    with pytest.raises(RuntimeError):
        relay.run_once()
    assert events(lines, "shown") == 0
    clock(parts).advance(120)
    relay.drain()
    assert events(lines, "shown") == 1
