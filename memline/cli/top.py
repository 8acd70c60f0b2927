"""`memline top`: the deployment at work, on a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Protocol

import typer

from memline.cli.chosen import chosen
from memline.cli.options import AsJson
from memline.cli.screen import print_json, screen
from memline.contracts.errors import ConfigurationError

__all__ = ["top"]


def top(
    context: typer.Context,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Between two frames.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end; so does a pipe.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is on its way: lanes, stages, rates, the outbox, who is at work, what failed. q or Ctrl-C ends it.

    Rates are of the time between two frames; one frame alone takes two looks, `--every` apart.
    """
    from memline.cli.top_reading import TopReader
    from memline.cli.top_screen import picture
    from memline.contracts.clock import SystemClock
    from memline.ledger.migrate import HEAD, known_revision
    from memline.ledger.session import Ledger

    options = chosen(context)
    settings = options.settings()
    ledger = Ledger(settings.ledger_location(), pool_size=1)
    if ledger.path is not None and not Path(ledger.path).exists():
        raise ConfigurationError(f"There is no ledger at {ledger.path} yet: nothing to show.")
    if known_revision(ledger) != HEAD:
        raise ConfigurationError(f"The ledger at {ledger.shown_url} is empty or of another schema: `memline doctor` says more.")
    with closing(TopReader(settings, ledger, SystemClock(), namespace=options.namespace)) as reader:
        if once or as_json or not sys.stdout.isatty():
            reader.read()
            time.sleep(every)
            frame = reader.read()
            if as_json:
                print_json(frame.document())
            else:
                console = screen()
                console.print(picture(frame, width=console.width, live=False))
            return
        _show(reader, every)


class _Reader(Protocol):
    def read(self) -> object: ...


def _show(reader: _Reader, every: float) -> None:
    """Frame after frame on the terminal's other screen, until q or Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    from memline.cli.top_screen import picture

    console = Console(highlight=False, emoji=False)
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
        try:
            while True:
                began = time.monotonic()
                live.update(picture(reader.read(), width=console.width, live=True), refresh=True)  # type: ignore[arg-type]
                if pressed(max(0.0, every - (time.monotonic() - began))):
                    return
        except KeyboardInterrupt:
            return


class _Pressed(Protocol):
    def __call__(self, seconds: float) -> bool: ...


@contextmanager
def _keys() -> Iterator[_Pressed]:
    """A function that waits so many seconds, and says whether q was pressed meanwhile. Keys need no return, and are not shown."""
    import select

    if not sys.stdin.isatty():

        def wait(seconds: float) -> bool:
            time.sleep(seconds)
            return False

        yield wait
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)

    def pressed(seconds: float) -> bool:
        until = time.monotonic() + seconds
        while True:  # once in any case: a frame may take longer than the time between two
            left = until - time.monotonic()
            ready, _, _ = select.select([descriptor], [], [], max(0.0, left))
            if ready and (not (typed := os.read(descriptor, 64)) or b"q" in typed.lower()):
                return True
            if left <= 0:
                return False

    try:
        yield pressed
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
