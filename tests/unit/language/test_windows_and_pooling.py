"""Long texts: pieces, samples of them, and the mean of their vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.language.pooling import pooled, unit_rows
from memline.language.windows import evenly, pieces


@given(st.text(max_size=300), st.integers(1, 50))
def test_pieces_are_bounded_and_make_up_the_text(text: str, limit: int) -> None:
    found = pieces(text, limit)
    assert "".join(piece for _, piece in found) == text
    assert all(text.startswith(piece, offset) for offset, piece in found)
    assert all(1 <= len(piece) <= limit for _, piece in found) or text == ""


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("One two.\n\nThree four. Five", "One two.\n\n"),
        ("One two\nthree. four five", "One two\n"),
        ("One two. Three four five", "One two. "),
        ("一二三四五六七八。九十百千万一二三四五六", "一二三四五六七八。"),
        ("one two three four five", "one two "),
        ("x" * 30, "x" * 12),
    ],
)
def test_a_piece_ends_where_a_reader_would_cut(text: str, first: str) -> None:
    assert pieces(text, 12)[0] == (0, first)


@given(st.integers(0, 200), st.integers(1, 40))
def test_a_sample_is_in_order_and_holds_both_ends(count: int, most: int) -> None:
    found = evenly(range(count), most)
    assert len(found) == min(count, most) == len(set(found))
    assert found == sorted(found)
    if found:
        assert found[0] == 0 and (most == 1 or found[-1] == count - 1)


def test_rows_get_length_one_and_a_row_without_direction_the_first_axis() -> None:
    rows = unit_rows(np.array([[3.0, 4.0], [0.0, 0.0], [np.nan, 1.0]]))
    assert rows.dtype == np.float32
    assert rows.tolist() == [pytest.approx([0.6, 0.8]), [1.0, 0.0], [1.0, 0.0]]


def test_a_text_is_the_mean_of_its_pieces_of_length_one() -> None:
    rows = pooled(np.array([[1, 0], [1, 0], [0, 1]], dtype=np.float32), [1, 2])
    assert rows.tolist() == [pytest.approx([1, 0]), pytest.approx([0.5**0.5, 0.5**0.5])]
    assert pooled(np.empty((0, 2), dtype=np.float32), []).shape == (0, 2)
