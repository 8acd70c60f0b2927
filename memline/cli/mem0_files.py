"""A mem0 store, from its exported files to memories in the order in which they were made.

A vector store gives its points in the order of their ids, which are random. So everything is read first and lies, in the meantime, in a
temporary file that has no name; a file that is wrong is found out before anything is imported.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from memline.cli.import_memories import BadPlace, Found
from memline.cli.json_items import items_in
from memline.cli.mem0_history import Mem0History
from memline.cli.mem0_items import memory_of
from memline.contracts.errors import InvalidInput
from memline.contracts.portable import ExportHeader, PortableMemory
from memline.contracts.portable_read import read_memory

__all__ = ["Mem0Files"]


#: Opens a file by the name that the user gave.
Opener = Callable[[str], AbstractContextManager[BinaryIO]]


class Mem0Files:
    """Reads exported JSON of mem0's memories. *ids*: scope ids for those that name none. `notes` counts what was passed over."""

    def __init__(self, namespace: str, ids: Mapping[str, str], *, history: Path | None, now: datetime) -> None:
        self._namespace = namespace
        self._ids = dict(ids)
        self._now = now
        self._history = None if history is None else Mem0History(history)
        self.notes: Counter[str] = Counter()
        self.items = 0

    def read(self, files: Sequence[str], opened: Opener) -> Iterator[Found | BadPlace]:
        """What is wrong first, item by item, then the memories, oldest first. Raises InvalidInput where a file is not JSON."""
        # one that is left half read is ended by whatever thread collects it
        with closing(sqlite3.connect("", check_same_thread=False)) as shelf:
            shelf.execute("CREATE TABLE memories (at TEXT, place TEXT, line TEXT)")
            for file in files:
                with opened(file) as handle:
                    yield from self._shelve(shelf, "stdin" if file == "-" else file, handle)
            for place, line in shelf.execute("SELECT place, line FROM memories ORDER BY at, rowid"):
                yield Found(place, read_memory(json.loads(line), self._namespace, _no_header(self._now)))
        if self._history is not None:
            self._history.close()

    def _shelve(self, shelf: sqlite3.Connection, file: str, handle: BinaryIO) -> Iterator[BadPlace]:
        items = items_in(handle)
        number = 0
        while True:
            try:
                line, item = next(items)
            except StopIteration:
                return
            except InvalidInput as error:
                raise InvalidInput(f"{file}, {error} Nothing was imported.") from None
            number += 1
            self.items += 1
            place = f"{file}, item {number} (line {line})"
            try:
                memory = self._memory(item)
            except InvalidInput as error:
                yield BadPlace(place, str(error))
                continue
            if memory is not None:
                written = json.dumps(memory.to_json(), ensure_ascii=False)
                shelf.execute(
                    "INSERT INTO memories VALUES (?, ?, ?)", (memory.created_at.isoformat(timespec="microseconds"), place, written)
                )

    def _memory(self, item: Any) -> PortableMemory | None:
        memory = memory_of(item, self._namespace, self._ids, now=self._now, notes=self.notes)
        if memory is None or self._history is None:
            return memory
        return self._history.told(memory, str(item.get("id")))


def _no_header(now: datetime) -> ExportHeader:
    return ExportHeader("", "", {}, 0, None, False, True, now)
