"""`memline migrate`: brings a ledger to the schema that this memline knows."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import typer

from memline.cli.chosen import chosen
from memline.cli.options import AsJson
from memline.cli.screen import print_json, screen, text

__all__ = ["migrate"]


def migrate(context: typer.Context, as_json: AsJson = False) -> None:
    """Bring the ledger to this version's schema. Stop the workers and back it up first."""
    from memline.ledger.migrate import HEAD, schema_revision, upgrade
    from memline.ledger.session import Ledger

    with closing(Ledger(chosen(context).settings().ledger_location())) as ledger:
        if ledger.path:
            Path(ledger.path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with ledger.read() as connection:
            before = schema_revision(connection)
        if before is None or before < HEAD:
            upgrade(ledger)
        with ledger.read() as connection:
            after = schema_revision(connection)
    if as_json:
        print_json({"ledger": ledger.shown_url, "before": before, "after": after})
        return
    screen().print(text(f"before  {before or 'empty'}   {ledger.shown_url}"))
    screen().print(text(f"after   {after}   {'nothing to do' if before == after else 'done'}"))
