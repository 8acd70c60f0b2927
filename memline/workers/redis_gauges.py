"""What waits in Redis at this moment: the stream, Celery's queues, and how much memory is left. One round trip and one more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memline.contracts import metrics
from memline.contracts.errors import MissingPackage, ServiceUnavailable
from memline.contracts.metrics import Gauge
from memline.ledger.jobs import STAGES
from memline.workers.celery_app import queue_of

__all__ = ["RedisGauges"]


class RedisGauges:
    """Reads one Redis. Not for several threads at a time.

    *prefix* is MEMLINE_REDIS_PREFIX; *timeout* is of connecting and of each answer, in seconds.
    """

    def __init__(self, url: str, *, prefix: str = "memline", group: str = "accept", timeout: float = 1.0) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError:
            raise MissingPackage("MEMLINE_REDIS_URL is set, and the package redis is not installed: pip install 'redis>=8.1,<9'.") from None
        self._errors: tuple[type[Exception], ...] = (redis.RedisError, OSError)
        self._refusal: type[Exception] = redis.ResponseError
        self._client: Any = redis.Redis.from_url(url, socket_connect_timeout=timeout, socket_timeout=timeout, retry=Retry(NoBackoff(), 0))
        self._stream = f"{prefix}:turns"
        self._group = group
        self._queues = {stage.value: f"{prefix}:celery:{queue_of(stage)}" for stage in STAGES}

    def read(self) -> list[tuple[Gauge, tuple[str, ...], float]]:
        """A gauge, the values of its labels, and its value, of each. Raises ServiceUnavailable."""
        try:
            with self._client.pipeline(transaction=False) as pipe:
                pipe.xlen(self._stream)
                pipe.info("memory")
                for queue in self._queues.values():
                    pipe.llen(queue)
                length, memory, *waiting = pipe.execute()
            pending = self._pending() if length else 0
        except self._errors as error:
            raise ServiceUnavailable(f"Redis does not answer ({type(error).__name__}).") from error
        return [
            (metrics.STREAM_ENTRIES, ("all",), float(length)),
            (metrics.STREAM_ENTRIES, ("pending",), float(pending)),
            *((metrics.CELERY_MESSAGES, (stage,), float(number)) for stage, number in zip(self._queues, waiting, strict=True)),
            (metrics.REDIS_MEMORY, ("used",), _number(memory, "used_memory")),
            (metrics.REDIS_MEMORY, ("max",), _number(memory, "maxmemory")),
        ]

    def close(self) -> None:
        self._client.close()

    def _pending(self) -> int:
        try:
            return int(self._client.xpending(self._stream, self._group)["pending"])
        except self._refusal:
            return 0  # nobody has read yet: there is no group


def _number(told: Mapping[str, Any], name: str) -> float:
    return float(told.get(name) or 0)
