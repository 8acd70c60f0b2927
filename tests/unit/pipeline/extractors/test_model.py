"""The extractor over a chat model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from memline.contracts.errors import ProviderUnavailable, ReplyUnreadable
from memline.contracts.turn import Message
from memline.language.ports import ChatReply
from memline.pipeline.extractors.model import ModelExtractor
from memline.pipeline.extractors.port import Extractor, Request
from memline.pipeline.extractors.prompt import SCHEMA
from memline.pipeline.extractors.rules import RuleExtractor

RequestOf = Callable[..., Request]


class ScriptedChat:
    """Answers with what it was given, and remembers what it was asked."""

    def __init__(self, reply: ChatReply | Exception) -> None:
        self.reply = reply
        self.asked: list[tuple[Sequence[Mapping[str, str]], Mapping[str, Any] | None]] = []

    @property
    def model(self) -> str:
        return "scripted-1"

    def complete(self, messages: Sequence[Mapping[str, str]], *, schema: Mapping[str, Any] | None = None) -> ChatReply:
        self.asked.append((messages, schema))
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


def test_both_extractors_fit_the_port() -> None:
    extractors: list[Extractor] = [ModelExtractor(ScriptedChat(ChatReply(""))), RuleExtractor()]
    assert [(one.name, one.paid, one.wants_context) for one in extractors] == [
        ("scripted-1/prompt-3", True, True),
        ("rules-5", False, False),
    ]


def test_the_turn_is_asked_once_with_the_schema(request_of: RequestOf) -> None:
    chat = ScriptedChat(ChatReply('{"memory": [{"text": "User lives in Bonn", "attributed_to": "user", "links": [], "message": 0}]}'))
    extractor = ModelExtractor(chat)
    request = request_of("I live in Bonn")
    (fact,) = extractor.read(extractor.ask(request), request)
    assert (fact.text, fact.slot, fact.message) == ("User lives in Bonn", "user|live", 0)
    ((messages, schema),) = chat.asked
    assert schema is SCHEMA
    assert json.loads(messages[1]["content"])["messages"][0]["text"] == "I live in Bonn"


def test_a_reply_that_the_server_cut_is_returned_and_found_unreadable(request_of: RequestOf) -> None:
    extractor = ModelExtractor(ScriptedChat(ChatReply('{"memory": [{"text": "A"}, {"te', finish="length")))
    reply = extractor.ask(request_of("x"))
    with pytest.raises(ReplyUnreadable):
        extractor.read(reply, request_of("x"))


def test_a_turn_without_a_source_is_not_paid_for(request_of: RequestOf) -> None:
    chat = ScriptedChat(ChatReply("never asked"))
    extractor = ModelExtractor(chat)
    request = request_of(Message("system", "You are kind."), Message("user", "  "))
    assert extractor.read(extractor.ask(request), request) == []
    assert chat.asked == []


def test_the_reply_can_be_stored(request_of: RequestOf) -> None:
    reply = ModelExtractor(ScriptedChat(ChatReply("a\x00b\ud83dc\ud83d\ude00"))).ask(request_of("x"))
    assert reply == "a\ufffdb\ufffdc😀"


def test_what_the_chat_model_raises_is_raised(request_of: RequestOf) -> None:
    with pytest.raises(ProviderUnavailable):
        ModelExtractor(ScriptedChat(ProviderUnavailable(retry_after=2.0))).ask(request_of("x"))


@pytest.mark.parametrize("reply", ["", "null", "[]", '{"memory": 1}', '{"memory": [{"text": "a"}]}'])
def test_the_rules_refuse_a_reply_that_is_not_theirs(request_of: RequestOf, reply: str) -> None:
    with pytest.raises(ReplyUnreadable):
        RuleExtractor().read(reply, request_of("x"))
