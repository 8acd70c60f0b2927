"""A fork waits for what other threads are in the middle of."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from memline.contracts.fork_gate import ForkGate

LIMIT = 300.0


@contextmanager
def inside(gate: ForkGate) -> Iterator[threading.Event]:
    """Another thread is inside until the event is set."""
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with gate.passing():
            entered.set()
            leave.wait(LIMIT)

    thread = threading.Thread(target=stay)
    thread.start()
    try:
        assert entered.wait(LIMIT)
        yield leave
    finally:
        leave.set()
        thread.join(LIMIT)


def fork(gate: ForkGate, forked: threading.Event) -> None:
    """The parent's side of a fork."""
    gate._before()
    forked.set()
    gate._after_in_parent()


def assert_one_who_comes_passes_after_the_fork(gate: ForkGate) -> None:
    """Of this thread, which has begun and is ended here."""
    passed = threading.Event()

    def enter() -> None:
        with gate.passing():
            passed.set()

    entering = threading.Thread(target=enter)
    entering.start()
    assert not passed.wait(0.05)
    gate._after_in_parent()
    assert passed.wait(LIMIT)
    entering.join(LIMIT)


def test_a_fork_waits_until_the_last_thread_is_out() -> None:
    gate = ForkGate("work", LIMIT)
    forked = threading.Event()

    with inside(gate) as first, inside(gate) as second:
        forking = threading.Thread(target=fork, args=(gate, forked))
        forking.start()
        first.set()
        assert not forked.wait(0.05)
        second.set()
        assert forked.wait(LIMIT)
        forking.join(LIMIT)


def test_who_comes_while_a_fork_waits_passes_after_it() -> None:
    gate = ForkGate("work", LIMIT)
    gate._before()
    assert_one_who_comes_passes_after_the_fork(gate)


def test_of_two_forks_the_first_that_is_over_lets_nobody_in() -> None:
    gate = ForkGate("work", LIMIT)
    other = threading.Thread(target=fork, args=(gate, threading.Event()))
    gate._before()
    other.start()
    other.join(LIMIT)
    assert_one_who_comes_passes_after_the_fork(gate)


def test_who_is_inside_enters_again_while_a_fork_waits() -> None:
    gate = ForkGate("work", LIMIT)
    again, forked = threading.Event(), threading.Event()

    def work() -> None:
        with gate.passing():
            again.wait(LIMIT)
            with gate.passing():
                assert not forked.is_set()

    threads = [threading.Thread(target=work), threading.Thread(target=fork, args=(gate, forked))]
    threads[0].start()
    while not gate._inside:
        assert threads[0].is_alive()
    threads[1].start()
    while not gate._forking:
        assert threads[1].is_alive()
    again.set()
    assert forked.wait(LIMIT)
    for thread in threads:
        thread.join(LIMIT)


def test_who_forks_passes_meanwhile_as_its_signal_handler_does() -> None:
    gate = ForkGate("work", LIMIT)
    passed = threading.Event()

    def fork() -> None:
        gate._before()
        with gate.passing():
            passed.set()
        gate._after_in_parent()

    # a daemon: one that waited for itself would keep this process
    forking = threading.Thread(target=fork, daemon=True)
    forking.start()
    assert passed.wait(60)
    forking.join(LIMIT)


def test_whoever_forks_inside_is_not_waited_for_and_leaves_in_parent_and_child() -> None:
    gate = ForkGate("work", LIMIT)
    with gate.passing():
        gate._before()
        gate._after_in_parent()
    with gate.passing(), inside(gate) as leave:
        leave.set()
        gate._before()
        gate._after_in_child()
    gate._before()
    assert not gate._inside


def test_a_fork_goes_on_in_the_end_and_says_so_and_the_child_begins_with_nobody(caplog: pytest.LogCaptureFixture) -> None:
    gate = ForkGate("a call", 0.01)
    with inside(gate), caplog.at_level(logging.WARNING, "memline.contracts.fork_gate"):
        gate._before()
        told = [record.getMessage() for record in caplog.records if record.name == "memline.contracts.fork_gate"]
        assert told == ["fork: a call did not end in 0.01 s: the child may not be able to use it"]
        child = ForkGate("a call", LIMIT)
        child._inside, child._forking = dict(gate._inside), {1}
        child._after_in_child()
        child._before()
        child._after_in_parent()
        gate._after_in_parent()
