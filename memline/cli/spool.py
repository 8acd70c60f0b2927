"""`memline spool`: turns that wait on this machine's disk because Redis was away."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import typer

from memline.cli.chosen import Chosen, chosen
from memline.cli.options import AsJson
from memline.cli.screen import bar, fresh_table, note, print_json, screen, text
from memline.contracts.errors import ConfigurationError

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Turns that wait on this machine's disk because Redis was away.")


@app.command()
def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Show what waits: a file for each process that could not reach Redis."""
    spool = _spool(chosen(context))
    files = spool.status()
    if as_json:
        print_json({"folder": spool.folder, "turns": sum(file.turns for file in files), "files": [_file(file) for file in files]})
        return
    if not files:
        note(f"No turn waits in {spool.folder}.")
        return
    table = fresh_table(
        ("file", {"ratio": 1}), ("turns", {"justify": "right"}), ("bytes", {"justify": "right"}), ("its process", {"no_wrap": True})
    )
    for file in files:
        table.add_row(
            text(file.file.name), text(file.turns), text(file.bytes), text("lives and sends it" if file.owner_alive else "is gone")
        )
    screen().print(table)
    if any(not file.owner_alive for file in files):
        note("`memline spool send` sends what the processes that are gone left.")


@app.command()
def send(context: typer.Context, as_json: AsJson = False) -> None:
    """Send to Redis what processes that are gone have left. A living process sends its own."""
    from memline.producer import TurnStream

    settings = chosen(context).settings()
    if settings.redis_url is None:
        raise ConfigurationError("There is no Redis to send to: set MEMLINE_REDIS_URL to the one that the turns were meant for.")
    spool = _spool(chosen(context))
    waiting = sum(file.turns for file in spool.status() if not file.owner_alive)
    with closing(TurnStream(settings.redis_url.get_secret_value(), prefix=settings.redis_prefix)) as stream:
        stream.ping()
        with bar("Sending", waiting, unit="turns") as progress:
            sent = 0

            def append(wire: str) -> None:
                nonlocal sent
                stream.append(wire)
                sent += 1
                progress.show(sent)

            spool.adopt(append)
        place = stream.place
    left = spool.status()
    turns_left = sum(file.turns for file in left)
    if as_json:
        print_json({"sent": sent, "left": turns_left, "files": [_file(file) for file in left]})
        return
    screen().print(text(f"Sent {sent} {_turns(sent)} to Redis at {place}."))
    if turns_left:
        note(f"{turns_left} {_turns(turns_left)} of living processes stay: these send them by themselves.")


def _spool(options: Chosen) -> Any:
    from memline.producer import Spool

    return Spool(options.settings().home_folder() / "spool")


def _file(file: Any) -> dict[str, Any]:
    return {"file": file.file.name, "turns": file.turns, "bytes": file.bytes, "owner_alive": file.owner_alive}


def _turns(number: int) -> str:
    return "turn" if number == 1 else "turns"
