"""What a search may be asked: checked before anything is read."""

from __future__ import annotations

import math
from datetime import datetime

from memline.contracts.errors import InvalidDate, InvalidInput, InvalidMessage
from memline.contracts.turn import check_text
from memline.search.rerank.port import MOST_DOCUMENTS

__all__ = [
    "MAX_QUERY",
    "MAX_TOP_K",
    "check_as_of",
    "check_limit",
    "check_max_tokens",
    "check_query",
    "check_rerank_k",
    "check_threshold",
    "check_top_k",
]

#: Longest query, in bytes of UTF-8.
MAX_QUERY = 1 << 20

#: Most results of one search; a whole scope is listed by get_all.
MAX_TOP_K = 1_000


def check_query(value: object) -> str:
    """*value* as a query; raises InvalidInput for another type, a blank one, NUL, lone surrogates and more than 1 MiB."""
    if not isinstance(value, str):
        raise InvalidInput(f"query must be a string, not {type(value).__name__}.")
    if not value.strip():
        raise InvalidInput("query is blank: say what to look for, or list memories with get_all().")
    try:
        checked = check_text("query", value)
    except InvalidMessage as error:
        raise InvalidInput(str(error)) from None
    if (size := len(checked.encode("utf-8"))) > MAX_QUERY:
        raise InvalidInput(f"query has {size} bytes, {MAX_QUERY} are allowed: ask a shorter question.")
    return checked


def check_top_k(value: object) -> int:
    """*value* as a number of results, 0 to 1000; raises InvalidInput."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"top_k must be a whole number, not {type(value).__name__}.")
    if not 0 <= value <= MAX_TOP_K:
        raise InvalidInput(f"top_k must lie between 0 and {MAX_TOP_K}, not {_shown(value)}. To list a whole scope use get_all().")
    return value


def check_limit(value: object) -> int:
    """*value* as a number of listed memories, 0 or more; raises InvalidInput."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"top_k must be a whole number, not {type(value).__name__}.")
    if value < 0:
        raise InvalidInput(f"top_k must be 0 or more, not {_shown(value)}.")
    return min(value, 1 << 40)  # as good as all, and a number that both databases take


def check_threshold(value: object) -> float:
    """*value* as the least score of a result, 0 to 1; raises InvalidInput."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"threshold must be a number, not {type(value).__name__}.")
    if isinstance(value, float) and math.isnan(value):
        raise InvalidInput("threshold must be a number between 0 and 1, not NaN.")
    if not 0 <= value <= 1:
        raise InvalidInput(f"threshold must lie between 0 and 1, as scores do; it is {_shown(value)}.")
    return float(value)


def check_rerank_k(value: object, *, rerank: bool, top_k: int) -> int:
    """The number of candidates that a reranker sees, 0 without *rerank*; by default four times *top_k*, at least 40, at most 200.

    Raises InvalidInput for no whole number, fewer than *top_k*, more than 200, and where nothing is reranked.
    """
    if value is None:
        return min(max(4 * top_k, 40), MOST_DOCUMENTS) if rerank else 0
    if not rerank:
        raise InvalidInput("rerank_k says how many candidates are reranked: it needs rerank=True.")
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"rerank_k must be a whole number, not {type(value).__name__}.")
    least = max(1, min(top_k, MOST_DOCUMENTS))
    if not least <= value <= MOST_DOCUMENTS:
        raise InvalidInput(f"rerank_k must lie between {least} (top_k) and {MOST_DOCUMENTS}, not {_shown(value)}.")
    return value


def check_max_tokens(value: object) -> int | None:
    """*value* as the most tokens of all results, 1 or more, or None; raises InvalidInput."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"max_tokens must be a whole number, not {type(value).__name__}.")
    if value < 1:
        raise InvalidInput(f"max_tokens must be 1 or more, not {_shown(value)}.")
    return value


def check_as_of(value: object) -> datetime | None:
    """*value* as a time to look back from; raises InvalidDate for another type and for a time without a zone."""
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidDate(f"as_of must be an aware datetime, not {type(value).__name__}.")
    if value.tzinfo is None:
        raise InvalidDate("as_of must be an aware datetime: give it a time zone.")
    return value


def _shown(value: float) -> str:
    """A number in a message; Python refuses to write out very long ones."""
    return str(value) if not isinstance(value, int) or abs(value) < 10**12 else "a number of more than 12 digits"
