"""The way to an end in time: what a process does at the first signal, at the second, and at the limit."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from memline.contracts.errors import ServiceUnavailable
from memline.workers.stopping import Stop


class Ended:
    """A process that can be asked how it ended."""

    def __init__(self, handed_back: int = 0, error: Exception | None = None) -> None:
        self.said: list[str] = []
        self.code: int | None = None
        self._over, self._gave = threading.Event(), threading.Event()
        self._handed_back, self._error = handed_back, error

    def begin(self) -> None:
        self.said.append("begin no more")

    def hand_back(self) -> int:
        self.said.append("hand back")
        self._gave.set()
        if self._error is not None:
            raise self._error
        return self._handed_back

    def leave(self, code: int) -> None:
        self.code = code
        self._over.set()

    def stop(self, within: float) -> Stop:
        return Stop(within, begin=self.begin, hand_back=self.hand_back, leave=self.leave)

    def wait(self) -> int | None:
        assert self._over.wait(300)
        return self.code

    def wait_for_what_it_gives(self) -> None:
        """The thread that hands back is waited for a moment only, in which a slow machine may not even have begun it."""
        assert self._gave.wait(300)


@pytest.fixture(autouse=True)
def _handlers() -> object:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    kept = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, kept, strict=True):
        signal.signal(number, handler)


def test_the_first_signal_begins_the_end_and_at_the_limit_what_is_held_goes_back() -> None:
    process, told = Ended(handed_back=2), []
    stop = process.stop(0.2)
    stop.listen(lambda: told.append("celery"))
    signal.raise_signal(signal.SIGTERM)
    assert stop.asked
    assert told == ["celery"]
    stop.wait()
    assert process.wait() == 0
    process.wait_for_what_it_gives()
    assert process.said == ["begin no more", "hand back"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_hands_back_and_ends_at_once(number: signal.Signals) -> None:
    process = Ended()
    stop = process.stop(600)
    stop.listen()
    signal.raise_signal(signal.SIGTERM)
    stop.wait()
    signal.raise_signal(number)
    assert process.wait() == 128 + number
    process.wait_for_what_it_gives()
    assert process.said == ["begin no more", "hand back"]


def test_a_ledger_that_fails_or_hangs_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    process = Ended(error=ServiceUnavailable("The ledger is away."))
    stop = process.stop(0.1)
    stop.listen()
    stop.now()
    assert process.wait() == 0
    deadline = time.monotonic() + 300
    while "The ledger is away." not in caplog.text:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    hanging = threading.Event()
    stuck = Ended()
    stop = Stop(0.1, begin=stuck.begin, hand_back=lambda: int(hanging.wait(600)), leave=stuck.leave)
    stop.listen()
    stop.now()
    assert stuck.wait() == 0
    assert "goes on when its lease runs out" in caplog.text
    hanging.set()


def test_a_beginning_that_fails_leaves_the_limit_standing(caplog: pytest.LogCaptureFixture) -> None:
    process = Ended()

    def fail() -> None:
        raise OSError

    stop = Stop(0.1, begin=fail, hand_back=process.hand_back, leave=process.leave)
    stop.listen()
    stop.now()
    assert process.wait() == 0
    assert "OSError" in caplog.text
