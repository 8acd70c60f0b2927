"""`memline namespace`: what one namespace wants otherwise than the settings say."""

from __future__ import annotations

from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

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
    PROMPT = "prompt"


Name = Annotated[_Name, typer.Argument(metavar="OPTION", help="default-lifetime or prompt")]


@app.callback()
def namespace() -> None:
    """What one namespace (`memline --namespace NAME`) wants otherwise than the settings say."""


@app.command("set")
def set_value(
    context: typer.Context,
    name: Name,
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="[VALUE]",
            help="default-lifetime: days that a memory without an expiration date lasts, or never. prompt: instructions for what "
            "extraction writes down.",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Read the prompt from a file (UTF-8).", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Set an option, for turns handed over from now on. Memories that are there already stay as they are."""
    if name is _Name.PROMPT:
        given: Any = _prompt(value, file)
    elif file is not None or value is None:
        raise typer.BadParameter("give a number of days, or never.", param_hint="VALUE")
    else:
        given = _days(value)
    with closing(open_house(chosen(context))) as opened:
        from memline.ledger.lifetimes import set_lifetime
        from memline.ledger.namespace_prompt import set_prompt

        with opened.house.ledger.write() as tx:
            now = opened.house.clock.now()
            if name is _Name.PROMPT:
                set_prompt(tx, opened.namespace, given, now=now)
            else:
                set_lifetime(tx, opened.namespace, given, now=now)
        _show(opened, as_json)


@app.command()
def clear(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Let the settings decide again; without a prompt the plain rules of extraction do."""
    from memline.ledger.lifetimes import clear_lifetime
    from memline.ledger.namespace_prompt import clear_prompt

    with closing(open_house(chosen(context))) as opened:
        with opened.house.ledger.write() as tx:
            there = (clear_prompt if name is _Name.PROMPT else clear_lifetime)(tx, opened.namespace)
        if not there:
            note(f"{name} was not set in namespace {opened.namespace}.")
        _show(opened, as_json)


@app.command()
def show(context: typer.Context, as_json: AsJson = False) -> None:
    """Show what holds in the namespace, and whether the namespace or the settings say so."""
    with closing(open_house(chosen(context))) as opened:
        _show(opened, as_json)


def _days(value: str) -> int | None:
    from memline.ledger.lifetimes import NEVER, check_lifetime

    if value != NEVER and not (value.isascii() and value.isdigit() and len(value) <= 6):
        raise typer.BadParameter("must be a whole number of days, or never.", param_hint="VALUE")
    return None if value == NEVER else check_lifetime(int(value))


def _prompt(value: str | None, file: Path | None) -> str:
    if (value is None) == (file is None):
        raise typer.BadParameter("give the prompt as text, or with --file.", param_hint="VALUE")
    if file is None:
        return str(value)
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} can't be read as UTF-8 ({type(error).__name__}).", param_hint="--file") from None


def _show(opened: OpenHouse, as_json: bool) -> None:
    from memline.ledger.lifetimes import lifetime_of
    from memline.ledger.namespace_prompt import prompt_hash, prompt_of

    house = opened.house
    with house.ledger.read() as connection:
        days, set_at = lifetime_of(connection, opened.namespace, house.settings.default_lifetime)
        prompt = prompt_of(connection, opened.namespace)
    source = "settings" if set_at is None else "namespace"
    if as_json:
        told = None if prompt is None else {"text": prompt.value, "hash": prompt_hash(prompt.value), "set_at": prompt.set_at}
        print_json(
            {"namespace": opened.namespace, "default_lifetime_days": days, "source": source, "set_at": set_at, "prompt": told},
        )
        return
    lasts = "for ever" if days is None else f"{days} days"
    said_by = "by the settings" if set_at is None else f"set on {set_at.date()}"
    rows = [("namespace", text(opened.namespace)), ("default lifetime", text(f"{lasts} ({said_by})"))]
    if prompt is not None:
        rows.append(("prompt", text(f"set on {prompt.set_at.date()}, {prompt_hash(prompt.value)}")))
        rows.append(("", text(prompt.value)))
    screen().print(facts(rows))
