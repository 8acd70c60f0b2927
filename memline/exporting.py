"""All of memline's metrics as one page: what the ledger counted and has on its way, what waits in Redis, what processes here counted.

Each part is read by a thread of its own with a deadline, so a scrape ends in time whatever hangs: a part that did not answer is
`memline_up 0`, and its metrics are left out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from memline.contracts import metrics
from memline.contracts.clock import Clock, SystemClock
from memline.contracts.errors import MemlineError, ServiceUnavailable
from memline.producer.spool_file import SUFFIX
from memline.settings import Settings
from memline.telemetry.counts_folder import CountsFolder, port_group
from memline.telemetry.exposition import Figures, exposition, figures_of

if TYPE_CHECKING:
    from memline.ledger.session import Ledger

__all__ = ["Exporter", "counted", "metrics_folder"]

#: Seconds that the parts may take for one scrape; Prometheus's own deadline is 10.
DEADLINE = 3.0

_log = logging.getLogger("memline.metrics")


def metrics_folder(settings: Settings) -> Path:
    """Where processes of this machine keep their counts."""
    return settings.metrics_dir or settings.home_folder() / "metrics"


def counted(settings: Settings, port: int) -> Figures:
    """What the processes of one worker counted: those that are served at *port*."""
    return _counted(settings, port_group(port))


class Exporter:
    """Reads all parts at each scrape. *everything*: also what workers count that have a port of their own."""

    def __init__(self, settings: Settings, clock: Clock | None = None, *, everything: bool = False, deadline: float = DEADLINE) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._group = None if everything else port_group(None)
        self._deadline = deadline
        self._ledger = _LedgerReader(settings, self._clock)
        self._parts = {"ledger": _Part("ledger", self._ledger)}
        if settings.redis_url is not None:
            self._parts["redis"] = _Part("redis", _RedisReader(settings))

    def page(self) -> str:
        """All of them, in Prometheus's text format. Raises MissingPackage."""
        return exposition(self.figures())

    def figures(self) -> Figures:
        """All of them, as they are now."""
        until = time.monotonic() + self._deadline
        asked = [(name, part.ask()) for name, part in self._parts.items()]
        figures = _counted(self._settings, self._group)
        figures.put(metrics.SPOOL_BYTES, (), float(_spooled(self._settings.home_folder() / "spool")))
        for name, reading in asked:
            found = reading.answer(until)
            figures.put(metrics.UP, (name,), 0.0 if found is None else 1.0)
            if found is not None:
                figures.take(found)
        return figures

    def close(self) -> None:
        """Closes its connections; a later page opens new ones."""
        self._ledger.close()


def _counted(settings: Settings, group: str | None) -> Figures:
    folder = CountsFolder(metrics_folder(settings))
    with suppress(OSError):  # who may only read leaves that to the processes that count
        folder.take_in_the_dead()
    try:
        counts = folder.read(group)
    except OSError as error:
        _log.warning("The counts in %s can't be read (%s).", folder.path, error.strerror)
        counts = {}
    # gauges of states are read, not counted; those that processes set are among the counts
    return figures_of(counts, metrics.declared(), _filled(settings))


def _filled(settings: Settings) -> Mapping[str, Sequence[str]]:
    """The models that the settings name: their series are there before the first call."""
    named = [settings.chat_model, settings.embedding_model, settings.vision_model, settings.rerank_model]
    return {"model": tuple(dict.fromkeys(name for name in named if name is not None))}


def _spooled(folder: Path) -> int:
    total = 0
    for path in folder.glob(f"*{SUFFIX}"):  # what was set aside beside them is no turn
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue  # sent since
    return total


class _Part:
    """One part, read on a thread that may hang without holding up a scrape. While one reads, whoever asks waits for the same answer."""

    def __init__(self, name: str, read: Callable[[], Figures]) -> None:
        self.name = name
        self._read = read
        self._lock = threading.Lock()
        self._reading: _Reading | None = None
        self._failed = ""

    def ask(self) -> _Reading:
        """Begins to read, but for where somebody began and has no answer yet."""
        with self._lock:
            if self._reading is None or not self._reading.is_alive():
                self._reading = _Reading(f"memline-metrics-{self.name}", self._run)
                self._reading.start()
            return self._reading

    def _run(self) -> Figures | None:
        try:
            found = self._read()
            self._failed = ""
            return found
        except Exception as error:  # noqa: BLE001
            # it is shown by memline_up, and told once; MemlineErrors are free of content, of others the class is told
            told = str(error) if isinstance(error, MemlineError) else type(error).__name__
            if told != self._failed:
                self._failed = told
                _log.warning("metrics: the %s can't be read: %s", self.name, told)
            return None


class _Reading(threading.Thread):
    def __init__(self, name: str, read: Callable[[], Figures | None]) -> None:
        super().__init__(name=name, daemon=True)
        self._read = read
        self._found: Figures | None = None

    def run(self) -> None:
        self._found = self._read()

    def answer(self, until: float) -> Figures | None:
        """What was read, at *until* (monotonic seconds) at the latest; None where nothing was."""
        self.join(max(0.0, until - time.monotonic()))
        return self._found


class _LedgerReader:
    """Reads the ledger as it is: nothing is made or migrated."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._ledger: Ledger | None = None

    def __call__(self) -> Figures:
        from memline.ledger.counters import read_counters
        from memline.ledger.exported import exported
        from memline.ledger.gauges import read_gauges
        from memline.ledger.session import Ledger

        if self._ledger is None:
            self._ledger = Ledger(self._settings.ledger_location(), pool_size=1)
        if self._ledger.path is not None and not Path(self._ledger.path).exists():
            raise ServiceUnavailable(f"There is no ledger yet at {self._ledger.shown_url}.")
        figures = Figures()
        with self._ledger.read() as connection:
            for metric, labels, value in [*exported(read_counters(connection)), *read_gauges(connection, now=self._clock.now())]:
                figures.put(metric, labels, value)
        return figures

    def close(self) -> None:
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            ledger.close()


class _RedisReader:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __call__(self) -> Figures:
        from memline.workers.redis_gauges import RedisGauges

        assert self._settings.redis_url is not None  # else there is no such part
        gauges = RedisGauges(self._settings.redis_url.get_secret_value(), prefix=self._settings.redis_prefix)
        figures = Figures()
        try:
            for metric, labels, value in gauges.read():
                figures.put(metric, labels, value)
        finally:
            gauges.close()
        return figures
