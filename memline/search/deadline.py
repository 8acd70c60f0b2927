"""An answer in time: a call that may hang is waited for no longer than there is time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

__all__ = ["call_within"]

T = TypeVar("T")


def call_within(function: Callable[[], T], seconds: float) -> T:
    """*function*'s result, or its exception; TimeoutError after *seconds*, while the call goes on in a thread that holds nothing back."""
    answer: SimpleQueue[tuple[bool, T | BaseException]] = SimpleQueue()

    def call() -> None:
        try:
            answer.put((True, function()))
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            answer.put((False, error))

    threading.Thread(target=call, name="memline-search-call", daemon=True).start()
    try:
        done, value = answer.get(timeout=max(seconds, 0.001))
    except Empty:
        raise TimeoutError(f"no answer within {seconds:.1f} s") from None
    if not done:
        raise value  # type: ignore[misc]
    return value  # type: ignore[return-value]
