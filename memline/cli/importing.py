"""`memline import`: a file of turns with their own times, as JSON lines; an export of memline's; or a mem0 store."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from memline.cli.chosen import chosen
from memline.cli.errors import EXIT_FAILED
from memline.cli.houses import OpenHouse, open_house
from memline.cli.importing_memories import How, import_export, import_mem0
from memline.cli.options import AgentId, AsJson, RunId, UserId, scope_ids
from memline.cli.screen import bar, complain, facts, note, print_json, screen, text
from memline.contracts.errors import InvalidInput

if TYPE_CHECKING:
    from memline.cli.import_lines import LineReader
    from memline.cli.import_run import ImportRun, Tally

__all__ = ["import_file"]

_CHUNK = 1 << 20
#: Seconds that a stopped import waits for the engine: what it leaves goes on at the next start.
_QUICK_EXIT = 0.5


class Source(StrEnum):
    """What the file holds."""

    AUTO = "auto"
    MEMLINE = "memline"
    MEM0 = "mem0"


def import_file(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help="JSON lines; - reads stdin. Several with --from mem0 only.")],
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    source: Annotated[
        Source, typer.Option("--from", help="mem0: its exported JSON. An export of memline's is known by its first line.")
    ] = Source.AUTO,
    history_db: Annotated[
        Path | None, typer.Option("--history-db", metavar="FILE", help="mem0's history.db.", dir_okay=False, show_default=False)
    ] = None,
    infer: Annotated[bool, typer.Option("--infer/--no-infer", help="Of turns: extract facts, or keep each message as it stands.")] = True,
    new_ids: Annotated[bool, typer.Option("--new-ids", help="Of an export: other ids, always the same for the same memory.")] = False,
    restore_deleted: Annotated[bool, typer.Option("--restore-deleted", help="Bring memories back that were deleted here.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Pass over lines that are wrong, and count them.")] = False,
    ignore: Annotated[list[str] | None, typer.Option("--ignore", metavar="FIELD", help="A field to pass over.", show_default=False)] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until everything is searchable.")] = True,
    patience: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Give up when no turn moves for so long.")] = 120,
    as_json: AsJson = False,
) -> None:
    """Import turns, an export of memline's, or a mem0 store. A second import of the same changes nothing.

    A line of turns is an object with "messages" (or "content", with "role"), "user_id", "agent_id" or "run_id" (or by option, for all),
    and if you like "timestamp", "metadata", "infer", "prompt", "expiration_date", "key". What `memline export` wrote keeps ids, times,
    states and history. docs/from-mem0.md says how to export a mem0 store.
    """
    ids = scope_ids(user_id, agent_id, run_id)
    how = How(ids, skip_bad=skip_bad, ignore=ignore or (), new_ids=new_ids, restore_deleted=restore_deleted, wait=wait, as_json=as_json)
    _check_usage(source, files, history_db)
    opened = open_house(chosen(context))
    with closing(opened):
        if source is Source.MEM0:
            import_mem0(opened, files, history_db, how, _lines_of)
            return
        (file,) = files
        with _lines_of(file) as lines:
            first = lines.readline()
            header = _header_in(first)
            if header is not None:
                import_export(opened, _shown(file), header, lines, how)
                return
            if source is Source.MEMLINE or new_ids or restore_deleted:
                raise typer.BadParameter(f"the first line of {_shown(file)} is not that of `memline export`.", param_hint="FILE")
            _import_turns(opened, file, chain([first], lines), how, infer=infer, patience=patience)


def _check_usage(source: Source, files: list[str], history_db: Path | None) -> None:
    if source is not Source.MEM0 and len(files) > 1:
        raise typer.BadParameter("one file at a time, but with --from mem0.", param_hint="FILE")
    if source is not Source.MEM0 and history_db is not None:
        raise typer.BadParameter("belongs to --from mem0.", param_hint="--history-db")


def _import_turns(opened: OpenHouse, file: str, lines: Iterable[bytes], how: How, *, infer: bool, patience: float) -> None:
    from memline.cli.import_gates import gate_of
    from memline.cli.import_run import ImportRun
    from memline.cli.interrupt import interruptible

    reader = _reader(opened, dict(how.ids), infer=infer, ignore=list(how.ignore))
    with bar("Importing", _count_lines(file), unit="turns") as progress, interruptible() as interrupt:

        def told(tally: Tally) -> None:
            done = tally.new + tally.known + tally.conflicts + tally.failed + tally.skipped
            progress.show(done, f"{tally.memories} memories · {done / max(tally.seconds, 0.001):.0f} turns/s")

        run = ImportRun(opened, gate_of(opened.house), skip_bad=how.skip_bad, patience=patience, told=told, check=interrupt.check)
        try:
            run.hand_over(reader.read(interrupt.reading(lines)))
            if how.wait:
                run.finish()
        except KeyboardInterrupt:
            opened.close(_QUICK_EXIT)
            raise KeyboardInterrupt(
                f"{run.tally.turns} turns were handed over. Run the same command again to go on: what was taken is known by its key."
            ) from None
        except InvalidInput as error:
            raise _bad_line(file, error, run.tally.turns) from None
    _show(run, file, how.as_json)
    if run.tally.conflicts or run.tally.failed:
        raise typer.Exit(EXIT_FAILED)


def _header_in(first: bytes) -> dict[str, Any] | None:
    from memline.cli.import_portable import header_in

    return header_in(first)


def _bad_line(file: str, error: InvalidInput, before: int) -> InvalidInput:
    kept = f"; the {before} turns before it were handed over, and are known by their keys" if before else ""
    return InvalidInput(
        f"{_shown(file)}, {error} Nothing of this line was written{kept}. Correct it and import again, or go on without it by --skip-bad."
    )


def _reader(opened: OpenHouse, ids: dict[str, str], *, infer: bool, ignore: list[str]) -> LineReader:
    from memline.cli.import_lines import LineReader

    house = opened.house
    return LineReader(
        opened.namespace,
        ids,
        infer=infer,
        max_turn=house.settings.max_turn,
        id_source=house.ids,
        clock=house.clock,
        ignore=ignore,
        policy=house.write_policy,
    )


@contextmanager
def _lines_of(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    with ExitStack() as opened:
        try:
            handle = opened.enter_context(Path(file).open("rb"))
        except OSError as error:
            raise InvalidInput(f"The file {file} can't be read ({error.strerror}).") from None
        yield handle


def _count_lines(file: str) -> int | None:
    """How many lines there are to do; None for stdin, which is read once."""
    if file == "-":
        return None
    with Path(file).open("rb") as handle:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: handle.read(_CHUNK), b""))


def _shown(file: str) -> str:
    return "stdin" if file == "-" else file


def _show(run: ImportRun, file: str, as_json: bool) -> None:
    tally = run.tally
    document = tally.document(run.on_the_way)
    if as_json:
        print_json({"file": _shown(file), **document})
    else:
        rows = [
            ("turns", f"{tally.turns}: {tally.new} new, {tally.known} known"),
            ("memories", f"{tally.memories} new" + (f", {tally.duplicates} said before" if tally.duplicates else "")),
            ("time", f"{tally.seconds:.1f} s, {document['turns_per_second']:.0f} turns/s"),
        ]
        rows += [(name, str(number)) for name in ("skipped", "conflicts", "failed") if (number := document[name])]
        screen().print(facts((name, text(value)) for name, value in rows))
        if tally.turns and tally.turns == tally.known:
            screen().print(text("Every turn was there already: nothing was added."))
    for line in tally.trouble:
        complain(line, label=f"{_shown(file)},")
    if run.on_the_way:
        note(f"{run.on_the_way} turns are on their way; `memline jobs --state unfinished` shows them.")
