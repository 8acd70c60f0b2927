"""What Celery's consumer says of itself, and what a loop's rounds say: the heartbeat's sources."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from memline.contracts.errors import ServiceUnavailable
from memline.ledger.heartbeats import Process, read_beats
from memline.ledger.jobs import STAGES, Stage
from memline.ledger.session import Ledger
from memline.outbox.relay import Relay
from memline.workers.celery_app import make_app
from memline.workers.consumer_beat import loop_of, watch_consumer
from memline.workers.engine import Engine
from memline.workers.loops import Loop
from memline.workers.pulse import Pulse
from tests.parts import START, HandClock, make_parts


class Timer:
    """Celery's timer, fired by hand."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, tuple[Any, ...]]] = []

    def call_repeatedly(self, _seconds: float, call: Any, arguments: tuple[Any, ...]) -> Any:
        self.calls.append((call, arguments))
        return self.calls[-1]

    def cancel(self, entry: Any) -> None:
        self.calls.remove(entry)

    def fire(self) -> None:
        for call, arguments in self.calls:
            call(*arguments)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def pulse(ledger: Ledger, clock: HandClock) -> Pulse:
    return Pulse(ledger, clock, Process("one", "here", 7, "0.1.0", START))


def works(ledger: Ledger, pulse: Pulse, clock: HandClock) -> dict[str, bool]:
    pulse.beat()
    with ledger.read() as connection:
        return {beat.loop: beat.works(clock.now()) for beat in read_beats(connection)}


def test_a_stage_is_served_while_the_consumers_own_loop_turns_and_is_connected(ledger: Ledger, pulse: Pulse, clock: HandClock) -> None:
    app = make_app("redis://127.0.0.1:1/0", prefix="memline")
    watch_consumer(app, pulse, [Stage.EXTRACT, Stage.EMBED])
    (step,) = [step for step in app.steps["consumer"] if step.__name__ == "ConsumerBeat"]
    consumer = SimpleNamespace(timer=Timer(), connection=SimpleNamespace(connected=True), steps=[])
    beat = step(consumer)
    names = {loop_of(Stage.EXTRACT), loop_of(Stage.EMBED)}
    assert works(ledger, pulse, clock) == dict.fromkeys(names, False)
    beat.start(consumer)
    assert works(ledger, pulse, clock) == dict.fromkeys(names, True)

    clock.advance(600)  # its loop hangs: the timer does not fire
    assert works(ledger, pulse, clock) == dict.fromkeys(names, False)
    consumer.timer.fire()
    assert works(ledger, pulse, clock) == dict.fromkeys(names, True)

    consumer.connection.connected = False
    consumer.timer.fire()
    assert works(ledger, pulse, clock) == dict.fromkeys(names, False)
    beat.stop(consumer)
    assert consumer.timer.calls == []
    consumer.connection.connected = True
    beat.start(consumer)
    assert works(ledger, pulse, clock) == dict.fromkeys(names, True)
    app.close()


def test_every_stage_has_a_name_of_its_own() -> None:
    assert {loop_of(stage) for stage in STAGES} == {f"stage.{stage.value}" for stage in STAGES}


def test_a_loop_says_how_each_round_ended() -> None:
    said: list[type[BaseException] | None] = []
    enough = threading.Event()
    rounds: Iterator[int | Exception] = iter([1, ServiceUnavailable("no Redis"), 1])

    def work() -> int:
        found = next(rounds, None)
        if found is None:
            enough.set()
            return 0
        if isinstance(found, Exception):
            raise found
        return found

    loop = Loop("some", work, idle=0.01)
    loop.ended = lambda error: said.append(None if error is None else type(error))
    loop.start()
    assert enough.wait(300)
    loop.stop()
    assert loop.join(300)
    assert said[:4] == [None, ServiceUnavailable, None, None]


def test_an_engine_beats_by_its_own_thread_and_takes_its_row_along(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    clock = parts.clock
    assert isinstance(clock, HandClock)
    pulse = Pulse(ledger, clock, Process("engine", "here", 7, "0.1.0", clock.now()))
    engine = Engine(parts, Relay(ledger, parts.index, clock, parts.ids), pulse=pulse)
    clock.advance(11)
    engine.start()
    for _ in range(30_000):
        with ledger.read() as connection:
            found = read_beats(connection)
        if found:
            break
        engine.wake()
        threading.Event().wait(0.01)
    assert [(beat.loop, beat.works(clock.now())) for beat in found] == [("engine", True)]
    engine.stop(300)
    with ledger.read() as connection:
        assert read_beats(connection) == []
