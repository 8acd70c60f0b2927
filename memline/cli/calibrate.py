"""`memline calibrate`: which threshold fits, by questions whose answers are known."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memline.cli.chosen import chosen
from memline.cli.houses import OpenHouse, open_house
from memline.cli.judged_lines import BadQuestion, JudgedLine, read_judged
from memline.cli.options import AgentId, AsJson, RunId, UserId, scope_ids
from memline.cli.screen import bar, fresh_table, note, print_json, screen, text
from memline.contracts.errors import InvalidInput

if TYPE_CHECKING:
    from memline.search.calibration import Judged, Point

__all__ = ["calibrate"]

#: Bad lines that one error tells.
_TOLD = 10


def calibrate(
    context: typer.Context,
    file: Annotated[
        typer.FileBinaryRead,
        typer.Argument(metavar="FILE", help='Lines of {"query": "…", "wanted": "ID" or ["ID", …], "filters": {…}}; - reads stdin.'),
    ],
    user_id: UserId = None,
    agent_id: AgentId = None,
    run_id: RunId = None,
    top_k: Annotated[int, typer.Option("--top-k", "-k", metavar="N", min=1, max=1000, help="Results that your application asks for.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Print precision and recall by threshold for questions with known answers, and name the threshold with the best F1.

    Over all questions together. Scope ids of the options count for every line whose filters do not name that id.
    """
    from memline.search.calibration import best_of, points_of

    with closing(open_house(chosen(context))) as opened:
        lines = _checked(opened, list(read_judged(file, scope_ids(user_id, agent_id, run_id))))
        judged, missing, source = _asked(opened, lines, top_k)
    points = points_of(judged)
    best = best_of(points)
    if as_json:
        answer: dict[str, Any] = {
            "questions": len(judged),
            "wanted": sum(question.wanted for question in judged),
            "top_k": top_k,
            "weights": source,
            "points": [asdict(point) for point in points],
            "suggested": best.threshold,
        }
        print_json(answer | ({"missing": missing} if missing else {}))
        return
    if missing:
        note(f"Some were answered without {', '.join(missing)}: the figures are lower than they would be.")
    _show(points, best)
    if best.f1 == 0:
        note("Nothing that was wanted was found at any threshold.")
    else:
        screen().print(
            text(f"{len(judged)} questions, weights: {source}. Best F1 at threshold {best.threshold:.1f}: search(…, threshold=…).")
        )


#: A content of an owner: what was said in several runs is one result, under one of its ids.
_Content = tuple[int, str]


def _checked(opened: OpenHouse, read: Sequence[JudgedLine | BadQuestion]) -> list[tuple[JudgedLine, frozenset[_Content]]]:
    """The questions with what they want, if every line is one and can find it. Raises InvalidInput with the numbers of bad lines."""
    from memline.ledger.memories import load_memories
    from memline.search.rows import filter_view

    lines = [line for line in read if isinstance(line, JudgedLine)]
    bad = {line.number: line.reason for line in read if isinstance(line, BadQuestion)}
    ids = sorted({memory_id for line in lines for memory_id in line.wanted})
    with opened.house.ledger.read() as connection:
        rows = {row.id: row for row in load_memories(connection, opened.namespace, ids=ids)}
    today = opened.house.clock.now().date()
    for line in lines:
        for memory_id in sorted(line.wanted):
            row = rows.get(memory_id)
            if row is None:
                bad[line.number] = f"wanted names {memory_id}, and no memory of namespace {opened.namespace} has this id."
            elif row.is_expired(today) or (row.state == "superseded" and not row.verbatim):
                bad[line.number] = (
                    f"wanted names {memory_id}, which is {row.state if row.state != 'live' else 'expired'}: no search returns it."
                )
            elif not line.filter.matches(filter_view(row)):
                bad[line.number] = f"wanted names {memory_id}, which the filters of this line exclude."
    if bad:
        told = [f"Line {number}: {reason}" for number, reason in sorted(bad.items())]
        rest = [f"{len(told) - _TOLD} more lines are wrong."] if len(told) > _TOLD else []
        raise InvalidInput(" ".join(told[:_TOLD] + rest))
    if not lines:
        raise InvalidInput('The file holds no question. A line is {"query": "…", "wanted": "ID", "filters": {"user_id": "…"}}.')
    return [(line, frozenset((rows[each].owner_no, rows[each].content_hash) for each in line.wanted)) for line in lines]


def _asked(opened: OpenHouse, lines: Sequence[tuple[JudgedLine, frozenset[_Content]]], top_k: int) -> tuple[list[Judged], list[str], str]:
    """Every question searched at threshold 0; parts that did not answer; whose weights were used."""
    from memline.search.calibration import Judged

    judged: list[Judged] = []
    missing: set[str] = set()
    source = "default"
    with bar("Asking", len(lines), unit="questions") as shown:
        for number, (line, wanted) in enumerate(lines, 1):
            result = opened.house.searcher.search(opened.namespace, line.query, line.filter, top_k=top_k, threshold=0)
            left = set(wanted)  # a content counts once, at its first place: what was superseded by its like comes beside it
            found = tuple((hit.score, _taken(left, (hit.row.owner_no, hit.row.content_hash))) for hit in result.results)
            judged.append(Judged(found, len(wanted)))
            missing.update(result.missing)
            source = result.weights
            shown.show(number)
    return judged, sorted(missing), source


def _taken(left: set[_Content], content: _Content) -> bool:
    """Whether *content* was still looked for; it is not any more."""
    if content not in left:
        return False
    left.remove(content)
    return True


def _show(points: Sequence[Point], best: Point) -> None:
    table = fresh_table(*((heading, {"justify": "right"}) for heading in ("threshold", "precision", "recall", "F1", "results")))
    for point in points:
        precision = "–" if point.precision is None else f"{100 * point.precision:.1f}"
        cells = [f"{point.threshold:.1f}", precision, f"{100 * point.recall:.1f}", f"{100 * point.f1:.1f}", f"{point.results:.1f}"]
        table.add_row(*(text(cell, "bold green" if point is best else "") for cell in cells))
    screen().print(table)
