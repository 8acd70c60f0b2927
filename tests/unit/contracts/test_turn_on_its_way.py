"""In which form a turn travels, and when two turns have the same content."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memline.contracts.errors import UnknownWireVersion
from memline.contracts.message import Image
from memline.contracts.scope import Scope
from memline.contracts.turn import PROCEDURAL, ROLES, WIRE_VERSION, Message, Turn

NINE = datetime(2024, 5, 1, 9, tzinfo=UTC)
BERLIN = timezone(timedelta(hours=2))


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
ids = st.text(st.sampled_from("abc7.-_:安"), min_size=1, max_size=5)
zones = st.sampled_from([UTC, BERLIN, timezone(timedelta(hours=-3, minutes=-30))])
moments = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2100, 1, 1), timezones=zones)
plain = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8)
images = st.builds(Image, texts, st.none() | st.just("low"))
messages = st.builds(
    Message, st.sampled_from(ROLES), texts, st.none() | texts.filter(bool), st.just(()) | st.lists(images, max_size=2).map(tuple)
)
scopes = st.builds(Scope, ids, st.none() | ids, st.none() | ids, st.none() | ids).filter(lambda scope: bool(scope.ids()))
turns = st.builds(
    Turn,
    id=ids,
    scope=scopes,
    messages=st.lists(messages, min_size=1, max_size=3).map(tuple),
    handed_at=moments,
    metadata=st.dictionaries(texts, values, max_size=3),
    infer=st.booleans(),
    prompt=st.none() | texts,
    expires_on=st.none() | st.dates(),
    occurred_at=st.none() | moments,
    idempotency_key=st.none() | ids,
    producer=st.text(st.sampled_from("abc"), max_size=4),
    number=st.integers(0, 10**9),
    spooled=st.booleans(),
    memory_type=st.none() | st.just(PROCEDURAL),
)


@settings(max_examples=200)
@given(turns)
def test_a_turn_comes_off_the_wire_as_it_went_on(turn: Turn) -> None:
    line = turn.to_wire()
    assert "\n" not in line
    assert "\r" not in line
    for entry in (line, line.encode("utf-8")):
        again = Turn.from_wire(entry)
        assert again == turn
        assert again.fingerprint == turn.fingerprint
        assert again.to_wire() == line


@given(turns, moments, ids, st.integers(1, 9))
def test_the_fingerprint_does_not_look_at_the_way(turn: Turn, moment: datetime, other: str, number: int) -> None:
    moved = replace(turn, id=other, handed_at=moment, idempotency_key=other, producer=other, number=number, spooled=not turn.spooled)
    assert moved.fingerprint == turn.fingerprint
    assert turn.as_spooled().fingerprint == turn.fingerprint


@given(turns)
def test_the_fingerprint_does_not_look_at_the_order_of_metadata(turn: Turn) -> None:
    assert replace(turn, metadata=dict(reversed(list(turn.metadata.items())))).fingerprint == turn.fingerprint


BASE = Turn("t", Scope("n", "u"), (Message("user", "hello"), Message("assistant", "hi")), NINE)

OTHER_CONTENT: list[dict[str, Any]] = [
    {"messages": (Message("user", "hello "), Message("assistant", "hi"))},
    {"messages": (Message("assistant", "hi"), Message("user", "hello"))},
    {"messages": (Message("user", "hello"),)},
    {"messages": (Message("assistant", "hello"), Message("assistant", "hi"))},
    {"messages": (Message("user", "hello", "ann"), Message("assistant", "hi"))},
    {"messages": (Message("user", "hello", images=(Image("https://x/y"),)), Message("assistant", "hi"))},
    {"memory_type": PROCEDURAL},
    {"metadata": {"k": 1}},
    {"metadata": {"k": "1"}},
    {"metadata": {"k": True}},
    {"metadata": {"k": None}},
    {"infer": False},
    {"prompt": ""},
    {"prompt": "x"},
    {"expires_on": date(2024, 5, 1)},
    {"occurred_at": NINE},
]


def test_every_difference_of_content_makes_another_fingerprint() -> None:
    fingerprints = [BASE.fingerprint, *(replace(BASE, **change).fingerprint for change in OTHER_CONTENT)]
    assert len(set(fingerprints)) == len(fingerprints)


@given(turns, turns)
def test_two_turns_have_one_fingerprint_only_if_their_content_travels_alike(one: Turn, other: Turn) -> None:
    def content(turn: Turn) -> str:
        fields = json.loads(
            replace(turn, id="t", scope=BASE.scope, handed_at=NINE, idempotency_key=None, producer="", number=0, spooled=False).to_wire()
        )
        return json.dumps(fields, sort_keys=True)

    assert (one.fingerprint == other.fingerprint) == (content(one) == content(other))


def test_a_turn_was_said_when_its_caller_says_or_when_it_was_handed_over() -> None:
    assert BASE.said_at == NINE
    assert replace(BASE, occurred_at=NINE - timedelta(days=3)).said_at == NINE - timedelta(days=3)


def test_an_entry_of_a_newer_memline_is_left_alone() -> None:
    newer = json.dumps(json.loads(BASE.to_wire()) | {"v": WIRE_VERSION + 1, "messages": "in a shape of its own"})
    with pytest.raises(UnknownWireVersion, match=f"schema version {WIRE_VERSION + 1}, this memline reads up to {WIRE_VERSION}: upgrade"):
        Turn.from_wire(newer)


def test_a_field_that_is_not_known_does_no_harm() -> None:
    assert Turn.from_wire(json.dumps(json.loads(BASE.to_wire()) | {"later": 1})) == BASE
