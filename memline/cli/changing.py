"""`memline update`, `delete`, `delete-all`, `reset`: changing memories, and removing them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from memline.cli.chosen import chosen
from memline.cli.options import AgentId, AsJson, RunId, UserId, json_object, scope_ids
from memline.cli.screen import note, print_json, screen, text
from memline.contracts.errors import ScopeRequired

__all__ = ["delete", "delete_all", "reset", "update"]

MemoryId = Annotated[str, typer.Argument(metavar="ID", help="The id of a memory.")]
Redact = Annotated[bool, typer.Option("--redact", help="Take the texts out of the history, too.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Actor = Annotated[str | None, typer.Option(metavar="NAME", help="Who does it; stands in the history.", show_default=False)]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Why; stands in the history.", show_default=False)]


def update(
    context: typer.Context,
    memory_id: MemoryId,
    new_text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="Its new text.", show_default=False)] = None,
    metadata: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="""Merged into its own; null removes a key: '{"kind": null}'.""", show_default=False),
    ] = None,
    expiration_date: Annotated[
        str | None, typer.Option(metavar="DATE", help="Its last day, YYYY-MM-DD in UTC; never takes the day away.", show_default=False)
    ] = None,
    if_version: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only if this is its version (`memline get`).", show_default=False)
    ] = None,
    actor: Actor = None,
    reason: Reason = None,
    as_json: AsJson = False,
) -> None:
    """Change the text, metadata or last day of a memory."""
    options: dict[str, Any] = {"metadata": json_object("--metadata", metadata), "if_version": if_version, "actor": actor, "reason": reason}
    if expiration_date is not None:
        options["expiration_date"] = None if expiration_date == "never" else expiration_date
    with chosen(context).memory() as memory:
        answer = memory.update(memory_id, new_text, **options)
    if as_json:
        print_json(answer)
    else:
        screen().print(text(f"Memory {memory_id} is at version {answer['version']}."))


def delete(
    context: typer.Context,
    memory_id: MemoryId,
    redact: Redact = False,
    actor: Actor = None,
    reason: Reason = None,
    as_json: AsJson = False,
) -> None:
    """Delete a memory: nothing finds it from now on. Its text stays in its history, unless --redact."""
    with chosen(context).memory() as memory:
        answer = memory.delete(memory_id, redact=redact, actor=actor, reason=reason)
    if as_json:
        print_json({"id": memory_id, **answer})
    else:
        screen().print(text(f"Memory {memory_id} is deleted{' and redacted' if redact else ''}."))


def delete_all(
    context: typer.Context,
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    redact: Redact = False,
    yes: Yes = False,
    actor: Actor = None,
    reason: Reason = None,
    as_json: AsJson = False,
) -> None:
    """Delete all memories that have the ids given, and cancel their turns that are on the way."""
    ids = scope_ids(user_id, agent_id, run_id)
    if not ids:
        raise ScopeRequired("Say whose memories to delete: --user-id, --agent-id or --run-id. `memline reset` empties a namespace.")
    with chosen(context).memory() as memory:
        if not yes:
            there = memory.count(filters=ids)
            _ask(f"Delete {there} memories of {', '.join(ids.values())} in {memory.namespace}?", as_json=as_json)
        given: dict[str, Any] = {**ids}
        answer = memory.delete_all(**given, redact=redact, actor=actor, reason=reason)
    _tell(answer, as_json=as_json)


def reset(context: typer.Context, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete everything in the namespace, the texts of its history, too."""
    with chosen(context).memory() as memory:
        if not yes:
            _ask(f"Delete everything in the namespace {memory.namespace}?", as_json=as_json)
        answer = memory.reset(confirm=memory.namespace)
    _tell(answer, as_json=as_json)


def _ask(question: str, *, as_json: bool) -> None:
    if as_json:
        raise typer.BadParameter("with --json nothing is asked: add --yes.", param_hint="--json")
    typer.confirm(question, abort=True)


def _tell(answer: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    screen().print(text(f"{answer['deleted']} memories are deleted, {answer['cancelled']} turns cancelled."))
    note("Turns that are still on their way to the ledger end cancelled when they arrive.")
