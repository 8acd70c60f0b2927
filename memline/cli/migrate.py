"""`memline migrate`: brings a ledger to the schema that this memline knows."""

from __future__ import annotations

from contextlib import closing

import typer

from memline.cli.chosen import chosen
from memline.cli.options import AsJson
from memline.cli.screen import print_json, screen, text

__all__ = ["migrate"]


def migrate(context: typer.Context, as_json: AsJson = False) -> None:
    """Bring the ledger to this version's schema. Stop the workers and back it up first."""
    from memline.ledger.migrate import HEAD, known_revision, upgrade
    from memline.ledger.session import Ledger

    with closing(Ledger(chosen(context).settings().ledger_location())) as ledger:
        ledger.make_file()
        before = known_revision(ledger)
        if before != HEAD:
            upgrade(ledger)
        after = known_revision(ledger)
    if as_json:
        print_json({"ledger": ledger.shown_url, "before": before, "after": after})
        return
    screen().print(text(f"before  {before or 'empty'}   {ledger.shown_url}"))
    screen().print(text(f"after   {after}   {'nothing to do' if before == after else 'done'}"))
