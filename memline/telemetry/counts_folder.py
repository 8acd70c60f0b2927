"""The folder in which the processes of one machine keep their counts: a file each, read as one, bounded however often they start.

What a dead process left is added to the file of its group, `GROUP.past`, and its own is removed. The past names the files it has taken
in, so whoever dies between the two leaves nothing that is counted twice; a reader takes the past last and passes over what it names, so
it needs no lock. A group is what one endpoint serves: the processes of a worker with a port of its own (`port-N-HOST`: containers may
share a folder, and have the same port), or all others (`machine`). Who lives is told by locks and not by ids of processes, which containers
have in common; they must be of one kernel, as a folder in a network can't tell what other machines map.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from memline.telemetry.counts_file import CountsFile, Key, read_counts, write_counts

__all__ = ["MACHINE", "Counts", "CountsFolder", "port_group"]

#: The group of processes that have no endpoint of their own.
MACHINE = "machine"

#: By key and number of values: a histogram with other buckets, of another version, is another one.
Counts = dict[tuple[Key, int], tuple[float, ...]]

#: Files whose taking in a past remembers: as many as may end while one reader reads.
_REMEMBERED = 256
#: The entry of a past that holds those names.
_FOLDED = "folded"
#: As it was when this process began: a laptop's may change.
_HOST = socket.gethostname()
#: Seconds after which the past of a worker is removed that has not come back (its container had a name that none has again), and what was
#: left half made by a kill.
_FORGOTTEN = 7 * 86_400

_FILE = re.compile(r"(?P<group>machine|port-\d+-[0-9a-f]+)\.(?P<owner>[0-9a-f]+-[0-9a-f]+)\.counts")
_PAST = re.compile(r"(?P<group>machine|port-\d+-[0-9a-f]+)\.past")

_log = logging.getLogger("memline.metrics")


def port_group(port: int | None, host: str = _HOST) -> str:
    """The group of a process whose counts are served at *port* of *host*; None: by whoever serves the machine."""
    return MACHINE if port is None else f"port-{port}-{zlib.crc32(host.encode()):08x}"


class CountsFolder:
    """One such folder; it may not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def new_file(self, group: str) -> CountsFile:
        """A file for this process, and its folder. Raises OSError where it can't be made."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.take_in_the_dead()
        return CountsFile(self.path / f"{group}.{os.getpid():x}-{os.urandom(4).hex()}.counts")

    def take_in_the_dead(self) -> None:
        """Adds what ended processes left to their groups' pasts; nothing where another process is at it."""
        if not self.path.is_dir():
            return
        with self._locked() as ours:
            if ours:
                self._take_in_the_dead()

    def read(self, group: str | None = None) -> Counts:
        """The sums of a group (None: of all): counters and histograms of the living and the dead, the highest gauge of the living."""
        found: dict[str, Counts] = {}
        alive: dict[str, bool] = {}
        for name in self._names(_FILE, group):
            raw = _bytes_of(self.path / name)
            if raw is not None:
                found[name] = {(key, len(values)): values for key, values in read_counts(raw)}
                alive[name] = not _is_dead(self.path / name)
        sums: Counts = {}
        for name in self._names(_PAST, group):
            past, folded = _past(self.path / name)
            for gone in folded:
                found.pop(gone, None)
            _merge(sums, past)
        for name, counts in found.items():
            _merge(sums, counts if alive[name] else _lasting(counts))
        return sums

    def _take_in_the_dead(self) -> None:
        dead: dict[str, list[str]] = {}
        for name in self._names(_FILE, None):
            if _is_dead(self.path / name):
                dead.setdefault(_group(name), []).append(name)
        for group, names in dead.items():
            path = self.path / f"{group}.past"
            sums, folded = _past(path)
            for name in names:
                raw = _bytes_of(self.path / name)
                if raw is not None and name not in folded:
                    _merge(sums, _lasting({(key, len(values)): values for key, values in read_counts(raw)}))
            folded = [*[name for name in folded if name not in names], *names][-max(_REMEMBERED, len(names)) :]
            fresh = path.with_suffix(".new")
            # the names stand in the same file as the sums: both are there, or neither
            _write(fresh, write_counts({((_FOLDED, *folded), 0): (), **sums}))
            fresh.replace(path)
            for name in names:
                (self.path / name).unlink(missing_ok=True)
        there = {MACHINE, *map(_group, self._names(_FILE, None))}
        for path in [*self.path.glob("*.past"), *self.path.glob("*.new")]:
            if (path.suffix == ".new" or _group(path.name) not in there) and _is_older(path, time.time() - _FORGOTTEN):
                path.unlink(missing_ok=True)

    def _names(self, pattern: re.Pattern[str], group: str | None) -> list[str]:
        try:
            names = [path.name for path in self.path.iterdir()]
        except FileNotFoundError:
            return []
        matches = [match for name in names if (match := pattern.fullmatch(name))]
        return sorted(match[0] for match in matches if group in (None, match["group"]))

    @contextmanager
    def _locked(self) -> Iterator[bool]:
        """Only one process at a time takes in the dead; yields False where another one does."""
        handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            _let_go(handle)


def _is_dead(path: Path) -> bool:
    """Whether no process holds the file any more."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False  # it is gone, or not ours to judge
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        _let_go(handle)
    return True


def _let_go(handle: int) -> None:
    """Closes, and unlocks first: a child forked by another thread meanwhile holds the same lock, and would keep it."""
    with suppress(OSError):  # a file system without locks
        fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)


def _is_older(path: Path, than: float) -> bool:
    try:
        return path.stat().st_mtime < than
    except FileNotFoundError:
        return False


def _past(path: Path) -> tuple[Counts, list[str]]:
    """The sums of a past, and the files that it took in."""
    sums: Counts = {}
    folded: list[str] = []
    for key, values in read_counts(_bytes_of(path) or b""):
        if key[0] == _FOLDED:
            folded = list(key[1:])
        else:
            sums[key, len(values)] = values
    return sums, folded


def _merge(into: Counts, counts: Counts) -> None:
    for key, values in counts.items():
        before = into.get(key)
        if before is None:
            into[key] = values
        elif key[0][0] == "g":
            into[key] = tuple(max(pair) for pair in zip(before, values, strict=True))
        else:
            into[key] = tuple(one + other for one, other in zip(before, values, strict=True))


def _lasting(counts: Counts) -> Counts:
    """What stays of a process that ended: what it set says nothing any more."""
    return {key: values for key, values in counts.items() if key[0][0] != "g"}


def _group(name: str) -> str:
    return name.split(".", 1)[0]


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write(path: Path, raw: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(raw)
