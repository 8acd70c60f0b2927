"""The keys of `memline top`, on a real terminal."""

from __future__ import annotations

import os
import pty
import select
from collections.abc import Iterator

import pytest

from memline.cli.top import _keys


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """Its own end, and the other one, which is stdin."""
    own, theirs = pty.openpty()
    with open(theirs, "rb", buffering=0, closefd=False) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        yield own, theirs
    os.close(own)
    os.close(theirs)


def typed(terminal: tuple[int, int], keys: bytes) -> None:
    own, theirs = terminal
    os.write(own, keys)
    assert select.select([theirs], [], [], 120)[0]


def test_q_is_seen_where_a_frame_took_longer_than_the_time_between_two(terminal: tuple[int, int]) -> None:
    with _keys() as pressed:
        assert not pressed(0.0)
        typed(terminal, b"x")
        assert not pressed(0.0)
        typed(terminal, b"q")
        assert pressed(0.0)


def test_q_ends_the_wait_and_another_key_does_not(terminal: tuple[int, int]) -> None:
    with _keys() as pressed:
        typed(terminal, b"x")
        assert not pressed(0.01)
        typed(terminal, b"Q")
        assert pressed(600)
