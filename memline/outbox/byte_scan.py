"""Looking for bytes in files, whatever they are."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["files_below", "forms_of", "is_database", "scan"]

_CHUNK = 4 * 1024 * 1024


def files_below(folders: Iterable[Path], *, without: Sequence[str] = ()) -> list[Path]:
    """Every file below *folders*, each once; *without*: names of folders that are passed over."""
    found = {
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and not any(part in without for part in path.relative_to(folder).parts[:-1])
    }
    return sorted(found)


def forms_of(text: str) -> list[bytes]:
    """How *text* may stand in a file: in UTF-8, and as JSON writes it, with and without escapes."""
    forms = [text.encode("utf-8", "surrogatepass")]
    forms += [json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogatepass") for ascii_only in (True, False)]
    return list(dict.fromkeys(forms))


def scan(files: Iterable[Path], texts: Sequence[str]) -> dict[str, list[int]]:
    """By file, which of *texts* (their places) stand in it; files without any are left out. Memory is bounded by a part of a file."""
    wanted = [(place, form) for place, text in enumerate(texts) for form in forms_of(text)]
    longest = max((len(form) for _, form in wanted), default=1)
    found: dict[str, list[int]] = {}
    for path in files:
        there: set[int] = set()
        try:
            with _opened(path) as descriptor:
                tail, at = b"", 0
                while chunk := os.pread(descriptor, _CHUNK, at):
                    at += len(chunk)
                    data = tail + chunk
                    there |= {place for place, form in wanted if place not in there and form in data}
                    tail = data[-(longest - 1) :] if longest > 1 else b""
        except FileNotFoundError:
            continue
        if there:
            found[str(path)] = sorted(there)
    return found


def is_database(path: Path) -> bool:
    """Whether *path* is a SQLite database, whatever it is called; of a file that is gone it says no."""
    try:
        with _opened(path) as descriptor:
            return os.pread(descriptor, len(_DATABASE), 0) == _DATABASE
    except FileNotFoundError:
        return False


#: Descriptors that are never closed, by device and inode. The system's locks on a file belong to the process and end with *any* close of
#: it in this process: closing a database's file here would take the locks from under the connections that this process has to it, and the
#: next process would believe it to be nobody's, and change its write-ahead log under them.
_held: dict[tuple[int, int], int] = {}
_holding = threading.Lock()

_DATABASE = b"SQLite format 3\0"


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    """A descriptor to read *path* by; that of a database stays open as long as this process lives."""
    with _holding:
        told = path.stat()
        descriptor = _held.get((told.st_dev, told.st_ino))
        keep = descriptor is not None
        if descriptor is None:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            told = os.fstat(descriptor)
            keep = path.name.endswith("-shm") or os.pread(descriptor, len(_DATABASE), 0) == _DATABASE
            if keep:
                _held[told.st_dev, told.st_ino] = descriptor
    try:
        yield descriptor
    finally:
        if not keep:
            os.close(descriptor)
