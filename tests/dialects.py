"""The recorded replies of servers, as parameters of tests."""

from __future__ import annotations

from typing import Any

import pytest

from memline.cli.simulator.recorded import Dialect, Recorded, dialect, dialects

__all__ = ["recorded"]


def recorded(endpoint: str) -> list[Any]:
    """(dialect, reply) of every server for one endpoint, named."""
    found: list[tuple[Dialect, Recorded]] = [(each, reply) for each in map(dialect, dialects()) for reply in each.of(endpoint)]
    return [pytest.param(each, reply, id=f"{each.server}: {reply.name}") for each, reply in found]
