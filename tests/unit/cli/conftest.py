"""The whole program without what takes seconds to load."""

from __future__ import annotations

from pathlib import Path

import pytest

from memline.language.analysis import TextAnalyser
from tests.patience import patient_clients


@pytest.fixture
def light(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder; an embedder that costs nothing to load, and terms by rules: these tests are not about models."""
    monkeypatch.setenv("MEMLINE_EMBEDDER", "tests.unit.cli.parts:Tiny")
    monkeypatch.setenv("MEMLINE_EXIT_DRAIN", "120")  # what a command began is done when the next one looks, on a slow machine too
    monkeypatch.setattr(TextAnalyser, "_load", lambda _self: None)
    return memline_home


@pytest.fixture
def patient(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of this process wait for Redis: a slow machine is no Redis that is away."""
    patient_clients(monkeypatch)


@pytest.fixture
def patient_redis(patient: None, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of the session's Redis, which is set, and waited for."""
    monkeypatch.setenv("MEMLINE_REDIS_URL", redis_url)
    return redis_url
