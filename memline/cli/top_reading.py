"""One frame of `memline top`: what the ledger and Redis say at a moment, and what changed since the frame before."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from memline.contracts.errors import MemlineError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memline.contracts.clock import Clock
    from memline.contracts.metrics import Gauge
    from memline.ledger.heartbeats import Beat
    from memline.ledger.recent import Flow, Look, RecentFailure
    from memline.ledger.session import Ledger
    from memline.settings import Settings

__all__ = ["Frame", "TopReader", "state_of"]

#: Of which time the latencies are.
_RECENT = timedelta(minutes=1)

_FAILURES = 5


@dataclass(slots=True)
class Frame:
    """What is shown. Values of gauges by their name without `memline_`, then by the value of their label (`""` without one)."""

    at: datetime
    ledger: str = ""
    gauges: dict[str, dict[str, float]] = field(default_factory=dict)
    #: Turns a second since the frame before; None in the first.
    flow: Flow | None = None
    #: Seconds from hand-over to searchable, of the turns of the last minute: p50, p95, and of how many; None where there are none.
    latency: tuple[float, float, int] | None = None
    beats: list[Beat] = field(default_factory=list)
    failures: list[RecentFailure] = field(default_factory=list)
    #: Counters of the ledger that moved since the first frame.
    moved: dict[str, int] = field(default_factory=dict)
    #: Parts that did not answer, with why.
    away: dict[str, str] = field(default_factory=dict)

    def gauge(self, name: str, label: str = "") -> float:
        return self.gauges.get(name, {}).get(label, 0.0)

    def document(self) -> dict[str, Any]:
        """As JSON: ids, counts and seconds, never a text."""
        flow, latency = self.flow, self.latency
        return {
            "at": self.at,
            "ledger": self.ledger,
            "gauges": self.gauges,
            "per_second": None
            if flow is None
            else {"accepted": round(flow.accepted, 2), "committed": round(flow.committed, 2), "searchable": round(flow.searchable, 2)},
            "searchable_seconds": None if latency is None else {"p50": latency[0], "p95": latency[1], "turns": latency[2]},
            "workers": [
                {
                    "host": beat.process.host,
                    "pid": beat.process.pid,
                    "loop": beat.loop,
                    "state": state_of(beat, self.at),
                    "beat_at": beat.beat_at,
                    "reason": beat.reason,
                }
                for beat in self.beats
            ],
            "failures": [
                {"id": one.id, "namespace": one.namespace, "stage": one.stage, "reason": one.reason, "at": one.at} for one in self.failures
            ],
            "counters_moved": self.moved,
            "away": self.away,
        }


class TopReader:
    """Reads frame after frame. Of a ledger that is not there, it makes none."""

    def __init__(self, settings: Settings, ledger: Ledger, clock: Clock, *, namespace: str | None = None) -> None:
        self._ledger = ledger
        self._clock = clock
        self._namespace = namespace
        self._before: Look | None = None
        self._first: dict[str, int] | None = None
        self._redis: Any = None
        if settings.redis_url is not None:
            from memline.workers.redis_gauges import RedisGauges

            self._redis = RedisGauges(settings.redis_url.get_secret_value(), prefix=settings.redis_prefix)

    def read(self) -> Frame:
        """The frame of now. A part that does not answer is named in it."""
        frame = Frame(self._clock.now(), ledger=self._ledger.shown_url)
        try:
            self._read_ledger(frame)
        except MemlineError as error:
            frame.away["ledger"] = str(error)
        if self._redis is not None:
            try:
                _put(frame, self._redis.read())
            except MemlineError as error:
                frame.away["redis"] = str(error)
        return frame

    def close(self) -> None:
        if self._redis is not None:
            self._redis.close()
        self._ledger.close()

    def _read_ledger(self, frame: Frame) -> None:
        from memline.ledger.counters import read_counters
        from memline.ledger.gauges import read_gauges
        from memline.ledger.heartbeats import read_beats
        from memline.ledger.recent import flow, look, newest_failures, recent_seconds

        with self._ledger.read() as connection:
            counts = read_counters(connection)
            _put(frame, read_gauges(connection, now=frame.at))
            seen = look(connection, now=frame.at, failed=counts["jobs_failed"], cancelled=counts["turns_cancelled"], before=self._before)
            seconds = recent_seconds(connection, seen, within=_RECENT)
            frame.beats = read_beats(connection)
            frame.failures = newest_failures(connection, limit=_FAILURES, namespace=self._namespace)
        frame.flow = None if self._before is None else flow(self._before, seen)
        if seconds:
            frame.latency = (_quantile(seconds, 0.5), _quantile(seconds, 0.95), len(seconds))
        self._before = seen
        first = self._first = self._first or counts
        frame.moved = {name: value - first.get(name, 0) for name, value in counts.items() if value != first.get(name, 0)}


def state_of(beat: Beat, now: datetime) -> str:
    """working, hangs, fails, starts or gone."""
    if not beat.is_alive(now):
        return "gone"
    if beat.hangs(now):
        return "hangs"
    if beat.is_failing:
        return "fails"
    return "working" if beat.works(now) else "starts"


def _put(frame: Frame, readings: Iterable[tuple[Gauge, tuple[str, ...], float]]) -> None:
    for gauge, labels, value in readings:
        frame.gauges.setdefault(gauge.name.removeprefix("memline_"), {})[" ".join(labels)] = value


def _quantile(ordered: list[float], part: float) -> float:
    """The nearest-rank quantile."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]
