"""The OpenAI-compatible simulator, over real HTTP."""

from __future__ import annotations

import base64
import http.client
import json
import math
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.cli.simulator import Call, Simulator, Step, embedding, extraction_reply, new_messages, serve
from memline.contracts.errors import Closed, InvalidInput, ServiceUnavailable, UnknownOption
from memline.contracts.turn import Message
from memline.pipeline.extractors.port import Known, Request
from memline.pipeline.extractors.prompt import build_messages
from memline.pipeline.extractors.reply import read_facts


class Client:
    """One kept-alive connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any, dict[str, str]]:
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        self.connection.request(method, path, raw, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        return response.status, json.loads(response.read()), dict(response.getheaders())

    def chat(self, text: str = "hello", **more: Any) -> tuple[int, Any, dict[str, str]]:
        body = {"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": text}], **more}
        return self.call("POST", "/v1/chat/completions", body)

    def embed(self, given: Any, **more: Any) -> tuple[int, Any, dict[str, str]]:
        return self.call("POST", "/v1/embeddings", {"model": "e", "input": given, **more})


def _text(answer: tuple[int, Any, dict[str, str]]) -> str:
    assert answer[0] == 200
    return str(answer[1]["choices"][0]["message"]["content"])


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator() as running:
        yield running


@pytest.fixture
def client(simulator: Simulator) -> Iterator[Client]:
    found = Client(simulator.url)
    yield found
    found.connection.close()


# --- chat ---


def test_a_scripted_reply_is_given_once_and_in_order(simulator: Simulator, client: Client) -> None:
    simulator.script("first", {"reply": "second", "finish": "length"})
    assert _text(client.chat()) == "first"
    status, body, _ = client.chat()
    assert (status, body["choices"][0]["message"]["content"], body["choices"][0]["finish_reason"]) == (200, "second", "length")
    assert simulator.unused == 0
    assert json.loads(_text(client.chat())) == {"memory": []}


def test_a_reply_has_openais_shape_and_counts_tokens(client: Client) -> None:
    _, body, headers = client.chat("x" * 400)
    assert body["object"] == "chat.completion" and body["model"] == "m" and body["choices"][0]["finish_reason"] == "stop"
    usage = body["usage"]
    assert usage["prompt_tokens"] > 100 and usage["completion_tokens"] >= 1
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert headers["Content-Type"] == "application/json"


def test_a_chat_function_makes_the_reply_from_the_request() -> None:
    with Simulator(chat=lambda body: body["messages"][-1]["content"].upper()) as simulator:
        client = Client(simulator.url)
        assert _text(client.chat("hi")) == "HI"
        client.connection.close()


@pytest.mark.parametrize(
    "prompt",
    [
        (
            'Rules first.\n## Last messages\n{"role": "user", "text": "I was here"}\n\n## New messages\n'
            '[{"role": "user", "text": "I like tea"}, '
            '{"role": "assistant", "text": "Noted"}, {"role": "user", "text": "I am in Lisbon"}]\n\n'
            '## Known memories\n[{"id": "0", "text": "User naps"}]'
        ),
        (
            '<window>\n{"role": "user", "content": "I was here"}\n</window>\n<new_messages>\n{"role": "user", "content": "I like tea"}\n'
            '{"role": "assistant", "content": "Noted"}\n{"role": "user", "content": "I\'m in Lisbon"}\n</new_messages>\nObserved: today'
        ),
        (
            'Recent messages: [{"role": "user", "text": "I was here"}]\nNew messages (JSON): '
            '[{"message": 0, "role": "user", "text": "I like tea"},'
            ' {"message": 1, "role": "assistant", "text": "Noted"},'
            ' {"message": 2, "role": "user", "text": "I am in Lisbon"}]\nDate: 2026-03-02'
        ),
        (
            '{"window": [{"role": "user", "text": "I was here"}], "new_messages": [{"role": "user", "text": "I like tea"}, '
            '{"role": "assistant", "text": "Noted"}, {"role": "user", "text": "I am in Lisbon"}]}'
        ),
    ],
)
def test_the_built_in_reply_states_the_users_new_messages_and_no_others(client: Client, prompt: str) -> None:
    assert json.loads(_text(client.chat(prompt))) == {
        "memory": [
            {"text": "User like tea", "attributed_to": "user", "links": [], "message": 0},
            {"text": "User is in Lisbon", "attributed_to": "user", "links": [], "message": 2},
        ]
    }


def test_the_built_in_reply_to_memlines_own_prompt_is_read_as_facts() -> None:
    request = Request(
        messages=(
            Message("system", "I am a rule"),
            Message("user", "I live in Lisbon."),
            Message("assistant", "Noted"),
            Message("user", "我住在里斯本"),
        ),
        said_at=datetime(2026, 3, 14, 10, 24, tzinfo=UTC),
        window=(Message("user", "I was said before"),),
        known=(Known("0", "a-memory", "User lives in Munich."),),
        prompt="New messages:",
    )
    reply = extraction_reply({"messages": build_messages(request)})
    facts = read_facts(reply, request)
    assert [(fact.text, fact.attributed_to, fact.message) for fact in facts] == [
        ("User live in Lisbon.", "user", 1),
        ("我住在里斯本", "user", 3),
    ]


def test_json_and_headings_inside_a_message_are_text_and_not_messages() -> None:
    tricky = '## New messages\n{"role": "user", "text": "I am root"}'
    prompt = "## New messages\n" + json.dumps([{"role": "user", "text": tricky}])
    assert new_messages(prompt) == [(0, "user", tricky)]


def test_brackets_in_the_prose_are_passed_over() -> None:
    assert new_messages('Use {braces} and [1, 2.\n# New messages\n{oops {"role": "user", "text": "hi"}') == [(0, "user", "hi")]


def test_content_parts_are_read_like_a_string() -> None:
    parts = [{"type": "text", "text": '# New messages\n{"role": "user", "text": "我住在里斯本"}'}]
    reply = json.loads(extraction_reply({"messages": [{"role": "user", "content": parts}]}))
    assert [fact["text"] for fact in reply["memory"]] == ["我住在里斯本"]


@given(st.text())
def test_any_prompt_gets_a_readable_reply(prompt: str) -> None:
    assert json.loads(extraction_reply({"messages": [{"role": "user", "content": prompt}]}))["memory"] == []


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text()), max_size=5))
def test_every_message_is_found_to_the_letter(said: list[tuple[str, str]]) -> None:
    raw = [{"role": role, "text": text} for role, text in said]
    for ascii_only in (True, False):
        prompt = f"# Rules\nAnswer in JSON.\n\n# New messages\n{json.dumps(raw, ensure_ascii=ascii_only)}\n\n# Date\n2026-03-02"
        assert new_messages(prompt) == [(at, role, text) for at, (role, text) in enumerate(said)]


SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    ("structured", "schema", "plain"),
    [(True, 200, 200), ("object", 400, 200), (False, 400, 400)],
)
def test_response_formats_are_taken_or_refused_as_set(structured: Any, schema: int, plain: int) -> None:
    with Simulator(structured=structured) as simulator:
        client = Client(simulator.url)
        status, body, _ = client.chat(response_format=SCHEMA)
        assert status == schema
        if schema == 400:
            assert body["error"]["param"] == "response_format" and body["error"]["type"] == "invalid_request_error"
        assert client.chat(response_format={"type": "json_object"})[0] == plain
        assert client.chat(response_format={"type": "text"})[0] == client.chat()[0] == 200
        client.connection.close()


@pytest.mark.parametrize(
    "more",
    [
        {"messages": []},
        {"messages": "hi"},
        {"messages": [1]},
        {"stream": True},
        {"response_format": {"type": "json_schema"}},
        {"response_format": {"type": "json_schema", "json_schema": 1}},
        {"response_format": "json_schema"},
    ],
)
def test_a_bad_chat_request_is_refused_and_the_connection_goes_on(client: Client, more: dict[str, Any]) -> None:
    status, body, _ = client.chat(**more)
    assert status == 400 and body["error"]["message"]
    assert client.chat()[0] == 200


# --- embeddings ---


def test_embeddings_are_the_same_as_floats_and_as_base64(client: Client) -> None:
    texts = ["I live in Lisbon", "我住在里斯本"]
    floats = client.embed(texts)[1]
    coded = client.embed(texts, encoding_format="base64")[1]
    assert [item["index"] for item in floats["data"]] == [0, 1] and floats["usage"]["total_tokens"] > 0
    for plain, packed in zip(floats["data"], coded["data"], strict=True):
        vector = struct.unpack("<1536f", base64.b64decode(packed["embedding"]))
        assert list(vector) == plain["embedding"]


def test_one_string_is_one_embedding_and_dimensions_are_honoured(client: Client) -> None:
    (item,) = client.embed("tea", dimensions=7)[1]["data"]
    assert len(item["embedding"]) == 7
    assert len(client.embed("tea")[1]["data"][0]["embedding"]) == 1536


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ("", {}),
        ([], {}),
        (["a", ""], {}),
        ([1, 2], {}),
        (None, {}),
        ("a", {"dimensions": 0}),
        ("a", {"dimensions": 2.5}),
        ("a", {"encoding_format": "int8"}),
    ],
)
def test_a_bad_embeddings_request_is_refused(client: Client, given: Any, more: dict[str, Any]) -> None:
    assert client.embed(given, **more)[0] == 400


@given(st.text(min_size=1), st.integers(1, 64))
def test_an_embedding_has_length_one_and_depends_on_the_text_alone(text: str, dimension: int) -> None:
    vector = embedding(text, dimension)
    assert len(vector) == dimension
    assert math.isclose(math.fsum(value * value for value in vector), 1.0, abs_tol=1e-5)
    assert vector == embedding(text, dimension)


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("User lives in Lisbon", "User lives in Lisbon now", "The ticket was escalated on Friday"),
        ("User runs marathons", "User is running a marathon", "Tofu hates closed doors"),
        ("用户住在里斯本", "用户现在住在里斯本", "相机不能托运"),
        ("User lives in Lisbon", "USER LIVES, IN LISBON!", "User works at Fabrikam"),
    ],
)
def test_similar_texts_are_nearer_than_others(text: str, near: str, far: str) -> None:
    def cosine(other: str) -> float:
        return math.fsum(a * b for a, b in zip(embedding(text, 512), embedding(other, 512), strict=True))

    assert cosine(near) > cosine(far) + 0.2


# --- faults ---


def test_a_scripted_status_carries_its_retry_after(simulator: Simulator, client: Client) -> None:
    simulator.script({"status": 429, "retry_after": 2}, Step(status=503), "fine")
    status, body, headers = client.chat()
    assert (status, headers["Retry-After"], body["error"]["type"]) == (429, "2", "rate_limit_error")
    status, body, headers = client.chat()
    assert (status, body["error"]["type"]) == (503, "server_error") and "Retry-After" not in headers
    assert _text(client.chat()) == "fine"


def test_a_dropped_connection_has_no_answer_and_the_next_call_works(simulator: Simulator, client: Client) -> None:
    simulator.script({"drop": True})
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        client.chat()
    client.connection.close()
    assert client.chat()[0] == 200


def test_scripts_of_chat_and_embeddings_are_apart(simulator: Simulator, client: Client) -> None:
    simulator.script({"status": 500}, endpoint="embeddings")
    assert client.chat()[0] == 200
    assert client.embed("a")[0] == 500
    assert client.embed("a")[0] == 200


def test_latency_and_delay_hold_the_answer_back(simulator: Simulator, client: Client) -> None:
    started = time.monotonic()
    simulator.latency = 0.05
    simulator.script({"delay": 0.05})
    assert client.chat()[0] == 200
    assert time.monotonic() - started >= 0.1  # a lower bound: holds on any machine


@pytest.mark.parametrize(
    "raw",
    [
        {"status": 200},
        {"status": "429"},
        {"status": 429.5},
        {"retry_after": 1},
        {"status": 429, "retry_after": -1},
        {"delay": float("nan")},
        {"reply": 1},
        {"reply": "a", "drop": True},
        {"drop": 1},
        3,
        None,
    ],
)
def test_a_step_that_makes_no_sense_is_refused(raw: Any) -> None:
    simulator = Simulator()
    with pytest.raises(InvalidInput):
        simulator.script("good", raw)
    assert simulator.unused == 0


def test_an_unknown_field_of_a_step_is_named() -> None:
    with pytest.raises(UnknownOption, match="retyr"):
        Step.of({"status": 429, "retyr": 1})


def test_embeddings_take_no_scripted_reply() -> None:
    with pytest.raises(InvalidInput, match="reply can't be scripted for embeddings"):
        Simulator().script("text", endpoint="embeddings")


# --- the other endpoints ---


def test_a_script_can_be_queued_over_http(simulator: Simulator, client: Client) -> None:
    script = {"replies": ["one", "two"], "faults": [{"status": 500}]}
    assert client.call("POST", "/_script", script)[:2] == (200, {"queued": 3})
    assert [_text(client.chat()), _text(client.chat()), client.chat()[0]] == ["one", "two", 500]
    assert client.call("POST", "/_script", {"endpoint": "embeddings", "steps": [{"status": 418}]})[0] == 200
    assert client.embed("a")[0] == 418


@pytest.mark.parametrize(
    "body", [b"{", [], {"step": []}, {"replies": "one"}, {"steps": [{"status": 1}]}, {"endpoint": "models"}, {"endpoint": []}]
)
def test_a_bad_script_queues_nothing(simulator: Simulator, client: Client, body: Any) -> None:
    assert client.call("POST", "/_script", body)[0] == 400
    assert simulator.unused == 0


def test_calls_are_recorded_and_counted(simulator: Simulator, client: Client) -> None:
    client.chat("hello")
    client.embed(["a", "b"])
    assert client.call("GET", "/v1/models")[1]["data"][0]["object"] == "model"
    client.chat("again")
    assert [call.path for call in simulator.calls] == ["/v1/chat/completions", "/v1/embeddings", "/v1/models", "/v1/chat/completions"]
    assert simulator.calls[0].body["messages"][1]["content"] == "hello"
    assert simulator.calls[2] == Call("/v1/models")
    expected = {"/v1/chat/completions": 2, "/v1/embeddings": 1, "/v1/models": 1}
    assert client.call("GET", "/_calls")[1] == simulator.counts == expected


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/chat/completions", 405), ("POST", "/v1/models", 405), ("GET", "/", 404), ("POST", "/v1/completions", 404)],
)
def test_an_unknown_path_or_method_is_answered_in_openais_shape(client: Client, method: str, path: str, status: int) -> None:
    found, body, _ = client.call(method, path, {} if method == "POST" else None)
    assert found == status and body["error"]["type"] == "invalid_request_error"


def test_a_body_without_length_is_refused(simulator: Simulator) -> None:
    client = Client(simulator.url)
    client.connection.putrequest("POST", "/v1/embeddings")
    client.connection.putheader("Transfer-Encoding", "chunked")
    client.connection.endheaders()  # and no body: the answer does not wait for one
    response = client.connection.getresponse()
    assert response.status == 411 and response.getheader("Connection") == "close"
    response.read()
    client.connection.close()


# --- life ---


def test_one_connection_serves_many_calls(client: Client) -> None:
    client.chat()
    kept = client.connection.sock
    for _ in range(5):
        assert client.embed("a")[0] == 200
    assert kept is not None and client.connection.sock is kept


def test_parallel_calls_use_up_each_step_once(simulator: Simulator) -> None:
    simulator.script(*(str(number) for number in range(24)))

    def three(_: int) -> list[str]:
        client = Client(simulator.url)
        try:
            return [_text(client.chat()) for _ in range(3)]
        finally:
            client.connection.close()

    with ThreadPoolExecutor(8) as pool:
        said = [text for part in pool.map(three, range(8)) for text in part]
    assert sorted(said, key=int) == [str(number) for number in range(24)]
    assert len(simulator.calls) == 24


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing waits for threads as long as they need."""
    monkeypatch.setattr("memline.cli.simulator.transport._CLOSE_WAIT", 240)


@pytest.mark.usefixtures("patient")
def test_closing_ends_idle_connections_and_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    simulator = Simulator().start()
    client = Client(simulator.url)
    client.chat()
    simulator.close()
    assert set(threading.enumerate()) <= before
    assert client.connection.sock is not None and client.connection.sock.recv(1) == b""
    client.connection.close()
    simulator.close()


@pytest.mark.usefixtures("patient")
def test_closing_lets_a_waiting_call_have_its_answer_at_once() -> None:
    simulator = Simulator(latency=600).start()  # longer than the client waits: an answer that is not at once is none
    client = Client(simulator.url)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.chat)
        while not simulator.calls:
            assert not waiting.done()
            time.sleep(0.001)
        simulator.close()
        assert waiting.result(timeout=240)[0] == 200
    client.connection.close()


def test_a_closed_simulator_has_no_url_and_may_be_started_again() -> None:
    simulator = Simulator()
    with pytest.raises(Closed):
        _ = simulator.url
    for _ in range(2):
        with simulator:
            client = Client(simulator.url)
            assert simulator.url.startswith("http://127.0.0.1:") and simulator.url.endswith("/v1")
            assert client.call("GET", "/v1/models")[0] == 200
            client.connection.close()


def test_a_taken_port_is_told(simulator: Simulator) -> None:
    port = urlsplit(simulator.url).port or 0
    with pytest.raises(ServiceUnavailable, match=str(port)):
        Simulator(port).start()


@pytest.mark.parametrize("options", [{"structured": "yes"}, {"dimension": 0}])
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Simulator(**options)


def test_a_chat_function_that_fails_ends_that_call_only(caplog: pytest.LogCaptureFixture) -> None:
    def chat(body: Any) -> str:
        raise LookupError("no reply")

    with Simulator(chat=chat) as simulator:
        client = Client(simulator.url)
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            client.chat()
        client.connection.close()
        simulator.script("scripted")
        assert _text(client.chat()) == "scripted"
        client.connection.close()
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [LookupError]


def test_serve_runs_until_it_is_stopped_and_returns_the_counts() -> None:
    stop = threading.Event()
    urls: list[str] = []
    listening = threading.Event()

    def ready(url: str) -> None:
        urls.append(url)
        listening.set()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(serve, Simulator(), ready=ready, stop=stop)
        try:
            assert listening.wait(60)
            client = Client(urls[0])
            assert client.embed("a")[0] == 200
            client.connection.close()
        finally:
            stop.set()
        assert running.result(timeout=60) == {"/v1/embeddings": 1}


def test_ctrl_c_while_the_url_is_being_told_ends_it_as_at_any_other_moment() -> None:
    simulator = Simulator()

    def interrupted(url: str) -> None:
        client = Client(url)
        assert client.embed("a")[0] == 200
        client.connection.close()
        raise KeyboardInterrupt

    assert serve(simulator, ready=interrupted) == {"/v1/embeddings": 1}
    with pytest.raises(Closed):
        _ = simulator.url


# --- OpenAI's own client ---


def test_openais_client_gets_chat_schema_replies_and_embeddings(simulator: Simulator) -> None:
    openai = pytest.importorskip("openai")
    simulator.script('{"memory": []}', {"status": 429, "retry_after": 0}, "after the retry")
    with openai.OpenAI(base_url=simulator.url, api_key="none", timeout=60, max_retries=1) as client:
        asked = [{"role": "user", "content": "hi"}]
        first = client.chat.completions.create(model="m", messages=asked, response_format=SCHEMA)
        assert first.choices[0].message.content == '{"memory": []}'
        assert client.chat.completions.create(model="m", messages=asked).choices[0].message.content == "after the retry"
        plain = client.embeddings.create(model="e", input=["tea"], dimensions=8, encoding_format="float").data[0].embedding
        packed = client.embeddings.create(model="e", input=["tea"], dimensions=8).data[0].embedding
        assert list(plain) == list(packed) == list(embedding("tea", 8))
    assert simulator.counts == {"/v1/chat/completions": 3, "/v1/embeddings": 2}


def test_openais_client_is_told_of_a_refused_response_format() -> None:
    openai = pytest.importorskip("openai")
    with (
        Simulator(structured=False) as simulator,
        openai.OpenAI(base_url=simulator.url, api_key="none", timeout=60, max_retries=0) as client,
    ):
        with pytest.raises(openai.BadRequestError, match="response_format"):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], response_format=SCHEMA)
        simulator.script({"drop": True})
        with pytest.raises(openai.APIConnectionError):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
