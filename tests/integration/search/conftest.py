"""The backends of the index port, each whole and each with a ledger of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memline.ledger.migrate import open_ledger
from memline.ledger.session import Ledger
from memline.search.index.embedded import EmbeddedIndex
from tests.integration.search.backends import SPACE, Backend, weaviate_index
from tests.parts import MemoryIndex


@pytest.fixture
def own_ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty SQLite ledger: what is asked of an index does not depend on which ledger it stands beside."""
    opened = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    open_ledger(opened)
    yield opened
    opened.close()


@pytest.fixture(params=["embedded", "weaviate", "memory"])
def backend(request: pytest.FixtureRequest, own_ledger: Ledger) -> Iterator[Backend]:
    """Each backend in turn, with nothing in it."""
    if request.param == "embedded":
        yield Backend(EmbeddedIndex(own_ledger, own_ledger, space=SPACE), own_ledger)
    elif request.param == "memory":
        yield Backend(MemoryIndex(), own_ledger, knows_dimension=False)
    else:
        index = weaviate_index(request.getfixturevalue("weaviate_server"), own_ledger, prefix=f"T{os.urandom(6).hex()}")
        yield Backend(index, own_ledger)
        index.drop()
        index.close()
