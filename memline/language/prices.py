"""What tokens cost: dollars per million tokens by model, published ones and those of the settings.

Sums are kept in whole billionths of a dollar: a question of ten tokens to a small embedder costs 200 of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memline.contracts.errors import ConfigurationError
from memline.language.usage import Use

__all__ = ["PRICES_OF", "PUBLISHED", "Price", "Prices"]

#: When `PUBLISHED` was looked up; prices change.
PRICES_OF = "2026-11"


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens. `tokens_cached`: of input that the server had in its cache."""

    tokens_in: float
    tokens_cached: float
    tokens_out: float = 0.0


#: OpenAI's list prices.
PUBLISHED: dict[str, Price] = {
    "gpt-5": Price(1.25, 0.125, 10.0),
    "gpt-5-mini": Price(0.25, 0.025, 2.0),
    "gpt-5-nano": Price(0.05, 0.005, 0.4),
    "gpt-4.1": Price(2.0, 0.5, 8.0),
    "gpt-4.1-mini": Price(0.4, 0.1, 1.6),
    "gpt-4.1-nano": Price(0.1, 0.025, 0.4),
    "gpt-4o": Price(2.5, 1.25, 10.0),
    "gpt-4o-mini": Price(0.15, 0.075, 0.6),
    "text-embedding-3-small": Price(0.02, 0.02),
    "text-embedding-3-large": Price(0.13, 0.13),
    "text-embedding-ada-002": Price(0.1, 0.1),
}


@dataclass(frozen=True, slots=True)
class Prices:
    """A table of prices by model."""

    table: Mapping[str, Price] = field(default_factory=lambda: dict(PUBLISHED))

    @classmethod
    def of(cls, text: str | None) -> Prices:
        """`PUBLISHED`, with the prices of a setting over it: JSON, {"model": {"in": 0.25, "cached": 0.025, "out": 2.0}}, dollars per
        million tokens; cached is in where it is left out, out is 0. Raises ConfigurationError.
        """
        return cls(PUBLISHED | {} if text is None else PUBLISHED | _parsed(text))

    def nanodollars(self, use: Use) -> int | None:
        """What *use* cost, in billionths of a dollar; None for a model without a price. A dated name (gpt-5-mini-2025-08-07) has the
        price of its model.
        """
        price = self.table.get(use.model) or self.table.get(use.model.rpartition("/")[2]) or self._undated(use.model)
        if price is None:
            return None
        fresh = max(0, use.tokens_in - use.tokens_cached)
        return round(1000 * (fresh * price.tokens_in + use.tokens_cached * price.tokens_cached + use.tokens_out * price.tokens_out))

    def _undated(self, model: str) -> Price | None:
        name, dash, date = model[:-11], model[-11:-10], model[-10:]
        if dash == "-" and date.count("-") == 2 and date.replace("-", "").isdigit():
            return self.table.get(name)
        return None


def _parsed(text: str) -> dict[str, Price]:
    wrong = 'MEMLINE_PRICES must be JSON such as {"gpt-5-mini": {"in": 0.25, "cached": 0.025, "out": 2.0}}, dollars per million tokens'
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigurationError(f"{wrong}; it is no JSON.") from None
    if not isinstance(raw, dict):
        raise ConfigurationError(f"{wrong}; it is a {type(raw).__name__}.")
    found: dict[str, Price] = {}
    for model, given in raw.items():
        if not isinstance(given, dict) or "in" not in given or not set(given) <= {"in", "cached", "out"}:
            raise ConfigurationError(f"{wrong}; {model!r} needs in, and may have cached and out.")
        if not all(_is_price(value) for value in given.values()):
            raise ConfigurationError(f"{wrong}; a price of {model!r} is no number of 0 or more.")
        found[model] = Price(float(given["in"]), float(given["cached"] if "cached" in given else given["in"]), float(given.get("out", 0)))
    return found


def _is_price(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
