"""What goes wrong on the way of a turn, and what becomes of it, on both databases."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from numpy.typing import NDArray

from memline.contracts.errors import ProviderRefused, ProviderUnavailable, ServiceUnavailable
from memline.ledger.jobs import Stage, jobs_of_lease, retry_job
from memline.ledger.leases import Lease, LeaseTimes, dissolve_expired
from memline.ledger.schema import (
    jobs,
    lanes,
    leases,
    memories,
    memory_links,
    messages,
    stage_results,
)
from memline.ledger.session import Ledger
from memline.pipeline.parts import Parts, RetryPolicy
from memline.pipeline.runner import run_through
from tests.integration.pipeline.steps import claimed, clock, live, nothing_is_left_over, stage, state
from tests.parts import (
    LineExtractor,
    ScriptedExtractor,
    TrigramEmbedder,
    accept,
    job_of,
    make_parts,
    make_relay,
    make_turn,
    run_all,
    table,
)


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    return make_parts(ledger)


def test_after_an_unexpected_failure_the_jobs_of_a_batch_are_retried_alone_and_spend_nothing(ledger: Ledger) -> None:
    parts = make_parts(ledger, retry=RetryPolicy(max_attempts=2, first_delay=5))
    accept(parts, make_turn("one", id="a"), make_turn("boom", id="b"), make_turn("three", id="c"))
    (lease,) = claimed(parts)
    assert stage(parts, lease) is None
    assert [state(ledger, id)[2:] for id in "abc"] == [(0, True)] * 3
    assert job_of(ledger, "b").reason == "extract: RuntimeError"
    run_all(parts)
    assert live(ledger) == ["one"]
    assert state(ledger, "b") == ("accepted", "extract", 1, True)
    assert state(ledger, "c") == ("accepted", "extract", 0, True)  # waits behind it: the order stays
    clock(parts).advance(5 * 2)
    run_all(parts)
    row = job_of(ledger, "b")
    assert (row.state, row.attempts, row.reason) == ("failed", 2, "extract: RuntimeError")
    assert live(ledger) == ["one", "three"]
    assert [job_of(ledger, id).attempts for id in "ac"] == [0, 0]
    nothing_is_left_over(ledger)


def test_a_failed_job_that_is_replayed_keeps_its_place_in_the_conversation(ledger: Ledger) -> None:
    extractor = LineExtractor()
    parts = make_parts(ledger, extractor=extractor, retry=RetryPolicy(max_attempts=1))
    accept(parts, make_turn("one", id="a"), make_turn("boom", id="b"), make_turn("three", id="c"))
    run_all(parts)
    assert state(ledger, "b")[0] == "failed"
    assert [row.place for row in table(ledger, messages)] == [1, 3]
    parts = make_parts(ledger, extractor=ScriptedExtractor(), ids=parts.ids)
    with ledger.write() as tx:
        assert retry_job(tx, "b", now=parts.clock.now())
    run_all(parts)
    assert state(ledger, "b") == ("committed", "done", 0, False)
    assert [(row.place, row.text) for row in sorted(table(ledger, messages), key=lambda row: row.place)] == [
        (1, "one"),
        (2, "boom"),
        (3, "three"),
    ]
    nothing_is_left_over(ledger)


def test_an_unreadable_reply_is_asked_for_again_and_kept(ledger: Ledger) -> None:
    extractor = ScriptedExtractor({"one": ["I cannot do that.", '["User likes tea"]']})
    parts = make_parts(ledger, extractor=extractor)
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    assert live(ledger) == ["User likes tea"]
    assert extractor.calls == ["one", "one"]
    kept = table(ledger, stage_results, stage_results.c.stage == "extract")
    assert [(row.ask, json.loads(row.body)["reply"]) for row in kept] == [(0, "I cannot do that."), (1, '["User likes tea"]')]


def test_replies_that_stay_unreadable_fail_the_job_after_a_bounded_number_of_asks(ledger: Ledger) -> None:
    extractor = ScriptedExtractor({"one": ["secret nonsense"]})
    parts = make_parts(ledger, extractor=extractor, retry=RetryPolicy(asks=3))
    accept(parts, make_turn("one", id="a"), make_turn("two", id="b"))
    run_all(parts)
    row = job_of(ledger, "a")
    assert (row.state, row.attempts) == ("failed", 1)
    assert row.reason.startswith("ReplyUnreadable: The reply (15 characters)")
    assert "secret" not in row.reason
    assert extractor.calls == ["one"] * 3 + ["two"]
    assert live(ledger) == ["two"]
    assert row.messages is not None  # it can be replayed


def test_a_replay_of_unreadable_replies_reads_what_is_there_and_then_asks_anew(ledger: Ledger) -> None:
    extractor = ScriptedExtractor({"one": ["no", "no", '["User likes tea"]']})
    parts = make_parts(ledger, extractor=extractor, retry=RetryPolicy(asks=2))
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    assert state(ledger, "a")[0] == "failed"
    with ledger.write() as tx:
        retry_job(tx, "a", now=parts.clock.now())
    run_all(parts)
    assert live(ledger) == ["User likes tea"]
    assert len(extractor.calls) == 3


def test_a_reply_that_reached_the_ledger_is_not_bought_again(ledger: Ledger) -> None:
    extractor = ScriptedExtractor()
    failing: list[bool] = [True]

    def fail(_texts: Sequence[str]) -> None:
        if failing:
            failing.pop()
            raise RuntimeError("the worker is killed here")

    parts = make_parts(ledger, extractor=extractor, embedder=TrigramEmbedder(fail=fail))
    accept(parts, make_turn("one", id="a"))
    (lease,) = claimed(parts)
    with ledger.write() as tx:  # the advance is lost, the reply is not: the worker died in between
        tx.execute(sa.update(leases).values(taken=True, until=clock(parts).now() + timedelta(seconds=60)))
    from memline.ledger.results import store_replies

    with ledger.write() as tx:
        store_replies(tx, "extract", {"a": (0, json.dumps({"reply": '["from the first call"]', "known": []}))}, now=parts.clock.now())
    clock(parts).advance(61)
    with ledger.write() as tx:
        assert dissolve_expired(tx, now=parts.clock.now(), max_attempts=6) == 1
    run_all(parts)
    clock(parts).advance(60)
    run_all(parts)
    assert extractor.calls == []
    assert live(ledger) == ["from the first call"]
    assert lease.id not in {row.id for row in table(ledger, leases)}


def test_a_stored_reply_is_read_with_the_memories_that_were_shown_then(ledger: Ledger) -> None:
    """A retry finds other memories nearest: "0" in the reply still means what it meant."""
    extractor = ScriptedExtractor({"two": ['["User has no cat >>0"]']}, wants_context=True)
    parts = make_parts(ledger, extractor=extractor)
    accept(parts, make_turn("User has a cat", id="a"))
    run_all(parts)
    make_relay(parts).drain()
    accept(parts, make_turn("two", id="b"))
    (lease,) = claimed(parts)
    failing = make_parts(ledger, extractor=extractor, index=parts.index, ids=parts.ids, clock=parts.clock, times=LeaseTimes(lease=60))

    class Dies(Exception):
        pass

    original = extractor.read
    extractor.read = lambda reply, request: (_ for _ in ()).throw(Dies())  # type: ignore[method-assign,assignment]
    assert stage(failing, lease) is None
    extractor.read = original  # type: ignore[method-assign]
    accept(parts, make_turn("two dogs and two cats", id="c", infer=False, run="r9"))
    clock(parts).advance(1)
    with ledger.write() as tx:
        tx.execute(sa.update(jobs).where(jobs.c.id == "b").values(next_at=clock(parts).now() + timedelta(seconds=50)))
        tx.execute(sa.update(lanes).values(ready_at=clock(parts).now()))
    run_all(parts)
    make_relay(parts).drain()
    clock(parts).advance(60)
    run_all(parts)
    cat = next(row for row in table(ledger, memories) if row.text == "User has a cat")
    assert cat.state == "superseded"
    assert [row.to_no for row in table(ledger, memory_links)] == [cat.no]
    assert extractor.calls.count("two") == 1


def test_a_model_is_shown_the_window_and_the_nearest_memories_under_short_ids(ledger: Ledger) -> None:
    extractor = ScriptedExtractor(wants_context=True)
    parts = make_parts(ledger, extractor=extractor)
    for text in ("User has a dog", "User likes tea", "dog walks"):
        accept(parts, make_turn(text))
        run_all(parts)  # the relay never runs: what the lane committed is shown all the same
    request = extractor.requests[-1]
    assert [message.text for message in request.window] == ["User has a dog", "User likes tea"]
    assert sorted(known.text for known in request.known) == ["User has a dog", "User likes tea"]
    assert [known.short_id for known in request.known] == ["0", "1"]
    assert {known.memory_id for known in request.known} == {row.id for row in table(ledger, memories)[:2]}


def test_a_provider_that_is_away_postpones_the_job_and_what_waits_behind_it(ledger: Ledger) -> None:
    extractor = ScriptedExtractor({"one": [ProviderUnavailable("busy", retry_after=20), '["one"]']})
    parts = make_parts(ledger, extractor=extractor)
    accept(parts, make_turn("one", id="a"), make_turn("two", id="b"), make_turn("other", id="c", user="bob"))
    run_all(parts)
    assert state(ledger, "a") == ("accepted", "extract", 0, False)
    assert job_of(ledger, "a").reason == "ProviderUnavailable: busy"
    assert state(ledger, "b") == ("accepted", "extract", 0, False)
    assert live(ledger) == ["other"]
    clock(parts).advance(19)
    run_all(parts)
    assert live(ledger) == ["other"]
    clock(parts).advance(1)
    run_all(parts)
    assert live(ledger) == ["other", "one", "two"]
    assert job_of(ledger, "a").reason is None
    nothing_is_left_over(ledger)


def test_a_provider_that_refuses_fails_the_job_at_once_and_its_lane_goes_on(ledger: Ledger) -> None:
    parts = make_parts(ledger, extractor=ScriptedExtractor({"one": [ProviderRefused("wrong key")]}))
    accept(parts, make_turn("one", id="a"), make_turn("two", id="b"))
    run_all(parts)
    row = job_of(ledger, "a")
    assert (row.state, row.reason) == ("failed", "ProviderRefused: wrong key")
    assert live(ledger) == ["two"]


def test_an_embedder_that_refuses_one_text_fails_that_job_only(ledger: Ledger) -> None:
    def fail(texts: Sequence[str]) -> None:
        if any("poison" in text for text in texts):
            raise ProviderRefused("a text is too long")

    embedder = TrigramEmbedder(fail=fail)
    parts = make_parts(ledger, embedder=embedder)
    accept(parts, *(make_turn(text, id=text, user=text) for text in ("one", "poison", "three")))
    with ledger.write() as tx:
        from memline.ledger.claim import ClaimLimits, claim

        limits = ClaimLimits(in_flight=1)
        (lease,) = claim(tx, now=parts.clock.now(), limits=limits, times=parts.times, new_id=parts.ids.new, paid=False)
    run_through(parts, lease, worker="w", send=lambda _: None, stopped=lambda: False)
    assert sorted(live(ledger)) == ["one", "three"]
    assert job_of(ledger, "poison").reason == "ProviderRefused: a text is too long"
    assert [state(ledger, id)[2] for id in ("one", "three")] == [0, 0]
    nothing_is_left_over(ledger)


class Spoiling(TrigramEmbedder):
    """Gives no number for a text that says so."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        found = super().embed(texts)
        found[["spoilt" in text for text in texts]] = np.nan
        return found


def test_a_vector_that_is_no_number_fails_its_job_only_and_is_never_kept(ledger: Ledger) -> None:
    parts = make_parts(ledger, embedder=Spoiling())
    for id, text in (("a", "good tea"), ("b", "spoilt milk"), ("c", "good bread")):
        accept(parts, make_turn(text, id=id, user=f"user-{id}"))
    run_all(parts)
    assert live(ledger) == ["good tea", "good bread"]
    assert "finite" in str(job_of(ledger, "b").reason)


def test_an_embedder_that_is_away_postpones_and_its_vectors_are_not_bought_twice(ledger: Ledger) -> None:
    problems: list[Exception] = [ProviderUnavailable("busy")]

    def fail(_texts: Sequence[str]) -> None:
        if problems:
            raise problems.pop()

    embedder = TrigramEmbedder(paid=True, fail=fail)
    parts = make_parts(ledger, embedder=embedder)
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    assert state(ledger, "a") == ("accepted", "embed", 0, False)
    clock(parts).advance(10)
    (lease,) = claimed(parts)
    at_dedup = stage(parts, lease)
    assert at_dedup is not None
    assert at_dedup.stage is Stage.DEDUP
    calls = len(embedder.calls)
    with ledger.write() as tx:  # as if the advance had been lost
        tx.execute(sa.update(leases).values(stage="embed"))
        tx.execute(sa.update(jobs).values(stage="embed"))
    run_through(parts, Lease(lease.id, 1, Stage.EMBED, False), worker="w", send=lambda _: None, stopped=lambda: False)
    assert live(ledger) == ["one"]
    assert len(embedder.calls) == calls


def test_a_part_that_is_away_is_no_failure_of_the_job(ledger: Ledger) -> None:
    extractor = ScriptedExtractor({"one": [ServiceUnavailable("the ledger is away"), '["one"]']})
    parts = make_parts(ledger, extractor=extractor, retry=RetryPolicy(max_attempts=1))
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    assert state(ledger, "a") == ("accepted", "extract", 0, False)
    clock(parts).advance(5)
    run_all(parts)
    assert live(ledger) == ["one"]


def test_a_slow_call_holds_back_no_other_lane(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def patient(running: Collection[Future[Any]], timeout: float, return_when: str) -> Any:
        """On a slow machine, too, the quick one is done before its batch is divided."""
        return wait_for(running, timeout=timeout if len(running) == 1 else None, return_when=return_when)

    monkeypatch.setattr("memline.pipeline.extract.wait", patient)
    release = threading.Event()
    sent: list[Lease] = []

    def wait(first: str) -> None:
        if first == "slow":
            assert release.wait(300)

    def send(batches: Sequence[Lease]) -> None:
        sent.extend(batches)
        release.set()

    parts = make_parts(ledger, extractor=ScriptedExtractor(wait=wait))
    accept(parts, make_turn("slow", id="a"), make_turn("quick", id="b", user="bob"), make_turn("said", id="c", user="cat", infer=False))
    with ledger.write() as tx:
        from memline.ledger.claim import ClaimLimits, claim

        limits = ClaimLimits(in_flight=1)
        (lease,) = claim(tx, now=parts.clock.now(), limits=limits, times=parts.times, new_id=parts.ids.new, paid=True)
    rest = stage(parts, lease, send)
    (ready,) = sent
    assert rest is not None
    assert (ready.stage, rest.stage, rest.id) == (Stage.EMBED, Stage.EMBED, lease.id)
    with ledger.read() as connection:
        assert [job.id for job in jobs_of_lease(connection, lease.id)] == ["a"]
        assert sorted(job.id for job in jobs_of_lease(connection, ready.id)) == ["b", "c"]
    for each in (ready, rest):
        run_through(parts, each, worker="w", send=lambda _: None, stopped=lambda: False)
    assert sorted(live(ledger)) == ["quick", "said", "slow"]
    nothing_is_left_over(ledger)
