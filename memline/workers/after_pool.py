"""What starts threads waits until the pool of processes stands.

A child that is forked beside a thread finds what that thread held at the moment held for ever: the lock of a connection to the broker, say
(for transactions of the ledger a fork waits). It hangs at the first use, and with it the stage that it was given and the end of its parent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["when_the_pool_stands"]


def when_the_pool_stands(app: Any, call: Callable[[], None]) -> None:
    """*call* is called once in a worker of the Celery *app*: after its pool has started, before it takes messages."""
    from celery.bootsteps import StartStopStep

    class AfterPool(StartStopStep):  # type: ignore[misc]
        requires = ("celery.worker.components:Pool",)

        def start(self, parent: Any) -> None:
            del parent
            call()

    app.steps["worker"].add(AfterPool)
