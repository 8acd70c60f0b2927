"""Memories as people read them: text, date, score, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from memline.cli.screen import day, facts, fresh_table, note, text

__all__ = ["explain_notes", "memory_facts", "memory_table", "missing_notes", "said_on", "score_of", "since_or_until", "why_of"]


def memory_table(items: Sequence[Mapping[str, Any]]) -> Table:
    """A table of memories with their ids; a column of scores where they have one, a line of reasons where they were explained."""
    scored = any(item.get("score") is not None for item in items)
    columns: list[tuple[str, dict[str, Any]]] = [("#", {"justify": "right"})] if scored else []
    columns += [("memory", {"ratio": 1}), ("date", {"no_wrap": True})]
    columns += [("score", {"justify": "right"})] if scored else []
    table = fresh_table(*columns)
    for rank, item in enumerate(items, 1):
        cells = [_memory_cell(item), text(day(said_on(item)))]
        table.add_row(*([text(rank, "dim"), *cells, score_of(item)] if scored else cells))
    return table


def memory_facts(item: Mapping[str, Any]) -> Table:
    """One memory, a line for each thing known of it."""
    first = [("memory", text(item["memory"])), *([("until", since_or_until(item))] if item.get("valid_to") else [])]
    rest = [(name, text(_shown(value))) for name, value in item.items() if name not in ("memory", "score") and value not in (None, {}, [])]
    return facts([*first, *rest])


def _memory_cell(item: Mapping[str, Any]) -> Text:
    lines = text(item["memory"])
    if item.get("valid_to"):
        lines = Text.assemble(lines, "  ", since_or_until(item))
    why = why_of(item)
    if why:
        lines = Text.assemble(lines, "\n", text(why, "cyan"))
    return Text.assemble(lines, "\n", text(item["id"], "dim"))


def said_on(item: Mapping[str, Any]) -> Any:
    """When it was said, as far as the item tells."""
    return item.get("occurred_at") or item.get("created_at")


def since_or_until(item: Mapping[str, Any]) -> Text:
    """The mark of what was true once; empty for what is current."""
    return text(f"until {day(item['valid_to'])}", "yellow") if item.get("valid_to") else text("")


def score_of(item: Mapping[str, Any]) -> Text:
    """The score with two decimals; after a stroke the reranker's, where it gave one."""
    score, reranked = item.get("score"), item.get("rerank_score")
    return text(("" if score is None else f"{score:.2f}") + ("" if reranked is None else f" / {reranked:.2f}"))


def why_of(item: Mapping[str, Any]) -> str:
    """Why it was found, in a few words; empty where it was not explained."""
    return str((item.get("score_details") or {}).get("why", ""))


def missing_notes(answer: Mapping[str, Any]) -> None:
    """Says on stderr what an answer lacks."""
    for warning in answer.get("warnings", ()):
        note(str(warning))
    if (left := answer.get("left_out")) and left["count"]:
        tokens = left["tokens"]
        note(f"{left['count']} more did not fit: those below take about {tokens['used']} of {tokens['limit']} tokens.")
    if answer.get("incomplete"):
        note("There may be more: deeper candidates were not looked at.")


def explain_notes(answer: Mapping[str, Any]) -> None:
    """Says on stderr what an answer was made with, and where the time went; nothing where it was not explained."""
    if models := answer.get("models"):
        named = [f"{models['embedder']['model']}", f"{models['index']}", f"weights {models['weights']['version']}"]
        note("Made with " + ", ".join([*named, *([models["reranker"]] if models["reranker"] else [])]) + ".")
    if phases := answer.get("phases"):
        note("Time: " + ", ".join(f"{name} {1000 * seconds:.1f} ms" for name, seconds in phases.items()) + ".")


def _shown(value: object) -> str:
    return ", ".join(f"{key}={inner}" for key, inner in value.items()) if isinstance(value, Mapping) else str(value)
