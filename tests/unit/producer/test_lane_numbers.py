"""Turns are numbered from 1 in each lane of an instance, without remembering lanes for ever."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from memline.producer.lane_numbers import LaneNumbers

LANES = [f"{n:032x}" for n in range(12)]


def number(numbers: LaneNumbers, lane: str) -> tuple[str, int]:
    stripe = numbers.stripe(lane)
    with stripe.lock:
        numbers.roll_over(stripe, lane)
        found = (stripe.producer, stripe.peek(lane))
        stripe.take(lane)
        return found


def test_a_number_that_was_not_taken_is_given_again() -> None:
    numbers = LaneNumbers("p", str)
    stripe = numbers.stripe(LANES[0])
    assert (stripe.peek(LANES[0]), stripe.peek(LANES[0])) == (1, 1)
    stripe.take(LANES[0])
    assert stripe.peek(LANES[0]) == 2


@given(st.lists(st.sampled_from(LANES), max_size=80))
def test_each_instance_numbers_each_lane_without_gaps_and_never_twice(lanes: list[str]) -> None:
    fresh = count(1)
    numbers = LaneNumbers("p0", lambda: f"p{next(fresh)}", stripes=2, lanes_per_stripe=3)
    given_out: dict[tuple[str, str], list[int]] = {}
    for lane in lanes:
        producer, turn = number(numbers, lane)
        given_out.setdefault((producer, lane), []).append(turn)
        assert all(len(stripe.last) <= 3 for stripe in numbers._stripes)
    for found in given_out.values():
        assert found == list(range(1, len(found) + 1))
