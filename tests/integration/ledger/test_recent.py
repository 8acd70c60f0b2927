"""What `memline top` asks of the ledger: how fast turns go, how long the last ones took, and what failed."""

from __future__ import annotations

from datetime import timedelta

from memline.contracts.errors import ProviderRefused
from memline.ledger.counters import read_counters
from memline.ledger.recent import Look, flow, look, newest_failures, recent_seconds
from memline.ledger.session import Ledger
from memline.pipeline.parts import Parts
from tests.parts import HandClock, ScriptedExtractor, accept, make_parts, make_relay, make_turn, run_all

MINUTE = timedelta(minutes=1)


def seen(parts: Parts, before: Look | None = None) -> Look:
    with parts.ledger.read() as connection:
        counts = read_counters(connection)
        return look(connection, now=parts.clock.now(), failed=counts["jobs_failed"], cancelled=counts["turns_cancelled"], before=before)


def seconds(parts: Parts, at: Look) -> list[float]:
    with parts.ledger.read() as connection:
        return recent_seconds(connection, at, within=MINUTE)


def test_rates_are_what_went_on_between_two_looks(ledger: Ledger) -> None:
    clock = HandClock()
    parts = make_parts(ledger, clock=clock)
    first = seen(parts)
    accept(parts, *(make_turn(f"fact {number}", user=f"u{number}", at=clock.now()) for number in range(8)))
    clock.advance(2)
    second = seen(parts, first)
    assert (second.uncommitted, second.unshown, second.oldest_open is not None) == (8, 0, True)
    assert (flow(first, second).accepted, flow(first, second).committed) == (4, 0)
    run_all(parts)
    clock.advance(4)
    third = seen(parts, second)
    assert (third.uncommitted, third.unshown) == (0, 8)
    assert (flow(second, third).accepted, flow(second, third).committed, flow(second, third).searchable) == (0, 2, 0)
    make_relay(parts).drain()
    clock.advance(1)
    fourth = seen(parts, third)
    assert (flow(third, fourth).committed, flow(third, fourth).searchable, fourth.oldest_open) == (0, 8, None)


def test_what_failed_is_no_commit_and_is_told_with_its_reason(ledger: Ledger) -> None:
    clock = HandClock()
    refuses = ScriptedExtractor({"a text of Ann's": [ProviderRefused("The provider refused: no such model.")]})
    parts = make_parts(ledger, clock=clock, extractor=refuses)
    first = seen(parts)
    accept(parts, make_turn("a text of Ann's", id="turn-refused", at=clock.now()))
    run_all(parts)
    clock.advance(1)
    second = seen(parts, first)
    found = flow(first, second)
    assert (found.accepted, found.committed, found.searchable) == (1, 0, 0)
    with ledger.read() as connection:
        (failure,) = newest_failures(connection, limit=5)
        assert newest_failures(connection, limit=5, namespace="another") == []
    assert (failure.id, failure.stage) == ("turn-refused", "extract")
    assert "ProviderRefused" in failure.reason and "Ann" not in failure.reason


def test_times_are_of_the_last_minute_from_hand_over_to_searchable(ledger: Ledger) -> None:
    clock = HandClock()
    parts = make_parts(ledger, clock=clock)
    accept(parts, make_turn("fact one", user="a", at=clock.now()))
    run_all(parts)
    clock.advance(3)
    make_relay(parts).drain()
    accept(parts, make_turn("fact two", user="b", at=clock.now()))
    run_all(parts)
    clock.advance(5)
    make_relay(parts).drain()
    assert seconds(parts, seen(parts)) == [3, 5]
    clock.advance(56)
    assert seconds(parts, seen(parts)) == [5]
    clock.advance(60)
    assert seconds(parts, seen(parts)) == []
