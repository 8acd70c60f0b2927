"""The Celery app: one queue a stage, ids only in messages. Celery wakes workers; the ledger owns progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from memline.contracts import failpoints
from memline.contracts.errors import ServiceUnavailable
from memline.ledger.jobs import STAGES, Stage
from memline.ledger.leases import Lease

__all__ = ["MESSAGE_VERSION", "VERSION_HEADER", "CelerySend", "jobs_told", "make_app", "queue_of", "task_name"]

#: Seconds after which Redis gives an unacknowledged message to another worker. The lease is shorter: by then the message is stale
#: and dropped, and the sweep has long retried the jobs.
VISIBILITY_TIMEOUT = 600

#: Version of a Celery message, in a header of its own, which a memline that knows none ignores. A message without one is version 1.
MESSAGE_VERSION = 1
VERSION_HEADER = "memline_v"

#: A message of a newer memline goes back to its queue for so many seconds, so many times; then it is dropped. It only wakes: the sweep
#: sends a batch that nobody took again.
TOO_NEW_DELAY, TOO_NEW_TRIES = 5, 12

#: Ids of jobs in what Flower shows; each message of a chain carries them for those after it.
SHOWN = 3

RunStage = Callable[[Stage, str, int], Lease | None]


def task_name(stage: Stage) -> str:
    """The name that Flower shows."""
    return f"memline.{stage.value}"


def queue_of(stage: Stage) -> str:
    """The queue of a stage, so that workers can be set up for what a stage costs."""
    return f"memline.{stage.value}"


def make_app(redis_url: str, *, prefix: str, run: RunStage | None = None, too_new: Callable[[], None] = lambda: None) -> Any:
    """A Celery app on *redis_url*; with *run*, one that can work, without it, one that can only send.

    *too_new* is called once for each message that a newer memline wrote.
    """
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
    if run is not None:
        for stage in STAGES:
            _register(app, stage, run, too_new)
    return app


def _register(app: Any, stage: Stage, run: RunStage, too_new: Callable[[], None]) -> None:
    # not shared: an application may have a Celery of its own, and a second app here has a `run` of its own
    @app.task(bind=True, name=task_name(stage), max_retries=TOO_NEW_TRIES, shared=False)
    def _run(self: Any, *args: Any, **_newer: Any) -> str:
        if (self.request.headers or {}).get(VERSION_HEADER, 1) > MESSAGE_VERSION:
            if self.request.retries == 0:
                too_new()
            if self.request.retries < TOO_NEW_TRIES:
                raise self.retry(countdown=TOO_NEW_DELAY)
            self.request.chain = None
            return "too new for this memline"
        lease_id, epoch = args
        # What is returned is shown by Flower, and kept nowhere else.
        if (after := run(stage, lease_id, epoch)) is None:
            self.request.chain = None  # nothing to go on with: the batch ended, was divided, or is somebody else's
            return "ended here"
        return f"on to {after.stage} with {len(after.jobs)}"


def jobs_told(ids: Sequence[str]) -> str:
    """Jobs as Flower shows them: how many, and the ids of the first few."""
    if not ids:
        return "a batch sent again"
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return f"{len(ids)} job{'s' if len(ids) > 1 else ''}: {', '.join(ids[:SHOWN])}{more}"


class CelerySend:
    """Sends each batch as a chain from its stage to the last one. What can't be sent now, the sweep sends again."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def __call__(self, leases: Sequence[Lease]) -> None:
        from celery import chain
        from kombu.exceptions import OperationalError

        for lease in leases:
            left = STAGES[STAGES.index(lease.stage) :]
            signatures = [
                self._app.signature(
                    task_name(stage),
                    args=(lease.id, lease.epoch),
                    immutable=True,
                    headers={VERSION_HEADER: MESSAGE_VERSION},
                    # what Flower shows: ids, never text, since a message has none
                    argsrepr=f"batch {lease.id}",
                    kwargsrepr=jobs_told(lease.jobs),
                )
                for stage in left
            ]
            try:
                failpoints.hit("dispatch.before_send")
                chain(*signatures, app=self._app).apply_async(retry=False)
                failpoints.hit("dispatch.after_send")
            except OperationalError as error:
                raise ServiceUnavailable(
                    f"Redis does not take Celery messages ({type(error).__name__}); the batches wait in the ledger and are sent again."
                ) from error
