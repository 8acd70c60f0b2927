"""Heartbeats: what a process says of its loops, and what that means to who reads it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from memline.contracts.errors import ServiceUnavailable
from memline.ledger.heartbeats import FORGET, Beat, Process, beat, forget_old, leave, read_beats
from memline.ledger.session import Ledger
from memline.workers.pulse import LOOK_EVERY, PATIENCE, Pulse
from tests.parts import START, HandClock

SECOND = timedelta(seconds=1)


def process(name: str = "one", host: str = "here") -> Process:
    return Process(name, host, 7, "0.1.0", START)


def pulse_of(ledger: Ledger, clock: HandClock, name: str = "one") -> Pulse:
    return Pulse(ledger, clock, process(name))


def read(ledger: Ledger, host: str | None = None) -> dict[str, Beat]:
    with ledger.read() as connection:
        return {beat.loop: beat for beat in read_beats(connection, host=host)}


def test_a_loop_whose_rounds_end_well_works(ledger: Ledger) -> None:
    clock = HandClock()
    pulse = pulse_of(ledger, clock)
    ended = pulse.expect("relay")
    pulse.run_once()
    assert not read(ledger)["relay"].works(clock.now()), "no round has ended yet"
    ended(None)
    pulse.run_once()
    found = read(ledger)["relay"]
    assert found.works(clock.now())
    assert (found.process, found.failures, found.reason) == (process(), 0, None)


def test_a_process_that_says_nothing_is_taken_for_dead(ledger: Ledger) -> None:
    clock = HandClock()
    pulse = pulse_of(ledger, clock)
    pulse.expect("relay")(None)
    pulse.beat()
    assert read(ledger)["relay"].is_alive(clock.advance(29))
    assert not read(ledger)["relay"].is_alive(clock.advance(4))


def test_a_loop_that_hangs_is_told_although_its_process_beats(ledger: Ledger) -> None:
    clock = HandClock()
    pulse = pulse_of(ledger, clock)
    hanging, busy = pulse.expect("relay"), pulse.expect("accept")
    hanging(None)
    for _ in range(12):
        busy(None)
        clock.advance(10)
        pulse.run_once()
    found = read(ledger)
    assert found["relay"].hangs(clock.now()) and not found["relay"].works(clock.now())
    assert found["relay"].is_alive(clock.now())
    assert found["accept"].works(clock.now())


def test_a_loop_that_rests_long_does_not_hang(ledger: Ledger) -> None:
    clock = HandClock()
    pulse = pulse_of(ledger, clock)
    pulse.expect("prune", rest=300)(None)
    clock.advance(300 + PATIENCE - 1)
    pulse.beat()
    assert read(ledger)["prune"].works(clock.now())


def test_a_loop_whose_rounds_all_raise_does_not_work_and_says_why(ledger: Ledger) -> None:
    clock = HandClock()
    pulse = pulse_of(ledger, clock)
    ended = pulse.expect("accept")
    ended(None)
    ended(ServiceUnavailable("Redis does not answer."))
    pulse.beat()
    assert read(ledger)["accept"].works(clock.now()), "one failure is a moment"
    ended(ServiceUnavailable("Redis does not answer."))
    ended(ValueError("a text of somebody"))
    pulse.beat()
    found = read(ledger)["accept"]
    assert not found.works(clock.now()) and not found.hangs(clock.now())
    assert (found.failures, found.reason) == (3, "ValueError"), "of errors that are not memline's only the class is told"
    ended(None)
    pulse.beat()
    assert read(ledger)["accept"].works(clock.now())


def test_a_loop_that_waits_for_something_outside_does_not_hang(ledger: Ledger) -> None:
    clock = HandClock()
    pulse = pulse_of(ledger, clock)
    pulse.expect("stage.extract")(None)
    pulse.waits("stage.extract", "no Redis")
    clock.advance(10_000)
    pulse.beat()
    found = read(ledger)["stage.extract"]
    assert not found.hangs(clock.now()) and not found.works(clock.now())
    assert found.reason == "no Redis"


def test_a_process_beats_in_one_statement_every_ten_seconds(ledger: Ledger) -> None:
    clock = HandClock()
    pulse = pulse_of(ledger, clock)
    loops = [pulse.expect(name) for name in ("accept", "relay", "sweep")]
    times = []
    for _ in range(31):
        for ended in loops:
            ended(None)
        pulse.run_once()
        times.append(read(ledger)["relay"].beat_at)
        clock.advance(LOOK_EVERY)
    assert sorted(set(times)) == [START, START + 10 * SECOND, START + 20 * SECOND, START + 30 * SECOND]


def test_a_loop_that_begins_to_fail_is_told_at_once(ledger: Ledger) -> None:
    clock = HandClock()
    pulse = pulse_of(ledger, clock)
    ended = pulse.expect("accept")
    ended(None)
    pulse.run_once()
    clock.advance(1)
    ended(ServiceUnavailable("Redis does not answer."))
    pulse.run_once()
    assert read(ledger)["accept"].failures == 1


def test_a_process_that_lives_but_a_moment_writes_nothing(ledger: Ledger) -> None:
    clock = HandClock()
    pulse = pulse_of(ledger, clock)
    pulse.expect("engine")(None)
    clock.advance(9)
    pulse.beat_when_due()
    pulse.leave()
    assert read(ledger) == {}


def test_a_process_that_ends_as_it_was_asked_to_takes_its_rows_along(ledger: Ledger) -> None:
    clock = HandClock()
    for name in ("one", "two"):
        pulse = pulse_of(ledger, clock, name)
        pulse.expect("relay")(None)
        pulse.beat()
    with ledger.write() as tx:
        leave(tx, "one")
    with ledger.read() as connection:
        assert [beat.process.name for beat in read_beats(connection)] == ["two"]


def test_what_went_away_without_a_word_is_forgotten_so_the_table_is_bounded(ledger: Ledger) -> None:
    clock = HandClock()
    gone = pulse_of(ledger, clock, "gone")
    gone.expect("relay")(None)
    gone.beat()
    clock.advance(FORGET.total_seconds() + 31)
    stays = pulse_of(ledger, clock, "stays")
    stays.expect("relay")(None)
    stays.beat()
    with ledger.read() as connection:
        assert [beat.process.name for beat in read_beats(connection)] == ["stays"]
    with ledger.write() as tx:
        assert forget_old(tx, now=clock.now()) == 0


def test_beats_of_one_host_are_read_alone(ledger: Ledger) -> None:
    with ledger.write() as tx:
        for host in ("here", "there"):
            beat(tx, [Beat(process(host, host), "relay", START, START, START, None, START, 0, None)])
    assert [found.process.host for found in read(ledger, "there").values()] == ["there"]


def test_a_long_reason_is_cut(ledger: Ledger) -> None:
    said = Beat(process(), "relay", START, START, START, None, None, 1, "x" * 5000)
    with ledger.write() as tx:
        beat(tx, [said])
    assert read(ledger)["relay"] == replace(said, reason="x" * 300)


def test_no_loops_write_nothing(ledger: Ledger) -> None:
    with ledger.write() as tx:
        beat(tx, [])
    assert read(ledger) == {}


@pytest.mark.parametrize("failures", [1, 2])
def test_a_loop_that_never_worked_fails_from_the_first_failure(failures: int) -> None:
    assert Beat(process(), "relay", START, START, START, START, None, failures, "why").is_failing


def test_a_clock_that_is_set_back_makes_no_dead_process_live(ledger: Ledger) -> None:
    clock = HandClock()
    pulse = pulse_of(ledger, clock)
    ended = pulse.expect("relay")
    ended(None)
    pulse.run_once()
    earlier = clock.advance(-3600)
    assert not read(ledger)["relay"].is_alive(earlier), "it has not beaten since the clock was set"
    pulse.run_once()
    assert read(ledger)["relay"].works(earlier), "and who lives beats at the next look"


@pytest.mark.parametrize("step", [7200, -7200])
def test_a_clock_that_is_set_makes_no_loop_hang_that_rests(ledger: Ledger, step: float) -> None:
    clock = HandClock()
    pulse = pulse_of(ledger, clock)
    pulse.expect("prune", rest=300)(None)
    pulse.run_once()
    clock.advance(step)
    pulse.run_once()
    assert read(ledger)["prune"].works(clock.now())
    for _ in range(45):
        clock.advance(9)
        pulse.run_once()
    assert read(ledger)["prune"].hangs(clock.now()), "its time is over all the same, when it is over"


def test_an_engine_beats_again_after_its_clock_was_set_back(ledger: Ledger) -> None:
    clock = HandClock()
    pulse = pulse_of(ledger, clock)
    pulse.expect("engine")(None)
    clock.advance(11)
    pulse.beat_when_due()
    earlier = clock.advance(-3600)
    pulse.beat_when_due()
    assert read(ledger)["engine"].beat_at == earlier
