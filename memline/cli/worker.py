"""`memline worker`: a process that accepts turns, runs their stages, and shows the index what was committed."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from memline.cli.chosen import chosen
from memline.cli.houses import open_house
from memline.cli.screen import note
from memline.contracts.errors import ConfigurationError, ServiceUnavailable

if TYPE_CHECKING:
    from memline.compose import House
    from memline.ledger.jobs import Stage
    from memline.producer import TurnStream
    from memline.settings import Settings
    from memline.workers.worker import Roles

__all__ = ["checked_policy", "parse_stages", "worker"]

#: How often a Redis that does not answer in time is asked before a worker gives up its start.
_ASKED = 20


class Pool(StrEnum):
    """How stages run beside each other."""

    THREADS = "threads"
    PREFORK = "prefork"
    SOLO = "solo"


class LogLevel(StrEnum):
    """What a worker logs; never the text of a message."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def worker(
    context: typer.Context,
    accept: Annotated[bool, typer.Option("--accept/--no-accept", help="Take turns from Redis into the ledger.")] = True,
    relay: Annotated[bool, typer.Option("--relay/--no-relay", help="Show the index what was committed.")] = True,
    sweep: Annotated[bool, typer.Option("--sweep/--no-sweep", help="Find what stalled.")] = True,
    stages: Annotated[str, typer.Option(metavar="LIST", help="all, none, or some of extract,embed,dedup,persist,link,save.")] = "all",
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="How many batches at a time.")] = 4,
    pool: Annotated[Pool, typer.Option(help="How they run beside each other.")] = Pool.THREADS,
    log_level: Annotated[LogLevel | None, typer.Option(help="Instead of MEMLINE_LOG_LEVEL.", case_sensitive=False)] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, metavar="PORT", help="Serve what this worker counts at /metrics; MEMLINE_METRICS_PORT.", show_default=False
        ),
    ] = None,
) -> None:
    """Work until Ctrl-C or SIGTERM; what a stage has begun is finished first, or handed back within MEMLINE_STOP_WITHIN."""
    from memline.observing import observe
    from memline.workers.worker import Roles

    roles = Roles(accept, relay, sweep, parse_stages(stages), concurrency, pool.value)
    if not (accept or relay or sweep or roles.stages):
        raise typer.BadParameter("nothing is left to do: allow at least one of accept, relay, sweep and a stage.")
    options = chosen(context)
    settings = options.settings(**({} if metrics_port is None else {"metrics_port": metrics_port}))
    level = settings.log_level if log_level is None else log_level.value
    observe(settings, role="worker", log_level=level)
    with _served(settings), closing(open_house(options)) as opened:
        _work(opened.house, roles, level)
    _say(settings, f"worker: stopped; pid {os.getpid()}")


@contextmanager
def _served(settings: Settings) -> Iterator[None]:
    """What this worker counts, at MEMLINE_METRICS_PORT, where it is set."""
    if (port := settings.metrics_port) is None:
        yield
        return
    from memline.exporting import counted
    from memline.telemetry.metrics_server import MetricsServer

    server = MetricsServer(lambda: counted(settings, port), host=settings.metrics_host, port=port)
    _say(settings, f"metrics: http://{settings.metrics_host}:{port}/metrics")
    try:
        yield
    finally:
        server.close()


def _say(settings: Settings, line: str) -> None:
    """A line on stderr, for people; where programs read it, one of the log."""
    if settings.log_format == "json":
        logging.getLogger("memline.worker").info("%s", line)
    else:
        note(line)


def _work(house: House, roles: Roles, log_level: str) -> None:
    from memline.workers.worker import run_worker

    settings = house.settings
    if settings.redis_url is None:
        raise ConfigurationError(
            "A worker needs MEMLINE_REDIS_URL, which is not set: without Redis every process runs its own engine and needs no worker."
        )
    warning = checked_policy(house.stream)
    if warning:
        _say(settings, warning)
    parts, relay = house.parts, house.relay
    run_worker(
        parts,
        relay,
        house.stream,
        redis_url=settings.redis_url.get_secret_value(),
        prefix=settings.redis_prefix,
        roles=roles,
        pruner=house.pruner,
        expirer=house.expirer,
        reconcile=house.reconcile_turns(),
        pulse=house.pulse(),
        log_level=log_level.upper(),
        stop_within=settings.stop_within,
        up=_when_up(settings, roles),
    )


def checked_policy(stream: TurnStream) -> str | None:
    """What `TurnStream.check_policy` says. A Redis that is late is asked again, for some 20 s; one that is not there is told at once."""
    from memline.producer.stream import was_late

    for _ in range(_ASKED - 1):
        try:
            return stream.check_policy()
        except ServiceUnavailable as error:
            if not was_late(error):
                raise
    return stream.check_policy()


def parse_stages(listed: str) -> tuple[Stage, ...]:
    """The stages behind `--stages`, in their order; a usage error for an unknown one."""
    from memline.ledger.jobs import STAGES

    names = [name.strip().lower() for name in listed.split(",") if name.strip()]
    if names == ["all"]:
        return STAGES
    if names == ["none"]:
        return ()
    unknown = [name for name in names if name not in {stage.value for stage in STAGES}]
    if unknown or not names:
        known = ",".join(stage.value for stage in STAGES)
        raise typer.BadParameter(f"{', '.join(unknown) or 'nothing'} is no stage: all, none, or some of {known}.", param_hint="--stages")
    return tuple(stage for stage in STAGES if stage.value in names)


def _when_up(settings: Settings, roles: Roles) -> Callable[[], None]:
    """Says in one line on stderr that the worker is up: when it is called, or, where a stage is served, when Celery listens."""
    parts = [name for name in ("accept", "relay", "sweep") if getattr(roles, name)]
    parts.append("stages " + (",".join(stage.value for stage in roles.stages) or "none"))
    line = f"worker: {', '.join(parts)}; pid {os.getpid()}"

    def say(**_told: object) -> None:
        _say(settings, line)

    if roles.stages:
        from celery.signals import worker_ready

        worker_ready.connect(say, weak=False)
    return say
