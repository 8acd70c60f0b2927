"""From questions with known answers to precision and recall at each threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["THRESHOLDS", "Judged", "Point", "best_of", "points_of"]

#: 0.0, 0.1, … 0.9.
THRESHOLDS = tuple(step / 10 for step in range(10))


@dataclass(frozen=True, slots=True)
class Judged:
    """One question as it was answered: the scores of what was found, best first, and which of them were wanted."""

    #: (score, it was wanted)
    found: tuple[tuple[float, bool], ...]
    #: How many memories were wanted, found or not; at least 1.
    wanted: int


@dataclass(frozen=True, slots=True)
class Point:
    """What a threshold lets through, over all questions together (micro averages)."""

    threshold: float
    #: Share of wanted ones among what is returned; None where nothing is.
    precision: float | None
    #: Share of what is wanted that is returned.
    recall: float
    #: Harmonic mean of the two; 0 where either is.
    f1: float
    #: Results a question.
    results: float


def points_of(judged: Sequence[Judged], thresholds: Sequence[float] = THRESHOLDS) -> list[Point]:
    """One point a threshold. *judged* must not be empty, and must have been searched at threshold 0."""
    wanted = sum(question.wanted for question in judged)
    points = []
    for threshold in thresholds:
        returned = [right for question in judged for score, right in question.found if score >= threshold]
        hits = sum(returned)
        precision = hits / len(returned) if returned else None
        recall = hits / wanted
        f1 = 2 * hits / (len(returned) + wanted)
        points.append(Point(threshold, precision, recall, f1, len(returned) / len(judged)))
    return points


def best_of(points: Sequence[Point]) -> Point:
    """The one with the highest F1; of equals the lowest threshold, which hides least."""
    return max(points, key=lambda point: (point.f1, -point.threshold))
