"""`memline check`: does this deployment keep its promises? Samples of the contract, run for real in a throwaway namespace."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from memline.cli.chosen import chosen
from memline.cli.errors import EXIT_UNHEALTHY
from memline.cli.options import AsJson
from memline.cli.screen import bar, complain, fresh_table, note, print_json, screen, text
from memline.contracts.errors import InvalidInput, MemlineError

if TYPE_CHECKING:
    from memline.cli.check_run import Outcome
    from memline.compose import House
    from memline.memory import Memory

__all__ = ["check"]

#: What the samples ask of paid models, at most: calls of the chat model, texts that are embedded.
MODEL_CALLS, EMBEDDED_TEXTS = 2, 40

#: Seconds that the cleaning up may take, beside the check's own time.
CLEAN_WITHIN = 30.0

_MARKS = {"holds": ("✓", "green"), "broken": ("✗", "bold red"), "skipped": ("–", "yellow")}


def check(
    context: typer.Context,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="Longest time for all samples together.")] = 120,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Go on although the models are paid.")] = False,
    clean: Annotated[
        str, typer.Option("--clean", metavar="NAMESPACE", help="Only take away what a check that was killed has left.", show_default=False)
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Run samples of the contract on this deployment, in a throwaway namespace, and clean up. Ends with 4 where a promise is broken."""
    from memline.cli import check_run
    from memline.contracts.scope import check_namespace

    options = chosen(context)
    settings = options.settings()
    if clean and not check_run.is_of_a_check(clean):
        raise InvalidInput(
            f"--clean takes a namespace that a check has made ({check_run.PREFIX} and 16 hexadecimal digits); nothing was removed."
        )
    namespace = check_namespace(clean or check_run.fresh_namespace())
    from memline.memory import Memory

    with Memory(namespace, settings=settings) as memory:
        house = memory._house
        if clean:
            note(f"{check_run.clean(memory, house, timeout=timeout)} rows of {namespace} were removed.")
            return
        _agree_to_costs(house, yes=yes)
        if idle := check_run.idle_roles(house):
            complain(
                f"No worker serves {', '.join(idle)}, so that turns would wait for ever: start `memline worker` (`memline health ready` "
                "says more). Nothing was written."
            )
            raise typer.Exit(EXIT_UNHEALTHY)
        outcomes = _run(memory, house, timeout)
    _show(outcomes, namespace, as_json)


def _run(memory: Memory, house: House, timeout: float) -> list[Outcome]:
    """The outcomes; the namespace is gone afterwards, or it is said how to remove it."""
    from memline.cli import check_run
    from memline.cli.check_samples import SAMPLES

    try:
        with bar("Checking", len(SAMPLES), unit="samples") as shown:
            done = iter(range(len(SAMPLES)))
            outcomes = check_run.run(memory, house, SAMPLES, timeout=timeout, told=lambda name: shown.show(next(done), name))
    finally:
        outcome = _clean(memory, house)
    return [*outcomes, outcome]


def _clean(memory: Memory, house: House) -> Outcome:
    from memline.cli import check_run

    began = time.monotonic()
    try:
        removed = check_run.clean(memory, house, timeout=CLEAN_WITHIN)
        verdict, seen = check_run.Verdict.HOLDS, f"{removed} rows removed, no row and no object left but a tombstone"
    except (MemlineError, KeyboardInterrupt) as error:
        seen = f"{str(error) or 'Interrupted.'} Finish it by `memline check --clean {memory.namespace}`."
        verdict = check_run.Verdict.BROKEN
        complain(seen)
        if isinstance(error, KeyboardInterrupt):
            raise
    return check_run.Outcome("clean up", "the check leaves nothing behind", verdict, seen, time.monotonic() - began)


def _agree_to_costs(house: House, *, yes: bool) -> None:
    asked = []
    if house.extractor.paid:
        asked.append(f"about {MODEL_CALLS} calls of {house.extractor.name}")
    if house.embedder.paid:
        asked.append(f"at most {EMBEDDED_TEXTS} short texts to {house.embedder.model}")
    if not asked or yes:
        return
    message = f"This costs: {' and '.join(asked)}."
    if not screen().is_terminal:
        raise InvalidInput(f"{message} Give --yes to go on; nothing was called.")
    typer.confirm(f"{message} Go on?", abort=True, err=True)


def _show(outcomes: list[Outcome], namespace: str, as_json: bool) -> None:
    broken = [outcome for outcome in outcomes if outcome.verdict == "broken"]
    if as_json:
        print_json({"ok": not broken, "namespace": namespace, "samples": [outcome.document() for outcome in outcomes]})
    else:
        console = screen()
        table = fresh_table(("", {"no_wrap": True}), ("promised", {"ratio": 2}), ("seen", {"ratio": 3}), ("s", {"justify": "right"}))
        for outcome in outcomes:
            mark, style = _MARKS[outcome.verdict.value]
            table.add_row(text(mark, style), text(outcome.promise), text(outcome.seen, "dim"), text(f"{outcome.seconds:.2f}"))
        console.print(table)
        held = sum(outcome.verdict == "holds" for outcome in outcomes)
        if broken:
            console.print(text(f"{len(broken)} of {len(outcomes)} promises are broken.", "bold red"))
        else:
            console.print(text(f"{held} of {len(outcomes)} promises were seen to hold" + _skipped(outcomes), "green"))
    if broken:
        raise typer.Exit(EXIT_UNHEALTHY)


def _skipped(outcomes: list[Outcome]) -> str:
    names = [outcome.name for outcome in outcomes if outcome.verdict == "skipped"]
    return f"; skipped: {', '.join(names)}." if names else "."
