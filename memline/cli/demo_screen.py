"""The demo as people see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.text import Text

from memline.cli.found import said_on, score_of, since_or_until, why_of
from memline.cli.screen import day, fresh_table, screen, text

if TYPE_CHECKING:
    from memline.cli.demo_run import Asked, Told

__all__ = ["introduce", "show_question", "show_told"]

#: The column of reasons, in characters: on a narrow screen, and on one of 100 columns or more.
_WHY_NARROW, _WHY_WIDE = 22, 38


def introduce(turns: Sequence[Mapping[str, Any]], extractor: str, embedder: str) -> None:
    """What is about to be read, and by what: a model that costs is named before it is asked."""
    sessions = len({turn["session"] for turn in turns})
    first, last = day(turns[0]["timestamp"]), day(turns[-1]["timestamp"])
    console = screen()
    console.print()
    console.print(text("memline demo", "bold") + text(f"  {len(turns)} turns of {sessions} sessions, {first} to {last}", "dim"))
    console.print(text(f"extracted by {extractor}, embedded by {embedder}", "dim"))
    console.file.flush()


def show_told(told: Told, standing: int) -> None:
    """What came of the conversation."""
    new = told.turns - told.already
    if new == 0:
        line = text(f"{told.turns} turns were there already: nothing was added twice.", "green")
        rest = f"{standing} memories are current."
    else:
        before = f", {told.already} turns were there already" if told.already else ""
        line = text(f"{new} turns became {told.added} memories", "green") + text(f" in {told.seconds:.1f} s{before}.")
        rest = f"{told.duplicates} said again and not added twice; {standing} memories are current."
    console = screen()
    console.print(line)
    console.print(text(rest, "dim"))
    console.print()


def show_question(number: int, asked: Asked) -> None:
    """A question and the table of its answers."""
    console = screen()
    mark = text(" ✓", "green") if asked.found else text(" ✗ the expected memory is not among these", "bold red")
    console.print(text(f"{number} ", "dim") + text(asked.question, "bold") + mark)
    console.print(Padding(text(asked.why, "dim"), (0, 0, 0, 2)))
    if not asked.results:
        console.print(Padding(text("nothing was found", "yellow"), (0, 0, 1, 2)))
        return
    width = _WHY_WIDE if console.width >= 100 else _WHY_NARROW
    table = fresh_table(
        ("", {"no_wrap": True}),
        ("memory", {"ratio": 1}),
        ("date", {"no_wrap": True}),
        ("score", {"justify": "right", "no_wrap": True}),
        ("why", {"min_width": width, "max_width": width}),
        rule=False,
    )
    table.expand = True  # so that the columns of all questions stand below each other
    rank = 0
    for item in asked.results:
        once = bool(item.get("valid_to"))
        rank += not once
        place, why = ("↳", "what was true before") if once else (str(rank), why_of(item))
        table.add_row(text(place, "dim"), _memory(item, once), text(day(said_on(item))), score_of(item), text(why, "cyan"))
    console.print(Padding(table, (0, 0, 1, 2)))


def _memory(item: Mapping[str, Any], once: bool) -> Text:
    if not once:
        return text(item["memory"])
    return Text.assemble(text(item["memory"], "dim"), "  ", since_or_until(item))
