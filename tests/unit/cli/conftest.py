"""The whole program without what takes seconds to load."""

from __future__ import annotations

from pathlib import Path

import pytest

from memline.language.analysis import TextAnalyser


@pytest.fixture
def light(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder; an embedder that costs nothing to load, and terms by rules: these tests are not about models."""
    monkeypatch.setenv("MEMLINE_EMBEDDER", "tests.unit.cli.parts:Tiny")
    monkeypatch.setattr(TextAnalyser, "_load", lambda _self: None)
    return memline_home
