"""One file of a spool: JSON lines, locked by its living owner, never half written for those who read it."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

__all__ = ["SUFFIX", "TORN_SUFFIX", "SpoolFile", "is_owned", "line_holds", "lines_of", "was_erased"]

#: Name endings of a spool file, and of what was set aside from it because it is no whole line.
SUFFIX = ".jsonl"
TORN_SUFFIX = ".torn"

_NEW_SUFFIX = ".new"
_COMPACT_FROM = 1024 * 1024
_CHUNK = 256 * 1024
_logger = logging.getLogger("memline.producer")


class SpoolFile:
    """A spool file that this process owns. Not safe between threads: `Spool` holds a lock around it.

    The owner holds a `flock`, which ends with its process however that dies. What was sent is dropped from the file when that
    is worth rewriting the rest, so draining n bytes writes O(n). Methods raise OSError as the system gives it.
    """

    def __init__(self, path: Path, handle: FileIO, size: int) -> None:
        self.path = path
        self._handle = handle
        self._size = size  # bytes of whole lines; what is behind them was never acknowledged
        self._sent = 0
        self._compact_from = _COMPACT_FROM

    @classmethod
    def create(cls, path: Path) -> SpoolFile:
        """A new, empty file; it gets its name only when it is locked, so that nobody takes it for a dead owner's."""
        new = path.with_suffix(_NEW_SUFFIX)
        handle = _open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            _lock(handle)
            new.replace(path)
            _sync_folder(path.parent)
        except OSError:
            handle.close()
            raise
        return cls(path, handle, 0)

    @classmethod
    def adopt(cls, path: Path) -> SpoolFile | None:
        """The file of a dead owner, or None: its owner lives, or it is gone.

        A torn last line is set aside and reported; a rewrite that the owner did not finish is removed.
        """
        try:
            handle = _open(path, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            if not _try_lock(handle) or not _is_at(handle, path):
                handle.close()
                return None
            size = os.fstat(handle.fileno()).st_size
            found = cls(path, handle, size)
            path.with_suffix(_NEW_SUFFIX).unlink(missing_ok=True)
            found._drop_torn_end()
            return found
        except OSError:
            handle.close()
            raise

    @property
    def pending(self) -> int:
        """Bytes that are not sent yet."""
        return self._size - self._sent

    @property
    def sent(self) -> int:
        """Bytes at the file's beginning that are sent and still there."""
        return self._sent

    def append(self, line: bytes) -> None:
        """Add one line and have it on disk; on an error the file is as it was."""
        data = memoryview(line + b"\n")
        try:
            # After an append that failed something may be left behind: `_size` says where the file really ends.
            self._handle.seek(self._size)
            self._handle.truncate(self._size)
            written = 0
            while written < len(data):
                written += self._handle.write(data[written:])
            os.fsync(self._handle.fileno())
        except OSError:
            self._handle.truncate(self._size)
            raise
        self._size += len(data)

    def head(self) -> list[bytes]:
        """The next lines to send, without their ends: at least one if any is pending, else as many as fit in 256 KiB."""
        want = _CHUNK
        while True:
            data = os.pread(self._handle.fileno(), min(want, self.pending), self._sent)
            whole, end, _ = data.rpartition(b"\n")
            if end:
                return whole.split(b"\n")
            if len(data) < want:
                return []
            want *= 4

    def advance(self, line: bytes) -> None:
        """The first line of `head` was sent."""
        self._sent += len(line) + 1
        if self._sent >= self._size:
            self._handle.truncate(0)
            self._size = self._sent = 0
        elif self._sent >= max(self._compact_from, self.pending):
            self._compact()

    def set_aside(self, line: bytes) -> None:
        """Keep bytes that are no turn beside the file, and say so (never what they are)."""
        torn = self.path.with_suffix(TORN_SUFFIX)
        with _open(torn, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as handle:
            handle.write(line + b"\n")
        _logger.warning("%d bytes in the spool file %s are no whole turn; set aside in %s", len(line), self.path, torn.name)

    def close(self) -> None:
        """Give the file up: removed if nothing is pending, else left with what is."""
        try:
            if self.pending == 0:
                self.path.unlink(missing_ok=True)
            elif self._sent:
                self._compact()
        finally:
            self._handle.close()

    def abandon(self) -> None:
        """Close a forked child's copy of the handle; the parent keeps file and lock."""
        self._handle.close()

    def _compact(self) -> None:
        """Rewrite the file without what was sent. A disk too full for that delays it: sending makes room in the end."""
        try:
            self._rewrite()
            self._compact_from = _COMPACT_FROM
        except OSError as error:
            self._compact_from = self._sent + _COMPACT_FROM
            _logger.warning("the spool file %s keeps %d sent bytes for now: %s", self.path, self._sent, error.strerror)

    def _rewrite(self) -> None:
        new = self.path.with_suffix(_NEW_SUFFIX)
        handle = _open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            _lock(handle)
            offset = self._sent
            while offset < self._size:
                chunk = os.pread(self._handle.fileno(), min(_CHUNK, self._size - offset), offset)
                if not chunk:
                    raise OSError(errno.EIO, "shorter than what was written to it")
                offset += handle.write(chunk)
            os.fsync(handle.fileno())
            new.replace(self.path)
        except OSError:
            handle.close()
            new.unlink(missing_ok=True)
            raise
        self._handle.close()
        self._handle, self._size, self._sent = handle, self._size - self._sent, 0
        _sync_folder(self.path.parent)

    def _drop_torn_end(self) -> None:
        begin = max(0, self._size)
        tail = b""
        while begin > 0 and b"\n" not in tail:
            step = min(_CHUNK, begin)
            begin -= step
            tail = os.pread(self._handle.fileno(), step, begin) + tail
        torn = tail.rpartition(b"\n")[2]
        if torn:
            self.set_aside(torn)
            self._size -= len(torn)
            self._handle.truncate(self._size)


def lines_of(path: Path, *, skip: int = 0) -> Iterator[bytes]:
    """The whole lines of a spool file, without their ends, from byte *skip* on; none if it is gone."""
    try:
        with path.open("rb") as handle:
            handle.seek(skip)
            for line in handle:
                if line.endswith(b"\n"):
                    yield line[:-1]
    except FileNotFoundError:
        return


def line_holds(line: bytes, turn_id: str) -> bool:
    """Whether the line is the turn with this id."""
    if json.dumps(turn_id).encode("utf-8") not in line:
        return False
    try:
        return bool(json.loads(line)["id"] == turn_id)
    except (ValueError, KeyError, TypeError):
        return False


def was_erased(line: bytes) -> bool:
    """Whether a turn stood here, and was overwritten (`erase_spool`)."""
    return bool(line) and not line.strip(b" ")


def is_owned(path: Path) -> bool:
    """Whether a living process owns the file."""
    try:
        with _open(path, os.O_RDWR) as handle:
            return not _try_lock(handle, shared=True)  # two who look do not disturb each other
    except FileNotFoundError:
        return False


def _open(path: Path, flags: int) -> FileIO:
    # A raw file: what `write` took is with the system, and a child that exits has no buffer to write a second time.
    return FileIO(os.open(path, flags | os.O_CLOEXEC, 0o600), "r+" if flags & os.O_RDWR else "w")


def _lock(handle: FileIO) -> None:
    import fcntl  # not on every system that runs the embedded mode

    fcntl.flock(handle.fileno(), fcntl.LOCK_EX)


def _try_lock(handle: FileIO, *, shared: bool = False) -> bool:
    import fcntl

    try:
        fcntl.flock(handle.fileno(), (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(handle: FileIO, path: Path) -> bool:
    """Whether the open file is still the one under this name: its owner may have replaced or removed it before dying."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
