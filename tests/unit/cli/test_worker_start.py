"""A worker asks Redis for its policy before it begins: a slow one is asked again, one that is not there is told."""

from __future__ import annotations

import pytest
import redis

from memline.cli.worker import checked_policy
from memline.contracts.errors import ServiceUnavailable
from memline.producer import TurnStream


def away(cause: Exception) -> ServiceUnavailable:
    error = ServiceUnavailable("Redis does not answer.")
    error.__cause__ = cause
    return error


class Answers(TurnStream):
    """A stream whose Redis answers one thing after the other, the last one for ever."""

    def __init__(self, *steps: ServiceUnavailable | str | None) -> None:
        super().__init__("redis://127.0.0.1:1/0")
        self.steps = list(steps)
        self.asked = 0

    def check_policy(self) -> str | None:
        self.asked += 1
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, ServiceUnavailable):
            raise step
        return step


def test_a_redis_that_is_late_is_asked_again() -> None:
    stream = Answers(away(redis.TimeoutError()), away(redis.TimeoutError()), "its policy is hidden")
    assert checked_policy(stream) == "its policy is hidden"
    assert stream.asked == 3


def test_a_redis_that_is_late_for_ever_is_told() -> None:
    stream = Answers(away(redis.TimeoutError()))
    with pytest.raises(ServiceUnavailable):
        checked_policy(stream)
    assert stream.asked == 20


def test_a_redis_that_is_not_there_is_told_at_once() -> None:
    stream = Answers(away(redis.ConnectionError()), None)
    with pytest.raises(ServiceUnavailable):
        checked_policy(stream)
    assert stream.asked == 1
