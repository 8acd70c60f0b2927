"""What may be handed over."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from memline.contracts.errors import InvalidDate, InvalidInput, InvalidMessage, InvalidScopeId, TurnTooLarge
from memline.contracts.turn import (
    ROLES,
    Message,
    check_expiration,
    check_idempotency_key,
    check_messages,
    check_metadata,
    check_text,
    check_timestamp,
)

MEBIBYTE = 1 << 20


def messages_of(raw: object) -> tuple[Message, ...]:
    return check_messages(raw, max_bytes=MEBIBYTE)


# --- messages ----------------------------------------------------------------------------------------------------------------

GOOD_MESSAGES: list[tuple[object, tuple[Message, ...]]] = [
    ("I live in Oslo.", (Message("user", "I live in Oslo."),)),
    ({"role": "assistant", "content": "Noted."}, (Message("assistant", "Noted."),)),
    (({"role": "user", "content": "a"}, {"role": "user", "content": "b"}), (Message("user", "a"), Message("user", "b"))),
    ([{"role": "user", "content": "hi", "name": "ann"}], (Message("user", "hi", "ann"),)),
    ([{"role": "user", "content": "hi", "name": ""}], (Message("user", "hi"),)),
    ([{"role": "user", "content": "hi", "name": None}], (Message("user", "hi"),)),
    ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}], (Message("user", "a\nb"),)),
    ([{"role": "user", "content": [{"type": "input_text", "text": "a"}]}], (Message("user", "a"),)),
    ([{"role": "user", "content": ["a", "b"]}], (Message("user", "a\nb"),)),
    ([{"role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": []}]}], (Message("assistant", "a"),)),
    ([{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}], (Message("assistant", "no"),)),
    ([{"role": "system", "content": [{"type": "text", "text": "rules"}]}], (Message("system", "rules"),)),
    (
        [
            {"role": "user", "content": "weather?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "w", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "rain"},
            {"role": "assistant", "tool_calls": []},
        ],
        (Message("user", "weather?"), Message("assistant", ""), Message("tool", "rain"), Message("assistant", "")),
    ),
    ([{"role": "user", "content": "  我住在上海 🏙  "}], (Message("user", "  我住在上海 🏙  "),)),
]


@pytest.mark.parametrize(("raw", "expected"), GOOD_MESSAGES)
def test_openai_shapes_are_accepted(raw: object, expected: tuple[Message, ...]) -> None:
    assert messages_of(raw) == expected


@pytest.mark.parametrize("role", ROLES)
def test_every_role_of_openai_is_accepted(role: str) -> None:
    assert messages_of([{"role": role, "content": "x"}]) == (Message(role, "x"),)


USER = {"role": "user", "content": "fine"}

BAD_MESSAGES: list[tuple[object, str]] = [
    (None, "messages must be a string, a message or a list of messages, not NoneType"),
    (5, "messages must be a string, a message or a list of messages, not int"),
    (b"secret", "messages must be a string, a message or a list of messages, not bytes"),
    (bytearray(b"secret"), "messages must be a string, a message or a list of messages, not bytearray"),
    ({"secret"}, "messages must be a string, a message or a list of messages, not set"),
    (iter([USER]), "messages must be a string, a message or a list of messages, not list_iterator"),
    (SimpleNamespace(role="user", content="secret"), "messages must be a string, a message or a list of messages, not SimpleNamespace"),
    ("", "messages hold no text"),
    (" \n\t", "messages hold no text"),
    ([], "messages hold no text"),
    ([{"role": "user", "content": ""}], "messages hold no text"),
    ([{"role": "user", "content": []}, {"role": "assistant", "content": None}], "messages hold no text"),
    ([USER, "secret"], "messages[1] must be a message with role and content, not str"),
    ([None], "messages[0] must be a message with role and content, not NoneType"),
    ([[USER]], "messages[0] must be a message with role and content, not list"),
    ({}, "messages[0].role must be one of system, developer, user, assistant, tool, function; it is missing"),
    ([{"content": "secret"}], "messages[0].role must be one of"),
    ([USER, {"role": "secret", "content": "x"}], "messages[1].role must be one of"),
    ([{"role": 5, "content": "x"}], "messages[0].role must be one of"),
    ([{"role": ["user"], "content": "x"}], "messages[0].role must be one of"),
    ([{"role": "User", "content": "x"}], "messages[0].role must be one of"),
    ([USER, {"role": "user", "content": 5}], "messages[1].content must be a string or a list of parts, not int"),
    ([{"role": "user", "content": b"secret"}], "messages[0].content must be a string or a list of parts, not bytes"),
    ([{"role": "user", "content": {"text": "secret"}}], "messages[0].content.type must be a string, not NoneType"),
    ([{"role": "user", "content": ["fine", 5]}], "messages[0].content[1] must be a content part, not int"),
    (
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "secret"}}]}],
        "messages[0].content[0] is an image: set MEMLINE_VISION_MODEL",
    ),
    ([{"role": "user", "content": [{"text": "secret"}]}], "messages[0].content[0].type must be a string, not NoneType"),
    ([{"role": "user", "content": [{"type": ["text"]}]}], "messages[0].content[0].type must be a string, not list"),
    ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text must be a string, not NoneType"),
    ([{"role": "user", "content": [{"type": "text", "text": 5}]}], "messages[0].content[0].text must be a string, not int"),
    (
        [{"role": "assistant", "content": [{"type": "refusal", "text": "x"}]}],
        "messages[0].content[0].refusal must be a string, not NoneType",
    ),
    ([{"role": "user", "content": "x", "name": 5}], "messages[0].name must be a string, not int"),
    ([{"role": "user", "content": "x", "name": "secret\x00"}], "messages[0].name contains a NUL character (at 6 of 7)"),
    ("secret\x00", "messages[0].content contains a NUL character (at 6 of 7)"),
    ([USER, {"role": "user", "content": "secret\ud83d"}], "messages[1].content contains a lone surrogate (at 6 of 7)"),
    ([{"role": "user", "content": ["a", "secret\udc00"]}], "messages[0].content contains a lone surrogate (at 8 of 9)"),
]


@pytest.mark.parametrize(("raw", "message"), BAD_MESSAGES)
def test_bad_messages_are_refused_by_their_path_and_their_text_is_not_told(raw: object, message: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        messages_of(raw)
    assert str(caught.value).startswith(message)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_bad_role_is_told_by_type_and_length_only() -> None:
    with pytest.raises(InvalidMessage, match="it is a str of length 6"):
        messages_of([{"role": "secret", "content": "x"}])


def test_a_turn_may_have_just_the_bytes_that_are_allowed() -> None:
    assert check_messages("ü" * 50, max_bytes=100)
    with pytest.raises(TurnTooLarge, match="The turn has 102 bytes of text, MEMLINE_MAX_TURN allows 100"):
        check_messages("ü" * 51, max_bytes=100)
    with pytest.raises(TurnTooLarge):
        check_messages([{"role": "user", "content": "x" * 60}, {"role": "user", "content": "x" * 41}], max_bytes=100)
    with pytest.raises(TurnTooLarge):
        check_messages([{"role": "user", "content": "x", "name": "n" * 100}], max_bytes=100)


def test_a_text_that_every_store_can_keep_is_given_back() -> None:
    assert check_text("prompt", "line\nline\ttab 🏙") == "line\nline\ttab 🏙"


# --- metadata ----------------------------------------------------------------------------------------------------------------


def test_metadata_becomes_plain_json() -> None:
    assert check_metadata(None) == {}
    raw: dict[str, Any] = {
        "n": 1,
        "f": 1.5,
        "b": True,
        "none": None,
        "t": (1, "a"),
        "d": date(2024, 5, 1),
        "at": datetime(2024, 5, 1, 9, tzinfo=UTC),
        "in": {"k": []},
    }
    checked = check_metadata(raw)
    assert checked == {
        "n": 1,
        "f": 1.5,
        "b": True,
        "none": None,
        "t": [1, "a"],
        "d": "2024-05-01",
        "at": "2024-05-01T09:00:00+00:00",
        "in": {"k": []},
    }
    assert json.loads(json.dumps(checked)) == checked


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"k": value}
    return value


BAD_METADATA: list[tuple[object, str]] = [
    ("secret", "metadata must be a dict, not str"),
    ([("k", "secret")], "metadata must be a dict, not list"),
    ({1: "secret"}, "A key in metadata is of type int"),
    ({"k": [{None: "secret"}]}, r"A key in metadata\.k\[0\] is of type NoneType"),
    ({"k": float("nan")}, r"metadata\.k is not a finite number"),
    ({"k": [1, float("inf")]}, r"metadata\.k\[1\] is not a finite number"),
    ({"k": b"secret"}, r"metadata\.k is of type bytes"),
    ({"k": {"secret"}}, r"metadata\.k is of type set"),
    ({"k": object()}, r"metadata\.k is of type object"),
    ({"k": "secret\x00"}, r"metadata\.k contains a NUL"),
    ({"k": {"x": "secret\ud800"}}, r"metadata\.k\.x contains a lone surrogate"),
    ({"\ud800": 1}, "metadata contains a lone surrogate"),
    ({"k": "secret" * 11000}, "metadata has 6[0-9]{4} bytes as JSON, 65536 are allowed"),
    (deep(17), "is nested more than 16 deep"),
    ({"k": 10**400}, r"metadata\.k is a number of 1329 bits"),
    ({"k": 10**5000}, r"metadata\.k is a number of \d+ bits"),
]


@pytest.mark.parametrize(("raw", "message"), BAD_METADATA, ids=[message for _, message in BAD_METADATA])
def test_bad_metadata_is_refused_by_its_path(raw: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        check_metadata(raw)
    assert "secret" not in str(caught.value)


def test_metadata_that_holds_itself_is_refused() -> None:
    raw: dict[str, Any] = {}
    raw["k"] = [raw]
    with pytest.raises(InvalidInput, match="nested more than 16 deep"):
        check_metadata(raw)


@pytest.mark.parametrize("key", ["user_id", "agent_id", "run_id", "actor_id"])
def test_identity_inside_metadata_is_refused(key: str) -> None:
    with pytest.raises(InvalidScopeId, match=f"metadata must not contain {key}"):
        check_metadata({"fine": 1, key: None})


# --- dates and keys ----------------------------------------------------------------------------------------------------------

BERLIN = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (None, None),
        ("2024-05-01", date(2024, 5, 1)),
        (date(2024, 5, 1), date(2024, 5, 1)),
        (datetime(2024, 5, 1, 23, 59), date(2024, 5, 1)),
        (datetime(2024, 5, 2, 1, tzinfo=BERLIN), date(2024, 5, 1)),
    ],
)
def test_an_expiration_date_is_read(raw: object, expected: date | None) -> None:
    assert check_expiration(raw) == expected


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "tomorrow",
        "2024-5-1",
        "2024-02-30",
        "2024-05-01T00:00:00",
        "20240501",
        "2024-W01-1",
        "2024-05-0１",
        20240501,
        True,
        ["2024-05-01"],
    ],
)
def test_a_bad_expiration_date_is_refused(raw: object) -> None:
    with pytest.raises(InvalidDate, match=r"^expiration_date must be a valid date in YYYY-MM-DD format\.$"):
        check_expiration(raw)


@pytest.mark.parametrize("raw", [datetime.min.replace(tzinfo=BERLIN), datetime.max.replace(tzinfo=timezone(timedelta(hours=-2)))])
def test_a_date_beyond_the_calendar_is_refused(raw: datetime) -> None:
    with pytest.raises(InvalidDate):
        check_expiration(raw)
    with pytest.raises(InvalidDate):
        check_timestamp(raw)


NINE = datetime(2024, 5, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "raw",
    [
        NINE,
        NINE.replace(tzinfo=None),
        datetime(2024, 5, 1, 11, tzinfo=BERLIN),
        "2024-05-01T09:00:00Z",
        "2024-05-01 09:00",
        "2024-05-01T11:00:00+02:00",
        NINE.timestamp(),
        int(NINE.timestamp()),
    ],
)
def test_a_timestamp_is_read_in_utc(raw: object) -> None:
    checked = check_timestamp(raw)
    assert checked == NINE
    assert checked is not None
    assert checked.utcoffset() == timedelta(0)


def test_a_day_as_timestamp_is_its_first_moment() -> None:
    assert check_timestamp(None) is None
    assert check_timestamp(date(2024, 5, 1)) == check_timestamp("2024-05-01") == datetime(2024, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize("raw", ["", "yesterday", "2024-02-30", True, float("nan"), float("inf"), 10**18, 10**400, [2024], b"2024-05-01"])
def test_a_bad_timestamp_is_refused(raw: object) -> None:
    with pytest.raises(InvalidDate, match=r"^timestamp must be a datetime"):
        check_timestamp(raw)


@pytest.mark.parametrize("raw", [None, "k", "order 7", "x" * 255, "键"])
def test_a_good_idempotency_key_is_kept(raw: str | None) -> None:
    assert check_idempotency_key(raw) == raw


@pytest.mark.parametrize("raw", ["", "  ", "x" * 256, "a\nb", "a\x00", "\ud800", 5, b"k", True])
def test_a_bad_idempotency_key_is_refused(raw: object) -> None:
    with pytest.raises(InvalidInput, match=r"^idempotency_key must be"):
        check_idempotency_key(raw)
