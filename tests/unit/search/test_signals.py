"""The signals: each between 0 and 1, and none of them a matter of what else was nominated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.search.score import contributions, scores
from memline.search.signals import MEANINGS, SIGNALS, Arrays, Floats, idf, measure
from memline.search.weights import DEFAULT, Weights

COLUMN = {name: column for column, name in enumerate(SIGNALS)}


def arrays(
    counts: list[list[float]],
    *,
    worth: list[float] | None = None,
    codes: list[bool] | None = None,
    places: list[int] | None = None,
    cosines: list[float] | None = None,
    question: list[float] | None = None,
    lengths: list[float] | None = None,
) -> Arrays:
    """Memories of one lane, one a turn unless *places* says otherwise; *cosines*: of vectors in a plane with the question's."""
    count = len(counts)
    terms = len(counts[0])
    zeros = np.zeros(count)
    seats = np.array(places or list(range(1, count + 1)), np.int64)
    low = np.array([min(j for j in range(max(0, i - 3), i + 1) if seats[i] - seats[j] <= 3) for i in range(count)], np.intp)
    high = np.array([1 + max(j for j in range(i, min(count, i + 4)) if seats[j] - seats[i] <= 3) for i in range(count)], np.intp)
    vectors = None if cosines is None else np.array([[c, (1 - c * c) ** 0.5] for c in cosines], np.float32)
    return Arrays(
        counts=np.array(counts, np.float64),
        lengths=np.array(lengths or [6.0] * count, np.float64),
        worth=np.array(worth or [4.0] * terms, np.float64),
        codes=np.array(codes or [False] * terms, np.bool_),
        mean_length=6.0,
        low=low,
        high=high,
        alone=np.zeros(count, np.bool_),
        places=seats,
        vectors=vectors,
        query_vector=None if cosines is None else np.array([1.0, 0.0], np.float32),
        topic_vector=None,
        entity=zeros,
        same_actor=zeros,
        other_actor=zeros,
        assistant=zeros,
        standing=zeros,
        question=np.array(question or zeros, np.float64),
        time_words=zeros,
        same_date=zeros,
        superseded=zeros,
        context=np.ones(count, np.bool_),
    )


def column(found: Floats, name: str) -> list[float]:
    return [float(value) for value in found[:, COLUMN[name]]]


def test_every_signal_has_a_weight_and_every_weight_a_signal() -> None:
    assert set(DEFAULT.signals) == set(SIGNALS)


def test_coverage_is_the_share_of_the_questions_words_by_what_they_are_worth() -> None:
    found = measure(arrays([[1, 0], [1, 1], [0, 0]], worth=[1.0, 3.0]))
    assert column(found, "coverage") == pytest.approx([0.25, 1.0, 0.0])


def test_a_code_counts_wherever_it_stands_and_its_absence_does_not() -> None:
    found = measure(arrays([[1, 0], [0, 1]], codes=[True, False]))
    assert column(found, "code") == [1.0, 0.0]
    assert column(measure(arrays([[1, 0], [0, 1]])), "code") == [0.0, 0.0]


def test_words_said_next_to_a_memory_count_for_it_and_those_far_away_do_not() -> None:
    found = measure(arrays([[0], [0], [0], [0], [0], [1], [0], [0], [0], [0], [0]]))
    near = column(found, "words_near")
    assert [value > 0 for value in near] == [False, False, True, True, True, True, True, True, True, False, False]


def test_turns_that_lie_apart_are_no_neighbours() -> None:
    near = column(measure(arrays([[0], [1]], places=[1, 9])), "words_near")
    assert near[0] == 0 and near[1] > 0


def test_what_follows_a_question_about_the_words_may_be_the_answer() -> None:
    answers = column(measure(arrays([[1], [0], [0]], question=[1.0, 0.0, 0.0])), "answers")
    assert answers[0] == 0 and answers[1] > 0 and answers[2] == 0
    assert column(measure(arrays([[1], [0]], question=[1.0, 0.0], places=[1, 3])), "answers") == [0.0, 0.0]


def test_the_run_is_the_cosine_of_the_mean_of_a_memory_and_the_two_turns_before_it() -> None:
    cosines = [0.1, 0.9, -0.3, 0.5, 0.2]
    given_arrays = arrays([[0]] * 5, cosines=cosines)
    assert given_arrays.vectors is not None
    expected = []
    for row in range(5):
        mean = given_arrays.vectors[max(0, row - 2) : row + 1].sum(axis=0)
        expected.append(max(0.0, float(mean[0] / np.linalg.norm(mean))))
    assert column(measure(given_arrays), "meaning_run") == pytest.approx(expected, abs=1e-5)


def test_the_best_neighbour_is_another_memory_at_most_one_turn_away() -> None:
    found = measure(arrays([[0]] * 4, cosines=[0.9, 0.1, 0.2, 0.3], places=[1, 2, 3, 3]))
    assert column(found, "meaning_near") == pytest.approx([0.1, 0.9, 0.3, 0.2], abs=1e-6)


def test_an_extracted_fact_stands_by_itself() -> None:
    given_arrays = replace(
        arrays([[1], [0]], cosines=[0.9, 0.3]), alone=np.ones(2, np.bool_), low=np.array([0, 1], np.intp), high=np.array([1, 2], np.intp)
    )
    found = measure(given_arrays)
    assert column(found, "words_near")[1] == 0 and column(found, "words_near")[0] > 0
    assert column(found, "meaning_near") == pytest.approx([0.9, 0.3], abs=1e-6)
    assert column(found, "meaning_run") == pytest.approx([0.9, 0.3], abs=1e-6)


def test_without_an_embedder_there_is_no_meaning() -> None:
    found = measure(arrays([[1], [0]]))
    assert all(column(found, name) == [0.0, 0.0] for name in MEANINGS)


def test_no_memories_have_no_signals() -> None:
    empty = arrays([[1.0]])
    none = Arrays(
        **{
            name: getattr(empty, name)[:0] if getattr(empty, name) is not None and name not in _WHOLE else getattr(empty, name)
            for name in _NAMES
        }
    )
    assert measure(none).shape == (0, len(SIGNALS))


_WHOLE = {"worth", "codes", "mean_length"}
_NAMES = tuple(Arrays.__dataclass_fields__)


@given(
    st.lists(st.lists(st.integers(0, 5), min_size=2, max_size=2), min_size=1, max_size=12),
    st.lists(st.floats(-1, 1, allow_nan=False), min_size=12, max_size=12),
    st.lists(st.integers(0, 3), min_size=12, max_size=12),
)
def test_signals_and_scores_lie_between_0_and_1(counts: list[list[float]], cosines: list[float], steps: list[int]) -> None:
    places = [int(place) for place in np.cumsum(steps)[: len(counts)]]
    found = measure(arrays(counts, cosines=cosines[: len(counts)], places=places))
    assert ((found >= 0) & (found <= 1)).all()
    scored = scores(contributions(found, DEFAULT), DEFAULT)
    assert ((scored > 0) & (scored <= 1)).all()


@given(st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=4, max_size=10), st.integers(1, 5))
def test_a_memory_has_the_same_signals_whatever_stands_far_away(counts: list[list[float]], more: int) -> None:
    cosines = [0.3] * len(counts)
    alone = measure(arrays(counts, cosines=cosines))
    beside = [*range(1, len(counts) + 1), *range(100, 100 + more)]
    among = measure(arrays([*counts, *[[3.0, 3.0]] * more], cosines=[*cosines, *[0.99] * more], places=beside))
    assert among[: len(counts)] == pytest.approx(alone, abs=1e-6)


def test_a_word_is_worth_less_the_more_memories_hold_it_and_something_even_in_a_scope_of_one() -> None:
    rare, common = idf(np.array([1.0, 500.0]), 1000)
    assert rare > common > 0
    assert idf(np.array([1.0]), 1)[0] > 1
    everywhere, once, nowhere = idf(np.array([9.0, 1.0, 0.0]), 9)
    assert everywhere < once / 2 and once == nowhere


def test_the_weight_of_a_missing_part_leaves_the_range() -> None:
    ones = np.ones((1, len(SIGNALS)))
    full = contributions(ones, DEFAULT)
    left = contributions(ones, DEFAULT, MEANINGS)
    assert all(left[0, COLUMN[name]] == 0 for name in MEANINGS)
    assert np.maximum(left, 0).sum() == pytest.approx(np.maximum(full, 0).sum())


def test_a_score_is_what_explain_lets_one_compute() -> None:
    weights = Weights({"words": 2.0, "short": -1.0}, middle=0.5, slope=2.0)
    signals = np.zeros((1, len(SIGNALS)))
    signals[0, COLUMN["words"]], signals[0, COLUMN["short"]] = 0.5, 0.25
    added = contributions(signals, weights)
    assert added[0, COLUMN["words"]] == 1.0 and added[0, COLUMN["short"]] == -0.25
    assert scores(added, weights)[0] == pytest.approx(1 / (1 + np.exp(-2.0 * (0.75 - 0.5))))


def test_more_of_a_good_signal_never_lowers_a_score() -> None:
    low = measure(arrays([[0, 0]], cosines=[0.2]))
    for name, weight in DEFAULT.signals.items():
        high = low.copy()
        high[0, COLUMN[name]] = min(1.0, high[0, COLUMN[name]] + 0.5)
        before, after = (scores(contributions(found, DEFAULT), DEFAULT)[0] for found in (low, high))
        assert (after > before) if weight > 0 else (after < before)


def test_arrays_are_not_changed_by_measuring() -> None:
    given_arrays = arrays([[1, 0], [2, 1]], cosines=[0.5, 0.1])
    kept = replace(given_arrays, counts=given_arrays.counts.copy(), lengths=given_arrays.lengths.copy())
    measure(given_arrays)
    assert (given_arrays.counts == kept.counts).all() and (given_arrays.lengths == kept.lengths).all()


def test_what_an_assistant_said_is_nobodys_context() -> None:
    told = arrays([[1], [0]])
    assert column(measure(told), "words_near")[1] > 0
    assert column(measure(replace(told, context=np.array([False, True]))), "words_near")[1] == 0


def test_much_text_speaks_against_a_memory_and_little_text_too() -> None:
    found = measure(arrays([[1], [1]], lengths=[5.0, 600.0]))
    short, long = column(found, "short"), column(found, "long")
    assert short[0] > short[1] and long[1] > long[0]
    assert DEFAULT.signals["short"] < 0 and DEFAULT.signals["long"] < 0
