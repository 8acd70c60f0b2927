"""`memline namespace`: what one namespace wants otherwise than the settings say."""

from __future__ import annotations

from contextlib import closing
from enum import StrEnum
from typing import Annotated

import typer

from memline.cli.chosen import chosen
from memline.cli.houses import OpenHouse, open_house
from memline.cli.options import AsJson
from memline.cli.screen import facts, note, print_json, screen, text

__all__ = ["app"]

app = typer.Typer(help="What one namespace wants otherwise than the settings say.", no_args_is_help=True)


class _Name(StrEnum):
    """Options that a namespace may set."""

    DEFAULT_LIFETIME = "default-lifetime"


Name = Annotated[_Name, typer.Argument(metavar="OPTION", help="default-lifetime")]


@app.callback()
def namespace() -> None:
    """What one namespace (`memline --namespace NAME`) wants otherwise than the settings say."""


@app.command("set")
def set_value(
    context: typer.Context,
    name: Name,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Days that a memory without an expiration date lasts, or never.")],
    as_json: AsJson = False,
) -> None:
    """Set an option. Memories that are there already keep their expiration dates."""
    from memline.ledger.lifetimes import NEVER, check_lifetime, set_lifetime

    if value != NEVER and not (value.isascii() and value.isdigit() and len(value) <= 6):
        raise typer.BadParameter("must be a whole number of days, or never.", param_hint="VALUE")
    days = None if value == NEVER else check_lifetime(int(value))
    with closing(open_house(chosen(context))) as opened:
        with opened.house.ledger.write() as tx:
            set_lifetime(tx, opened.namespace, days, now=opened.house.clock.now())
        _show(opened, as_json)


@app.command()
def clear(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Let the settings decide again."""
    from memline.ledger.lifetimes import clear_lifetime

    with closing(open_house(chosen(context))) as opened:
        with opened.house.ledger.write() as tx:
            there = clear_lifetime(tx, opened.namespace)
        if not there:
            note(f"{name} was not set in namespace {opened.namespace}.")
        _show(opened, as_json)


@app.command()
def show(context: typer.Context, as_json: AsJson = False) -> None:
    """Show what holds in the namespace, and whether the namespace or the settings say so."""
    with closing(open_house(chosen(context))) as opened:
        _show(opened, as_json)


def _show(opened: OpenHouse, as_json: bool) -> None:
    from memline.ledger.lifetimes import lifetime_of

    house = opened.house
    with house.ledger.read() as connection:
        days, set_at = lifetime_of(connection, opened.namespace, house.settings.default_lifetime)
    source = "settings" if set_at is None else "namespace"
    if as_json:
        print_json({"namespace": opened.namespace, "default_lifetime_days": days, "source": source, "set_at": set_at})
        return
    lasts = "for ever" if days is None else f"{days} days"
    said_by = "by the settings" if set_at is None else f"set on {set_at.date()}"
    screen().print(facts([("namespace", text(opened.namespace)), ("default lifetime", text(f"{lasts} ({said_by})"))]))
