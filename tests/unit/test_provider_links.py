"""How the settings become ways to servers."""

from __future__ import annotations

import pytest

from memline.compose import House
from memline.language.limits import LocalLimiter, Rates
from memline.language.limits_redis import RedisLimiter
from memline.provider_links import build_calls, build_link
from memline.settings import load_settings

GIVEN = {
    "openai_base_url": "http://localhost:9999/v1",
    "requests_per_minute": 30,
    "embedding_tokens_per_minute": 5000,
    "model_timeout": 20.0,
}


@pytest.mark.parametrize(
    ("call", "rates"),
    [("extract", Rates(30)), ("vision", Rates(30)), ("rerank", Rates(30)), ("embed", Rates(None, 5000)), ("search", Rates(None, 5000))],
)
def test_chat_models_and_the_embedder_have_limits_of_their_own(call: str, rates: Rates) -> None:
    settings = load_settings(**GIVEN)
    link = build_link(settings, House(settings).calls, "a-model", call)
    assert (link.rates, link.key, link.times.budget) == (rates, "localhost:9999/a-model", 20)
    assert link.times.tries > 1 and not link.times.first


def test_a_search_waits_for_no_limit_and_has_one_try() -> None:
    settings = load_settings(**GIVEN)
    link = build_link(settings, House(settings).calls, "a-model", "search", timeout=2.0)
    assert (link.times.budget, link.times.tries, link.times.patience, link.times.first) == (2, 1, 0, True)


def test_the_limit_is_shared_through_redis_where_there_is_one() -> None:
    house = House(load_settings(redis_url="redis://localhost:1/0"))
    assert isinstance(build_calls(house.settings, house.ids).limiter, RedisLimiter)
    assert isinstance(House(load_settings()).calls.limiter, LocalLimiter)


def test_all_models_of_a_process_share_their_calls() -> None:
    house = House(load_settings(**GIVEN))
    assert house.calls is house.calls
