"""`memline erase` and `memline tombstones`: removing a subject everywhere, and what keeps it from coming back."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from memline.cli.chosen import chosen
from memline.cli.houses import open_house
from memline.cli.options import AgentId, AsJson, RunId, UserId, scope_ids
from memline.cli.screen import bar, fresh_table, local_time, note, print_json, screen, text
from memline.contracts.errors import ConfigurationError, ScopeRequired
from memline.contracts.scope import Scope

__all__ = ["app", "erase"]

app = typer.Typer(no_args_is_help=True, help="What keeps erased subjects from coming back.")

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the erasures that did not come to their end.")]
Physical = Annotated[
    bool, typer.Option("--physical", help="Have databases write their files anew, too: PostgreSQL locks its tables meanwhile.")
]
Out = Annotated[
    Path | None, typer.Option("--certificate", metavar="FILE", help="Write the certificate there.", show_default=False, dir_okay=False)
]


def erase(
    context: typer.Context,
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    resume: Resume = False,
    physical: Physical = False,
    certificate: Out = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Erase a user, an agent or a run from every store, and show the certificate. There is no way back."""
    ids = scope_ids(user_id, agent_id, run_id)
    if resume and ids:
        raise typer.BadParameter("it goes on with all of them: leave the ids out.", param_hint="--resume")
    if not resume and len(ids) != 1:
        raise ScopeRequired("Say what to erase: exactly one of --user-id, --agent-id and --run-id.")
    with closing(open_house(chosen(context))) as opened:
        eraser, namespace = opened.house.eraser, opened.namespace
        if resume:
            with bar("Erasing", None) as shown:
                done = eraser.resume(namespace, physical=physical, told=lambda what: shown.show(0, what))
        else:
            scope = Scope.of(namespace, **ids)
            subject = next(subject for subject in scope.subjects if subject.kind != "namespace")
            if not yes:
                _ask(f"Erase everything of {subject.kind} {subject.value} in {namespace}, for ever?", as_json=as_json)
            with bar("Erasing", None) as shown:
                done = [eraser.erase(subject, physical=physical, told=lambda what: shown.show(0, what))]
    _tell(done, certificate, as_json=as_json, one=not resume)


@app.command("list")
def list_stones(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the erasures of the namespace: when, which epoch, whether they came to their end."""
    from memline.ledger.tombstones import tombstones_in

    with closing(open_house(chosen(context))) as opened, opened.house.ledger.read() as connection:
        stones = tombstones_in(connection, opened.namespace)
    if as_json:
        print_json({"tombstones": [_stone(stone) for stone in stones]})
        return
    if not stones:
        note("Nothing was erased in this namespace.")
        return
    whole: dict[str, Any] = {"no_wrap": True}
    table = fresh_table(("erasure", whole), ("kind", whole), ("epoch", {"justify": "right"}), ("phase", whole), ("until", whole), gap=1)
    for stone in stones:
        table.add_row(*(text(part) for part in (stone.id, stone.kind, stone.epoch, stone.phase, local_time(stone.at))))
    console = screen()
    console.width = max(console.width, 80)  # a narrower terminal breaks the lines, and no id is cut
    console.print(table)
    if any(stone.finished_at is None for stone in stones):
        note("`memline erase --resume` goes on with those that are not finished.")


@app.command()
def replay(context: typer.Context, as_json: AsJson = False) -> None:
    """Erase again what a restored ledger has brought back; every process does so by itself when it opens the ledger."""
    from memline.cli.replaying import replayed_house
    from memline.ledger.session import Ledger

    options = chosen(context)
    with closing(Ledger(options.settings().ledger_location())) as bare:
        if bare.path is not None and not Path(bare.path).exists():
            raise ConfigurationError(f"There is no ledger at {bare.path}: put the backup there first.")
    with replayed_house(options) as (house, replayed):
        if replayed:
            house.relay.drain()
    if as_json:
        print_json({"replayed": replayed})
    elif replayed:
        screen().print(text(f"{replayed} {'tombstone was' if replayed == 1 else 'tombstones were'} replayed; nothing of them is served."))
    else:
        screen().print(text("The ledger knows every tombstone: nothing was to do."))


def _ask(question: str, *, as_json: bool) -> None:
    if as_json:
        raise typer.BadParameter("with --json nothing is asked: add --yes.", param_hint="--json")
    typer.confirm(question, abort=True)


def _tell(done: list[dict[str, Any]], file: Path | None, *, as_json: bool, one: bool) -> None:
    document: Any = done[0] if one else {"certificates": done}
    if file is not None:
        _write(file, document)
    if as_json:
        print_json(document)
        return
    if not done:
        note("Every erasure came to its end.")
    for certificate in done:
        before, removed = certificate["counts"]["before"], certificate["counts"]["removed"]
        table = fresh_table(("store", {"ratio": 1}), ("before", {"justify": "right"}), ("removed", {"justify": "right"}))
        for name in sorted(before.keys() | removed.keys()):
            if before.get(name) or removed.get(name):
                table.add_row(text(name), text(before.get(name, 0)), text(removed.get(name, 0)))
        screen().print(table)
        reads = certificate["proof"]["reads"]
        screen().print(text(f"Erased, epoch {certificate['epoch']}; {len(reads)} looks at every store found nothing.", "green"))
        for place in certificate["physical"]:
            for left in place["remains"]:
                if left["until"]:
                    note(f"{place['store']} keeps {left['what']} until {left['until']}.")
    if done and file is None:
        note("--certificate FILE or --json gives the certificate.")


def _write(file: Path, document: Any) -> None:
    import json

    try:
        file.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"The erasure is done, and its certificate can't be written to {file} ({error.strerror}); it is also in the ledger."
        ) from error


def _stone(stone: Any) -> dict[str, Any]:
    names = ("id", "kind", "hash", "key_id", "epoch", "place", "phase", "certificate")
    times = ("at", "started_at", "finished_at")
    told = {name: getattr(stone, name) for name in names}
    return told | {name: None if (at := getattr(stone, name)) is None else at.isoformat() for name in times}
