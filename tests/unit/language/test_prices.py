"""What tokens cost."""

from __future__ import annotations

import pytest

from memline.contracts.errors import ConfigurationError
from memline.language.prices import PUBLISHED, Prices
from memline.language.usage import Use, metered, tell, total


def test_a_call_costs_its_fresh_input_its_cached_input_and_its_output() -> None:
    use = Use("gpt-5-mini", 1, tokens_in=1_000_000, tokens_cached=400_000, tokens_out=1_000_000)
    assert Prices().nanodollars(use) == round((0.6 * 0.25 + 0.4 * 0.025 + 2.0) * 1e9)


def test_a_question_of_ten_tokens_is_not_free() -> None:
    assert Prices().nanodollars(Use("text-embedding-3-small", 1, 10)) == 200


@pytest.mark.parametrize("model", ["gpt-5-mini-2025-08-07", "openai/gpt-5-mini"])
def test_a_dated_or_prefixed_name_has_the_price_of_its_model(model: str) -> None:
    assert Prices().nanodollars(Use(model, 1, 1000)) == Prices().nanodollars(Use("gpt-5-mini", 1, 1000))


@pytest.mark.parametrize("model", ["llama3.1:8b", "gpt-5-mini-turbo", "own"])
def test_an_unknown_model_has_no_price(model: str) -> None:
    assert Prices().nanodollars(Use(model, 1, 1000)) is None


def test_prices_of_the_settings_go_before_the_published_ones() -> None:
    prices = Prices.of('{"own": {"in": 1, "out": 2}, "gpt-5-mini": {"in": 3, "cached": 0}}')
    assert prices.nanodollars(Use("own", 1, 1000, 1000, 1000)) == 3_000_000
    assert prices.nanodollars(Use("gpt-5-mini", 1, 1000, 1000)) == 0
    assert prices.table["gpt-5"] == PUBLISHED["gpt-5"]
    assert Prices.of(None).table == PUBLISHED


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"a": 1}', '{"a": {"out": 1}}', '{"a": {"in": -1}}', '{"a": {"in": 1, "cash": 2}}', '{"a": {"in": "1"}}']
)
def test_a_wrong_table_is_a_wrong_setting(text: str) -> None:
    with pytest.raises(ConfigurationError, match="MEMLINE_PRICES"):
        Prices.of(text)


def test_uses_are_collected_by_the_block_around_and_summed_by_model() -> None:
    tell(Use("nobody"))
    with metered() as outer:
        tell(Use("a", 1, 10))
        with metered() as inner:
            tell(Use("b", 1, 5))
        tell(Use("a", 1, 20, 4, 7, 1))
    assert total(outer) == [Use("a", 2, 30, 4, 7, 1)] and inner == [Use("b", 1, 5)]
