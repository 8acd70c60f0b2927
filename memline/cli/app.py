"""The program's commands, put together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from memline.cli import (
    backup,
    calibrate,
    changes,
    changing,
    check,
    costs,
    demo,
    doctor,
    erase,
    export,
    flower,
    health,
    importing,
    index,
    jobs,
    listing,
    memories,
    metrics,
    migrate,
    namespaces,
    purge,
    reconcile,
    sim,
    spool,
    top,
    turns,
    verify,
    weights,
    why,
    worker,
)
from memline.cli.chosen import Chosen
from memline.cli.errors import Commands

__all__ = ["app"]

_PANELS = ("Start here", "Turns and memories", "Running it")

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from memline import __version__

        typer.echo(f"memline {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Settings come from MEMLINE_* in the environment or a .env file. Exit codes: 0 done, 1 an error, 2 wrong usage, "
    "3 not found, 4 doctor, health or check found something wrong, 5 verify did, 130 interrupted."
)
def choose(
    context: typer.Context,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Instead of MEMLINE_NAMESPACE.")] = None,
    home: Annotated[Path | None, typer.Option("--home", metavar="FOLDER", help="Instead of MEMLINE_HOME.", file_okay=False)] = None,
    _version_asked: Annotated[bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)] = False,
) -> None:
    """The memory layer of an AI application: hand a turn over, find it again, trust what you find."""
    context.obj = Chosen(namespace, home)


_START, _USE, _RUN = _PANELS

app.command("demo", rich_help_panel=_START)(demo.demo)
app.command("doctor", rich_help_panel=_START)(doctor.doctor)

app.command("add", rich_help_panel=_USE)(turns.add)
app.command("search", rich_help_panel=_USE)(memories.search)
app.command("get", rich_help_panel=_USE)(memories.get)
app.command("list", rich_help_panel=_USE)(listing.list_all)
app.command("get-all", hidden=True)(listing.list_all)
app.command("count", rich_help_panel=_USE)(listing.count)
app.command("entities", rich_help_panel=_USE)(listing.entities)
app.command("history", rich_help_panel=_USE)(memories.history)
app.command("why", rich_help_panel=_USE)(why.why)
app.command("changes", rich_help_panel=_USE)(changes.changes)
app.command("update", rich_help_panel=_USE)(changing.update)
app.command("delete", rich_help_panel=_USE)(changing.delete)
app.command("delete-all", rich_help_panel=_USE)(changing.delete_all)
app.command("reset", rich_help_panel=_RUN)(changing.reset)
app.command("erase", rich_help_panel=_USE)(erase.erase)
app.command("import", rich_help_panel=_USE)(importing.import_file)
app.command("export", rich_help_panel=_USE)(export.export)
app.command("receipt", rich_help_panel=_USE)(turns.receipt)

app.command("check", rich_help_panel=_RUN)(check.check)
app.command("top", rich_help_panel=_RUN)(top.top)
app.command("health", rich_help_panel=_RUN)(health.health)
app.add_typer(jobs.app, name="jobs", rich_help_panel=_RUN)
app.command("costs", rich_help_panel=_RUN)(costs.costs)
app.command("worker", rich_help_panel=_RUN)(worker.worker)
app.command("flower", rich_help_panel=_RUN)(flower.flower)
app.command("metrics", rich_help_panel=_RUN)(metrics.metrics)
app.add_typer(spool.app, name="spool", rich_help_panel=_RUN)
app.command("verify", rich_help_panel=_RUN)(verify.verify)
app.command("reconcile", rich_help_panel=_RUN)(reconcile.reconcile)
app.add_typer(index.app, name="index", rich_help_panel=_RUN)
app.command("calibrate", rich_help_panel=_RUN)(calibrate.calibrate)
app.add_typer(weights.app, name="weights", rich_help_panel=_RUN)
app.command("purge", rich_help_panel=_RUN)(purge.purge)
app.add_typer(erase.app, name="tombstones", rich_help_panel=_RUN)
app.add_typer(namespaces.app, name="namespace", rich_help_panel=_RUN)
app.command("migrate", rich_help_panel=_RUN)(migrate.migrate)
app.command("backup", rich_help_panel=_RUN)(backup.backup)
app.command("restore", rich_help_panel=_RUN)(backup.restore)
app.command("sim", rich_help_panel=_RUN)(sim.sim)
