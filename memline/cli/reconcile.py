"""`memline reconcile`: compares the index with the ledger and repairs what differs, now."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memline.cli.chosen import chosen
from memline.cli.houses import open_house
from memline.cli.options import AsJson
from memline.cli.screen import facts, print_json, screen, text
from memline.cli.verify import Deep

if TYPE_CHECKING:
    from memline.outbox.reconcile import Pass

__all__ = ["reconcile", "show_pass"]

Budget = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=0.1, help="Stop after that long; the next one goes on there.", show_default="to the end"),
]


def reconcile(context: typer.Context, deep: Deep = False, budget: Budget = None, as_json: AsJson = False) -> None:
    """Compare the index with the ledger, in every namespace, and repair what differs. Workers and engines do so by themselves."""
    with closing(open_house(chosen(context))) as opened:
        house = opened.house
        house.relay.drain()
        done = house.reconciler.run(budget=budget, deep=deep)
        house.relay.drain()
    if as_json:
        print_json(done.to_json())
    else:
        show_pass(done)


def show_pass(done: Pass) -> None:
    """What a pass found, for a person."""
    from memline.outbox.compare import Drift

    console = screen()
    found: list[tuple[str, Any]] = [(kind.value, text(done.drift[kind.value])) for kind in Drift if done.drift[kind.value]]
    if done.revived:
        found.append(("tried again", text(done.revived)))
    if found:
        console.print(facts(found))
    told = f"{done.repaired} objects repaired." if done.repaired else "The index agrees with the ledger."
    if not done.complete:
        told += " The budget ended before the pass did: the next one goes on there."
    console.print(text(told, "green" if done.complete else "yellow"))
