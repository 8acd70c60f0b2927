"""Whether Celery's consumer can work: told by its own event loop, not by a thread beside it.

Celery's main thread runs one loop: it reads Redis, hands tasks to the pool, and fires timers. A timer of that loop is a round of it, so one
that hangs goes stale, whatever other threads live. While the consumer is without Redis, its loop does not run: that it waits is said when
it stops. A connection that is half open looks connected until TCP's keepalive or Celery's own health check (25 s) breaks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memline.ledger.heartbeats import STAGE_LOOP
from memline.ledger.jobs import Stage
from memline.workers.pulse import Pulse

__all__ = ["loop_of", "watch_consumer"]

#: Seconds between two rounds.
_TICK = 2.0

_AWAY = "Celery has no connection to Redis: it tries again."


def loop_of(stage: Stage) -> str:
    """The name under which a stage beats that is served."""
    return f"{STAGE_LOOP}{stage.value}"


def watch_consumer(app: Any, pulse: Pulse, stages: Sequence[Stage]) -> None:
    """Has the consumer of *app*'s worker say to *pulse* that it serves *stages*. Call it before the worker is made."""
    from celery import bootsteps

    loops = [loop_of(stage) for stage in stages]
    for loop in loops:
        pulse.expect(loop)

    def works() -> None:
        for loop in loops:
            pulse.ended(loop)

    def waits() -> None:
        for loop in loops:
            pulse.waits(loop, _AWAY)

    class ConsumerBeat(bootsteps.StartStopStep):  # type: ignore[misc]
        requires = ("celery.worker.consumer.tasks:Tasks",)

        def __init__(self, parent: Any, **options: Any) -> None:
            super().__init__(parent, **options)
            self._timer: Any = None

        def start(self, parent: Any) -> None:
            self._cancel(parent)
            self._timer = parent.timer.call_repeatedly(_TICK, self._tick, (parent,))
            self._tick(parent)

        def stop(self, parent: Any) -> None:
            self._cancel(parent)
            waits()

        def _cancel(self, parent: Any) -> None:
            if self._timer is not None:
                parent.timer.cancel(self._timer)
                self._timer = None

        def _tick(self, parent: Any) -> None:
            if parent.connection is not None and parent.connection.connected:
                works()
            else:
                waits()

    app.steps["consumer"].add(ConsumerBeat)
