"""Vectors of an embedder are looked at before anybody keeps them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memline.contracts.errors import ProviderRefused
from memline.language.checked import checked_vectors

EMBEDDER: Any = SimpleNamespace(model="own", dimension=2)


def test_vectors_come_back_as_float32() -> None:
    found = checked_vectors(EMBEDDER, [[0.6, 0.8], [1, 0]], 2)
    assert found.dtype == np.float32 and found.shape == (2, 2)


@pytest.mark.parametrize(
    "answer", [None, "ab", [[1, 0]], [[1, 0], [1]], [[1, 0, 0], [1, 0, 0]], [[1, float("nan")], [1, 0]], [[float("inf"), 0], [1, 0]], 7]
)
def test_rubbish_is_refused(answer: Any) -> None:
    with pytest.raises(ProviderRefused, match=r"no 2 finite vectors of 2 dimensions|vectors of dimension 3, its own is 2"):
        checked_vectors(EMBEDDER, answer, 2)
