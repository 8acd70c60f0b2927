"""`memline changes`: what happened to which memory, in order, without content; with --follow as it happens."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memline.cli.chosen import chosen
from memline.cli.interrupt import Interrupt, interruptible
from memline.cli.screen import note, plain

if TYPE_CHECKING:
    from memline.memory import Memory

__all__ = ["changes"]


def changes(
    context: typer.Context,
    since: Annotated[
        str | None,
        typer.Option(metavar="CURSOR", help="Go on after this cursor; [bold]now[/bold] for what comes from here on.", show_default=False),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.05, help="How often --follow looks.")] = 1.0,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Most changes to show.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, each with its cursor.")] = False,
) -> None:
    """Show what happened to which memory, in the order of commits: ids, versions and events, no content."""
    place = since
    try:
        with chosen(context).memory() as memory, interruptible() as interrupt:
            left = limit
            while left is None or left > 0:
                interrupt.check()
                answer = _page(memory, place, min(1000, left or 1000), interrupt, patient=every if follow else None)
                place = answer["cursor"]
                for change in answer["results"]:
                    sys.stdout.write(_line(change, as_json=as_json) + "\n")
                sys.stdout.flush()
                left = None if left is None else left - len(answer["results"])
                if not answer["results"]:
                    if not follow:
                        break
                    interrupt.wait(every)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"go on with --since {place}" if place else "nothing was read.") from None
    if not as_json and place is not None:
        note(f"Go on with --since {place}")


def _page(memory: Memory, place: str | None, limit: int, interrupt: Interrupt, *, patient: float | None) -> dict[str, Any]:
    """A page; one that is *patient* (seconds between two tries) waits for a ledger that does not answer, and says so once."""
    from memline.contracts.errors import ServiceUnavailable

    told = False
    while True:
        try:
            answer = memory.changes(place, limit=limit)
        except ServiceUnavailable as error:
            if patient is None:
                raise
            if not told:
                note(f"{error} Trying again.")
                told = True
            interrupt.wait(max(patient, 1.0))
            continue
        if told:
            note("The ledger answers again.")
        return answer


def _line(change: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        return json.dumps(change, ensure_ascii=False)
    return plain(f"{change['at']}  {change['event']:<9}  {change['id']}  version {change['version']}")
