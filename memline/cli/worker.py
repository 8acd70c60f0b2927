"""`memline worker`: a process that accepts turns, runs their stages, and shows the index what was committed."""

from __future__ import annotations

import os
from contextlib import closing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from memline.cli.chosen import chosen
from memline.cli.houses import open_house
from memline.cli.screen import note
from memline.contracts.errors import ConfigurationError

if TYPE_CHECKING:
    from memline.compose import House
    from memline.ledger.jobs import Stage
    from memline.workers.worker import Roles

__all__ = ["parse_stages", "worker"]


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
    log_level: Annotated[LogLevel, typer.Option(help="What is logged.", case_sensitive=False)] = LogLevel.WARNING,
) -> None:
    """Work until Ctrl-C or SIGTERM; what a stage has begun is finished first."""
    from memline.workers.worker import Roles

    roles = Roles(accept, relay, sweep, parse_stages(stages), concurrency, pool.value)
    if not (accept or relay or sweep or roles.stages):
        raise typer.BadParameter("nothing is left to do: allow at least one of accept, relay, sweep and a stage.")
    with closing(open_house(chosen(context))) as opened:
        _work(opened.house, roles, log_level)
    note(f"worker: stopped; pid {os.getpid()}")


def _work(house: House, roles: Roles, log_level: LogLevel) -> None:
    import logging

    from memline.workers.worker import run_worker

    settings = house.settings
    if settings.redis_url is None:
        raise ConfigurationError(
            "A worker needs MEMLINE_REDIS_URL, which is not set: without Redis every process runs its own engine and needs no worker."
        )
    logging.basicConfig(level=log_level.value.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    warning = house.stream.check_policy()
    if warning:
        note(warning)
    parts, relay = house.parts, house.relay
    _when_up(roles)
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
        log_level=log_level.value.upper(),
    )


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


def _when_up(roles: Roles) -> None:
    """One line on stderr: at once where no stage is served, else when Celery listens."""
    parts = [name for name in ("accept", "relay", "sweep") if getattr(roles, name)]
    parts.append("stages " + (",".join(stage.value for stage in roles.stages) or "none"))
    line = f"worker: {', '.join(parts)}; pid {os.getpid()}"
    if not roles.stages:
        note(line)
        return
    from celery.signals import worker_ready

    def say(**_told: object) -> None:
        note(line)

    worker_ready.connect(say, weak=False)
