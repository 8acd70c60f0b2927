"""`memline list`, `count`, `entities`: what is there, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from memline.cli.chosen import chosen
from memline.cli.found import memory_table
from memline.cli.options import AgentId, AsJson, Filter, RunId, UserId, scope_ids, wanted
from memline.cli.screen import fresh_table, note, print_json, screen, text

__all__ = ["count", "entities", "list_all"]

Cursor = Annotated[
    str | None, typer.Option(metavar="CURSOR", help="Go on where an earlier page ended (its next_cursor).", show_default=False)
]


def list_all(
    context: typer.Context,
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    filters: Filter = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", metavar="N", help="Most memories to show.")] = 20,
    cursor: Cursor = None,
    show_expired: Annotated[bool, typer.Option("--show-expired", help="Also what has expired.")] = False,
    include_superseded: Annotated[bool, typer.Option("--include-superseded", help="Also what was true once.")] = False,
    as_json: AsJson = False,
) -> None:
    """List memories in the order in which they were made."""
    asked = wanted(scope_ids(user_id, agent_id, run_id), filters)
    with chosen(context).memory() as memory:
        answer = memory.get_all(filters=asked, top_k=top_k, cursor=cursor, show_expired=show_expired, include_superseded=include_superseded)
    if as_json:
        print_json(answer)
        return
    if not answer["results"]:
        note("No memory is there.")
        return
    screen().print(memory_table(answer["results"]))
    least = "at least " if answer.get("total_at_least") else ""
    _how_to_go_on(answer, f"{len(answer['results'])} of {least}{answer['total']}")


def count(
    context: typer.Context,
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    filters: Filter = None,
    as_json: AsJson = False,
) -> None:
    """Count memories."""
    asked = wanted(scope_ids(user_id, agent_id, run_id), filters)
    with chosen(context).memory() as memory:
        number = memory.count(filters=asked)
    if as_json:
        print_json({"count": number})
    else:
        screen().print(text(number))


def entities(
    context: typer.Context,
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    filters: Filter = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", metavar="N", help="Most names to show.")] = 20,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List the names that memories share, and how many memories name each."""
    asked = wanted(scope_ids(user_id, agent_id, run_id), filters)
    with chosen(context).memory() as memory:
        answer = memory.entities(filters=asked, top_k=top_k, cursor=cursor)
    if as_json:
        print_json(answer)
        return
    if not answer["results"]:
        note("No name is there.")
        return
    table = fresh_table(("name", {"ratio": 1}), ("type", {"no_wrap": True}), ("memories", {"justify": "right"}))
    for item in answer["results"]:
        table.add_row(text(item["name"]), text(item["type"].lower(), "dim"), text(item["count"]))
    screen().print(table)
    _how_to_go_on(answer, f"{len(answer['results'])} names")


def _how_to_go_on(answer: Mapping[str, Any], shown: str) -> None:
    if "next_cursor" in answer:
        note(f"These are {shown}. The next page: --cursor {answer['next_cursor']}")
