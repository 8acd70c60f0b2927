"""`memline purge`: deletes what expired long enough ago, now; workers and engines do so by themselves."""

from __future__ import annotations

from contextlib import closing
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memline.cli.chosen import chosen
from memline.cli.houses import open_house
from memline.cli.options import AsJson
from memline.cli.screen import bar, fresh_table, note, print_json, screen, text

if TYPE_CHECKING:
    from memline.compose import House
    from memline.ledger.purge import Overdue

__all__ = ["purge"]

_BATCH = 100

Only = Annotated[
    list[str] | None,
    typer.Option("--namespace", "-n", metavar="NAME", help="In this namespace only (may be repeated).", show_default=False),
]


def purge(
    context: typer.Context,
    namespace: Only = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; nothing is changed.")] = False,
    grace: Annotated[
        int | None,
        typer.Option(
            metavar="DAYS", min=0, max=36_500, help="Days after the last one, instead of MEMLINE_EXPIRED_GRACE.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Delete memories that expired longer ago than the grace, with everything made from their text.

    In every namespace, unless one was chosen.
    """
    options = chosen(context)
    with closing(open_house(options)) as opened:
        house = opened.house
        days = house.settings.expired_grace if grace is None else grace
        before, found = _overdue(house, namespace or ([options.namespace] if options.namespace else None), days)
        purged = 0 if dry_run else _purge(house, found, before)
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "grace_days": days,
                "last_day_before": before,
                "purged": purged,
                "namespaces": [{"namespace": each.namespace, "memories": each.number, "oldest_last_day": each.oldest} for each in found],
            }
        )
        return
    _show(found, before, dry_run=dry_run, purged=purged)


def _overdue(house: House, only: list[str] | None, days: int) -> tuple[date, list[Overdue]]:
    from memline.contracts.scope import check_namespace
    from memline.ledger.purge import first_day_kept, overdue

    before = first_day_kept(house.clock.now(), days)
    names: list[str | None] = [None] if only is None else [check_namespace(name) for name in dict.fromkeys(only)]
    with house.ledger.read() as connection:
        return before, [each for name in names for each in overdue(connection, before=before, namespace=name)]


def _purge(house: House, found: list[Overdue], before: date) -> int:
    from memline.ledger.history import HistoryMode
    from memline.ledger.purge import purge_expired

    keep = HistoryMode(house.settings.history)
    purged = 0
    with bar("Purging", sum(each.number for each in found), unit="memories") as shown:
        for each in found:
            done = _BATCH
            while done >= _BATCH:
                with house.ledger.write() as tx:
                    done = purge_expired(tx, before=before, limit=_BATCH, now=house.clock.now(), namespace=each.namespace, keep=keep)
                purged += done
                shown.show(purged)
    if purged:
        house.relay.drain()
    return purged


def _show(found: list[Overdue], before: date, *, dry_run: bool, purged: int) -> None:
    if not found:
        note(f"No memory had its last day before {before}: there is nothing to purge.")
        return
    columns: list[tuple[str, dict[str, Any]]] = [("namespace", {"ratio": 1}), ("memories", {"justify": "right"}), ("oldest last day", {})]
    table = fresh_table(*columns)
    for each in found:
        table.add_row(text(each.namespace), text(each.number), text(each.oldest))
    console = screen()
    console.print(table)
    if dry_run:
        note("Nothing was changed. Without --dry-run these are deleted.")
    else:
        console.print(text(f"{purged} memories were purged."))
