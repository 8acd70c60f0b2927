"""Taking a subject's turns out of the spool of this machine, also out of files that another living process writes.

A line is overwritten with spaces where it stands: no length changes, so its owner goes on reading and writing by its offsets, and passes
over it (`spool`). What was sent and still lies at the beginning of a file, torn lines and unfinished rewrites are overwritten, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from memline.contracts.erasing import MarkedTurn, Moment, Sought
from memline.contracts.errors import ServiceUnavailable
from memline.producer.spool_file import SUFFIX, TORN_SUFFIX, is_owned

__all__ = ["SpoolEraser"]

_NEW_SUFFIX = ".new"
#: A file may be rewritten by its owner while it is read, from what was read before: so it is looked at until nothing is found.
_PASSES = 20
_MANY = 200


class SpoolEraser:
    """The spool of this machine as an erasure sees it (`contracts.erasing.TurnStore`). The folder need not be there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        return f"the spool folder {self._folder}"

    def files(self) -> list[Path]:
        """Every file that holds turns or remains of such."""
        return sorted(path for path in self._folder.glob("*") if path.suffix in (SUFFIX, TORN_SUFFIX, _NEW_SUFFIX))

    def erase(self, sought: Sought, record: Callable[[Sequence[MarkedTurn]], None]) -> int:
        """See the port. Raises ServiceUnavailable where a file can't be read or written."""
        total = 0
        try:
            for _ in range(_PASSES):
                found = sum(_overwrite(path, sought, record) for path in self.files())
                total += found
                if not found:
                    return total
        except OSError as error:
            raise ServiceUnavailable(
                f"A file of the spool folder {self._folder} can't be changed ({error.strerror or type(error).__name__}): set its "
                "permissions, then erase again. What is done so far stays done."
            ) from error
        raise ServiceUnavailable(f"Turns of the subject arrive in the spool folder {self._folder} faster than they are erased: try again.")

    def count(self, sought: Sought, before: Moment | None = None) -> int:
        """See the port."""
        found = [turn for path in self.files() for _, _, turn in _lines_of(path, sought)]
        if before is None:
            return len(found)
        return sum(turn is None or turn.handed_at is None or turn.handed_at <= before.at for turn in found)


def _overwrite(path: Path, sought: Sought, record: Callable[[Sequence[MarkedTurn]], None]) -> int:
    done = 0
    lines = list(_lines_of(path, sought))
    for start in range(0, len(lines), _MANY):
        some = lines[start : start + _MANY]
        record([turn for _, _, turn in some if turn is not None])
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return done + len(some)  # sent meanwhile, or renamed: the next look tells
        try:
            for offset, line, _ in some:
                # the owner may have truncated the file, or compacted it into another one under this name
                if os.pread(descriptor, len(line), offset) == line:
                    os.pwrite(descriptor, b" " * len(line), offset)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        done += len(some)
    return done


def _lines_of(path: Path, sought: Sought) -> Iterator[tuple[int, bytes, MarkedTurn | None]]:
    """Offset, bytes and turn of the lines of a file that belong to *sought*; a last line without its end only where nobody writes it."""
    try:
        with path.open("rb") as handle:
            offset = 0
            for line in handle:
                whole = line.endswith(b"\n")
                data = line[:-1] if whole else line
                if data.strip() and (whole or not is_owned(path)):
                    turn = sought.turn_in(data)
                    if turn is not None or sought.holds(data):
                        yield offset, data, turn
                offset += len(line)
    except FileNotFoundError:
        return
