"""Keeps what this process says of its metrics in a file that `memline metrics` and the worker's own endpoint read.

Not by prometheus_client's mode for several processes: it keeps the files of ended ones for ever, calls them by process ids, which
containers have in common, is killed by a full disk (it writes to holes of a mapped file), and must be told one folder for the whole
process, the application's too, before it is imported. Formats and server are its own (`telemetry/exposition.py`,
`telemetry/metrics_server.py`).
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from bisect import bisect_left
from pathlib import Path

from memline.contracts import metrics
from memline.contracts.metrics import Counter, Gauge, Histogram, Metric
from memline.telemetry.counts_file import CountsFile, Key
from memline.telemetry.counts_folder import MACHINE, CountsFolder

__all__ = ["OTHER", "FileSink", "install", "key_of", "uninstall"]

#: What a label says of a value that is none of those declared, and of a value too many.
OTHER = "other"
#: Values of a label that the settings fill (models), and their longest.
_MOST_VALUES, _LONGEST = 50, 100

_log = logging.getLogger("memline.metrics")


class FileSink:
    """The sink of one process; a forked child begins a file of its own. Thread-safe.

    The file is made when something is counted first. Where it can't be made or grown, nothing more is kept, and one line is logged.
    """

    def __init__(self, folder: Path, group: str = MACHINE) -> None:
        self.folder = CountsFolder(folder)
        self.group = group
        self._begin()
        _sinks.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._file: CountsFile | None = None
        self._failed = False
        self._places: dict[tuple[str, tuple[str, ...]], int] = {}
        self._values: dict[tuple[str, str], set[str]] = {}

    def add(self, metric: Counter, by: float, labels: tuple[str, ...]) -> None:
        if by > 0:
            self._write("c", metric, labels, 1, 0, by)

    def observe(self, metric: Histogram, value: float, labels: tuple[str, ...]) -> None:
        if value != value:  # not a number
            return
        slots = len(metric.buckets) + 2  # one bucket that takes all, and the sum
        self._write("h", metric, labels, slots, bisect_left(metric.buckets, value), 1, total=value)

    def set(self, metric: Gauge, value: float, labels: tuple[str, ...]) -> None:
        self._write("g", metric, labels, 1, 0, value)

    def close(self) -> None:
        """Lets go of the file: from here on it is that of a process that ended."""
        with self._lock:
            file, self._file, self._failed = self._file, None, True
            self._places.clear()
        if file is not None:
            file.close()

    def _write(
        self, kind: str, metric: Metric, labels: tuple[str, ...], slots: int, slot: int, by: float, total: float | None = None
    ) -> None:
        with self._lock:
            if self._failed:
                return
            try:
                if self._file is None:
                    self._file = self.folder.new_file(self.group)
                place = self._places.get((metric.name, labels))
                if place is None:
                    place = self._places[metric.name, labels] = self._file.place(key_of(kind, metric, self._bounded(metric, labels)), slots)
            except OSError as error:
                self._failed = True
                _log.warning(
                    "The counts of this process can't be kept in %s (%s); they are missing from its metrics.",
                    self.folder.path,
                    error.strerror,
                )
                return
            if kind == "g":
                self._file.set(place, by)
                return
            self._file.add(place + 8 * slot, by)
            if total is not None:
                self._file.add(place + 8 * (slots - 1), total)

    def _bounded(self, metric: Metric, labels: tuple[str, ...]) -> tuple[str, ...]:
        """*labels* without a value that nobody declared: whatever a caller says, the number of series stays bounded."""
        found = []
        for (name, allowed), value in zip(metric.labels.items(), labels, strict=True):
            if allowed:
                found.append(value if value in allowed else OTHER)
                continue
            seen = self._values.setdefault((metric.name, name), set())
            value = value[:_LONGEST]
            if value not in seen and len(seen) >= _MOST_VALUES:
                value = OTHER
            seen.add(value)
            found.append(value)
        return tuple(found)

    def _after_fork(self) -> None:
        file = self._file
        self._begin()
        if file is not None:
            file.close()  # the parent's hold on it stays the parent's


def key_of(kind: str, metric: Metric, labels: tuple[str, ...]) -> Key:
    """What a series is called in a file."""
    return (kind, metric.name, *labels)


def install(folder: Path, group: str = MACHINE) -> FileSink:
    """The sink of this process, there from now on; the one that is there already where it keeps the same files."""
    there = metrics.installed()
    if isinstance(there, FileSink) and there.folder.path == folder and there.group == group:
        return there
    sink = FileSink(folder, group)
    metrics.use(sink)
    if isinstance(there, FileSink):
        there.close()
    return sink


def uninstall() -> None:
    """Nothing is kept any more, and the file of what was is let go."""
    there = metrics.installed()
    metrics.use(None)
    if isinstance(there, FileSink):
        there.close()


_sinks: weakref.WeakSet[FileSink] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for sink in list(_sinks):
        sink._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
