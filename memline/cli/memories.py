"""`memline search`, `get`, `list`, `history`, `delete`: reading memories, and removing one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from memline.cli.chosen import chosen
from memline.cli.found import memory_facts, memory_table, missing_notes
from memline.cli.options import AgentId, AsJson, Filter, RunId, UserId, scope_ids, wanted
from memline.cli.screen import day, fresh_table, note, print_json, screen, text

__all__ = ["delete", "get", "history", "list_all", "search"]

MemoryId = Annotated[str, typer.Argument(metavar="ID", help="The id of a memory.")]


def search(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    filters: Filter = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", metavar="N", help="Most memories to show.")] = 5,
    threshold: Annotated[float, typer.Option(metavar="SCORE", help="Lowest score to show, from 0 to 1.")] = 0.1,
    explain: Annotated[bool, typer.Option("--explain", help="Say why each was found.")] = False,
    include_superseded: Annotated[bool, typer.Option("--include-superseded", help="Also what was true once.")] = False,
    as_json: AsJson = False,
) -> None:
    """Find memories for a question, best first."""
    asked = wanted(scope_ids(user_id, agent_id, run_id), filters)
    with chosen(context).memory() as memory:
        answer = memory.search(
            query, filters=asked, top_k=top_k, threshold=threshold, explain=explain, include_superseded=include_superseded
        )
    if as_json:
        print_json(answer)
        return
    missing_notes(answer)
    _show(answer["results"], nothing="No memory was found.")


def get(context: typer.Context, memory_id: MemoryId, as_json: AsJson = False) -> None:
    """Show one memory, whatever its state."""
    from memline.contracts.errors import MemoryNotFound

    with chosen(context).memory() as memory:
        found = memory.get(memory_id)
    if found is None:
        raise MemoryNotFound(memory_id)
    if as_json:
        print_json(found)
    else:
        screen().print(memory_facts(found))


def list_all(
    context: typer.Context,
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    filters: Filter = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", metavar="N", help="Most memories to show.")] = 20,
    show_expired: Annotated[bool, typer.Option("--show-expired", help="Also what has expired.")] = False,
    as_json: AsJson = False,
) -> None:
    """List memories in the order in which they were made."""
    asked = wanted(scope_ids(user_id, agent_id, run_id), filters)
    with chosen(context).memory() as memory:
        answer = memory.get_all(filters=asked, top_k=top_k, show_expired=show_expired)
    if as_json:
        print_json(answer)
        return
    _show(answer["results"], nothing="No memory is there.")
    if len(answer["results"]) == top_k:
        note(f"These are the first {top_k}; --top-k shows more.")


def history(context: typer.Context, memory_id: MemoryId, as_json: AsJson = False) -> None:
    """Show what happened to a memory, oldest first."""
    from memline.contracts.errors import MemoryNotFound

    with chosen(context).memory() as memory:
        rows = memory.history(memory_id)
    if not rows:
        raise MemoryNotFound(memory_id)
    if as_json:
        print_json(rows)
        return
    table = fresh_table(("when", {"no_wrap": True}), ("event", {"no_wrap": True}), ("memory", {"ratio": 1}))
    for row in rows:
        new, old = row.get("new_memory"), row.get("old_memory")
        table.add_row(day(row.get("created_at")), text(row.get("event")), text(new) if new is not None else text(old, "strike dim"))
    screen().print(table)


def delete(
    context: typer.Context,
    memory_id: MemoryId,
    as_json: AsJson = False,
) -> None:
    """Delete a memory: nothing finds it from now on. Its text stays in its history."""
    with chosen(context).memory() as memory:
        answer = memory.delete(memory_id)
    if as_json:
        print_json({"id": memory_id, **answer})
    else:
        screen().print(text(f"Memory {memory_id} is deleted."))


def _show(results: list[dict[str, Any]], *, nothing: str) -> None:
    if results:
        screen().print(memory_table(results))
    else:
        note(nothing)
