"""The Celery app: one queue a stage, ids only in messages. Celery wakes workers; the ledger owns progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from memline.contracts import failpoints
from memline.contracts.errors import ServiceUnavailable
from memline.ledger.jobs import STAGES, Stage
from memline.ledger.leases import Lease

__all__ = ["CelerySend", "make_app", "queue_of", "task_name"]

#: Seconds after which Redis gives an unacknowledged message to another worker. The lease is shorter: by then the message is stale
#: and dropped, and the sweep has long retried the jobs.
VISIBILITY_TIMEOUT = 600

RunStage = Callable[[Stage, str, int], Lease | None]


def task_name(stage: Stage) -> str:
    """The name that Flower shows."""
    return f"memline.{stage.value}"


def queue_of(stage: Stage) -> str:
    """The queue of a stage, so that workers can be set up for what a stage costs."""
    return f"memline.{stage.value}"


def make_app(redis_url: str, *, prefix: str, run: RunStage | None = None) -> Any:
    """A Celery app on *redis_url*; with *run*, one that can work, without it, one that can only send."""
    from celery import Celery
    from kombu.entity import Exchange, Queue

    app = Celery("memline", set_as_current=False)
    app.conf.update(
        broker_url=redis_url,
        broker_connection_retry_on_startup=True,
        broker_pool_acquire_timeout=10,
        broker_transport_options={
            "visibility_timeout": VISIBILITY_TIMEOUT,
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
            "global_keyprefix": f"{prefix}:celery:",
            "socket_connect_timeout": 2,
            "socket_keepalive": True,
        },
        task_serializer="json",
        accept_content=["json"],
        result_backend=None,
        task_ignore_result=True,
        task_acks_late=True,
        # A child that dies is tried again soon; the lease decides whether that still means anything.
        task_retry_on_worker_lost=True,
        task_default_retry_delay=1,
        worker_prefetch_multiplier=1,
        # Exchange and key of its own: queues that share them would each get every message.
        task_queues=[Queue(queue_of(stage), Exchange(queue_of(stage)), routing_key=queue_of(stage)) for stage in STAGES],
        task_create_missing_queues=False,
        task_default_queue=queue_of(Stage.EXTRACT),
        task_routes={task_name(stage): {"queue": queue_of(stage)} for stage in STAGES},
        worker_send_task_events=True,
        task_send_sent_event=True,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        enable_utc=True,
        timezone="UTC",
    )
    for stage in STAGES if run is not None else ():
        _register(app, stage, run)
    return app


def _register(app: Any, stage: Stage, run: RunStage | None) -> None:
    @app.task(bind=True, name=task_name(stage), max_retries=3)
    def _run(self: Any, lease_id: str, epoch: int) -> None:
        if run is not None and run(stage, lease_id, epoch) is None:
            self.request.chain = None  # nothing to go on with: the batch ended, was divided, or is somebody else's


class CelerySend:
    """Sends each batch as a chain from its stage to the last one. What can't be sent now, the sweep sends again."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, leases: Sequence[Lease]) -> None:
        from celery import chain
        from kombu.exceptions import OperationalError

        for lease in leases:
            left = STAGES[STAGES.index(lease.stage) :]
            signatures = [self._app.signature(task_name(stage), args=(lease.id, lease.epoch), immutable=True) for stage in left]
            try:
                failpoints.hit("dispatch.before_send")
                chain(*signatures, app=self._app).apply_async(retry=False)
                failpoints.hit("dispatch.after_send")
            except OperationalError as error:
                raise ServiceUnavailable(
                    f"Redis does not take Celery messages ({type(error).__name__}); the batches wait in the ledger and are sent again."
                ) from error
