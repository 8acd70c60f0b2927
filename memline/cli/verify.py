"""`memline verify`: compares every store with the committed set; nothing is changed."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from memline.cli.chosen import chosen
from memline.cli.errors import EXIT_UNSOUND
from memline.cli.houses import open_house
from memline.cli.options import AsJson
from memline.cli.screen import bar, fresh_table, note, print_json, screen, text

if TYPE_CHECKING:
    from memline.outbox.verify import Report

__all__ = ["Deep", "verify"]

Deep = Annotated[bool, typer.Option("--deep", help="Read and compare every vector, too.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="Compare the index in this namespace only (may be repeated).", show_default=False
    ),
]


def verify(context: typer.Context, deep: Deep = False, namespace: Only = None, as_json: AsJson = False) -> None:
    """Compare every store with what was committed; nothing is changed. Ends with 5 where something is wrong.

    Of every namespace, unless one was chosen; the ledger is always checked whole. What waits in the outbox is lag and no fault.
    """
    from memline.outbox.verify import verify as compare_stores

    options = chosen(context)
    only = namespace or ([options.namespace] if options.namespace else None)
    with closing(open_house(options)) as opened, bar("Verifying", None) as shown:
        house = opened.house
        report = compare_stores(house.ledger, house.index, deep=deep, namespaces=only, told=lambda what: shown.show(0, what))
    if as_json:
        print_json(report.to_json())
    else:
        _show(report)
    if not report.sound:
        raise typer.Exit(EXIT_UNSOUND)


def _show(report: Report) -> None:
    console = screen()
    if report.counts:
        table = fresh_table(("store", {}), ("what is wrong", {"ratio": 1}), ("how many", {"justify": "right"}))
        for (store, problem), number in sorted(report.counts.items()):
            ids = report.examples[store, problem]
            shown = Text.assemble(text(problem), "\n", text(", ".join(ids[:3]) + (" …" if number > 3 else ""), "dim"))
            table.add_row(text(store, "bold"), shown, text(number, "bold red"))
        console.print(table)
        if any(store.startswith("index") for store, _ in report.counts):
            note("`memline reconcile` repairs the index.")
    if report.lag:
        console.print(text(f"{report.lag} objects wait to be shown to the index: lag, and no fault.", "yellow"))
    if report.sound:
        console.print(text("Every store agrees with what was committed.", "green"))
