"""`memline jobs`: the turns of the ledger, what became of each, and another try for those that failed."""

from __future__ import annotations

from contextlib import closing
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from memline.cli.chosen import Chosen, chosen
from memline.cli.costs import cost_lines
from memline.cli.houses import open_house
from memline.cli.options import AsJson
from memline.cli.screen import facts, fresh_table, local_time, note, print_json, screen, text
from memline.cli.turns import receipt_document

__all__ = ["app"]

app = typer.Typer(help="The turns in the ledger: what became of each, and another try for those that failed.")


class JobState(StrEnum):
    """What `--state` takes."""

    UNFINISHED = "unfinished"
    ACCEPTED = "accepted"
    COMMITTED = "committed"
    SEARCHABLE = "searchable"
    FAILED = "failed"
    CANCELLED = "cancelled"
    CONFLICT = "conflict"


State = Annotated[JobState | None, typer.Option("--state", help="Only jobs in this state.", show_default=False)]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000_000, metavar="N", help="Most jobs to list.")]

_COLUMNS: dict[str, dict[str, Any]] = {"id": {"no_wrap": True}, "tries": {"justify": "right"}, "reason": {"ratio": 1}}
#: Columns that the list needs: a narrower terminal breaks its lines, and no id is cut.
_LEAST = 80
_STYLES = {"failed": "bold red", "conflict": "red", "cancelled": "yellow", "searchable": "green"}


@app.callback(invoke_without_command=True)
def jobs(context: typer.Context, state: State = None, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List jobs, the newest first; or `show` one, or `retry` those that failed."""
    if context.invoked_subcommand is None:
        _list(chosen(context), state, limit, as_json)


@app.command("list")
def list_newest(context: typer.Context, state: State = None, limit: Limit = 20, as_json: AsJson = False) -> None:
    """List jobs, the newest first (the same as `memline jobs`)."""
    _list(chosen(context), state, limit, as_json)


@app.command()
def show(
    context: typer.Context,
    job_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a job, which is that of its turn.")],
    as_json: AsJson = False,
) -> None:
    """Show one job: where it is, what it made, why it ended."""
    from memline.contracts.ids import handed_over_at

    with closing(open_house(chosen(context))) as house:
        state = house.state_of(job_id)
        used = house.usage_of(job_id)
    if as_json:
        print_json(receipt_document(state) | {"handed_at": handed_over_at(state.id), "usage": used})
        return
    rows: list[tuple[str, Any]] = [
        ("job", text(state.id)),
        ("state", text(state.status.value, _STYLES.get(state.status.value, ""))),
        ("stage", text(state.stage)),
        ("handed over", text(local_time(handed_over_at(state.id)))),
        ("reason", text(state.reason or "—")),
        ("same as", text(state.same_as or "—")),
    ]
    rows += [(told, text(cost)) for told, cost in cost_lines(used)]
    rows += [(result["event"], text(result["memory"] or "(deleted since)")) for result in state.results]
    screen().print(facts(rows))


@app.command()
def retry(
    context: typer.Context,
    job_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids of jobs that failed.")],
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long to wait for them, without workers.")] = 60,
    as_json: AsJson = False,
) -> None:
    """Put failed jobs back at the stage where they failed; without workers, run them now."""
    with closing(open_house(chosen(context))) as house:
        for job_id in job_ids:
            house.state_of(job_id)  # of this namespace, or not found; before any of them is touched
        settled: list[dict[str, Any]] = [{"id": job_id, "retried": house.retry(job_id)} for job_id in job_ids]
        if not house.uses_redis:
            house.run([line["id"] for line in settled if line["retried"]], timeout)
        for line in settled:
            state = house.state_of(line["id"])
            line |= {"status": state.status.value, "finished": state.finished, "reason": state.reason}
    if as_json:
        print_json({"jobs": settled})
    else:
        _show_retried(settled)
    if any(line["retried"] and line["status"] == "failed" for line in settled):
        raise typer.Exit(1)


def _show_retried(settled: list[dict[str, Any]]) -> None:
    for line in settled:
        told = line["status"]
        if not line["retried"]:
            told += ": it had not failed"
        elif not line["finished"]:
            told += ", on its way"
        reason = text(f" ({line['reason']})" if line["reason"] else "", "dim")
        screen().print(text(f"{line['id']}  ") + text(told, _STYLES.get(line["status"], "")) + reason)


def _list(options: Chosen, state: JobState | None, limit: int, as_json: bool) -> None:
    with closing(open_house(options)) as house:
        rows = house.jobs(None if state is None else state.value, limit)
    if as_json:
        print_json({"jobs": rows})
        return
    if not rows:
        note(f"No job is {state.value} in namespace {house.namespace}." if state else f"No job in namespace {house.namespace}.")
        return
    _show(rows)
    if len(rows) == limit:
        note(f"These are the newest {limit}; --limit shows more.")


def _show(rows: list[dict[str, Any]]) -> None:
    console = screen()
    console.width = max(console.width, _LEAST)
    wide = console.width >= 100
    columns = ["id", "state", "stage", "tries", "handed over", *(["reason"] if wide else [])]
    table = fresh_table(*((name, _COLUMNS.get(name, {"no_wrap": True})) for name in columns), gap=1)
    for row in rows:
        state, reason = text(row["state"], _STYLES.get(row["state"], "")), text(row["reason"], "yellow")
        cells = [text(row["id"]), state, text(row["stage"]), text(row["attempts"]), text(local_time(row["handed_at"], year=wide))]
        table.add_row(*cells, *([reason] if wide else []))
    if wide:
        console.print(table)
        return
    # a reason has the whole width, below its row: the table's lines are its heading, a rule, and one a row
    reasons = ["", "", *(row["reason"] for row in rows)]
    for line, reason in zip(console.render_lines(table, pad=False), reasons, strict=False):
        console.print(Text.assemble(*((segment.text, segment.style or "") for segment in line)), overflow="crop", no_wrap=True)
        if reason:
            console.print(Padding(text(reason, "yellow"), (0, 0, 0, 2)))
