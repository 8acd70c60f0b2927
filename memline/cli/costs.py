"""`memline costs`: what calls of models used, and what that cost, by day, namespace, model and kind of call; or of one job."""

from __future__ import annotations

from contextlib import closing
from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from memline.cli.chosen import chosen
from memline.cli.houses import open_house
from memline.cli.options import AsJson
from memline.cli.screen import fresh_table, note, print_json, screen, text

__all__ = ["cost_lines", "costs", "dollars"]


class Group(StrEnum):
    """What `--by` takes."""

    NAMESPACE = "namespace"
    DAY = "day"
    MODEL = "model"
    CALL = "call"


_NUMBERS = ("calls", "repeated", "tokens_in", "tokens_cached", "tokens_out")


def costs(
    context: typer.Context,
    since: Annotated[
        str | None, typer.Option(metavar="DAY", help="From this day on (UTC): YYYY-MM-DD, or so many days as 7d.", show_default=False)
    ] = None,
    by: Annotated[list[Group] | None, typer.Option("--by", help="What to tell apart; may be given again.", show_default=False)] = None,
    everywhere: Annotated[bool, typer.Option("--all", help="All namespaces, and what belongs to none.")] = False,
    job: Annotated[str | None, typer.Option(metavar="ID", help="Of one job, as long as its replies are kept.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """What calls of models used and cost: tokens in, of them cached, and out; dollars by MEMLINE_PRICES. Those of searches are metrics."""
    from memline.language.prices import PRICES_OF
    from memline.ledger.usage import usage_by, usage_of_job

    options = chosen(context)
    with closing(open_house(options)) as house:
        groups = [group.value for group in dict.fromkeys(by or ([Group.CALL, Group.MODEL]))]
        if everywhere and by is None:
            groups.insert(0, "namespace")
        if job is not None:
            house.state_of(job)
            with house.house.ledger.read() as connection:
                rows, groups = usage_of_job(connection, job), ["call", "model"]
        else:
            from_day = None if since is None else _day(since, house.house.clock.now().date())
            with house.house.ledger.read() as connection:
                rows = usage_by(connection, groups, since=from_day, namespace=None if everywhere else house.namespace)
        rows = [row for row in rows if row["calls"] or row["tokens_in"] or row["repeated"]]
    total = _total(rows)
    document = {
        "by": groups,
        "rows": [_shown(row, groups) for row in rows],
        "total": _shown(total, []),
        "published_prices_of": PRICES_OF,
    }
    if as_json:
        print_json(document)
    elif not rows:
        note("No paid call so far." if job is None else f"Job {job} made no paid call, or its replies are no longer kept.")
    else:
        _show(groups, rows, total)


def cost_lines(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The usage of a job (`usage_of_job`), a line a kind of call, for a view of it."""
    return [(f"{row['call']}: {row['model']}", _told(row)) for row in rows]


def _told(row: dict[str, Any]) -> str:
    shared = not row["calls"] and row["tokens_in"]  # of several turns asked in one call, the first has the call
    calls = "a part of a call" if shared else f"{row['calls']} call{'' if row['calls'] == 1 else 's'}"
    return f"{calls}, {row['tokens_in']:,} tokens in ({row['tokens_cached']:,} cached), {row['tokens_out']:,} out, {dollars(row)}"


def dollars(row: dict[str, Any]) -> str:
    """The money of a row; where a model has no price, that it is not all."""
    if (value := _money(row)) is None:
        return "unknown"
    more = "" if _is_priced(row) else "+"
    if 0 < value < 5e-7:
        return f"<$0.000001{more}"
    return f"${value:,.2f}{more}" if value >= 1 else f"${value:.6f}{more}"


def _is_priced(row: dict[str, Any]) -> bool:
    """Whether the price of all of it is known. A job may bear a part of a call that is counted with another one (`priced`)."""
    return not row["unpriced"] and bool(row.get("priced", True))


def _money(row: dict[str, Any]) -> float | None:
    """The dollars that are known; None where no price is."""
    return row["nanodollars"] / 1e9 if row["nanodollars"] or _is_priced(row) else None


def _day(given: str, today: date) -> date:
    if given.endswith("d") and given[:-1].isascii() and given[:-1].isdigit() and len(given) < 7:
        return today - timedelta(days=int(given[:-1]))
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise typer.BadParameter("a day such as 2026-11-01, or a number of days such as 7d.", param_hint="--since") from None


def _shown(row: dict[str, Any], groups: list[str]) -> dict[str, Any]:
    """A row for JSON. `dollars` is null where no call of it has a price; `unpriced_calls` are not in it."""
    named = {name: row[name].isoformat() if isinstance(row[name], date) else row[name] for name in groups}
    return named | {name: row[name] for name in _NUMBERS} | {"dollars": _money(row), "unpriced_calls": row["unpriced"]}


def _total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    sums = {name: sum(row[name] for row in rows) for name in (*_NUMBERS, "nanodollars", "unpriced")}
    return sums | {"priced": all(map(_is_priced, rows))}


def _show(groups: list[str], rows: list[dict[str, Any]], total: dict[str, Any]) -> None:
    right: dict[str, Any] = {"justify": "right", "no_wrap": True}
    heads = [(name, {"no_wrap": True}) for name in groups] + [(name, right) for name in ("calls", "in", "cached", "out", "cost")]
    table = fresh_table(*heads, gap=2)
    for row in [*rows, total]:
        last = row is total
        style = "bold" if last else ""
        named = ["total", *[""] * (len(groups) - 1)] if last else [str(row[name]) for name in groups]
        numbers = [f"{row[name]:,}" for name in ("calls", "tokens_in", "tokens_cached", "tokens_out")]
        table.add_row(*(text(cell, style) for cell in [*named, *numbers, dollars(row)]))
    screen().print(table)
    if unpriced := total["unpriced"]:
        whose = f"{unpriced:,} calls were to models" if unpriced > 1 else "One call was to a model"
        note(f"{whose} without a price: {'their' if unpriced > 1 else 'its'} money is not counted. Set MEMLINE_PRICES.")
    elif not total["priced"]:
        note("It bears a part of a call to a model without a price: its money is not counted. Set MEMLINE_PRICES.")
    if repeated := total["repeated"]:
        note(
            f"{repeated:,} calls were made again, as their answer was lost."
            if repeated > 1
            else "One call was made again: its answer was lost."
        )
