"""`memline backup` and `memline restore`: a SQLite ledger to a file and back; after any restore, what has to happen before it serves."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memline.cli.chosen import chosen
from memline.cli.options import AsJson
from memline.cli.screen import facts, note, print_json, screen, text
from memline.contracts.errors import ConfigurationError, InvalidInput, SchemaMismatch

if TYPE_CHECKING:
    from memline.cli.chosen import Chosen
    from memline.ledger.backup import BackupFile
    from memline.settings import Settings

__all__ = ["backup", "restore"]

_POSTGRES = "The ledger is PostgreSQL: its own tools do that, such as ops/backup/postgres.sh (docs/operations.md)."


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not be there.", dir_okay=False)],
    as_json: AsJson = False,
) -> None:
    """Write a SQLite ledger to a file, while it is in use, and check the copy. Keep tombstones.jsonl and erase.key beside it, apart."""
    from memline.ledger.backup import take_backup

    settings = chosen(context).settings()
    path = _sqlite_path(settings)
    if path is None:
        raise InvalidInput(f"{_POSTGRES} Nothing was written.")
    home = settings.home_folder()
    taken = take_backup(path, file)
    if as_json:
        print_json(_document(taken))
    else:
        _show(taken, "Backed up and checked.")
    if home.resolve() in file.resolve().parents:
        note(f"This file lies in {home}, where an erasure looks for what it erases: keep backups elsewhere.")
    if (stones := home / "tombstones.jsonl").exists():
        note(f"Not in it, on purpose: {stones} and the erase key. Keep the newest of both; never put an older one back.")


def restore(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="A backup of `memline backup`; none after a restore of PostgreSQL.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put a backup back, and erase again what was erased since it was taken, before anything of it is served.

    End every process that uses the ledger before. The ledger that was there is kept beside it, under another name. Without FILE (after
    a restore of PostgreSQL by its own tools) only the rest is done: tombstones are replayed, and the index is due to be compared.
    """
    options = chosen(context)
    settings = options.settings()
    told: dict[str, Any] = {}
    if file is not None:
        told |= _put_back(settings, file, yes=yes, as_json=as_json)
    elif (path := _sqlite_path(settings)) is not None and not path.exists():
        raise ConfigurationError(f"There is no ledger at {path}: name the backup, `memline restore FILE`.")
    told |= _finish(options)
    if as_json:
        print_json(told)
        return
    rows = [(name.replace("_", " "), text(value)) for name, value in told.items() if value is not None and name != "tombstones_unfiled"]
    screen().print(facts(rows))
    screen().print(text("The ledger serves. Start the workers, then: memline reconcile, memline verify.", "green"))
    if unfiled := told["tombstones_unfiled"]:
        note(
            f"The ledger knows {unfiled} erasures that tombstones.jsonl in {settings.home_folder()} lacks: it is another machine's, or not "
            "the newest. Put the newest there and run `memline restore` again, without FILE: what was erased since the backup may be there "
            "again."
        )
    if told.get("ledger_before"):
        note("Remove the ledger that was there before once this one has proven itself: while it is there, no erasure comes to its end.")
    note("Turns that were accepted after the backup are gone from it; those still in Redis or in a spool arrive by themselves.")


def _put_back(settings: Settings, file: Path, *, yes: bool, as_json: bool) -> dict[str, Any]:
    from memline.contracts.clock import SystemClock
    from memline.ledger.backup import aside_of, put_back, read_backup
    from memline.ledger.migrate import HEAD
    from memline.outbox.tombstone_file import TombstoneFile

    path = _sqlite_path(settings)
    if path is None:
        raise InvalidInput(f"{_POSTGRES} Nothing was changed.")
    found = read_backup(file)
    if found.revision > HEAD:
        raise InvalidInput(f"{file} has schema {found.revision}, this memline knows up to {HEAD}: upgrade memline. Nothing was changed.")
    present, erasures = _present(path)
    if present is not None and found.ledger is not None and present != found.ledger:
        raise InvalidInput(f"{file} is a backup of another ledger than the one at {path}: name its home folder. Nothing was changed.")
    if unfiled := erasures - TombstoneFile(settings.home_folder() / "tombstones.jsonl").read().keys():
        raise InvalidInput(
            f"The ledger at {path} knows {len(unfiled)} erasures that tombstones.jsonl in {settings.home_folder()} lacks, so that what "
            "they erased would come back: put the newest of these files there, end an erasure that was cut short (`memline erase "
            "--resume`), or move the ledger away. Nothing was changed."
        )
    if not yes:
        if as_json:
            raise typer.BadParameter("with --json nothing is asked: add --yes.", param_hint="--json")
        _show(found, f"This would be put in the place of {path}.")
        typer.confirm("Put it back?", abort=True, err=True)
    aside = aside_of(path, SystemClock().now())
    was_there = put_back(found, path, aside=aside)
    if found.revision != HEAD:
        kept = f" The ledger that was there is {aside}." if was_there else ""
        raise SchemaMismatch(
            f"The backup was put back, and has schema {found.revision}; this memline needs {HEAD}. Run `memline migrate`, then `memline "
            f"restore` without FILE, before anything uses it.{kept}"
        )
    return {**_document(found), "ledger_before": str(aside) if was_there else None}


def _finish(options: Chosen) -> dict[str, Any]:
    """Opening replays the tombstones; the index, which is younger or older than the ledger now, is due to be compared."""
    from memline.cli.replaying import replayed_house
    from memline.ledger.reconciling import make_turn_due
    from memline.ledger.tombstones import tombstone_ids

    with replayed_house(options) as (house, replayed), house.ledger.write() as tx:
        make_turn_due(tx)
        unfiled = tombstone_ids(tx) - house.tombstone_file.read().keys()
    return {"tombstones_replayed": replayed, "tombstones_unfiled": len(unfiled)}


def _present(path: Path) -> tuple[str | None, set[str]]:
    """Name and erasures of the ledger that is there; None and none where there is none, or it can't be read any more."""
    import sqlite3

    if not path.exists():
        return None, set()
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            row = connection.execute("SELECT value FROM ledger_meta WHERE key = 'name'").fetchone()
            erasures = {str(found) for (found,) in connection.execute("SELECT id FROM tombstones")}
    except sqlite3.Error:
        return None, set()
    return None if row is None else str(row[0]), erasures


def _sqlite_path(settings: Settings) -> Path | None:
    from memline.ledger.session import Ledger

    with closing(Ledger(settings.ledger_location())) as ledger:
        return None if ledger.path is None else Path(ledger.path)


def _document(found: BackupFile) -> dict[str, Any]:
    return {
        "file": str(found.path),
        "bytes": found.size,
        "schema": found.revision,
        "memories": found.memories,
        "jobs": found.jobs,
        "newest_turn": found.newest_turn,
    }


def _show(found: BackupFile, line: str) -> None:
    screen().print(facts([(name.replace("_", " "), text(value)) for name, value in _document(found).items()]))
    screen().print(text(line, "green"))
