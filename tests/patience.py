"""Time for a slow machine: what stands still there for seconds is not away."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import redis

__all__ = ["PATIENT_CLIENT", "more_time", "patient_clients", "patient_url"]

#: Options of a client that waits for its Redis.
PATIENT_CLIENT = {"socket_timeout": 120, "socket_connect_timeout": 120}


def patient_url(url: str) -> str:
    """The same, for processes whose own clients are to wait. Not for Celery, which takes no such options."""
    return f"{url}?{urlencode(PATIENT_CLIENT)}"


def patient_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on clients of this process wait."""
    plain = redis.Redis.from_url

    def patient(url: str, **options: Any) -> Any:
        return plain(url, **options | PATIENT_CLIENT)

    monkeypatch.setattr(redis.Redis, "from_url", patient)


def more_time(arguments: Sequence[str | Path]) -> list[str]:
    """What a command that gives up is told, too, unless it was told when: a slow machine may load for long."""
    command = arguments[2:3] if arguments and str(arguments[0]).startswith("--") else arguments[:1]
    waits = [*command] in (["add"], ["demo"]) and "--timeout" not in arguments
    return ["--timeout", "240"] if waits else []
