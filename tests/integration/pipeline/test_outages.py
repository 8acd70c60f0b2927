"""Providers that are away, ask for patience, or fail for one text alone; on both databases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from memline.contracts.errors import ProviderRefused, ProviderUnavailable
from memline.ledger.claim import ClaimLimits
from memline.ledger.counters import read_counters
from memline.ledger.jobs import retry_job
from memline.ledger.session import Ledger
from memline.ledger.usage import usage_by, usage_of_job
from memline.pipeline.parts import Parts, RetryPolicy
from tests.integration.pipeline.steps import clock, live, state
from tests.parts import ScriptedExtractor, TrigramEmbedder, accept, job_of, make_parts, make_turn, run_all

AWAY = ProviderUnavailable("away")
RETRY = RetryPolicy(max_attempts=3, first_delay=1, longest_delay=60)


def counter(ledger: Ledger, name: str) -> int:
    with ledger.read() as connection:
        return read_counters(connection)[name]


def run_later(parts: Parts, seconds: float = 120) -> None:
    clock(parts).advance(seconds)
    run_all(parts)


def failing_for(word: str, error: Callable[[], BaseException]) -> Callable[[Sequence[str]], None]:
    """Raises for calls with a text that has *word*."""

    def fail(texts: Sequence[str]) -> None:
        if any(word in text for text in texts):
            raise error()

    return fail


@pytest.mark.parametrize("cause", ["outage", "limit", "held"])
def test_an_outage_and_a_limit_spend_no_attempt_however_long_they_last(ledger: Ledger, cause: Any) -> None:
    extractor = ScriptedExtractor({"one": [ProviderUnavailable("away", cause=cause)] * 20 + ['["one"]']})
    parts = make_parts(ledger, extractor=extractor, retry=RETRY)
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    for _ in range(19):
        assert state(ledger, "a")[:3] == ("accepted", "extract", 0)
        run_later(parts)
    run_later(parts)
    assert live(ledger) == ["one"]


def test_an_outage_is_waited_for_longer_each_time_and_at_least_as_long_as_the_provider_asks(ledger: Ledger) -> None:
    extractor = ScriptedExtractor({"one": [AWAY, AWAY, AWAY, ProviderUnavailable("later", retry_after=500)]})
    parts = make_parts(ledger, extractor=extractor, retry=RETRY)
    accept(parts, make_turn("one", id="a"))
    waits = []
    for _ in range(4):
        run_all(parts)
        waits.append((job_of(ledger, "a").next_at - clock(parts).now()).total_seconds())
        clock(parts).advance(waits[-1])
    assert waits == [1, 2, 4, 500]


def test_a_turn_that_fails_its_server_alone_ends_and_the_others_do_not_wait_for_it(ledger: Ledger) -> None:
    extractor = ScriptedExtractor({"poison": [AWAY]})
    parts = make_parts(ledger, extractor=extractor, retry=RETRY)
    accept(parts, make_turn("poison", id="a"))
    run_all(parts)
    for number, spent in enumerate((0, 0, 1, 2)):  # the first makes it a suspect, which is tried alone
        assert state(ledger, "a") == ("accepted", "extract", spent, number > 0)
        clock(parts).advance(0.5)  # it is not due yet
        accept(parts, make_turn(f"fine {number}", user=f"user-{number}"))
        run_all(parts)  # somebody else is answered
        run_later(parts)
    assert state(ledger, "a")[0] == "failed"
    assert "while other calls were answered" in (job_of(ledger, "a").reason or "")
    assert len(live(ledger)) == 4 and counter(ledger, "jobs_failed") == 1


def test_a_text_that_fails_its_embedder_takes_none_of_its_batch_with_it(ledger: Ledger) -> None:
    embedder = TrigramEmbedder(paid=True, fail=failing_for("poison", lambda: ProviderUnavailable("HTTP 500")))
    parts = make_parts(ledger, embedder=embedder, retry=RETRY, limits=ClaimLimits(in_flight=1))
    turns = [make_turn("poison" if number == 3 else f"fact {number}", id=f"job-{number}", user=f"user-{number}") for number in range(8)]
    accept(parts, *turns)
    run_all(parts)
    assert live(ledger) == []
    for number in range(6):
        clock(parts).advance(0.5)
        accept(parts, make_turn(f"fine {number}", user=f"other-{number}"))
        run_all(parts)
        run_later(parts)
    assert len(live(ledger)) == 7 + 6 and counter(ledger, "jobs_failed") == 1
    assert state(ledger, "job-3")[0] == "failed"


def test_a_failed_job_is_replayed_when_its_provider_is_well(ledger: Ledger) -> None:
    extractor = ScriptedExtractor({"one": [ProviderRefused("no"), '["one"]']})
    parts = make_parts(ledger, extractor=extractor, retry=RETRY)
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    assert state(ledger, "a")[0] == "failed"
    with ledger.write() as tx:
        assert retry_job(tx, "a", now=clock(parts).now())
    run_all(parts)
    assert live(ledger) == ["one"]


def test_what_an_embedder_answered_before_it_went_away_is_not_asked_for_again(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memline.pipeline.embedding.CHUNK", 2)
    away = [True]

    def fail(texts: Sequence[str]) -> None:
        if away[0] and "four" in texts:
            raise AWAY

    embedder = TrigramEmbedder(paid=True, fail=fail)
    parts = make_parts(ledger, embedder=embedder, retry=RETRY)
    accept(parts, make_turn("one\ntwo\nthree\nfour\nfive", id="a"))
    run_all(parts)
    assert state(ledger, "a")[:3] == ("accepted", "embed", 0)
    assert embedder.calls == [["one", "two"], ["three", "four"]]
    away[0] = False
    run_later(parts)
    assert live(ledger) == ["one", "two", "three", "four", "five"]
    assert embedder.calls[2:] == [["three", "four"], ["five"]]


def test_one_text_that_an_embedder_refuses_is_found_by_halves(ledger: Ledger) -> None:
    embedder = TrigramEmbedder(paid=True, fail=failing_for("poison", lambda: ProviderRefused("too long")))
    parts = make_parts(ledger, embedder=embedder, retry=RETRY)
    for number in range(32):
        accept(parts, make_turn("poison" if number == 13 else f"fact {number}", id=f"job-{number}", user=f"user-{number}"))
    run_all(parts)
    assert len(live(ledger)) == 31 and state(ledger, "job-13")[0] == "failed"
    assert len(embedder.calls) <= 2 * 5 + 1 + 32  # names apart


def test_an_embedder_that_refuses_whatever_is_sent_is_asked_once(ledger: Ledger) -> None:
    embedder = TrigramEmbedder(paid=True, fail=failing_for("", lambda: ProviderRefused("wrong key", of_content=False)))
    parts = make_parts(ledger, embedder=embedder, retry=RETRY)
    for number in range(8):
        accept(parts, make_turn(f"fact {number}", id=f"job-{number}", user=f"user-{number}"))
    run_all(parts)
    assert {state(ledger, f"job-{number}")[0] for number in range(8)} == {"failed"}
    assert len(embedder.calls) <= 8


def test_a_call_whose_answer_was_lost_is_counted_when_it_is_made_again(ledger: Ledger) -> None:
    extractor = ScriptedExtractor({"one": [RuntimeError("the process died here"), '["one"]']})
    parts = make_parts(ledger, extractor=extractor, retry=RETRY)
    accept(parts, make_turn("one", id="a"), make_turn("two", id="b", user="bob"))
    run_all(parts)
    run_later(parts)
    assert sorted(live(ledger)) == ["one", "two"]
    assert extractor.calls.count("one") == 2 and counter(ledger, "repeated_calls") == 1
    with ledger.read() as connection:
        (row,) = usage_by(connection, ["call"])
    assert (row["call"], row["calls"], row["repeated"]) == ("extract", 2, 1)


@pytest.mark.parametrize(("lost", "repeated"), [(True, 1), (False, 0)])
def test_a_call_that_failed_counts_as_repeated_only_where_an_answer_may_have_been_lost(ledger: Ledger, lost: bool, repeated: int) -> None:
    extractor = ScriptedExtractor({"one": [ProviderUnavailable("gone", answer_lost=lost), '["one"]']})
    parts = make_parts(ledger, extractor=extractor, retry=RETRY)
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    run_later(parts)
    assert live(ledger) == ["one"] and counter(ledger, "repeated_calls") == repeated


def test_vectors_that_were_lost_count_too(ledger: Ledger) -> None:
    failures = [ProviderUnavailable("dropped", answer_lost=True)]

    def fail(texts: Sequence[str]) -> None:
        if failures:
            raise failures.pop()

    parts = make_parts(ledger, embedder=TrigramEmbedder(paid=True, fail=fail), retry=RETRY)
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    run_later(parts)
    assert live(ledger) == ["one"] and counter(ledger, "repeated_calls") == 1


def test_calls_are_added_up_by_job_and_by_day_and_nothing_else_is_left_of_them(ledger: Ledger) -> None:
    parts = make_parts(ledger, extractor=ScriptedExtractor(), embedder=TrigramEmbedder(paid=True), retry=RETRY)
    accept(parts, make_turn("one", id="a"), make_turn("two", id="b", user="bob"))
    run_all(parts)
    with ledger.read() as connection:
        rows = usage_by(connection, ["namespace", "day", "call", "model"])
        of_job = usage_of_job(connection, "a")
    assert [(row["namespace"], row["call"], row["model"]) for row in rows] == [
        ("default", "embed", "trigrams"),
        ("default", "extract", "scripted"),
    ]
    assert 1 <= rows[0]["calls"] <= 2 and rows[1]["calls"] == 2 and all(row["unpriced"] == row["calls"] for row in rows)
    assert {row["call"] for row in of_job} >= {"extract"}
