"""How a server is called: tries, waits, the breaker, and who is told to come later."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from memline.contracts.errors import ProviderRefused, ProviderUnavailable
from memline.language.breaker import Breaker, BreakerTimes
from memline.language.calls import Calls, CallTimes, Link
from memline.language.limits import LocalLimiter, Rates
from memline.language.usage import metered


class Time:
    """A clock that a sleep moves on."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def link_of(time: Time, *, rates: Rates | None = None, uniform: float = 0.5, failures: int = 5, **times: float | int | bool) -> Link:
    breaker = Breaker(BreakerTimes(failures=failures), time.clock)
    calls = Calls(LocalLimiter(time.clock), breaker, lambda: uniform, time.clock, time.sleep)
    return Link("server", "model", "extract", rates or Rates(), CallTimes(**times), calls)  # type: ignore[arg-type]


def failing(*steps: BaseException | str) -> Callable[[float], str]:
    """Does one step a call."""
    left = list(steps)

    def once(seconds: float) -> str:
        step = left.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step

    return once


def made(link: Link, *steps: BaseException | str) -> tuple[str, int]:
    return link.make(failing(*steps), tokens=10, deadline=link.deadline())


def test_what_fails_is_tried_again_with_growing_waits_of_full_jitter() -> None:
    time = Time()
    away = ProviderUnavailable("away")
    assert made(link_of(time, uniform=0.5), away, away, away, "yes") == ("yes", 0)
    assert time.slept == [0.25, 0.5, 1.0]


def test_tries_end_and_the_last_error_is_told() -> None:
    time = Time()
    with pytest.raises(ProviderUnavailable, match="third"):
        made(link_of(time, tries=3), *(ProviderUnavailable(word) for word in ("first", "second", "third")))
    assert len(time.slept) == 2


def test_no_try_begins_after_the_budget() -> None:
    time = Time()

    def slow(seconds: float) -> str:
        time.now += 4
        raise ProviderUnavailable("slow")

    with pytest.raises(ProviderUnavailable):
        link_of(time, budget=10, tries=9, failures=99).make(slow, tokens=1, deadline=time.now + 10)
    assert time.now <= 1010 + 4


def test_a_try_is_told_how_long_it_may_take() -> None:
    time = Time()
    told: list[float] = []

    def once(seconds: float) -> str:
        told.append(seconds)
        time.now += 3
        if len(told) == 1:
            raise ProviderUnavailable("away")
        return "yes"

    link = link_of(time, budget=20, uniform=0.0)
    link.make(once, tokens=1, deadline=link.deadline())
    assert told == [20, 17]


def test_what_is_refused_is_not_tried_again() -> None:
    time = Time()
    with pytest.raises(ProviderRefused):
        made(link_of(time), ProviderRefused("no"))
    assert time.slept == []


def test_answers_that_were_lost_are_counted() -> None:
    lost = ProviderUnavailable("dropped", answer_lost=True)
    assert made(link_of(Time()), lost, ProviderUnavailable("away"), "yes") == ("yes", 1)
    with pytest.raises(ProviderUnavailable) as caught:
        made(link_of(Time(), tries=2), lost, ProviderUnavailable("away"))
    assert caught.value.answer_lost


@pytest.mark.parametrize(
    ("steps", "repeated"),
    [
        (("lost", "lost", "lost"), 2),  # the last one is repeated by whoever calls again
        (("lost", "away", "away"), 0),
        (("lost", "lost", "away"), 1),
        (("away", "away", "away"), 0),
        (("lost", "refused"), 1),
        (("lost", "lost", "held"), 1),
    ],
)
def test_what_was_repeated_within_a_call_that_fails_is_told(steps: tuple[str, ...], repeated: int) -> None:
    time = Time()
    link = link_of(time, tries=3, uniform=0.0)
    left = list(steps)

    def once(seconds: float) -> str:
        step = left.pop(0)
        if step == "refused":
            raise ProviderRefused("no")
        if left == ["held"]:
            link.calls.limiter.hold(link.key, 60)
        raise ProviderUnavailable(step, answer_lost=step == "lost")

    with metered() as uses, pytest.raises((ProviderUnavailable, ProviderRefused)) as caught:
        link.make(once, tokens=1, deadline=link.deadline())
    assert sum(use.repeated for use in uses) == repeated and not any(use.calls for use in uses)
    assert getattr(caught.value, "answer_lost", False) is ("lost" in steps and steps[-1] != "refused")


def test_no_try_begins_that_could_hardly_be_answered() -> None:
    time = Time()
    tries: list[float] = []

    def slow(seconds: float) -> str:
        tries.append(seconds)
        time.now += 9.5
        raise ProviderUnavailable("500 after a while")

    link = link_of(time, budget=10, failures=99, uniform=0.0)
    with pytest.raises(ProviderUnavailable, match="after a while"):
        link.make(slow, tokens=1, deadline=link.deadline())
    assert tries == [10]


def test_a_limit_is_waited_for_only_while_the_call_can_still_be_made() -> None:
    time = Time()
    link = link_of(time, budget=10, patience=10)
    link.calls.limiter.hold(link.key, 9.5)
    with pytest.raises(ProviderUnavailable) as caught:
        made(link, "never")
    assert caught.value.cause == "held" and time.slept == []
    time.now += 1
    assert made(link, "yes") == ("yes", 0) and time.slept == [8.5]


def test_a_server_that_asks_for_patience_is_waited_for_by_everybody() -> None:
    time = Time()
    link = link_of(time, uniform=0.0)
    limited = ProviderUnavailable("429", retry_after=3, cause="limit")
    assert made(link, limited, "yes") == ("yes", 0)
    assert time.now == 1003
    link.calls.limiter.hold(link.key, 2)
    assert made(link.for_call("vision"), "yes") == ("yes", 0)
    assert time.now == 1005


def test_a_longer_wait_is_left_to_the_ledger_with_the_time() -> None:
    time = Time()
    link = link_of(time, patience=10, uniform=0.0)
    with pytest.raises(ProviderUnavailable) as caught:
        made(link, ProviderUnavailable("429", retry_after=60, cause="limit"), "never")
    assert caught.value.cause == "held" and caught.value.retry_after == 60 and time.slept[-1:] in ([], [0.0])
    with pytest.raises(ProviderUnavailable) as other:  # another call does not ask at all
        made(link)
    assert other.value.cause == "held" and other.value.retry_after == 60


def test_who_waits_for_an_answer_is_not_held_back_by_the_limit_but_by_the_server() -> None:
    time = Time()
    link = link_of(time, rates=Rates(requests=1), first=True, patience=0, tries=1)
    assert [made(link, "yes")[0] for _ in range(3)] == ["yes"] * 3
    link.calls.limiter.hold(link.key, 5)
    with pytest.raises(ProviderUnavailable):
        made(link)


def test_after_outages_in_a_row_the_server_is_left_alone_and_one_tries() -> None:
    time = Time()
    link = link_of(time, tries=1, failures=3, uniform=0.0)
    for _ in range(3):
        with pytest.raises(ProviderUnavailable):
            made(link, ProviderUnavailable("away"))
    with pytest.raises(ProviderUnavailable, match="left alone") as caught:
        made(link)
    assert caught.value.cause == "held" and caught.value.retry_after == 5
    time.now += 5.1
    assert link.calls.breaker.enter(link.key) == 0  # it is the one that tries
    assert link.calls.breaker.enter(link.key) > 0
    link.calls.breaker.failed(link.key)
    assert 9 < link.calls.breaker.enter(link.key) <= 10  # twice as long
    time.now += 10.1
    assert made(link, "yes") == ("yes", 0)
    assert not link.calls.breaker.is_open(link.key) and made(link, "yes") == ("yes", 0)


def test_a_limit_opens_no_breaker_and_neither_does_a_refusal() -> None:
    time = Time()
    link = link_of(time, tries=1, failures=2)
    for error in (ProviderUnavailable("429", cause="limit", retry_after=0.1), ProviderRefused("no")) * 3:
        time.now += 10
        with pytest.raises((ProviderUnavailable, ProviderRefused)):
            made(link, error)
    time.now += 10
    assert made(link, "yes") == ("yes", 0)


def test_a_breaker_that_opens_ends_the_tries_of_a_call() -> None:
    time = Time()
    with pytest.raises(ProviderUnavailable, match="away"):
        made(link_of(time, tries=9, failures=2), *[ProviderUnavailable("away")] * 9)
    assert len(time.slept) == 1


def test_a_probe_that_never_ends_lets_another_one_through() -> None:
    time = Time()
    breaker = Breaker(BreakerTimes(failures=1, first=5, probe=60), time.clock)
    breaker.failed("s")
    time.now += 6
    assert breaker.enter("s") == 0 and breaker.enter("s") > 0
    time.now += 61
    assert breaker.enter("s") == 0


def test_a_call_that_was_let_through_before_lets_nobody_else_try() -> None:
    time = Time()
    breaker = Breaker(BreakerTimes(failures=1, first=5), time.clock)
    assert breaker.enter("s") == 0  # a call begins, and is not made after all, much later
    breaker.failed("s")
    time.now += 6
    other = threading.Thread(target=lambda: breaker.enter("s"))
    other.start()
    other.join()
    breaker.left("s")
    assert breaker.enter("s") > 0  # the other one still tries


def test_of_many_threads_one_tries() -> None:
    time = Time()
    breaker = Breaker(BreakerTimes(failures=1, first=5), time.clock)
    breaker.failed("s")
    time.now += 6
    let: list[float] = []
    begin = threading.Barrier(16)

    def enter() -> None:
        begin.wait()
        let.append(breaker.enter("s"))

    threads = [threading.Thread(target=enter) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert let.count(0.0) == 1


def test_the_breaker_of_one_server_is_not_that_of_another() -> None:
    breaker = Breaker(BreakerTimes(failures=1))
    breaker.failed("a")
    assert breaker.enter("a") > 0 and breaker.enter("b") == 0
