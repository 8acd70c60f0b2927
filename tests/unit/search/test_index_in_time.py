"""What an index answers is looked at, and it has its share of the time."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memline.contracts.errors import ServiceUnavailable
from memline.search.guard import Guard
from memline.search.index.port import Nominee
from memline.search.index_in_time import IndexInTime, checked_nominees


def test_each_id_once_at_its_first_place_and_no_more_than_were_asked_for() -> None:
    given = [Nominee("a", 0.9), Nominee("b", 0.8), Nominee("a", 0.1), Nominee("c", 0.05), Nominee("b", 0.9)]
    assert checked_nominees(given, 10) == [given[0], given[1], given[3]]
    assert checked_nominees(given, 2) == given[:2]
    assert checked_nominees((), 3) == []


@pytest.mark.parametrize(
    "answer",
    [
        None,
        7,
        "ab",
        [None],
        [("a", 0.5)],
        [Nominee("a", float("nan"))],
        [Nominee("a", float("inf"))],
        [Nominee("a", None)],  # type: ignore[arg-type]
        [Nominee(None, 0.5)],  # type: ignore[arg-type]
        [Nominee(["a"], 0.5)],  # type: ignore[arg-type]
        [Nominee("a", 0.5), None],
        [Nominee("a", 10**400)],
        [Nominee("a\0b", 0.5)],
        [Nominee("\ud800", 0.5)],
    ],
)
def test_rubbish_is_an_index_that_is_down(answer: Any) -> None:
    with pytest.raises(ServiceUnavailable):
        checked_nominees(answer, 10)


class Index:
    """Answers what it was given, or hangs."""

    remote = True

    def __init__(self, answer: Any = (), hang: threading.Event | None = None) -> None:
        self.answer, self.hang = answer, hang
        self.asked = 0

    def nearest(self, *_given: Any, **_options: Any) -> Any:
        self.asked += 1
        if self.hang is not None:
            self.hang.wait(300)
        return self.answer

    matching = nearest_any = nearest


def in_time(index: Index, left: float) -> tuple[IndexInTime, SimpleNamespace]:
    time = SimpleNamespace(left=left)
    return IndexInTime(index, Guard("The index"), time), time  # type: ignore[arg-type]


def test_all_calls_of_a_search_share_half_of_what_was_left() -> None:
    index = Index([Nominee("a", 0.5)])
    asked, time = in_time(index, 100.0)
    vector = np.zeros(2, np.float32)
    assert asked.nearest("memory", "default", [], vector, limit=3) == [Nominee("a", 0.5)]
    time.left = 70.0
    assert asked.matching("default", [], ["tea"], limit=3) == [Nominee("a", 0.5)]
    assert asked.nearest_any("entity", "default", [], [vector], limit=3) == [Nominee("a", 0.5)]
    time.left = 50.0
    with pytest.raises(ServiceUnavailable, match="share"):
        asked.matching("default", [], ["tea"], limit=3)
    assert index.asked == 3 and asked.why is not None


def test_one_that_hangs_is_given_up_after_its_share() -> None:
    over = threading.Event()
    asked, _ = in_time(Index(hang=over), 0.04)
    with pytest.raises(ServiceUnavailable, match=r"within 0\.02 s"):
        asked.matching("default", [], ["tea"], limit=3)
    over.set()
    assert asked.why == "The index did not answer within 0.02 s."


def test_one_in_this_process_is_asked_in_this_thread() -> None:
    class Here(Index):
        remote = False

        def matching(self, *_given: Any, **_options: Any) -> Any:  # type: ignore[override]
            return [Nominee(threading.current_thread().name, 1.0)]

    asked, _ = in_time(Here(), -1.0)
    assert asked.matching("default", [], ["tea"], limit=1)[0].id == threading.current_thread().name
