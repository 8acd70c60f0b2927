"""A reranker behind HTTP, in the shape that Cohere, Jina and vLLM share: `POST {model, query, documents, top_n}`.

The client is httpx2, which the openai client brings along: it keeps connections open, so that a search does not pay for a TLS handshake,
and checks certificates against the system's own store; that is more than a few lines around `http.client` would do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from memline.contracts.errors import ConfigurationError, MissingPackage, ProviderRefused, ProviderUnavailable
from memline.language.lazy import Lazy
from memline.language.providers import host_of, retry_after
from memline.search.rerank.port import checked_scores

if TYPE_CHECKING:
    import httpx2

__all__ = ["HttpReranker"]

#: Bytes of an answer that are read; some servers send every document back.
MOST_BYTES = 8 * 1024 * 1024

_HINTS = {
    400: "check MEMLINE_RERANK_MODEL",
    401: "check MEMLINE_RERANK_API_KEY",
    403: "the key may not use this model: check MEMLINE_RERANK_API_KEY and MEMLINE_RERANK_MODEL",
    404: "check MEMLINE_RERANK_URL, which is the whole URL, such as https://api.example.com/v1/rerank",
    422: "check MEMLINE_RERANK_MODEL",
}
#: Statuses under 500 that say "later" rather than "no".
_PASSING = frozenset({408, 409, 425, 429})


class HttpReranker:
    """Scores documents by a request to *url* (`port.Reranker`). Thread-safe; a forked child opens its own connections.

    *url* is the whole one, `https://…/rerank`. *model* None sends none, for servers that have one only. *api_key* goes as a bearer token;
    without one a user and a password in *url* go as basic authentication. Raises ConfigurationError where one of them can't be sent.
    """

    def __init__(
        self, url: str, model: str | None = None, api_key: str | None = None, *, timer: Callable[[], float] = time.monotonic
    ) -> None:
        try:
            parts = urlsplit(url)
            known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        except ValueError:  # a port that is no number
            known = False
        if not known:
            raise ConfigurationError("MEMLINE_RERANK_URL must be a whole URL, such as https://api.example.com/v1/rerank.")
        self._api_key = (api_key or "").strip() or None
        if self._api_key is not None and not (self._api_key.isascii() and self._api_key.isprintable()):
            raise ConfigurationError("MEMLINE_RERANK_API_KEY holds a character that no key has (a line break, no ASCII): correct it.")
        # httpx2 logs the URL of each request: what is secret may not stand in it
        self._login = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
        self._url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        self._model, self._timer = model, timer
        self._client: Lazy[httpx2.Client] = Lazy(self._open, per_process=True)

    @property
    def name(self) -> str:
        return f"http/{self._model or host_of(self._url)}"

    def rerank(self, query: str, documents: Sequence[str], *, timeout: float) -> dict[int, float]:
        """See the port. *timeout* is for the whole request."""
        body: dict[str, Any] = {"query": query, "documents": list(documents), "top_n": len(documents)}
        if self._model is not None:
            body["model"] = self._model
        return self._read(self._post(body, timeout), len(documents))

    def close(self) -> None:
        """Closes the connections; the next `rerank` opens new ones."""
        client = self._client.drop()
        if client is not None:
            client.close()

    def _open(self) -> httpx2.Client:
        try:
            import httpx2
        except ImportError as error:
            raise MissingPackage("MEMLINE_RERANKER=http needs the package httpx2: install memline[rerank].") from error
        headers = {"authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        return httpx2.Client(headers=headers, auth=None if self._api_key else self._login, follow_redirects=False)

    def _post(self, body: dict[str, Any], timeout: float) -> bytes:
        client = self._client.get()
        import httpx2

        where = f"The reranker at {host_of(self._url)}"
        until = self._timer() + timeout
        try:
            with client.stream("POST", self._url, json=body, timeout=max(timeout, 0.001)) as answer:
                if answer.status_code != 200:
                    raise self._refusal(where, answer.status_code, answer.headers)
                read = bytearray()
                for chunk in answer.iter_bytes():
                    read += chunk
                    if len(read) > MOST_BYTES:
                        raise ProviderRefused(f"{where} sent more than {MOST_BYTES} bytes.")
                    if self._timer() > until:
                        raise ProviderUnavailable(f"{where} did not finish its answer in time.")
                return bytes(read)
        except httpx2.TimeoutException:
            raise ProviderUnavailable(f"{where} did not answer in time.") from None
        except httpx2.TransportError as error:
            raise ProviderUnavailable(f"{where} can't be reached ({type(error).__name__}): check that it runs, and the URL.") from None
        except (httpx2.RequestError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise ProviderRefused(f"{where} sent an answer that can't be read ({type(error).__name__}).") from None

    def _refusal(self, where: str, status: int, headers: Any) -> ProviderUnavailable | ProviderRefused:
        # the body is not told: it may quote what was sent
        if status in _PASSING or status >= 500:
            return ProviderUnavailable(f"{where} answered HTTP {status}.", retry_after=retry_after(headers))
        return ProviderRefused(f"{where} answered HTTP {status}: {_HINTS.get(status, 'the same request will be refused again')}.")

    def _read(self, raw: bytes, documents: int) -> dict[int, float]:
        where = f"The reranker at {host_of(self._url)}"
        try:
            answer = json.loads(raw)
        except (ValueError, RecursionError):
            raise ProviderRefused(f"{where} sent {len(raw)} bytes that are no JSON.") from None
        results = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(results, list):
            raise ProviderRefused(f"{where} sent no list of results: is MEMLINE_RERANK_URL a /rerank of the Cohere shape?")
        found: dict[Any, Any] = {}
        for result in results:
            place = result.get("index") if isinstance(result, dict) else None
            if not isinstance(place, int) or place in found:
                raise ProviderRefused(f"{where} sent a result without an index, or one index twice.")
            found[place] = result.get("relevance_score")
        return checked_scores(found, documents)
