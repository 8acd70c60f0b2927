"""An embedder that ends its process in the middle of an import."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import numpy as np

from memline.language.ports import Vectors

__all__ = ["Killing"]


class Killing:
    """Kills the process at the call with the number in TEST_KILL_AT, counted from 1; never without it."""

    model = "killing-1"
    dimension = 2
    paid = False

    def __init__(self) -> None:
        self._calls = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        self._calls += 1
        if str(self._calls) == os.environ.get("TEST_KILL_AT"):
            os.kill(os.getpid(), signal.SIGKILL)
        return np.tile(np.array([1.0, 0.0], np.float32), (len(texts), 1))
