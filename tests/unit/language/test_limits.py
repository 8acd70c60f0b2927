"""Calls and tokens a minute: what may go, and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memline.language.limits import LocalLimiter, Rates


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def test_without_a_limit_nothing_waits() -> None:
    limiter = LocalLimiter(Clock())
    assert all(limiter.reserve("s", Rates(), 10_000, patience=0).reserved for _ in range(1000))


@given(st.integers(1, 600), st.lists(st.floats(0, 30), min_size=1, max_size=200))
def test_no_minute_has_more_calls_than_the_limit(limit: int, gaps: list[float]) -> None:
    clock = Clock()
    limiter = LocalLimiter(clock)
    went: list[float] = []
    for gap in gaps:
        clock.now += gap
        granted = limiter.reserve("s", Rates(requests=limit), 1, patience=5)
        if granted.reserved:
            went.append(clock.now + granted.wait)
    for start in went:
        assert sum(start <= at < start + 60 for at in went) <= limit + 1


@given(st.integers(100, 10_000), st.lists(st.tuples(st.floats(0, 20), st.integers(1, 500)), min_size=1, max_size=100))
def test_no_minute_has_more_tokens_than_the_limit_and_one_call(limit: int, calls: list[tuple[float, int]]) -> None:
    clock = Clock()
    limiter = LocalLimiter(clock)
    went: list[tuple[float, int]] = []
    for gap, tokens in calls:
        clock.now += gap
        granted = limiter.reserve("s", Rates(tokens=limit), tokens, patience=5)
        if granted.reserved:
            went.append((clock.now + granted.wait, tokens))
    for start, _ in went:
        assert sum(tokens for at, tokens in went if start <= at < start + 60) <= limit + 500


def test_what_is_not_reserved_costs_nothing_and_says_when() -> None:
    clock = Clock()
    limiter = LocalLimiter(clock)
    assert limiter.reserve("s", Rates(requests=1), 1, patience=0).reserved
    refused = [limiter.reserve("s", Rates(requests=1), 1, patience=1) for _ in range(5)]
    assert not any(each.reserved for each in refused) and len({each.wait for each in refused}) == 1
    clock.now += refused[0].wait + 1e-6
    assert limiter.reserve("s", Rates(requests=1), 1, patience=0).reserved


def test_a_call_that_used_less_than_it_reserved_gives_the_rest_back() -> None:
    clock = Clock()
    limiter = LocalLimiter(clock)
    rates = Rates(tokens=1000)
    limiter.reserve("s", rates, 900, patience=0)
    held = limiter.reserve("s", rates, 1, patience=0).wait
    limiter.correct("s", rates, -800)
    assert limiter.reserve("s", rates, 1, patience=0).wait < held


def test_a_call_of_more_tokens_than_a_minute_has_goes_and_the_others_wait_for_it() -> None:
    clock = Clock()
    limiter = LocalLimiter(clock)
    assert limiter.reserve("s", Rates(tokens=100), 250, patience=0).reserved
    wait = limiter.reserve("s", Rates(tokens=100), 1, patience=0).wait
    assert 120 < wait < 180


@given(st.integers(1, 500), st.integers(1, 600))
def test_calls_that_wait_for_nobody_put_off_the_others_by_a_minute_at_most(calls: int, limit: int) -> None:
    clock = Clock()
    limiter = LocalLimiter(clock)
    rates = Rates(requests=limit, tokens=1000)
    assert all(limiter.reserve("s", rates, 100, patience=0, first=True).reserved for _ in range(calls))
    assert limiter.reserve("s", rates, 1, patience=0).wait <= 60 + 1e-6
    clock.now += 60.001
    assert limiter.reserve("s", rates, 1, patience=0).reserved


def test_servers_are_apart() -> None:
    limiter = LocalLimiter(Clock())
    limiter.hold("a", 30)
    assert limiter.reserve("a", Rates(), 1, patience=0).wait == 30
    assert limiter.reserve("b", Rates(), 1, patience=0).reserved
