"""`memline search`, `get`, `history`: reading memories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.text import Text

from memline.cli.chosen import chosen
from memline.cli.found import explain_notes, memory_facts, memory_table, missing_notes
from memline.cli.options import AgentId, AsJson, Filter, RunId, UserId, scope_ids, wanted
from memline.cli.screen import day, fresh_table, note, print_json, screen, text

__all__ = ["get", "history", "search"]

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
    rerank: Annotated[bool, typer.Option("--rerank", help="Have the reranker (MEMLINE_RERANKER) put them in order.")] = False,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Leave out what does not fit into so many tokens.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find memories for a question, best first."""
    asked = wanted(scope_ids(user_id, agent_id, run_id), filters)
    with chosen(context).memory() as memory:
        answer = memory.search(
            query,
            filters=asked,
            top_k=top_k,
            threshold=threshold,
            explain=explain,
            include_superseded=include_superseded,
            rerank=rerank,
            max_tokens=max_tokens,
        )
    if as_json:
        print_json(answer)
        return
    missing_notes(answer)
    _show(answer["results"], nothing="No memory was found.")
    explain_notes(answer)


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
        told = text(new) if new is not None else text(old, "strike dim")
        if changes := row.get("changes"):
            told = Text.assemble(told, "\n", text("; ".join(_changed(changes)), "cyan"))
        table.add_row(day(row.get("created_at")), text(row.get("event")), told)
    screen().print(table)


def _changed(changes: Mapping[str, Any]) -> Iterator[str]:
    """What an update changed beside the text, a line each."""
    named = {**changes.get("metadata", {}), **{name: change for name, change in changes.items() if name != "metadata"}}
    for name, change in named.items():
        yield f"{name}: {change.get('old', '–')} → {change.get('new', '–')}"


def _show(results: list[dict[str, Any]], *, nothing: str) -> None:
    if results:
        screen().print(memory_table(results))
    else:
        note(nothing)
