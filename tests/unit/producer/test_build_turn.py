"""What a caller gives becomes a checked turn, or an error that says what is wrong."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from memline.contracts.errors import InvalidDate, InvalidInput, InvalidMessage, InvalidScopeId, TurnTooLarge
from memline.contracts.scope import Scope
from memline.contracts.turn import Message, Turn
from memline.producer import build_turn

ANN = Scope.of("default", user_id="ann")
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Counter:
    def __init__(self) -> None:
        self.made = 0

    def new(self) -> str:
        self.made += 1
        return f"id-{self.made}"

    def now(self) -> datetime:
        return NOON


def built(messages: object = "I moved to Lyon.", **options: Any) -> Turn:
    source = Counter()
    return build_turn(ANN, messages, ids=source, clock=source, **options)


def test_a_turn_carries_what_the_caller_gave() -> None:
    turn = built(
        [{"role": "user", "content": "I moved to Lyon."}, {"role": "assistant", "content": "Noted."}],
        metadata={"channel": "web"},
        infer=False,
        prompt="Keep places.",
        expiration_date="2026-12-31",
        timestamp="2026-04-01T09:30:00+02:00",
        idempotency_key="order-7",
    )
    assert turn == Turn(
        id="id-1",
        scope=ANN,
        messages=(Message("user", "I moved to Lyon."), Message("assistant", "Noted.")),
        handed_at=NOON,
        metadata={"channel": "web"},
        infer=False,
        prompt="Keep places.",
        expires_on=date(2026, 12, 31),
        occurred_at=datetime(2026, 4, 1, 7, 30, tzinfo=UTC),
        idempotency_key="order-7",
    )


def test_a_turn_survives_the_wire() -> None:
    turn = built("我搬到里昂了 ☕", metadata={"n": [1, 2.5, None, True]}, idempotency_key="k")
    assert Turn.from_wire(turn.to_wire()) == turn


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"messages": []}, InvalidMessage),
        ({"messages": "  "}, InvalidMessage),
        ({"messages": 7}, InvalidMessage),
        ({"messages": "a\x00b"}, InvalidMessage),
        ({"messages": "a\ud800b"}, InvalidMessage),
        ({"messages": "x" * 101, "max_turn": 100}, TurnTooLarge),
        ({"metadata": {"user_id": "bob"}}, InvalidScopeId),
        ({"metadata": ["no"]}, InvalidInput),
        ({"infer": "yes"}, InvalidInput),
        ({"prompt": 5}, InvalidInput),
        ({"prompt": "a\x00b"}, InvalidMessage),
        ({"prompt": "x" * 101, "max_turn": 100}, TurnTooLarge),
        ({"expiration_date": "2026-13-01"}, InvalidDate),
        ({"timestamp": "yesterday"}, InvalidDate),
        ({"idempotency_key": " "}, InvalidInput),
    ],
)
def test_bad_input_is_refused_before_an_id_is_drawn(options: dict[str, Any], error: type[Exception]) -> None:
    source = Counter()
    with pytest.raises(error) as caught:
        build_turn(ANN, options.pop("messages", "hello"), ids=source, clock=source, **options)
    assert source.made == 0
    assert len(str(caught.value)) > 20


def test_text_is_never_part_of_an_error() -> None:
    with pytest.raises(InvalidMessage) as caught:
        built("my secret code is 4711\x00")
    assert "4711" not in str(caught.value)
