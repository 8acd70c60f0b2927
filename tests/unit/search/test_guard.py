"""A part that hangs or fails is waited for once, then left alone, then tried by one, and never by more threads than so many."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import pytest

from memline.contracts.errors import ProviderUnavailable, ServiceUnavailable
from memline.search.guard import Guard
from tests.services import in_child


class Timer:
    """Seconds that are moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def timer() -> Timer:
    return Timer()


@pytest.fixture
def hang() -> Iterator[Callable[[], str]]:
    """A call that hangs until the test is over."""
    over = threading.Event()

    def call() -> str:
        over.wait(90)
        return "late"

    yield call
    over.set()


def answer() -> str:
    return "answer"


def fail() -> str:
    raise ProviderUnavailable("The part said no.")


def test_what_answers_is_asked_again_and_again(timer: Timer) -> None:
    guard = Guard("The part", timer=timer)
    assert [guard.call(answer, 60.0) for _ in range(3)] == ["answer"] * 3
    assert not guard.away and guard.on_their_way == guard.late == guard.failed == guard.skipped == 0


def test_one_that_hangs_costs_one_wait_and_the_next_ones_none(timer: Timer, hang: Callable[[], str]) -> None:
    guard = Guard("The part", rest=5, timer=timer)
    with pytest.raises(ServiceUnavailable, match=r"The part did not answer within 0\.01 s"):
        guard.call(hang, 0.01)
    for _ in range(3):
        with pytest.raises(ServiceUnavailable, match="a moment ago"):
            guard.call(lambda: pytest.fail("it was asked"), 60.0)
    assert (guard.late, guard.skipped, guard.on_their_way) == (1, 3, 1)


def test_after_its_rest_one_tries_and_the_others_go_on_without(timer: Timer, hang: Callable[[], str]) -> None:
    guard = Guard("The part", rest=5, timer=timer)
    with pytest.raises(ServiceUnavailable):
        guard.call(hang, 0.01)
    timer.now += 5

    def while_it_is_tried() -> str:
        with pytest.raises(ServiceUnavailable, match="a moment ago"):
            guard.call(answer, 60.0)
        return "back"

    assert guard.call(while_it_is_tried, 60.0) == "back"
    assert not guard.away and guard.call(answer, 60.0) == "answer"


def test_a_trial_that_fails_is_another_rest(timer: Timer, hang: Callable[[], str]) -> None:
    guard = Guard("The part", rest=5, timer=timer)
    for _ in range(3):
        with pytest.raises(ServiceUnavailable, match="within"):
            guard.call(hang, 0.01)
        with pytest.raises(ServiceUnavailable, match="a moment ago"):
            guard.call(answer, 60.0)
        timer.now += 5
    assert guard.late == 3


def test_a_failure_rests_it_where_it_was_told_so(timer: Timer) -> None:
    guard = Guard("The part", timer=timer)
    for _ in range(2):
        with pytest.raises(ProviderUnavailable):
            guard.call(fail, 60.0)
    assert not guard.away
    with pytest.raises(ProviderUnavailable):
        guard.call(fail, 60.0, rests_on=ProviderUnavailable)
    assert guard.away and guard.failed == 1
    with pytest.raises(ServiceUnavailable):
        guard.call(answer, 60.0)


def test_what_nothing_replaces_is_never_left_alone(timer: Timer, hang: Callable[[], str]) -> None:
    guard = Guard("The part", rest=0, timer=timer, hint="Do this.")
    with pytest.raises(ServiceUnavailable, match=r"within 0\.01 s\. Do this\."):
        guard.call(hang, 0.01)
    assert guard.call(answer, 60.0) == "answer"


def test_calls_that_hang_take_so_many_threads_and_no_more(timer: Timer, hang: Callable[[], str]) -> None:
    guard = Guard("The part", rest=0, most=3, timer=timer)
    before = set(threading.enumerate())
    for _ in range(8):
        with pytest.raises(ServiceUnavailable):
            guard.call(hang, 0.01)
    started = [thread for thread in threading.enumerate() if thread not in before and thread.name == "memline-search-call"]
    assert guard.on_their_way == len(started) == 3
    with pytest.raises(ServiceUnavailable):
        guard.call(answer, 0.01)


def test_a_place_that_becomes_free_is_taken_by_who_waits(timer: Timer) -> None:
    guard = Guard("The part", most=1, timer=timer)
    release, found = threading.Event(), []

    def slow() -> str:
        release.wait(90)
        return "slow"

    threads = [threading.Thread(target=lambda call=call: found.append(guard.call(call, 60.0))) for call in (slow, answer)]
    for thread in threads:
        thread.start()
    release.set()
    for thread in threads:
        thread.join(90)
    assert sorted(found) == ["answer", "slow"] and guard.on_their_way == 0


def test_when_no_thread_can_be_started_it_is_away_and_no_place_is_lost(timer: Timer, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = Guard("The part", timer=timer)

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(ServiceUnavailable, match="no other thread"):
            guard.call(answer, 60.0)
    assert guard.on_their_way == 0 and guard.away


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_begins_anew(timer: Timer, hang: Callable[[], str]) -> None:
    guard = Guard("The part", most=1, timer=timer)
    with pytest.raises(ServiceUnavailable):
        guard.call(hang, 0.01)
    assert in_child(lambda: guard.call(answer, 60.0)) == "answer"
