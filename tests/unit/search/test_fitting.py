"""What fits into a number of tokens."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.ledger.memories import MemoryRow
from memline.search.fitting import estimate_tokens, fitting
from memline.search.results import Hit

AT = datetime(2026, 3, 1, tzinfo=UTC)


def hit(number: int, text: str) -> Hit:
    values = dict.fromkeys(MemoryRow.__dataclass_fields__, None) | {"no": number, "id": f"m{number}", "text": text, "occurred_at": AT}
    return Hit(MemoryRow(**values), 0.5, {}, (), (), {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("tea", 1),
        ("User likes green tea.", 5),
        ("extraordinarily", 3),  # extrao|rdinar|ily
        ("INC-48213", 4),  # INC - 482|13
        ("我住在上海", 5),
        ("привет", 3),
        ("🙂", 3),
        ("a\n\nb", 3),
        ("   ", 0),
    ],
)
def test_an_estimate_by_hand(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_longer_text_takes_no_less(first: str, second: str) -> None:
    assert 0 <= estimate_tokens(first) <= estimate_tokens(first + second) <= estimate_tokens(first) + estimate_tokens(second)
    assert estimate_tokens(first) <= 3 * len(first)


def test_what_does_not_fit_is_passed_over_and_smaller_ones_behind_it_are_taken() -> None:
    hits = [hit(1, "tea tea"), hit(2, "tea " * 50), hit(3, "tea"), hit(4, "tea tea"), hit(5, "tea")]
    kept, left = fitting(hits, 4)
    assert [each.row.id for each in kept] == ["m1", "m3", "m5"]
    assert (left.ids, left.used, left.limit) == (("m2", "m4"), 4, 4)


@given(st.lists(st.text(max_size=60), max_size=12), st.integers(1, 60))
def test_it_is_within_the_limit_in_order_and_whole(texts: list[str], limit: int) -> None:
    hits = [hit(number, text) for number, text in enumerate(texts)]
    kept, left = fitting(hits, limit)
    numbers = [each.row.no for each in kept]
    assert numbers == sorted(numbers)
    assert sum(estimate_tokens(each.row.text) for each in kept) == left.used <= limit
    assert sorted([each.row.id for each in kept] + list(left.ids)) == sorted(each.row.id for each in hits)
    for memory_id in left.ids:  # nothing was left out that would still have fitted at its turn
        number = int(memory_id[1:])
        before = sum(estimate_tokens(texts[each]) for each in numbers if each < number)
        assert before + estimate_tokens(texts[number]) > limit
