"""`memline export`: memories as JSON lines, with their ids, times and history, for another ledger or for whoever wants to look."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from memline.cli.chosen import Chosen, chosen
from memline.cli.options import AgentId, AsJson, RunId, UserId, scope_ids
from memline.cli.screen import bar, note, print_json
from memline.contracts.errors import InvalidInput, ScopeRequired

if TYPE_CHECKING:
    from memline.compose import House
    from memline.contracts.portable import ExportHeader

__all__ = ["export"]

#: Memories between two looks at the progress bar.
_STEP = 200


def export(
    context: typer.Context,
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole namespace.")] = False,
    vectors: Annotated[bool, typer.Option("--vectors", help="Their vectors, too: an import with this embedder need not embed.")] = False,
    history: Annotated[bool, typer.Option("--history/--no-history", help="What happened to each, with its former texts.")] = True,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Instead of stdout; there at the end, whole.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export memories as JSON lines: a header, then one line a memory, in the order in which they were made.

    It is one moment of the ledger, whatever goes on meanwhile. Superseded and expired memories are in it, deleted ones are not. With
    --json the summary is JSON; it goes to stderr where the memories go to stdout. `memline import FILE` reads it.
    """
    ids = scope_ids(user_id, agent_id, run_id)
    if everything == bool(ids):
        raise ScopeRequired("Say what to export: --user-id, --agent-id or --run-id, or --all for the whole namespace.")
    options = chosen(context)
    with _open(options) as house, _target(output) as out, bar("Exporting", None, unit="memories") as shown:
        for done, header in _write(house, options, ids, out, vectors=vectors, history=history):
            shown.show(done, total=header.memories)
    document = {
        "file": output or "stdout",
        "namespace": header.namespace,
        "memories": header.memories,
        "vectors": header.vectors,
        "history": header.history,
    }
    if not as_json:
        note(f"{header.memories} memories of namespace {header.namespace} were written to {document['file']}.")
    elif output is None:
        sys.stderr.write(json.dumps(document, ensure_ascii=False) + "\n")
    else:
        print_json(document)


def _write(
    house: House, options: Chosen, ids: dict[str, str], out: BinaryIO, *, vectors: bool, history: bool
) -> Iterator[tuple[int, ExportHeader]]:
    """Writes everything; yields how far it is."""
    from memline import __version__
    from memline.contracts.portable import ExportHeader
    from memline.contracts.scope import Scope, check_namespace
    from memline.ledger.meta import stored_embedder
    from memline.ledger.transfer_read import Wanted, count_wanted, read_memories, snapshot

    namespace = check_namespace(house.settings.namespace)
    checked = Scope.of(namespace, **ids).ids() if ids else {}
    with snapshot(house.ledger) as connection:
        embedder = stored_embedder(connection)
        wanted = Wanted(namespace, checked, history=history, vectors_of=embedder[0] if vectors and embedder is not None else None)
        header = ExportHeader(
            memline=__version__,
            namespace=namespace,
            scope=checked,
            memories=count_wanted(connection, wanted),
            embedder=embedder,
            vectors=vectors,
            history=history,
            exported_at=house.clock.now(),
        )
        _line(out, header.to_json())
        for done, memory in enumerate(read_memories(connection, wanted)):
            _line(out, memory.to_json())
            if done % _STEP == 0:
                yield done, header
        yield header.memories, header


def _line(out: BinaryIO, document: dict[str, Any]) -> None:
    out.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8") + b"\n")


@contextmanager
def _open(options: Chosen) -> Iterator[House]:
    """A house whose ledger is read whatever embedder the settings name; none is loaded."""
    from memline.compose import House

    house = House(options.settings(), claims=False)
    try:
        yield house
    finally:
        house.close(0)


@contextmanager
def _target(output: str | None) -> Iterator[BinaryIO]:
    """Where the lines go. A file gets its name when it is whole, and is for this user only."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(output)
    try:
        number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise InvalidInput(f"The file {output} can't be written ({error.strerror}).") from None
    part = Path(name)
    try:
        with closing(os.fdopen(number, "wb")) as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(target)
    except OSError as error:
        raise InvalidInput(f"The file {output} can't be written ({error.strerror}).") from None
    finally:
        part.unlink(missing_ok=True)
