"""An answer in time: a call that may hang is waited for no longer than there is time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import TypeVar

__all__ = ["NoThread", "call_within"]

T = TypeVar("T")


class NoThread(TimeoutError):
    """The process can start no other thread: the call never began."""


def call_within(function: Callable[[], T], seconds: float) -> T:
    """*function*'s result, or its exception; TimeoutError after *seconds*, while the call goes on in a thread that holds nothing back."""
    context = copy_context()
    answer: SimpleQueue[tuple[bool, T | BaseException]] = SimpleQueue()

    def call() -> None:
        try:
            answer.put((True, context.run(function)))
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            answer.put((False, error))

    try:
        threading.Thread(target=call, name="memline-search-call", daemon=True).start()
    except RuntimeError:
        raise NoThread("no thread could be started for the call") from None
    try:
        done, value = answer.get(timeout=max(seconds, 0.001))
    except Empty:
        raise TimeoutError(f"no answer within {seconds:.1f} s") from None
    if not done:
        raise value  # type: ignore[misc]
    return value  # type: ignore[return-value]
