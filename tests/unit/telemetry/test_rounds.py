"""A loop is heard of once a round; one that hangs is not heard of, so that its check-in is missed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from memline.contracts import incidents
from memline.contracts.about import at_hand
from memline.contracts.incidents import FailedJob
from memline.workers.loops import Loop


class Heard:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.rounds: list[tuple[str, float, str | None]] = []
        self.broken: list[str] = []
        self.news = threading.Event()

    def job_failed(self, failed: FailedJob) -> None:
        raise AssertionError("no job failed")

    def broke(self, where: str, error: BaseException) -> None:
        self.broken.append(f"{where}: {type(error).__name__}")

    def round_ended(self, loop: str, *, every: float, seconds: float, error: BaseException | None) -> None:
        assert seconds >= 0
        self.rounds.append((loop, every, None if error is None else type(error).__name__))
        self.news.set()


@pytest.fixture
def heard() -> Iterator[Heard]:
    found = Heard()
    incidents.use(found)
    yield found
    incidents.use(None)


def run(work: Callable[[], int], until: threading.Event) -> Loop:
    """A loop that was told to end; it may still be telling of its round."""
    loop = Loop("sweep", work, idle=60)
    loop.start()
    assert until.wait(120)
    loop.stop()
    return loop


def test_a_round_is_heard_of_with_the_loops_name_and_rest_and_knows_what_it_is_about(heard: Heard) -> None:
    about: list[object] = []

    def work() -> int:
        about.append(dict(at_hand()))
        return 0

    assert run(work, heard.news).join(120)
    assert heard.rounds[0] == ("sweep", 60, None)
    assert about[0] == {"loop": "sweep"}


def test_a_round_that_fails_is_heard_of_with_its_error(heard: Heard) -> None:
    def work() -> int:
        raise RuntimeError("a text")

    assert run(work, heard.news).join(120)  # the round is told before what broke it
    assert heard.rounds[0] == ("sweep", 60, "RuntimeError")
    assert heard.broken[0] == "loop sweep: RuntimeError"


def test_a_loop_that_hangs_is_not_heard_of(heard: Heard) -> None:
    begun, free = threading.Event(), threading.Event()

    def work() -> int:
        begun.set()
        free.wait(600)
        return 0

    loop = run(work, begun)
    assert heard.rounds == []
    free.set()
    assert heard.news.wait(120) and loop.join(120)
