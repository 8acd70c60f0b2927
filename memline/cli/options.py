"""Options that several commands share, and the parsing of those that are JSON."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from memline.contracts.errors import ScopeRequired

__all__ = ["AgentId", "AsJson", "Filter", "RunId", "UserId", "json_object", "scope_ids", "wanted"]

UserId = Annotated[str | None, typer.Option("--user-id", "-u", metavar="ID", help="Whose memory it is.", show_default=False)]
AgentId = Annotated[str | None, typer.Option("--agent-id", metavar="ID", help="The agent's memory.", show_default=False)]
RunId = Annotated[str | None, typer.Option("--run-id", metavar="ID", help="One run's (or session's) memory.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout and nothing else.")]
Filter = Annotated[
    str | None,
    typer.Option("--filter", "-f", metavar="JSON", help="""More conditions, such as '{"kind": "note"}'.""", show_default=False),
]


def scope_ids(user_id: str | None, agent_id: str | None, run_id: str | None) -> dict[str, str]:
    """The ids that were given, under mem0's names."""
    given = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
    return {name: value for name, value in given.items() if value is not None}


def json_object(option: str, text: str | None) -> dict[str, Any] | None:
    """The object behind an option's JSON; a usage error for anything else."""
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" (at character {error.pos + 1})" if isinstance(error, json.JSONDecodeError) else ""
        raise typer.BadParameter(f"not JSON{where}; in a shell, put it in single quotes.", param_hint=option) from None
    if not isinstance(found, dict):
        raise typer.BadParameter(f"must be a JSON object, not {type(found).__name__}.", param_hint=option)
    return found


def wanted(ids: dict[str, str], text: str | None) -> dict[str, Any]:
    """The filter of a read: the scope ids of the options and the conditions of `--filter`; all of them must hold."""
    conditions = json_object("--filter", text) or {}
    if not ids and not conditions:
        raise ScopeRequired("Say whose memory to look in: --user-id, --agent-id or --run-id.")
    twice = sorted(ids.keys() & conditions.keys())
    if twice:
        raise typer.BadParameter(f"{', '.join(twice)} stands in the filter and in an option: give it once.", param_hint="--filter")
    return {**ids, **conditions}
