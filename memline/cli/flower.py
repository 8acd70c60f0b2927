"""`memline flower`: Flower's pages over the chains, with memline's settings, behind a password."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memline.cli.chosen import chosen
from memline.cli.screen import note
from memline.contracts.errors import ConfigurationError

if TYPE_CHECKING:
    from memline.settings import Settings

__all__ = ["COLUMNS", "flower"]

#: Of the page of tasks, in their order: what ran, for which jobs, what came of it, how long it took, when, in which batch, where.
COLUMNS = "name,state,kwargs,result,runtime,received,args,worker"

#: Tasks that Flower keeps: about 1,600 chains.
_TASKS = 10_000

#: Milliseconds between two writes of what Flower has seen.
_SAVE_EVERY = 10_000


def flower(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 5555,
    address: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    url_prefix: Annotated[str | None, typer.Option(metavar="PATH", help="Behind a proxy: the path that it is seen at.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only/--writable", help="Whether its pages may stop workers and messages.")] = True,
) -> None:
    """Serve Flower until Ctrl-C: the chains by stage, with the ids of batches and jobs. Needs the extra `flower`."""
    settings = chosen(context).settings()
    if ":" in settings.flower_user:
        raise ConfigurationError("MEMLINE_FLOWER_USER must not hold a colon: it ends the name in basic authentication.")
    from memline.observing import log_lines

    log_lines(settings)
    served = _flower(settings)
    password = settings.flower_password.get_secret_value() if settings.flower_password else _drawn(settings.flower_user)
    options = served.options
    options.port, options.address, options.url_prefix = port, address, url_prefix
    options.basic_auth = [f"{settings.flower_user}:{password}"]
    options.read_only = read_only
    try:
        found = served.start_http_server()
    except OSError as error:
        raise ConfigurationError(f"Flower can't listen at {address}:{port} ({error.strerror}): give a free one, by --port.") from None
    note(f"flower: http://{address}:{found}{f'/{url_prefix}' if url_prefix else ''} (user {settings.flower_user})")
    for number in (signal.SIGTERM, signal.SIGINT):
        served.io_loop.asyncio_loop.add_signal_handler(number, served.io_loop.stop)
    try:
        served.start()
    finally:
        served.stop()  # which writes down what it has seen


def _flower(settings: Settings) -> Any:
    """Flower on the Redis of *settings*, which keeps what it has seen in the home folder."""
    try:
        from flower.app import Flower
        from flower.options import default_options
        from flower.urls import settings as pages
    except ImportError:
        raise ConfigurationError("`memline flower` needs the extra flower: pip install 'memline[flower]'.") from None
    from memline.celery import app_of

    app = app_of(settings)
    folder: Path = settings.home_folder() / "flower"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    default_options.persistent, default_options.db = True, str(folder / "flower")
    default_options.state_save_interval = _SAVE_EVERY
    default_options.max_tasks = _TASKS
    default_options.tasks_columns = COLUMNS
    return Flower(capp=app, options=default_options, **pages)


def _drawn(user: str) -> str:
    """A password for this run, told once."""
    from secrets import token_urlsafe

    password = token_urlsafe(12)
    note(f"flower: MEMLINE_FLOWER_PASSWORD is not set; for this run {user}'s password is {password}")
    return password
