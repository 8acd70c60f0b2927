"""One BLAS thread while small products are made, and as many as before afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from memline.language.blas import one_blas_thread


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two() -> Iterator[None]:
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(2, user_api="blas"):
        yield


def test_within_the_block_there_is_one_and_afterwards_what_was() -> None:
    assert threads() == {2}
    with one_blas_thread():
        assert threads() == {1}
    assert threads() == {2}


def test_an_inner_block_and_an_error_change_nothing() -> None:
    def fail() -> None:
        with one_blas_thread():
            with one_blas_thread():
                pass
            assert threads() == {1}
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert threads() == {2}


def test_blocks_of_two_threads_that_overlap_leave_what_was_before_both() -> None:
    inside, first_is_out = threading.Event(), threading.Event()

    def second() -> None:
        with one_blas_thread():
            inside.set()
            first_is_out.wait(300)

    other = threading.Thread(target=second)
    with one_blas_thread():
        other.start()
        assert inside.wait(300)
    assert threads() == {1}
    first_is_out.set()
    other.join()
    assert threads() == {2}
