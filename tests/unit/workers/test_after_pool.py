"""Threads start when the pool stands, and before a message is taken."""

from __future__ import annotations

from typing import Any

from memline.workers.after_pool import when_the_pool_stands
from memline.workers.celery_app import make_app
from memline.workers.loops import Loop


def test_it_is_called_once_after_the_pool_has_started_and_before_messages_are_taken() -> None:
    called: list[str] = []
    app = make_app("redis://127.0.0.1:1/0", prefix="test")
    when_the_pool_stands(app, lambda: called.append("called"))
    worker = app.WorkController(pool="prefork", concurrency=1, without_gossip=True, without_mingle=True)
    order = [step.name for step in worker.blueprint.order]
    step = next(step for step in worker.blueprint.order if step.name.endswith("AfterPool"))
    assert order.index("celery.worker.components.Pool") < order.index(step.name) < order.index("celery.worker.components.Consumer")
    assert step in worker.steps and called == []
    starts: Any = step
    starts.start(worker)
    assert called == ["called"]


def test_a_loop_that_was_never_started_has_ended() -> None:
    loop = Loop("never", lambda: 0, idle=1.0)
    loop.stop()
    assert loop.join(0.0)
