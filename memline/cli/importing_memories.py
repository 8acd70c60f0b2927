"""`memline import` of memories: an export of memline's, or a mem0 store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from memline.cli.errors import EXIT_FAILED
from memline.cli.houses import OpenHouse
from memline.cli.screen import bar, complain, facts, note, print_json, screen, text
from memline.contracts.errors import InvalidInput

if TYPE_CHECKING:
    from memline.cli.import_memories import BadPlace, Found, MemoryRun

__all__ = ["How", "import_export", "import_mem0"]


@dataclass(frozen=True, slots=True)
class How:
    """The options of an import of memories."""

    ids: Mapping[str, str]
    skip_bad: bool
    ignore: Sequence[str]
    new_ids: bool
    restore_deleted: bool
    wait: bool
    as_json: bool


def import_export(opened: OpenHouse, file: str, header: dict[str, Any], lines: Iterable[bytes], how: How) -> None:
    """Imports an export, whose first line is parsed already."""
    from memline.cli.import_portable import PortableReader

    if how.ids:
        raise typer.BadParameter("an export says whose each memory is: leave the scope ids out.", param_hint="--user-id")
    embedder = opened.house.embedder
    try:
        reader = PortableReader(
            header, opened.namespace, embedder=(embedder.model, embedder.dimension), new_ids=how.new_ids, ignore=how.ignore
        )
    except InvalidInput as error:
        raise InvalidInput(f"{file}, line 1: {error} Nothing was imported.") from None
    run = _run(opened, file, reader.read(lines), how, dated=True, total=reader.header.memories)
    source = reader.header.namespace
    extra: dict[str, Any] = {"from_namespace": source, "namespace": opened.namespace, "cut_off": reader.cut_off}
    _end(opened, file, run, how, extra)
    if source != opened.namespace:
        note(f"They are of namespace {source}, and went into {opened.namespace}; `memline --namespace {source} import` keeps them there.")
    if reader.cut_off:
        complain(f"{reader.lines} of {reader.header.memories} memories are there: the file was cut off.", label=f"{file},")
    if run.tally.failed or reader.cut_off:
        raise typer.Exit(EXIT_FAILED)


def import_mem0(
    opened: OpenHouse, files: Sequence[str], history: Path | None, how: How, lines_of: Callable[[str], AbstractContextManager[BinaryIO]]
) -> None:
    """Imports what a mem0 store gave back, from all *files* together."""
    from memline.cli.mem0_files import Mem0Files
    from memline.cli.mem0_items import NOTES

    if how.new_ids or how.ignore:
        raise typer.BadParameter("is of no use with --from mem0.", param_hint="--new-ids" if how.new_ids else "--ignore")
    reader = Mem0Files(opened.namespace, how.ids, history=history, now=opened.house.clock.now())
    shown = ", ".join("stdin" if file == "-" else file for file in files)
    run = _run(opened, "", reader.read(files, lines_of), how, dated=False, total=None)
    notes = {name: number for name, number in reader.notes.items() if number}
    _end(opened, shown, run, how, {"namespace": opened.namespace, "items": reader.items, "notes": notes})
    if not how.as_json:
        for name, number in notes.items():
            note(f"{number} {NOTES[name]}")
    if run.tally.failed:
        raise typer.Exit(EXIT_FAILED)


def _run(opened: OpenHouse, file: str, found: Iterable[Found | BadPlace], how: How, *, dated: bool, total: int | None) -> MemoryRun:
    from memline.cli.import_memories import MemoryRun, MemoryTally
    from memline.pipeline.transfer import Importer

    with bar("Importing", total, unit="memories") as progress:

        def told(tally: MemoryTally) -> None:
            progress.show(tally.memories, f"{tally.memories / max(tally.seconds, 0.001):.0f} memories/s")

        importer = Importer(opened.house.parts, restore_deleted=how.restore_deleted, dated=dated)
        run = MemoryRun(importer, skip_bad=how.skip_bad, told=told, policy=opened.house.write_policy)
        try:
            wrong = run.take(found)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{run.tally.memories} memories were looked at. Run the same command again to go on: what is here is known by its id."
            ) from None
    if wrong is not None:
        where = f"{file}, {wrong.place}" if file else wrong.place
        raise InvalidInput(
            f"{where}: {wrong.reason} Nothing of it was written; the {run.tally.memories} memories before it were looked at. Correct it "
            "and import again, or go on without it by --skip-bad."
        )
    return run


def _end(opened: OpenHouse, file: str, run: MemoryRun, how: How, extra: Mapping[str, Any]) -> None:
    """Shows the index what came, and the user the counts."""
    if how.wait:
        opened.house.relay.drain()
    tally = run.tally
    if tally.masked:
        from memline.ledger.counters import count_masked

        with opened.house.ledger.write() as tx:
            count_masked(tx, tally.masked)
    document = {"file": file, **tally.document(), **extra}
    if how.as_json:
        print_json(document)
    else:
        counts = {name: document[name] for name in ("new", "restored", "known", "duplicates", "deleted_before", "conflicts", "refused")}
        told = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in counts.items() if number)
        rows = [("memories", f"{tally.memories}: {told}" if told else "0"), ("time", f"{tally.seconds:.1f} s")]
        rows += [(name.replace("_", " "), str(document[name])) for name in ("skipped", "links_dropped", "vectors_used") if document[name]]
        screen().print(facts((name, text(value)) for name, value in rows))
        if tally.memories and tally.memories == document["known"]:
            screen().print(text("Every memory was here already: nothing was changed."))
    for line in tally.trouble:
        complain(line, label=f"{file},")
