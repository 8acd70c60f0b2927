"""`memline add` and `memline receipt`: hand a turn over, and see where one is."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from memline.cli.chosen import chosen
from memline.cli.options import AgentId, AsJson, RunId, UserId, json_object
from memline.cli.screen import fresh_table, print_json, screen, text
from memline.contracts.errors import InvalidMessage
from memline.contracts.turn import PROCEDURAL

if TYPE_CHECKING:
    from memline.contracts.receipt import ReceiptState

__all__ = ["add", "receipt", "receipt_document"]


def add(
    context: typer.Context,
    said: Annotated[str, typer.Argument(metavar="TEXT", help="What was said; - reads it from stdin.")],
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    metadata: Annotated[str | None, typer.Option(metavar="JSON", help="An object that goes with its memories.", show_default=False)] = None,
    infer: Annotated[bool, typer.Option("--infer/--no-infer", help="Extract facts, or keep the text as it stands.")] = True,
    prompt: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help='Instructions for what to write down, in place of the namespace\'s; "" for none.', show_default=False
        ),
    ] = None,
    procedural: Annotated[
        bool, typer.Option("--procedural", help="One memory of what the agent did, step by step (needs --agent-id).")
    ] = False,
    timestamp: Annotated[str | None, typer.Option(metavar="TIME", help="When it was said, if not now.", show_default=False)] = None,
    expiration_date: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="The last day on which it is found.", show_default=False)
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="Idempotency key: one key, one turn.", show_default=False)] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is searchable, or show the receipt at once.")] = True,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="How long to wait.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Hand a turn over: what the user said becomes memory."""
    given = json_object("--metadata", metadata)
    messages = _stdin() if said == "-" else said
    with chosen(context).memory() as memory:
        handed = memory.add(
            messages,
            user_id=user_id,
            agent_id=agent_id,
            run_id=run_id,
            metadata=given,
            infer=infer,
            memory_type=PROCEDURAL if procedural else None,
            prompt=prompt,
            timestamp=timestamp,
            expiration_date=expiration_date,
            idempotency_key=key,
        )
        if wait:
            handed.wait(timeout)
        _show(handed.seen, as_json)


def _stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InvalidMessage(f"What stdin holds is not text in {error.encoding}: nothing was handed over.") from None


def receipt(
    context: typer.Context,
    turn_id: Annotated[str, typer.Argument(metavar="ID", help="The id that `add` gave.")],
    as_json: AsJson = False,
) -> None:
    """Where a turn is, and what became of it."""
    with chosen(context).memory() as memory:
        _show(memory.receipt(turn_id).seen, as_json)


#: How notes of a receipt (`ReceiptState.notes`) are told.
_NOTES = {
    "windows": "The turn is long: it was read in {} windows.",
    "left_out": "{} facts of the assistant were left out: a turn keeps only so many.",
    "pasted": "{} facts only repeated memories that had been pasted into the turn.",
    "blanked": "{} blocks that call themselves memories were taken for pasted in, and not read.",
}


def receipt_document(state: ReceiptState) -> dict[str, Any]:
    """A receipt as JSON."""
    return {
        "id": state.id,
        "status": state.status.value,
        "results": [dict(result) for result in state.results],
        "reason": state.reason,
        "same_as": state.same_as,
        "stage": state.stage,
        "finished": state.finished,
        "masked": dict(state.masked),
        "notes": dict(state.notes),
    }


def _show(state: ReceiptState, as_json: bool) -> None:
    if as_json:
        print_json(receipt_document(state))
        return
    console = screen()
    console.print(text("turn ", "dim") + text(state.id) + text("  ") + text(state.status.value, "bold"))
    if state.same_as is not None:
        console.print(text(f"Handed over before, as {state.same_as}.", "dim"))
    if state.masked:
        told = ", ".join(f"{number} × {kind.replace('_', ' ')}" for kind, number in state.masked.items())
        console.print(text(f"The write policy masked {told}.", "dim"))
    for name, number in state.notes.items():
        console.print(text(_NOTES.get(name, f"{name}: {{}}").format(number), "dim"))
    if state.reason:
        console.print(text(state.reason, "yellow"))
    if state.results:
        table = fresh_table(("event", {"no_wrap": True}), ("memory", {"ratio": 1}))
        for result in state.results:
            shown = text("(deleted since)", "dim") if result["memory"] is None else text(result["memory"])
            close = [text(f"\nclose to {near['id']} ({near['similarity']:.2f})", "dim") for near in result.get("near", ())]
            table.add_row(text(result["event"]), Text.assemble(shown, "\n", text(result["id"], "dim"), *close))
        console.print(table)
