"""The counts of one process in a file that others read while it is written, and that outlives a kill.

The file is mapped into memory, so a count is a write to memory and lies with the kernel at once: a killed process loses none. Layout, all
little-endian: the magic, then how many bytes are used (uint64), then entries: the length of the key and the number of values (2 x uint32),
the key, zeros up to a multiple of 8, the values (float64). An entry is written before the number of used bytes that takes it in.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path

__all__ = ["MAGIC", "CountsFile", "Key", "read_counts", "write_counts"]

MAGIC = b"memline1"

#: What is counted, and the values of its labels, after the letter of its kind: c counter, h histogram, g gauge.
Key = tuple[str, ...]

_USED, _ENTRY, _VALUE = struct.Struct("<Q"), struct.Struct("<II"), struct.Struct("<d")
_START = len(MAGIC) + _USED.size
_STEP, _ROOM = 64 * 1024, 4 * 1024
_SEPARATOR = "\x1f"


class CountsFile:
    """A new file of counts, locked as long as this process lives (`flock`: it ends with the process, however that ends).

    It gets its name only when it is locked, so nobody takes it for a dead one's. Not safe for threads. Raises OSError where the disk has
    no room.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        fresh = path.with_suffix(".new")
        self._fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._size = _STEP
            self._map = self._mapped(_STEP)
            self._used = _START
            self._map[: len(MAGIC)] = MAGIC
            self._put(_USED, len(MAGIC), self._used)
            fresh.rename(path)
        except OSError:
            os.close(self._fd)
            fresh.unlink(missing_ok=True)
            raise
        self._places: dict[tuple[Key, int], int] = {}

    def place(self, key: Key, values: int) -> int:
        """Where the *values* numbers of *key* stand; they begin at 0."""
        found = self._places.get((key, values))
        if found is None:
            found = self._places[key, values] = self._append(key, values)
        return found

    def add(self, place: int, by: float) -> None:
        (before,) = _VALUE.unpack_from(self._map, place)
        self._put(_VALUE, place, before + by)

    def set(self, place: int, value: float) -> None:
        self._put(_VALUE, place, value)

    def close(self) -> None:
        """Lets go of the file; in a forked child the parent keeps its own hold."""
        self._map.close()
        os.close(self._fd)

    def _append(self, key: Key, values: int) -> int:
        head = _head(key, values)
        end = self._used + len(head) + values * _VALUE.size
        if end > self._size:
            size = -(-end // _STEP) * _STEP
            grown = self._mapped(size)
            self._map.close()
            self._map, self._size = grown, size
        self._map[self._used : self._used + len(head)] = head
        place, self._used = self._used + len(head), end
        self._put(_USED, len(MAGIC), end)
        return place

    def _put(self, kind: struct.Struct, place: int, number: float) -> None:
        # eight bytes at once: `pack_into` clears the place first, and who reads at that moment sees a counter fall to 0
        self._map[place : place + 8] = kind.pack(number)

    def _mapped(self, size: int) -> mmap.mmap:
        # the room is taken now: a write to a mapped hole on a full disk would be a signal that kills
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._fd, 0, size)
        else:  # macOS
            for at in range(os.fstat(self._fd).st_size, size, _ROOM):
                os.pwrite(self._fd, bytes(_ROOM), at)
            if os.fstat(self._fd).st_size < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return mmap.mmap(self._fd, size)


def read_counts(raw: bytes) -> Iterator[tuple[Key, tuple[float, ...]]]:
    """The entries of a file's bytes; nothing for a file that is none, and no more than is whole."""
    if raw[: len(MAGIC)] != MAGIC or len(raw) < _START:
        return
    (used,) = _USED.unpack_from(raw, len(MAGIC))
    at, end = _START, min(used, len(raw))
    while at + _ENTRY.size <= end:
        length, values = _ENTRY.unpack_from(raw, at)
        place = at + _padded(_ENTRY.size + length)
        after = place + values * _VALUE.size
        if after > end:
            return
        key = raw[at + _ENTRY.size : at + _ENTRY.size + length].decode("utf-8", "replace")
        yield tuple(key.split(_SEPARATOR)), struct.unpack_from(f"<{values}d", raw, place)
        at = after


def write_counts(counts: dict[tuple[Key, int], tuple[float, ...]]) -> bytes:
    """The bytes of a file with *counts*, by key and number of values."""
    body = b"".join(_head(key, values) + struct.pack(f"<{values}d", *numbers) for (key, values), numbers in counts.items())
    return MAGIC + _USED.pack(_START + len(body)) + body


def _head(key: Key, values: int) -> bytes:
    name = _SEPARATOR.join(key).encode("utf-8", "replace")
    head = _ENTRY.pack(len(name), values) + name
    return head.ljust(_padded(len(head)), b"\0")


def _padded(length: int) -> int:
    return -(-length // 8) * 8
