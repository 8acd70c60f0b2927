"""The write policy on a turn: every place that text enters by, what is refused, and what the fingerprint and the receipt tell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memline.contracts.errors import InvalidInput, PolicyRefused
from memline.contracts.metrics import Counter, Gauge, Histogram, use
from memline.contracts.scope import Scope
from memline.contracts.turn import Turn
from memline.producer import build_turn
from memline.producer.policy import WritePolicy, read_policy
from tests.parts import CountingIds, HandClock
from tests.policy_lists.made import alnum, card, join

ANN = Scope.of("default", "ann")
KEY = join("gh", "p_", alnum("t1", 36))
CARD = card("4", 16, "t2")


def turn(messages: object, *, policy: WritePolicy | None = None, **options: Any) -> Turn:
    return build_turn(ANN, messages, ids=CountingIds(), clock=HandClock(), policy=policy, **options)


@pytest.mark.parametrize(
    "messages",
    [
        f"use {KEY}",
        {"role": "user", "content": f"use {KEY}"},
        [{"role": "user", "content": [{"type": "text", "text": "use"}, {"type": "text", "text": KEY}]}],
        [{"role": "assistant", "content": None, "refusal": f"not {KEY}"}],
        [{"role": "assistant", "content": "", "audio": {"id": "1", "transcript": f"it is {KEY}"}}],
        [{"role": "tool", "tool_call_id": "1", "content": f"token {KEY}"}, {"role": "user", "content": "thanks"}],
        [{"role": "system", "content": f"your token is {KEY}"}, {"role": "user", "content": "hi"}],
        [{"role": "user", "name": KEY, "content": "hi"}],
        [{"role": "user", "content": [{"type": "file", "file": {"filename": f"{KEY}.txt"}}, {"type": "text", "text": "hi"}]}],
        [
            {
                "role": "assistant",
                "content": "I call it",
                "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": json.dumps({"key": KEY})}}],
            }
        ],
    ],
)
def test_no_form_of_a_message_brings_a_secret_in(messages: object) -> None:
    assert KEY not in turn(messages).to_wire()


@pytest.mark.parametrize(
    ("url", "left"),
    [
        ("https://kim:s3cret@pictures.example/cat.png", "https://pictures.example/cat.png"),
        (f"https://pictures.example/cat.png?auth={KEY}", "https://pictures.example/cat.png?auth=masked"),
        ("https://pictures.example/cat.png?w=100", "https://pictures.example/cat.png?w=100"),
        ("data:image/png;base64,iVBORw0KGgo=", "data:image/png;base64,iVBORw0KGgo="),
    ],
)
def test_an_image_keeps_its_address_without_what_opens_a_door(url: str, left: str) -> None:
    made = turn({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}, vision=True)
    assert made.messages[0].images[0].url == left


def test_a_pre_signed_address_still_fetches_its_image() -> None:
    url = f"https://b.s3.amazonaws.com/x.png?X-Amz-Credential={join('AK', 'IA', 'ABCDEFGH23456723')}%2F20260501&X-Amz-Signature=ab12"
    made = turn({"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}, vision=True)
    assert made.messages[0].images[0].url == url


def test_metadata_is_masked_however_deep() -> None:
    given = {"note": f"see {KEY}", "deep": [{"card": int(CARD), "password": "sunflower", "n": 7}], KEY: 1, "ok": None}
    kept = turn("hi", metadata=given).metadata
    assert kept == {
        "note": "see [masked: api key]",
        "deep": [{"card": "[masked: card number]", "password": "[masked: password]", "n": 7}],
        "[masked: api key]": 1,
        "ok": None,
    }


def test_metadata_says_by_its_names_what_numbers_and_short_words_are() -> None:
    given = {"dbPassword": "latte", "password": 93827461, "pageToken": "next", "n": 93827461, "passwords_seen": 9382}
    assert turn("hi", metadata=given).metadata == given | {"dbPassword": "[masked: password]", "password": "[masked: password]"}


def test_two_keys_that_are_masked_alike_keep_both_values() -> None:
    given = {KEY: 1, CARD: 2, join("gh", "p_", alnum("t8", 36)): 3}
    assert sorted(turn("hi", metadata=given).metadata.values()) == [1, 2, 3]
    kept = turn("hi", metadata=given | {"[masked: api key]": 4}).metadata
    assert sorted(kept.values()) == [1, 2, 3, 4]
    assert KEY not in kept
    assert kept["[masked: api key]"] == 4


def test_a_refusal_tells_no_key_of_metadata_that_is_a_secret() -> None:
    with pytest.raises(PolicyRefused) as raised:
        turn("hi", metadata={KEY: {"pays": CARD}}, policy=read_policy("card=refuse"))
    assert raised.value.path == "metadata.[masked: api key].pays"
    assert KEY not in str(raised.value)


def test_instructions_are_masked_too() -> None:
    assert turn("hi", prompt=f"call it with {KEY}").prompt == "call it with [masked: api key]"


def test_hits_are_counted_by_kind_and_travel_with_the_turn() -> None:
    made = turn(f"{KEY} and {CARD}", metadata={"again": KEY})
    assert made.masked == {"api_key": 2, "card": 1}
    assert Turn.from_wire(made.to_wire()).masked == made.masked
    assert "masked" not in json.loads(turn("nothing here").to_wire())
    assert turn(f"again {CARD}", masked={"card": 2, "password": 1}).masked == {"card": 3, "password": 1}


def test_the_same_turn_with_another_secret_is_the_same_turn() -> None:
    other = join("gh", "p_", alnum("t9", 36))
    assert turn(f"use {KEY}").fingerprint == turn(f"use {other}").fingerprint != turn("use nothing").fingerprint


def test_a_policy_that_keeps_lets_everything_through() -> None:
    keep = read_policy("api_key=keep,card=keep,password=keep,private_key=keep")
    said = f"use {KEY} and {CARD}, my password is hunter2"
    assert turn(said, policy=keep).messages[0].text == said


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"messages": [{"role": "user", "content": "hi"}, {"role": "user", "content": f"pay by {CARD}"}]}, "messages[1].content"),
        ({"messages": "hi", "metadata": {"a": {"b": [CARD]}}}, "metadata.a.b[0]"),
        ({"messages": "hi", "prompt": f"pay by {CARD}"}, "prompt"),
    ],
)
def test_what_is_refused_says_where_and_what_and_never_the_text(given: dict[str, Any], path: str) -> None:
    ids = CountingIds()
    with pytest.raises(PolicyRefused) as raised:
        build_turn(ANN, given.pop("messages"), ids=ids, clock=HandClock(), policy=read_policy("card=refuse"), **given)
    assert isinstance(raised.value, InvalidInput)
    assert (raised.value.kind, raised.value.path) == ("card", path)
    assert path in str(raised.value)
    assert CARD not in str(raised.value)
    assert ids.new() == "id-000001"  # not even an id was drawn


def test_what_is_refused_is_counted_by_kind() -> None:
    seen: list[tuple[str, float, tuple[str, ...]]] = []

    class Sink:
        def add(self, metric: Counter, by: float, labels: tuple[str, ...]) -> None:
            seen.append((metric.name, by, labels))

        def observe(self, metric: Histogram, value: float, labels: tuple[str, ...]) -> None: ...

        def set(self, metric: Gauge, value: float, labels: tuple[str, ...]) -> None: ...

    use(Sink())
    try:
        with pytest.raises(PolicyRefused):
            turn(f"pay by {CARD}", policy=read_policy("card=refuse"))
    finally:
        use(None)
    assert seen == [("memline_writes_refused_total", 1, ("card",))]
