"""The files that hold what a model is told: a version in the first line, then sections under `---- name ----`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files

__all__ = ["sections_of", "version_of"]

_SECTION = re.compile(r"^---- (\w+) ----\n", re.MULTILINE)


def sections_of(file: str) -> Mapping[str, str]:
    """The sections of a file of this package by name, stripped."""
    return _read(file)[1]


def version_of(file: str) -> str:
    """Its version, which changes with its words."""
    return _read(file)[0]


@lru_cache(maxsize=8)
def _read(file: str) -> tuple[str, Mapping[str, str]]:
    text = files("memline.pipeline.extractors").joinpath(file).read_text(encoding="utf-8")
    head, *parts = _SECTION.split(text)
    return head.partition(":")[2].strip(), {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
