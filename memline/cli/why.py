"""`memline why`: how a memory came to be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.text import Text

from memline.cli.chosen import chosen
from memline.cli.costs import cost_lines
from memline.cli.options import AsJson
from memline.cli.screen import day, facts, note, print_json, screen, text

__all__ = ["why"]

#: Characters of a message without the span, and around the span, that a person is shown.
_SHOWN, _AROUND = 240, 160


def why(
    context: typer.Context,
    memory_id: Annotated[str, typer.Argument(metavar="ID", help="The id of a memory.")],
    as_json: AsJson = False,
) -> None:
    """Show why a memory is there: the turn it came from, who extracted it by which prompt, what was decided, its links and history."""
    from memline.contracts.errors import MemoryNotFound

    with chosen(context).memory() as memory:
        found = memory.why(memory_id)
    if found is None:
        raise MemoryNotFound(memory_id)
    if as_json:
        print_json(found)
        return
    screen().print(facts(_lines(found)))
    for message in found["source"]["messages"]:
        screen().print(_message(message, found["source"]["span"] if message["source"] else None))
    if not found["source"]["messages"]:
        note("The turn's messages are not kept: it was imported, or nothing of them is left but this memory.")


def _lines(found: Mapping[str, Any]) -> Iterator[tuple[str, Text]]:
    memory, source, extraction = found["memory"], found["source"], found["extraction"]
    decision, links = found["decision"], found["links"]
    yield "memory", text(memory["memory"])
    yield "state", text(f"{memory['state']}, version {memory['version']}")
    yield "turn", text(f"{source['job_id']}, said {day(source['said_at'])}")
    yield "extracted by", text("nobody: kept verbatim" if extraction["verbatim"] else extraction["extractor"] or "unknown")
    if extraction["instructions_from"]:
        told = extraction["instructions"] or f"no longer kept, hash {extraction['instructions_hash']}"
        yield "instructions", text(f"of the {extraction['instructions_from']}: {told}")
    yield "decision", text("imported" if decision["event"] == "IMPORT" else "added: nothing live in its scope said the same")
    for near in decision["near"]:
        yield "near", text(f"{near['similarity']:.2f}  {near['memory'] or '(deleted since)'}  {near['id']}")
    for again in decision["repeated_by"]:
        yield "said again", text(f"{day(again['said_at'])}, turn {again['job_id']}")
    for memory_id in links["supersedes"]:
        yield "supersedes", text(memory_id)
    if links["superseded_by"]:
        yield "superseded by", text(links["superseded_by"])
    for link in links["to"]:
        yield link["relation"], text(link["id"])
    for link in links["from"]:
        yield f"{link['relation']} it", text(link["id"])
    if source["masked"]:
        yield "masked", text(", ".join(f"{number} × {kind.replace('_', ' ')}" for kind, number in source["masked"].items()))
    for what, cost in cost_lines(found["costs"]):
        yield "cost", text(f"{what}: {cost}")
    for event in found["history"]:
        reason = f" ({event['reason']})" if event["reason"] else ""
        yield "history", text(f"{event['version']}: {event['event']} {day(event['created_at'])}{reason}")


def _message(message: Mapping[str, Any], span: tuple[int, int] | None) -> Text:
    who = f"{message['role']} {message['name']}" if message.get("name") else message["role"]
    head = text(f"{message['number']} {who}: ", "bold" if message["source"] else "dim")
    said = message["text"]
    if span is None:
        shown = said if len(said) <= _SHOWN else said[: _SHOWN - 1] + "…"
        return Text.assemble(head, text(shown, "" if message["source"] else "dim"))
    start, end = span
    before, after = said[max(0, start - _AROUND) : start], said[end : end + _AROUND]
    return Text.assemble(
        head,
        text(("…" if start > _AROUND else "") + before),
        text(said[start:end], "reverse"),
        text(after + ("…" if end + _AROUND < len(said) else "")),
    )
