"""The engine of the embedded mode: a thread over a SQLite ledger."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memline.contracts import metrics
from memline.contracts.clock import SystemClock
from memline.contracts.errors import ServiceUnavailable
from memline.contracts.ids import TimeOrderedIds
from memline.ledger.migrate import open_ledger
from memline.ledger.schema import jobs, leases, memories
from memline.ledger.session import Ledger
from memline.outbox.relay import Relay
from memline.pipeline.parts import Parts
from memline.telemetry.prometheus import FileSink
from memline.workers.engine import Engine
from tests.parts import ScriptedExtractor, accept, make_parts, make_turn, table


@pytest.fixture
def sqlite_ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    open_ledger(opened)
    yield opened
    opened.close()


@pytest.fixture
def parts(sqlite_ledger: Ledger) -> Parts:
    return make_parts(sqlite_ledger, clock=SystemClock(), ids=TimeOrderedIds())


def engine_of(parts: Parts) -> Engine:
    return Engine(parts, Relay(parts.ledger, parts.index, parts.clock, parts.ids))


def eventually(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not found():
        assert time.monotonic() < deadline, "it did not happen in 300 s"
        time.sleep(0.01)


def states(parts: Parts) -> set[str]:
    return {row.state for row in table(parts.ledger, jobs)}


def test_what_is_accepted_becomes_searchable(parts: Parts) -> None:
    engine = engine_of(parts)
    engine.start()
    accept(parts, *(make_turn(f"fact {number}", user=f"u{number % 3}") for number in range(12)))
    engine.wake()
    eventually(lambda: states(parts) == {"searchable"})
    engine.stop(300)
    assert len(table(parts.ledger, memories)) == 12
    assert table(parts.ledger, leases) == []


def test_what_was_accepted_before_the_start_is_run_too(parts: Parts) -> None:
    accept(parts, make_turn("one"))
    engine = engine_of(parts)
    engine.start()
    eventually(lambda: states(parts) == {"searchable"})
    engine.stop(300)


def test_stopping_finishes_what_is_ready(parts: Parts) -> None:
    engine = engine_of(parts)
    engine.start()
    accept(parts, *(make_turn(f"fact {number}", user=f"u{number}") for number in range(30)))
    engine.stop(300)
    assert states(parts) == {"searchable"}
    assert table(parts.ledger, leases) == []


def test_what_is_accepted_while_a_round_ends_that_found_nothing_is_finished_by_the_stop(parts: Parts) -> None:
    relay = Relay(parts.ledger, parts.index, parts.clock, parts.ids)
    run_once = relay.run_once
    looked, go_on = threading.Event(), threading.Event()

    def held() -> int:
        done = run_once()
        looked.set()
        assert go_on.wait(300)
        return done

    relay.run_once = held  # type: ignore[method-assign]
    engine = Engine(parts, relay)
    engine.start()
    assert looked.wait(300)  # it has looked for what is ready, and its round is not over
    accept(parts, make_turn("one"))
    stopping = threading.Thread(target=engine.stop, args=[300])
    stopping.start()
    eventually(lambda: engine._draining)
    go_on.set()
    stopping.join(300)
    assert states(parts) == {"searchable"}


def test_stopping_before_the_work_is_done_gives_it_back_for_the_next_start(sqlite_ledger: Ledger) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait(_first: str) -> None:
        begun.set()
        assert go_on.wait(300)

    parts = make_parts(sqlite_ledger, clock=SystemClock(), ids=TimeOrderedIds(), extractor=ScriptedExtractor(wait=wait))
    accept(parts, *(make_turn(f"fact {number}", user=f"u{number}") for number in range(4)))
    engine = engine_of(parts)
    engine.start()
    assert begun.wait(300)
    stopping = threading.Thread(target=engine.stop, args=[0.0])
    stopping.start()
    eventually(engine._stop.is_set)
    go_on.set()
    stopping.join(300)
    eventually(lambda: not table(sqlite_ledger, leases))
    assert {row.attempts for row in table(sqlite_ledger, jobs)} == {0}
    assert states(parts) != {"searchable"}
    following = engine_of(parts)
    following.start()
    eventually(lambda: states(parts) == {"searchable"})
    following.stop(300)
    assert len(table(sqlite_ledger, memories)) == 4


def test_the_engine_outlives_a_ledger_that_does_not_answer_and_errors_that_nobody_foresaw(parts: Parts, tmp_path: Path) -> None:
    before = metrics.installed()
    sink = FileSink(tmp_path / "counts")
    metrics.use(sink)
    problems: list[Exception] = [ServiceUnavailable("The ledger does not answer."), ZeroDivisionError(), KeyError("x")]
    relay = Relay(parts.ledger, parts.index, parts.clock, parts.ids)
    run_once = relay.run_once

    def failing() -> int:
        if problems:
            raise problems.pop()
        return run_once()

    relay.run_once = failing  # type: ignore[method-assign]
    engine = Engine(parts, relay)
    engine.start()
    accept(parts, make_turn("one"))
    for _ in range(3):
        engine.wake()
        time.sleep(0.05)
    eventually(lambda: states(parts) == {"searchable"})
    engine.stop(300)
    metrics.use(before)
    assert sink.folder.read()[("c", metrics.LOOP_FAILURES.name, "engine"), 1] == (3,), "each is counted"
    sink.close()


def test_two_engines_on_one_file_share_the_work(sqlite_ledger: Ledger) -> None:
    url = f"sqlite:///{sqlite_ledger.path}"
    other = Ledger(url)
    extractor = ScriptedExtractor()
    plain = make_parts(sqlite_ledger, clock=SystemClock(), ids=TimeOrderedIds(), extractor=extractor)
    engines = [
        engine_of(make_parts(each, clock=plain.clock, ids=plain.ids, index=plain.index, extractor=extractor))
        for each in (sqlite_ledger, other)
    ]
    accept(plain, *(make_turn(f"fact {number}", user=f"u{number % 10}") for number in range(40)))
    for engine in engines:
        engine.start()
    eventually(lambda: states(plain) == {"searchable"})
    for engine in engines:
        engine.stop(300)
    other.close()
    assert len(table(sqlite_ledger, memories)) == 40
    assert len(extractor.calls) == 40  # each was asked once
