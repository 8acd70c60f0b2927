"""`memline index`: fills an index anew from the ledger, or moves both to another embedder."""

from __future__ import annotations

from contextlib import closing

import typer

from memline.cli.chosen import chosen
from memline.cli.houses import open_house
from memline.cli.options import AsJson
from memline.cli.reconcile import show_pass
from memline.cli.reembed import reembed
from memline.cli.screen import bar, print_json, screen, text

__all__ = ["app"]

app = typer.Typer(help="The index: a copy, made from the ledger at any time.", no_args_is_help=True)


@app.callback()
def index() -> None:
    """The index: a copy, made from the ledger at any time."""


app.command("reembed")(reembed)


@app.command()
def rebuild(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the index every memory and entity of the ledger again, and remove what it should not have. Nothing is embedded."""
    from memline.outbox.reconcile import refill

    with closing(open_house(chosen(context))) as opened:
        house = opened.house
        relay = house.relay
        with bar("Reading the ledger", None, unit="objects") as shown:
            number = refill(house.ledger, house.clock, told=shown.show)
        with bar("Filling the index", number, unit="objects") as shown:
            written = 0
            while taken := relay.run_once():
                written += taken
                shown.show(written)
        done = house.reconciler.run()
        relay.drain()
    if as_json:
        print_json({"objects": number, **done.to_json()})
        return
    screen().print(text(f"{number} objects were shown to the index."))
    show_pass(done)
