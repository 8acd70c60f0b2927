"""Precision, recall and F1 by threshold."""

from __future__ import annotations

from memline.search.calibration import Judged, best_of, points_of


def test_figures_are_over_all_questions_together() -> None:
    judged = [
        Judged(((0.9, True), (0.6, False), (0.2, True)), wanted=3),
        Judged(((0.7, True), (0.4, False)), wanted=1),
    ]
    low, middle, high, top = points_of(judged, (0.0, 0.5, 0.8, 0.95))
    assert (low.precision, low.recall, low.results) == (3 / 5, 3 / 4, 2.5)
    assert (middle.precision, middle.recall) == (2 / 3, 2 / 4)
    assert (high.precision, high.recall, high.f1) == (1.0, 1 / 4, 2 / 5)
    assert (top.precision, top.recall, top.f1, top.results) == (None, 0.0, 0.0, 0.0)
    assert best_of([low, middle, high, top]) is low


def test_of_equal_points_the_lowest_threshold_is_suggested() -> None:
    points = points_of([Judged(((0.5, True),), wanted=1)])
    assert best_of(points).threshold == 0.0


def test_a_score_at_the_threshold_is_returned() -> None:
    assert points_of([Judged(((0.3, True),), wanted=1)], (0.3,))[0].recall == 1.0
