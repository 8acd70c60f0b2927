"""Turns for extractors, built in one line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from memline.contracts.fact import Fact
from memline.contracts.turn import Message
from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.rules import RuleExtractor

SAID_AT = datetime(2026, 5, 1, 9, 30, tzinfo=UTC)


@pytest.fixture(scope="session")
def request_of() -> Callable[..., Request]:
    """request_of("text") or request_of(Message(…), Message(…), known=…): a request."""

    def build(*messages: str | Message, **fields: object) -> Request:
        turn = tuple(Message("user", message) if isinstance(message, str) else message for message in messages)
        return Request(turn, **{"said_at": SAID_AT, **fields})  # type: ignore[arg-type]

    return build


@pytest.fixture(scope="session")
def extract(request_of: Callable[..., Request]) -> Callable[..., list[Fact]]:
    """The facts that the rules find in messages."""

    def run(*messages: str | Message) -> list[Fact]:
        extractor = RuleExtractor()
        request = request_of(*messages)
        return list(extractor.read(extractor.ask(request), request))

    return run


@pytest.fixture(scope="session")
def texts(extract: Callable[..., list[Fact]]) -> Callable[..., list[str]]:
    """Their texts."""

    def run(*messages: str | Message) -> list[str]:
        return [fact.text for fact in extract(*messages)]

    return run
