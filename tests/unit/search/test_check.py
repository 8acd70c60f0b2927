"""What a search refuses, and what it says."""

from __future__ import annotations

from typing import Any

import pytest

from memline.contracts.errors import InvalidInput
from memline.search.check import MAX_QUERY, check_max_tokens, check_query, check_rerank_k, check_threshold, check_top_k


@pytest.mark.parametrize("value", [None, 3, b"tea", "", "  \n", "a\x00b", "\ud800", "x" * (MAX_QUERY + 1)])
def test_a_query_is_a_text(value: Any) -> None:
    with pytest.raises(InvalidInput) as error:
        check_query(value)
    assert "query" in str(error.value) and len(str(error.value)) < 300


def test_the_longest_query_is_taken() -> None:
    assert check_query("x" * MAX_QUERY) == "x" * MAX_QUERY


@pytest.mark.parametrize("value", [True, 2.0, "5", None, -1, 1001, pytest.param(10**5000, id="huge")])
def test_top_k_is_a_number_of_results(value: Any) -> None:
    with pytest.raises(InvalidInput, match="top_k"):
        check_top_k(value)


@pytest.mark.parametrize("value", [False, "0.1", None, float("nan"), float("inf"), -0.1, 1.01, pytest.param(10**400, id="huge")])
def test_a_threshold_is_a_score(value: Any) -> None:
    with pytest.raises(InvalidInput, match="threshold"):
        check_threshold(value)


def test_the_bounds_themselves_are_taken() -> None:
    assert check_top_k(0) == 0 and check_top_k(1000) == 1000
    assert check_threshold(0) == 0.0 and check_threshold(1) == 1.0


def test_a_reranker_sees_more_than_are_wanted_within_bounds() -> None:
    assert check_rerank_k(None, rerank=False, top_k=20) == 0
    assert [check_rerank_k(None, rerank=True, top_k=top_k) for top_k in (0, 5, 20, 100, 1000)] == [40, 40, 80, 200, 200]
    assert check_rerank_k(7, rerank=True, top_k=7) == 7 and check_rerank_k(200, rerank=True, top_k=1000) == 200


@pytest.mark.parametrize("value", [True, 2.5, "40", 0, -3, 4, 201, pytest.param(10**5000, id="huge")])
def test_rerank_k_is_a_number_of_candidates(value: Any) -> None:
    with pytest.raises(InvalidInput, match="rerank_k") as error:
        check_rerank_k(value, rerank=True, top_k=5)
    assert len(str(error.value)) < 200


def test_rerank_k_needs_a_reranking() -> None:
    with pytest.raises(InvalidInput, match="rerank=True"):
        check_rerank_k(40, rerank=False, top_k=5)


@pytest.mark.parametrize("value", [True, 2.5, "40", 0, -3])
def test_max_tokens_is_a_number_of_tokens(value: Any) -> None:
    with pytest.raises(InvalidInput, match="max_tokens"):
        check_max_tokens(value)
    assert check_max_tokens(None) is None and check_max_tokens(1) == 1
