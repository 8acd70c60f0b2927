"""Builds, from the settings, how this process calls the servers of its models: what its calls share, and the way to each model."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memline.contracts.ids import IdSource
from memline.settings import Settings

if TYPE_CHECKING:
    from memline.language.calls import Calls, Link
    from memline.language.metered import Told
    from memline.language.usage import Use

__all__ = ["build_calls", "build_link", "tell_of"]


def build_calls(settings: Settings, ids: IdSource) -> Calls:
    """With Redis the limits are shared by every process that has it, else they are this process's own."""
    from memline.language.calls import Calls

    if settings.redis_url is None:
        return Calls()
    from memline.language.limits_redis import RedisLimiter

    process = f"{socket.gethostname()}-{ids.new()[-6:]}"
    return Calls(limiter=RedisLimiter(settings.redis_url.get_secret_value(), settings.redis_prefix, process))


def build_link(settings: Settings, calls: Calls, model: str, call: str, *, timeout: float | None = None) -> Link:
    """The way to *model* for one kind of call. *timeout*: somebody waits for the answer, so long: one try, which no limit holds back."""
    from memline.language.calls import CallTimes, Link
    from memline.language.limits import Rates
    from memline.language.providers import host_of

    embeds = call in ("embed", "search")
    rates = (
        Rates(settings.embedding_requests_per_minute, settings.embedding_tokens_per_minute)
        if embeds
        else Rates(settings.requests_per_minute, settings.tokens_per_minute)
    )
    times = CallTimes(budget=settings.model_timeout) if timeout is None else CallTimes(budget=timeout, tries=1, patience=0.0, first=True)
    return Link(host_of(settings.openai_base_url), model, call, rates, times, calls)


def tell_of(settings: Settings, call: str) -> Told:
    """What takes the use of calls that are not written to the ledger: their tokens and money go to the metrics alone."""
    from memline.language.prices import Prices
    from memline.pipeline.paid import tell_metrics

    prices = Prices.of(settings.prices)

    def told(uses: Sequence[Use]) -> None:
        tell_metrics(prices, call, uses)

    return told
