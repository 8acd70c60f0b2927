"""The sweep: what stalled, was held or was delayed goes on, on both databases."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from memline.ledger.counters import read_counters
from memline.ledger.leases import Lease
from memline.ledger.schema import leases, memories
from memline.ledger.session import Ledger
from memline.pipeline.parts import Parts
from memline.pipeline.runner import claim_and_send, run_stage, run_through
from memline.workers.sweep import sweep_once
from tests.parts import HandClock, accept, job_of, make_parts, make_turn, table


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    return make_parts(ledger)


def advance(parts: Parts, seconds: float) -> None:
    assert isinstance(parts.clock, HandClock)
    parts.clock.advance(seconds)


def sweep(parts: Parts) -> list[Lease]:
    sent: list[Lease] = []
    sweep_once(parts, sent.extend)
    return sent


def run(parts: Parts, batches: Sequence[Lease]) -> None:
    for lease in batches:
        run_through(parts, lease, worker="w", send=lambda _: None, stopped=lambda: False)


def texts(parts: Parts) -> list[str]:
    return [row.text for row in table(parts.ledger, memories)]


def test_a_sweep_of_an_empty_ledger_moves_nothing(parts: Parts) -> None:
    assert sweep_once(parts, lambda _: None) == 0


def test_what_is_ready_and_nobody_claimed_is_claimed(parts: Parts) -> None:
    accept(parts, make_turn("one", id="a"))
    run(parts, sweep(parts))
    assert texts(parts) == ["one"]


def test_a_message_that_was_lost_is_sent_again(parts: Parts) -> None:
    accept(parts, make_turn("one", id="a"))
    claim_and_send(parts, lambda _: None)  # Redis lost it
    assert sweep(parts) == []
    advance(parts, parts.times.resend)
    (lease,) = sweep(parts)
    run(parts, [lease, lease])
    assert texts(parts) == ["one"]


def test_a_batch_that_stopped_between_two_stages_goes_on(parts: Parts) -> None:
    accept(parts, make_turn("one", id="a"))
    sent: list[Lease] = []
    claim_and_send(parts, sent.extend)
    run_stage(parts, sent[0].id, 1, sent[0].stage, worker="w", send=lambda _: None)  # the worker dies before it sends the next one
    advance(parts, parts.times.resend)
    (lease,) = sweep(parts)
    assert lease.stage == "embed"
    run(parts, [lease])
    assert texts(parts) == ["one"]


def test_the_jobs_of_a_worker_that_died_are_claimed_anew(parts: Parts) -> None:
    from memline.ledger.leases import take

    accept(parts, make_turn("one", id="a"))
    sent: list[Lease] = []
    claim_and_send(parts, sent.extend)
    with parts.ledger.write() as tx:
        assert take(tx, sent[0].id, 1, sent[0].stage, worker="dead", now=parts.clock.now(), times=parts.times) is not None
    advance(parts, parts.times.lease - 1)
    assert sweep(parts) == []
    advance(parts, 1)
    again = sweep(parts)
    assert [lease.id for lease in again] != [sent[0].id]
    run(parts, again)
    assert texts(parts) == ["one"]
    assert table(parts.ledger, leases) == []


def test_a_turn_that_waits_for_a_lost_one_goes_on_after_order_wait(parts: Parts) -> None:
    accept(parts, make_turn("two", id="b", producer="p", number=2))
    advance(parts, parts.order_wait - 1)
    assert sweep(parts) == []
    assert job_of(parts.ledger, "b").place is None
    advance(parts, 1)
    run(parts, sweep(parts))
    assert texts(parts) == ["two"]
    with parts.ledger.read() as connection:
        assert read_counters(connection)["order_gaps"] == 1


def test_a_delayed_job_is_claimed_when_its_time_has_come(ledger: Ledger) -> None:
    from memline.contracts.errors import ProviderUnavailable
    from tests.parts import ScriptedExtractor

    parts = make_parts(ledger, extractor=ScriptedExtractor({"one": [ProviderUnavailable("busy", retry_after=9), '["one"]']}))
    accept(parts, make_turn("one", id="a"))
    run(parts, sweep(parts))
    advance(parts, 8)
    assert sweep(parts) == []
    advance(parts, 1)
    run(parts, sweep(parts))
    assert texts(parts) == ["one"]


def test_under_more_load_than_the_workers_carry_no_lease_runs_out_by_waiting(parts: Parts) -> None:
    accept(parts, *(make_turn(f"{number}", user=f"u{number:02}") for number in range(40)))
    waiting: dict[tuple[str, str], Lease] = {}

    def send(batches: Sequence[Lease]) -> None:
        waiting.update({(lease.id, lease.stage): lease for lease in batches})

    for _ in range(400):
        sweep_once(parts, send)
        if not waiting:
            break
        lease = waiting.pop(next(iter(waiting)))
        after = run_stage(parts, lease.id, lease.epoch, lease.stage, worker="slow", send=send)
        if after is not None:
            send([after])
        advance(parts, 20)  # one stage in 20 s, with 8 batches in the queues: each waits for minutes
    assert len(texts(parts)) == 40
    with parts.ledger.read() as connection:
        assert read_counters(connection)["leases_expired"] == 0
