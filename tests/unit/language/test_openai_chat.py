"""The chat model behind an OpenAI-compatible server, over real HTTP."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from memline.contracts.errors import ProviderRefused, ProviderUnavailable
from memline.language.chat.openai import OpenAIChat, ReplyForm
from memline.language.ports import ChatModel, ChatReply
from memline.language.usage import Use, metered
from tests.unit.language.server import Reply, Server, error, serving

SCHEMA = {"type": "object", "properties": {"facts": {"type": "array"}}, "required": ["facts"], "additionalProperties": False}
ASK = [{"role": "system", "content": "find facts"}, {"role": "user", "content": "I moved to Lisbon"}]


def completion(text: str | None, finish: str | None = "stop", **message: Any) -> Reply:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    usage = {"prompt_tokens": 21, "completion_tokens": 4, "total_tokens": 25}
    return Reply({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage})


@contextmanager
def chatting(answer: Callable[[str, dict[str, Any]], Reply], model: str = "gpt-5-mini") -> Iterator[tuple[OpenAIChat, Server]]:
    with serving(answer) as server:
        chat = OpenAIChat(model, "key", server.base_url)
        try:
            yield chat, server
        finally:
            chat.close()


def form_of(body: dict[str, Any]) -> str:
    return str(body.get("response_format", {}).get("type", "text"))


def test_the_reply_has_its_text_its_tokens_and_how_it_ended() -> None:
    with chatting(lambda path, body: completion('{"facts": []}', "length")) as (chat, server):
        port: ChatModel = chat
        assert port.complete(ASK, schema=SCHEMA) == ChatReply('{"facts": []}', 21, 4, "length")
        assert port.model == "gpt-5-mini"
        path, body = server.requests[0]
    assert path == "/v1/chat/completions"
    assert body["messages"] == ASK
    assert body["response_format"] == {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True}}


def test_without_a_schema_no_form_is_asked_for() -> None:
    with chatting(lambda path, body: completion("hello")) as (chat, server):
        assert chat.complete(ASK).text == "hello"
        assert set(server.requests[0][1]) == {"model", "messages"}


@pytest.mark.parametrize(
    ("model", "temperature"),
    [("gpt-5-mini", None), ("openai/gpt-5", None), ("o3-mini", None), ("gpt-4.1-mini", 0), ("qwen3:8b", 0), ("my-o1", 0)],
)
def test_a_temperature_is_sent_where_the_model_takes_one(model: str, temperature: int | None) -> None:
    with chatting(lambda path, body: completion("{}"), model) as (chat, server):
        chat.complete(ASK, schema=SCHEMA)
        assert server.requests[0][1].get("temperature") == temperature


@pytest.mark.parametrize(
    ("taken", "asked", "form"),
    [
        ({"json_object", "text"}, ["json_schema", "json_object"], ReplyForm.OBJECT),
        ({"text"}, ["json_schema", "json_object", "text"], ReplyForm.TEXT),
    ],
)
def test_a_server_that_does_not_take_the_form_is_asked_in_the_next_and_that_is_remembered(
    taken: set[str], asked: list[str], form: ReplyForm, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(path: str, body: dict[str, Any]) -> Reply:
        if form_of(body) not in taken:
            return error(400, f"This response_format type is unavailable now: {form_of(body)}")
        return completion('{"facts": []}')

    with chatting(answer) as (chat, server), caplog.at_level(logging.WARNING):
        assert chat.complete(ASK, schema=SCHEMA).text == '{"facts": []}'
        assert [form_of(body) for _, body in server.requests] == asked
        last = server.requests[-1][1]["messages"]
        assert [message["role"] for message in last] == [message["role"] for message in ASK]  # no system message but the first
        assert last[1:] == ASK[1:]
        rules = last[0]["content"].removeprefix(ASK[0]["content"])
        assert '"facts"' in rules and "JSON" in rules
        chat.complete(ASK, schema=SCHEMA)
        assert [form_of(body) for _, body in server.requests] == [*asked, asked[-1]]
        assert chat.form is form
    assert len(caplog.records) == 1 and "Lisbon" not in caplog.text


@pytest.mark.parametrize(
    "reply", [error(422, "unknown field", param="response_format"), error(400, "Only 'text' and 'json_schema' of json_schema")]
)
def test_a_refusal_of_the_form_is_known_by_its_field_or_by_its_words(reply: Reply) -> None:
    with chatting(lambda path, body: reply if form_of(body) == "json_schema" else completion("{}")) as (chat, _):
        chat.complete(ASK, schema=SCHEMA)
        assert chat.form is ReplyForm.OBJECT


def test_another_400_is_refused_at_once_and_changes_nothing() -> None:
    with chatting(lambda path, body: error(400, "context too long: I moved to Lisbon", code="context_length_exceeded")) as (chat, server):
        with pytest.raises(ProviderRefused, match=r"HTTP 400 \(context_length_exceeded\)") as caught:
            chat.complete(ASK, schema=SCHEMA)
        assert "Lisbon" not in str(caught.value)
        assert len(server.requests) == 1 and chat.form is ReplyForm.SCHEMA


def test_a_server_that_refuses_every_form_is_refused_and_none_is_remembered() -> None:
    with chatting(lambda path, body: error(400, "no response_format, ever")) as (chat, server):
        with pytest.raises(ProviderRefused):
            chat.complete(ASK, schema=SCHEMA)
        assert len(server.requests) == 3 and chat.form is ReplyForm.SCHEMA


def test_a_server_that_goes_away_between_two_forms_is_unavailable() -> None:
    with chatting(lambda path, body: error(400, "response_format") if form_of(body) == "json_schema" else error(503)) as (chat, _):
        with pytest.raises(ProviderUnavailable):
            chat.complete(ASK, schema=SCHEMA)
        assert chat.form is ReplyForm.SCHEMA


@pytest.mark.parametrize("text", ['```json\n{"facts": []}\n```', '\n```\n{"facts": []}\n```\n', '{"facts": []}'])
def test_a_plain_reply_loses_the_fence_around_its_json(text: str) -> None:
    with chatting(lambda path, body: completion(text) if form_of(body) == "text" else error(400, "response_format")) as (chat, _):
        assert chat.complete(ASK, schema=SCHEMA).text == '{"facts": []}'


def test_a_refusal_of_the_model_is_an_empty_reply_that_says_so() -> None:
    with chatting(lambda path, body: completion(None, "stop", refusal="I can't help with that")) as (chat, _):
        assert chat.complete(ASK, schema=SCHEMA) == ChatReply("", 21, 4, "refusal")


def test_a_reply_without_usage_or_reason_has_the_usual_ones() -> None:
    reply = completion("hello", None)
    del reply.body["usage"]
    with chatting(lambda path, body: reply) as (chat, _):
        assert chat.complete(ASK) == ChatReply("hello", 0, 0, "stop")


@pytest.mark.parametrize(
    ("body", "error_type"),
    [
        ({"choices": []}, ProviderUnavailable),
        ({"choices": [{"index": 0}]}, ProviderUnavailable),
        ({"choices": None}, ProviderRefused),
        ({"error": "x"}, ProviderRefused),
        ([], ProviderRefused),
    ],
)
def test_an_answer_that_is_no_completion_is_an_error_of_the_provider(body: Any, error_type: type[Exception]) -> None:
    with chatting(lambda path, _: Reply(body)) as (chat, _), pytest.raises(error_type):
        chat.complete(ASK, schema=SCHEMA)


@pytest.mark.parametrize("choices", [[], [{"index": 0}]])
def test_what_an_answer_without_a_reply_cost_is_told_where_the_server_says_it(choices: list[Any]) -> None:
    usage = {"prompt_tokens": 21, "prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens": 4}
    with chatting(lambda path, _: Reply({"choices": choices, "usage": usage})) as (chat, _), metered() as uses:
        with pytest.raises(ProviderUnavailable):
            chat.complete(ASK, schema=SCHEMA)
        assert uses == [Use("gpt-5-mini", 1, 21, 8, 4)]


def test_a_limit_of_the_server_hands_on_its_wait() -> None:
    with chatting(lambda path, body: error(429, retry_after="3")) as (chat, server):
        with pytest.raises(ProviderUnavailable) as caught:
            chat.complete(ASK, schema=SCHEMA)
        assert caught.value.retry_after is not None and 3 <= caught.value.retry_after <= 6  # spread
        assert len(server.requests) == 1
