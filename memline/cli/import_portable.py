"""Lines of an export of memline's, from JSON to checked memories of the namespace that they are imported into."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from memline.cli.import_lines import object_in
from memline.cli.import_memories import BadPlace, Found
from memline.contracts.errors import InvalidInput
from memline.contracts.ids import derived_id
from memline.contracts.portable import ExportHeader, PortableMemory
from memline.contracts.portable_read import is_header, read_header, read_memory
from memline.pipeline.transfer import check_vector

__all__ = ["PortableReader", "header_in"]

_BOM = b"\xef\xbb\xbf"


def header_in(line: bytes) -> dict[str, Any] | None:
    """The first line of a file, parsed, if it says that this is an export; None for any other."""
    try:
        found = object_in(line.removeprefix(_BOM))
    except InvalidInput:
        return None
    return found if is_header(found) else None


class PortableReader:
    """Reads the lines after the header. *embedder*: model and dimension whose vectors are of use; others are left."""

    def __init__(
        self,
        header: dict[str, Any],
        namespace: str,
        *,
        embedder: tuple[str, int],
        new_ids: bool,
        ignore: Collection[str] = (),
    ) -> None:
        self.header: ExportHeader = read_header(header)
        self._namespace = namespace
        self._embedder = embedder
        self._new_ids = new_ids
        self._ignore = frozenset(ignore)
        #: Lines read, blank ones aside.
        self.lines = 0

    @property
    def cut_off(self) -> bool:
        """The file holds fewer memories than its header says."""
        return self.lines < self.header.memories

    def read(self, lines: Iterable[bytes], *, first: int = 2) -> Iterator[Found | BadPlace]:
        """Memories in the order of their lines, the first of which has the number *first*."""
        for number, line in enumerate(lines, first):
            if not line.strip():
                continue
            self.lines += 1
            try:
                yield Found(f"line {number}", self._memory(object_in(line)))
            except InvalidInput as error:
                yield BadPlace(f"line {number}", str(error))

    def _memory(self, line: dict[str, Any]) -> PortableMemory:
        memory = read_memory(line, self._namespace, self.header, ignore=self._ignore)
        if memory.vector is not None:
            memory = replace(memory, vector=check_vector(memory.vector) if self.header.embedder == self._embedder else None)
        return memory.with_ids(self._new_id) if self._new_ids else memory

    def _new_id(self, memory_id: str) -> str:
        """The same for the same id whenever it is imported into this namespace."""
        return derived_id("imported", self._namespace, memory_id)
