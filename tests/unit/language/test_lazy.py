"""Things made once."""

from __future__ import annotations

import os
import threading
import time

import pytest

from memline.language.lazy import ForkLock, Lazy


def in_child(check: object) -> int:
    """Exit status of a forked child: 0 where *check* returned true."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if check() else 1  # type: ignore[operator]
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_many_threads_make_one_value() -> None:
    made: list[int] = []

    def make() -> object:
        time.sleep(0.01)
        made.append(1)
        return object()

    lazy = Lazy(make)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(lazy.get())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and len(set(map(id, found))) == 1


def test_a_failure_is_raised_and_the_next_caller_tries_again() -> None:
    answers = iter([OSError("away"), None])

    def make() -> str:
        answer = next(answers)
        if answer is not None:
            raise answer
        return "here"

    lazy = Lazy(make)
    with pytest.raises(OSError, match="away"):
        lazy.get()
    assert lazy.get() == "here"


def test_a_dropped_value_is_made_anew() -> None:
    lazy = Lazy(object)
    first = lazy.get()
    assert lazy.drop() is first
    assert lazy.drop() is None
    assert lazy.get() is not first


def test_a_child_shares_the_value_unless_it_is_one_a_process() -> None:
    shared, own = Lazy(object), Lazy(object, per_process=True)
    first, second = shared.get(), own.get()
    assert in_child(lambda: shared.get() is first and own.get() is not second and own.drop() is not second) == 0
    assert own.get() is second


def test_a_lock_held_in_the_parent_is_open_in_the_child() -> None:
    lock = ForkLock()

    def usable() -> bool:
        with lock:
            return True

    with lock:
        assert in_child(usable) == 0
