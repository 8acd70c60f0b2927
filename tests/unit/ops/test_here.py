"""Ports of `make stack` on free ports: what one service was given is no other's."""

from __future__ import annotations

import socket

import pytest

from ops.stack import here


def test_a_port_that_the_system_names_again_is_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    named = iter([4711, 4711, 4711, 4712])

    class Probe(socket.socket):
        def bind(self, address: object) -> None:
            return None

        def getsockname(self) -> tuple[str, int]:
            return "127.0.0.1", next(named)

    monkeypatch.setattr(here.socket, "socket", Probe)
    first = here.free_port()
    assert (first, here.free_port([first])) == (4711, 4712)
