"""What commands write: tables and lines for people, JSON for programs, notes and errors on stderr."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Bar", "bar", "complain", "day", "facts", "fresh_table", "local_time", "note", "plain", "print_json", "screen", "text"]

#: Lines longer than this are hard to read, however wide the terminal is.
WIDEST = 120

#: Characters that turn the direction of what follows on a terminal.
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def screen(*, error: bool = False) -> Console:
    """Where people read: stdout, or stderr. Colour only on a terminal; 80 columns in a pipe unless COLUMNS says otherwise."""
    console = Console(stderr=error, highlight=False, emoji=False)
    console.width = min(console.width, WIDEST)
    return console


def print_json(document: object) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2, default=_plain_value) + "\n")


def note(message: str) -> None:
    """A line on stderr that is no error."""
    _say(Text(message, style="dim"))


def complain(message: str, *, label: str = "Error:") -> None:
    """An error on stderr: what is wrong and what to do."""
    _say(Text.assemble((label, "bold red"), " ", plain(message)))


def _say(message: Text) -> None:
    console = screen(error=True)
    # In a pipe a message stays one line, so that it can be searched for.
    console.print(message, soft_wrap=not console.is_terminal)


def plain(shown: str) -> str:
    """*shown* without what would steer a terminal: a memory may hold any character."""
    return "".join(" " if c in "\n\r\t" else "�" if unicodedata.category(c) == "Cc" or c in _DIRECTIONS else c for c in shown)


def text(shown: object, style: str = "") -> Text:
    """A value as rich text, never read as markup."""
    return Text("" if shown is None else plain(str(shown)), style=style)


def fresh_table(*columns: tuple[str, Mapping[str, Any]], rule: bool = True, gap: int = 2) -> Table:
    """A table without frame: dim headings, with a *rule* below them, *gap* spaces between columns.

    A column is its heading and options of rich's `add_column`. Long words are folded, never cut.
    """
    table = Table(
        box=box.SIMPLE_HEAD if rule else None,
        header_style="dim",
        border_style="dim",
        show_edge=False,
        pad_edge=False,
        padding=(0, gap, 0, 0),
        collapse_padding=True,
    )
    for heading, options in columns:
        table.add_column(heading, **{"overflow": "fold", **options})
    return table


def facts(rows: Iterable[tuple[str, RenderableType]]) -> Table:
    """Names and values, one pair a line."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    return table


def day(value: object) -> str:
    """The date in a time (an ISO string, a datetime, or nothing) as YYYY-MM-DD."""
    if isinstance(value, (date, datetime)):
        value = value.isoformat()
    return str(value)[:10] if value else ""


def local_time(value: datetime | None, *, year: bool = True) -> str:
    """A time as the clock on this machine's wall shows it."""
    return "" if value is None else value.astimezone().strftime("%Y-%m-%d %H:%M:%S" if year else "%m-%d %H:%M:%S")


class Bar(Protocol):
    """A progress bar, or its absence."""

    def show(self, done: int, told: str = "", total: int | None = None) -> None:
        """How far it is, with a word beside it."""
        ...


class _NoBar:
    def show(self, done: int, told: str = "", total: int | None = None) -> None:
        """Nobody is looking."""


class _RichBar:
    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task = progress, task

    def show(self, done: int, told: str = "", total: int | None = None) -> None:
        self._progress.update(self._task, completed=done, told=told, **({} if total is None else {"total": total}))


@contextmanager
def bar(title: str, total: int | None, *, unit: str = "") -> Iterator[Bar]:
    """A progress bar on stderr while the block runs: only on a terminal, and gone afterwards."""
    console = screen(error=True)
    if not console.is_terminal:
        yield _NoBar()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns: Sequence[Any] = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=None if console.width < 100 else 40),
        MofNCompleteColumn(),
        TextColumn(unit),
        TextColumn("{task.fields[told]}", style="dim"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, expand=console.width < 100) as progress:
        yield _RichBar(progress, progress.add_task(title, total=total, told=""))


def _plain_value(value: object) -> object:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
