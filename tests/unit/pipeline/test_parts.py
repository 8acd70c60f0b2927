"""How long a job waits for its next try."""

from __future__ import annotations

import math

import pytest

from memline.pipeline.parts import RetryPolicy


@pytest.mark.parametrize(("asked", "waits"), [(None, 2), (0.5, 2), (70, 70), (1e300, 86_400), (math.inf, 86_400), (math.nan, 2), (-9, 2)])
def test_a_provider_is_waited_for_as_long_as_it_asks_where_that_is_a_time(asked: float | None, waits: float) -> None:
    assert RetryPolicy(first_delay=1).delay(1, retry_after=asked) == waits


def test_waits_grow_to_the_longest_and_no_further() -> None:
    policy = RetryPolicy(first_delay=1, longest_delay=300)
    assert [policy.delay(failures) for failures in (0, 1, 2, 8, 9, 10_000)] == [1, 2, 4, 256, 300, 300]
