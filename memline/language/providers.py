"""OpenAI-compatible servers: one way to make a client, and one way to tell their errors.

An error says the server's host, the status and the server's error code. It never repeats the server's message, which may quote the
text that was sent, nor the key.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from memline.contracts.errors import MissingPackage, ProviderRefused, ProviderUnavailable

if TYPE_CHECKING:
    import openai

__all__ = ["host_of", "make_client", "provider_errors", "retry_after"]

_HINTS = {
    400: "the request does not fit this model: check model and dimension",
    401: "check the API key",
    403: "the key may not use this model: check key and model",
    404: "check the model's name and the base URL (it usually ends in /v1)",
}
#: Statuses under 500 that say "later" rather than "no".
_PASSING = frozenset({408, 409, 425, 429})
_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def make_client(api_key: str, base_url: str | None, timeout: float) -> openai.OpenAI:
    """A client that never retries by itself (the job's attempts are the retries); imports openai, which takes most of a second.

    *timeout* is in seconds, for connecting and for each wait on the answer. A server without keys may be given an empty one.
    """
    try:
        import openai
    except ImportError as error:
        raise MissingPackage("This setting needs the package openai: install memline[openai].") from error
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
    except openai.APITimeoutError:
        raise ProviderUnavailable(f"{where} did not answer in time: it is tried again later.") from None
    except openai.APIConnectionError as error:
        reason = type(error.__cause__).__name__ if error.__cause__ else "connection error"
        raise ProviderUnavailable(f"{where} can't be reached ({reason}): check that it runs and the base URL.") from None
    except openai.APIStatusError as error:
        status = error.status_code
        shown = f"{where} answered HTTP {status}{_code_of(error)}"
        if status in _PASSING or status >= 500:
            wait = retry_after(error.response.headers)
            later = "it is tried again later" if wait is None else f"it asks to wait {wait:g} s"
            raise ProviderUnavailable(f"{shown}: {later}.", retry_after=wait) from None
        raise ProviderRefused(f"{shown}: {_HINTS.get(status, 'the same request will be refused again')}.") from None
    except (openai.APIError, json.JSONDecodeError, UnicodeDecodeError) as error:  # a broken answer
        raise ProviderUnavailable(f"{where} sent an answer that can't be read ({type(error).__name__}).") from None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date against the server's own `date`."""
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    raw = headers.get("retry-after")
    seconds = _seconds(raw)
    if seconds is not None or raw is None:
        return seconds
    try:
        wait = (parsedate_to_datetime(raw) - parsedate_to_datetime(headers["date"])).total_seconds()
    except (KeyError, TypeError, ValueError):
        return None
    return max(0.0, wait)


def _seconds(raw: str | None) -> float | None:
    try:
        seconds = float(raw) if raw is not None else math.nan
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _code_of(error: openai.APIStatusError) -> str:
    code: Any = error.code
    return f" ({code})" if isinstance(code, str) and _CODE.fullmatch(code) else ""
