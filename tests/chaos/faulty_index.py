"""An index that fails as real ones do: a wrapper at the port around the embedded index, told what to do by a file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from memline.contracts.errors import ServiceUnavailable
from memline.contracts.index_object import Kind, ObjectKey
from memline.ledger.meta import stored_embedder
from memline.ledger.session import Ledger
from memline.search.index.embedded import EmbeddedIndex
from memline.search.index.port import Answer, IndexState, Nominee, Space, Write

__all__ = ["FaultyIndex", "put_fault"]


def put_fault(file: Path, told: str) -> None:
    """Writes it whole: who reads meanwhile finds what was there before, or this."""
    written = file.with_suffix(".new")
    written.write_text(told, encoding="utf-8")
    written.replace(file)


class FaultyIndex:
    """Reads its fault from the file `MEMLINE_TEST_INDEX_FAULT`, one word and how many writes it is for: `down 3`, `partial 2`, `lost 1`."""

    shares_ledger = False
    remote = False

    def __init__(self) -> None:
        self._file = Path(os.environ["MEMLINE_TEST_INDEX_FAULT"])
        ledger = Ledger(os.environ["MEMLINE_LEDGER_URL"])
        store = Ledger(f"sqlite:///{Path(os.environ['MEMLINE_HOME']) / 'index.db'}")
        with ledger.read() as connection:
            embedder = stored_embedder(connection)
        assert embedder is not None, "the process that starts this index opens the ledger first"
        self._index = EmbeddedIndex(store, ledger, space=Space(*embedder))  # the tables that the test looks into
        self._ledger = ledger

    @property
    def name(self) -> str:
        return f"faulty {self._index.name}"

    def write(self, writes: Sequence[Write], *, tx: Connection | None = None) -> list[Answer]:
        fault = self._next_fault()
        if fault == "down":
            raise ServiceUnavailable("The index does not answer (test).")
        if fault == "partial":
            taken = self._index.write(writes[::2])
            return [*taken, *(Answer(write.key, "refused (test)") for write in writes[1::2])]
        answers = self._index.write(writes)
        if fault == "lost":
            raise ServiceUnavailable("The answer of the index was lost (test).")
        return answers

    def nearest(self, kind: Kind, namespace: str, scopes: Any, vector: Any, *, limit: int, offset: int = 0) -> list[Nominee]:
        return self._index.nearest(kind, namespace, scopes, vector, limit=limit, offset=offset)

    def nearest_any(self, kind: Kind, namespace: str, scopes: Any, vectors: Any, *, limit: int) -> list[Nominee]:
        return self._index.nearest_any(kind, namespace, scopes, vectors, limit=limit)

    def matching(self, namespace: str, scopes: Any, terms: Sequence[str], *, limit: int, offset: int = 0) -> list[Nominee]:
        return self._index.matching(namespace, scopes, terms, limit=limit, offset=offset)

    def walk(self, kind: Kind, namespace: str, *, after: str = "", limit: int = 1000, vectors: bool = False) -> Iterator[IndexState]:
        return self._index.walk(kind, namespace, after=after, limit=limit, vectors=vectors)

    def look(self, keys: Sequence[ObjectKey], *, vectors: bool = False) -> dict[ObjectKey, IndexState]:
        return self._index.look(keys, vectors=vectors)

    def namespaces(self) -> list[str]:
        return self._index.namespaces()

    def close(self) -> None:
        self._index.close()
        self._ledger.close()

    def _next_fault(self) -> str:
        """The fault of this write; counts it down."""
        try:
            word, left = self._file.read_text(encoding="utf-8").split()
        except FileNotFoundError:
            return ""
        if int(left) <= 1:
            self._file.unlink(missing_ok=True)
        else:
            put_fault(self._file, f"{word} {int(left) - 1}")
        return word
