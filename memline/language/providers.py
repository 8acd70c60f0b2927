"""OpenAI-compatible servers: one way to make a client, and one way to tell their errors.

An error says the server's host, the status and the server's error code. It never repeats the server's message, which may quote the
text that was sent, nor the key.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from memline.contracts.errors import MissingPackage, ProviderRefused, ProviderUnavailable

if TYPE_CHECKING:
    import openai

__all__ = ["estimated_tokens", "host_of", "make_client", "provider_errors", "retry_after", "tokens_of"]

_HINTS = {
    400: "the request does not fit this model: check model and dimension",
    401: "check the API key",
    403: "the key may not use this model: check key and model",
    404: "check the model's name and the base URL (it usually ends in /v1)",
}
#: Statuses under 500 that say "later" rather than "no".
_PASSING = frozenset({408, 409, 425, 429})
#: Statuses that speak of what was sent: a part of it may be taken.
_OF_CONTENT = frozenset({400, 413, 422})
#: How httpx calls it that no request reached the server.
_NOT_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError"})
#: Seconds that a server may ask to wait.
_LONGEST_WAIT = 3600.0
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def make_client(api_key: str, base_url: str | None, timeout: float) -> openai.OpenAI:
    """A client that never retries by itself (`calls.Link` does); imports openai, which takes most of a second.

    *timeout* is in seconds, for connecting and for each wait on the answer. A server without keys may be given an empty one.
    """
    try:
        import openai
    except ImportError as error:
        raise MissingPackage("This setting needs the package openai: install memline[openai].") from error
    # Each call of openai looks into the module httpx, where somebody has imported it. Another thread that is in the middle of that (spaCy's
    # packages do) would make the call an AttributeError; so it is imported here, whole, before the first call.
    with suppress(ImportError):
        import_module("httpx")
    return openai.OpenAI(api_key=api_key or "none", base_url=base_url, timeout=timeout, max_retries=0)


def host_of(base_url: str | None) -> str:
    """Host and port of *base_url*, without what may be secret in it (user, path, query)."""
    parts = urlsplit(base_url or "https://api.openai.com/v1")
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


@contextmanager
def provider_errors(what: str, base_url: str | None) -> Iterator[None]:
    """Turns what openai's client raises inside into ProviderUnavailable or ProviderRefused; *what* names the model."""
    import openai

    where = f"{what} at {host_of(base_url)}"
    try:
        yield
    except openai.APITimeoutError as error:
        lost = not _never_sent(error)
        raise ProviderUnavailable(f"{where} did not answer in time: it is tried again later.", answer_lost=lost) from None
    except openai.APIConnectionError as error:
        reason = type(error.__cause__).__name__ if error.__cause__ else "connection error"
        told = f"{where} can't be reached ({reason}): check that it runs and the base URL."
        raise ProviderUnavailable(told, answer_lost=not _never_sent(error)) from None
    except openai.APIStatusError as error:
        status = error.status_code
        shown = f"{where} answered HTTP {status}{_code_of(error)}"
        if status in _PASSING or status >= 500:
            wait = retry_after(error.response.headers)
            later = "it is tried again later" if wait is None else f"it asks to wait {wait:g} s"
            cause: Literal["outage", "limit"] = "outage" if status >= 500 or status == 408 else "limit"
            raise ProviderUnavailable(f"{shown}: {later}.", retry_after=wait, cause=cause) from None
        told = f"{shown}: {_HINTS.get(status, 'the same request will be refused again')}."
        raise ProviderRefused(told, of_content=status in _OF_CONTENT) from None
    except (openai.APIError, json.JSONDecodeError, UnicodeDecodeError) as error:  # a broken answer
        told = f"{where} sent an answer that can't be read ({type(error).__name__})."
        raise ProviderUnavailable(told, cause="answer", answer_lost=True) from None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date against the server's own `date`.

    At most an hour: all workers follow it, and one call an hour finds out whether it is true.
    """
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return min(_LONGEST_WAIT, milliseconds / 1000)
    raw = headers.get("retry-after")
    seconds = _seconds(raw)
    if seconds is not None or raw is None:
        return None if seconds is None else min(_LONGEST_WAIT, seconds)
    try:
        wait = (parsedate_to_datetime(raw) - parsedate_to_datetime(headers["date"])).total_seconds()
    except (KeyError, TypeError, ValueError):
        return None
    return min(_LONGEST_WAIT, max(0.0, wait))


def tokens_of(answer: Any) -> tuple[int, int, int]:
    """Tokens in, of them cached, and out, as the `usage` of an answer tells them; 0 for what it does not tell, or tells wrongly."""
    usage = getattr(answer, "usage", None)
    asked = _count(getattr(usage, "prompt_tokens", None))
    cached = _count(getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None))
    return asked, min(asked, cached), _count(getattr(usage, "completion_tokens", None))


def estimated_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    """About how many tokens a chat call will use, its reply among them: four bytes each, an image a thousand, and 500 for the reply."""
    number = 500
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else [content]:
            text = part.get("text") if isinstance(part, Mapping) else part
            number += len(text.encode("utf-8", "replace")) // 4 if isinstance(text, str) else 1000
    return number


def _count(value: Any) -> int:
    # the client does not check the answer: servers send null, and some a float
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def _never_sent(error: BaseException) -> bool:
    return type(error.__cause__).__name__ in _NOT_SENT


def _seconds(raw: str | None) -> float | None:
    try:
        seconds = float(raw) if raw is not None else math.nan
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _code_of(error: openai.APIStatusError) -> str:
    code: Any = error.code
    return f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""
