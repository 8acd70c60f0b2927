"""`memline demo`: three weeks of a conversation become memory, and are found again."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memline.cli.chosen import Chosen, chosen
from memline.cli.errors import EXIT_FAILED
from memline.cli.options import AsJson
from memline.cli.screen import bar, print_json, screen, text

if TYPE_CHECKING:
    from memline.cli.demo_run import Asked, Told

__all__ = ["demo"]


def demo(
    context: typer.Context,
    timeout: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Give up when nothing moves for so long.")] = 60,
    as_json: AsJson = False,
) -> None:
    """Show the main job: a conversation becomes memory and is found again. No key and no server needed; run it twice."""
    from memline.cli import demo_run
    from memline.cli.demo_screen import introduce, show_question, show_told

    options = chosen(context)
    turns, questions = demo_run.conversation(), demo_run.questions()
    with options.memory(demo_run.NAMESPACE) as memory:
        if not as_json:
            introduce(turns, *memory.models)
        with bar("Remembering", len(turns), unit="turns") as progress:

            def show(told: Told) -> None:
                progress.show(told.through, f"{told.added} memories")

            told = demo_run.tell(memory, turns, timeout=timeout, now=_millisecond(), progress=show)
        user_id = turns[0]["user_id"]
        if not as_json:
            show_told(told, _standing(memory, user_id))
        answers: list[Asked] = []
        for number, question in enumerate(questions, 1):
            answers.append(demo_run.ask(memory, question, user_id=user_id))
            if not as_json:
                show_question(number, answers[-1])
    found = sum(answer.found for answer in answers)
    if as_json:
        print_json(_document(told, answers))
    else:
        _conclude(options, found, answers, user_id)
    if found < len(answers):
        raise typer.Exit(EXIT_FAILED)


def _millisecond() -> datetime:
    """Now, no finer than the time in a turn's id."""
    from memline.contracts.clock import SystemClock

    now = SystemClock().now()
    return now - timedelta(microseconds=now.microsecond % 1000)


def _standing(memory: Any, user_id: str) -> int:
    return len(memory.get_all(filters={"user_id": user_id}, top_k=1000)["results"])


def _document(told: Told, answers: list[Asked]) -> dict[str, Any]:
    return {
        "turns": told.turns,
        "added": told.added,
        "duplicates": told.duplicates,
        "already": told.already,
        "seconds": round(told.seconds, 3),
        "questions": [answer.document() for answer in answers],
    }


def _conclude(options: Chosen, found: int, answers: list[Asked], user_id: str) -> None:
    console = screen()
    style = "green" if found == len(answers) else "bold red"
    console.print(
        text(f"{found} of {len(answers)} answers are among the first three", style)
        + text(f" · half of the searches took less than {median(answer.seconds for answer in answers) * 1000:.0f} ms", "dim")
    )
    console.print()
    console.print(text("Ask it yourself, or run the demo again: nothing is added twice.", "dim"))
    namespace = options.namespace or "demo"
    home = options.home or os.environ.get("MEMLINE_HOME")
    at_home = f" --home {_short(Path(home))}" if home else ""
    console.print(text(f'  {_program()}{at_home} -n {namespace} search "what am I allergic to?" -u {user_id} --explain'), soft_wrap=True)


def _program() -> str:
    """How this program is called: by its name where the shell finds it."""
    called = Path(sys.argv[0])
    if called.name != "memline":
        return "memline"
    known = shutil.which("memline")
    return "memline" if known and Path(known).resolve() == called.resolve() else str(_short(called))


def _short(path: Path) -> Path:
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path
