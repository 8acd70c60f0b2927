"""How an OpenAI-compatible server's errors are told."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from memline.contracts.errors import ProviderError, ProviderRefused, ProviderUnavailable
from memline.language.embedders.openai import OpenAIEmbedder
from memline.language.providers import host_of, retry_after
from tests.unit.language.server import Reply, error, serving

SECRET_TEXT = "my passport number is X1234567"
SECRET_KEY = "sk-very-secret"


def raised(reply: Reply, timeout: float = 120.0) -> ProviderError:
    with serving(lambda path, body: reply) as server:
        embedder = OpenAIEmbedder("a-model", 3, SECRET_KEY, server.base_url, timeout=timeout)
        try:
            with pytest.raises(ProviderError) as caught:
                embedder.embed([SECRET_TEXT])
        finally:
            if reply.wait_for is not None:
                reply.wait_for.set()
            embedder.close()
        deadline = time.monotonic() + 300
        while not server.requests:  # the server may come to read it after its client has given up
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert len(server.requests) == 1, "a call is never repeated by the client"
        said = str(caught.value)
        assert SECRET_TEXT not in said and "X1234567" not in said and SECRET_KEY not in said
        assert "a-model" in said
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        return caught.value


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_what_will_be_refused_again_is_refused(status: int) -> None:
    found = raised(error(status, f"bad input: {SECRET_TEXT} {SECRET_KEY}", code="invalid_thing"))
    assert isinstance(found, ProviderRefused)
    assert f"HTTP {status} (invalid_thing)" in str(found)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_what_may_pass_is_unavailable(status: int) -> None:
    found = raised(error(status, f"while reading {SECRET_TEXT}"))
    assert isinstance(found, ProviderUnavailable)
    assert f"HTTP {status}" in str(found) and found.retry_after is None


def test_the_wait_that_a_server_asks_for_is_handed_on() -> None:
    found = raised(error(429, retry_after="17"))
    assert isinstance(found, ProviderUnavailable) and found.cause == "limit"
    assert found.retry_after is not None and 17 <= found.retry_after <= 27  # spread, so that those who wait do not come together


def test_a_server_that_does_not_answer_in_time_is_unavailable() -> None:
    found = raised(Reply({}, wait_for=threading.Event()), timeout=0.2)
    assert isinstance(found, ProviderUnavailable) and "in time" in str(found)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with serving(lambda path, body: Reply({})) as server:
        gone = server.base_url
    embedder = OpenAIEmbedder("a-model", 3, SECRET_KEY, gone)
    with pytest.raises(ProviderUnavailable, match="can't be reached"):
        embedder.embed(["text"])
    embedder.close()


@pytest.mark.parametrize("reply", [Reply(b'{"data": [', cut=True), Reply(b'{"data": ['), Reply(b"\xff\xfe{")], ids=["cut", "half", "bytes"])
def test_a_broken_answer_is_unavailable(reply: Reply) -> None:
    assert isinstance(raised(reply), ProviderUnavailable)


def test_a_page_instead_of_an_answer_is_refused() -> None:
    assert isinstance(raised(Reply(b"<html>login</html>", content_type="text/html")), ProviderRefused)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "9", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": "Fri, 01 May 2026 10:00:30 GMT", "date": "Fri, 01 May 2026 10:00:00 GMT"}, 30),
        ({"retry-after": "Fri, 01 May 2026 10:00:30 GMT"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "7200"}, 3600),
        ({"retry-after": "1e300"}, 3600),
        ({"retry-after-ms": "1e300"}, 3600),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT", "date": "Fri, 01 May 2026 10:00:00 GMT"}, 3600),
        ({"retry-after": "Fri, 01 May 2026 09:00:00 GMT", "date": "Fri, 01 May 2026 10:00:00 GMT"}, 0),
    ],
)
def test_the_wait_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_of_a_base_url_only_the_host_is_shown() -> None:
    assert host_of("https://user:secret@gate.example.com:8443/v1?key=secret") == "gate.example.com:8443"
    assert host_of(None) == "api.openai.com"


def test_what_openai_looks_for_is_imported_whole_before_its_first_call() -> None:
    # a spaCy that is being loaded in another thread imports httpx, too, and a call must not meet it half made
    code = "import sys; from memline.language.providers import make_client; make_client('k', None, 1)"
    code += "; print('Timeout' in vars(sys.modules['httpx']))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
