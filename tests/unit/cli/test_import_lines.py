"""Lines of an import file: what they may hold, what is wrong with one, and the key that makes a second import the first."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.cli.import_lines import BadLine, LineReader, Numbered
from memline.contracts.clock import SystemClock
from memline.contracts.ids import TimeOrderedIds


def read(*lines: object, infer: bool = True, ignore: Iterable[str] = (), **ids: str) -> list[Numbered | BadLine]:
    """What a reader makes of lines: objects are written as JSON, bytes stand as they are."""
    reader = LineReader("default", ids, infer=infer, max_turn=4096, id_source=TimeOrderedIds(), clock=SystemClock(), ignore=list(ignore))
    return list(reader.read(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))


def turn(*lines: object, **options: Any) -> Any:
    (found,) = read(*lines, **options)
    assert isinstance(found, Numbered), found
    return found.turn


def reason(*lines: object, **options: Any) -> str:
    (found,) = read(*lines, **options)
    assert isinstance(found, BadLine), found
    return found.reason


def keys(*lines: object, **options: Any) -> list[str | None]:
    return [found.turn.idempotency_key for found in read(*lines, **options) if isinstance(found, Numbered)]


LINE = {"content": "I live in Lisbon now.", "user_id": "mei", "timestamp": "2026-03-14T10:00:00+01:00"}


def test_a_line_is_a_turn_with_its_own_time_scope_and_metadata() -> None:
    found = turn({**LINE, "agent_id": "guide", "metadata": {"kind": "note"}, "infer": False, "expiration_date": "2027-01-01"})
    assert [(message.role, message.text) for message in found.messages] == [("user", "I live in Lisbon now.")]
    assert found.occurred_at == datetime(2026, 3, 14, 9, tzinfo=UTC)
    assert (found.scope.user_id, found.scope.agent_id, found.scope.run_id) == ("mei", "guide", None)
    assert found.metadata == {"kind": "note"} and found.infer is False and str(found.expires_on) == "2027-01-01"


def test_messages_come_as_they_stand() -> None:
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    assert [message.role for message in turn({"messages": messages, "user_id": "mei"}).messages] == ["user", "assistant"]


def test_content_may_say_who_spoke() -> None:
    (message,) = turn({"content": "Hi", "role": "assistant", "name": "Guide", "user_id": "mei"}).messages
    assert (message.role, message.name) == ("assistant", "Guide")


def test_options_stand_in_where_a_line_names_no_id_and_no_infer() -> None:
    assert turn({"content": "Hi"}, user_id="mei", infer=False).scope.user_id == "mei"
    assert turn({"content": "Hi"}, user_id="mei", infer=False).infer is False
    assert turn({"content": "Hi", "user_id": "ann", "infer": True}, user_id="mei", infer=False).scope.user_id == "ann"
    assert turn({"content": "Hi", "user_id": "ann", "infer": True}, user_id="mei", infer=False).infer is True


def test_blank_lines_are_passed_over_and_numbers_are_those_of_the_file() -> None:
    found = read(b"\n", LINE, b"  \n", {**LINE, "content": "And I work there."})
    assert [each.number for each in found] == [2, 4]


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm() -> None:
    raw = b"\xef\xbb\xbf" + json.dumps(LINE).encode() + b"\r\n"
    assert keys(raw) == keys(LINE)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{'content': 'secret'}", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        ([1], "must be a JSON object, not list"),
        ({"user_id": "mei"}, "messages or content is needed"),
        ({"user_id": "mei", "content": "secret", "messages": []}, "not both"),
        ({"user_id": "mei", "content": ["secret"]}, "content must be a string, not list"),
        ({"user_id": "mei", "messages": [{"role": "user", "content": "secret"}], "role": "user"}, "role belongs to content"),
        ({"user_id": "mei", "messages": [{"role": "robot", "content": "secret"}]}, "messages[0].role must be one of"),
        ({"user_id": "mei", "messages": [{"role": "user", "content": 7}]}, "messages[0].content must be"),
        ({"user_id": "mei", "content": "secret\x00"}, "NUL"),
        ({"user_id": "mei", "content": "   "}, "no text"),
        ({"user_id": "mei", "content": "x" * 5000}, "MEMLINE_MAX_TURN"),
        ({"content": "secret"}, "user_id, agent_id and run_id"),
        ({"user_id": "*", "content": "secret"}, "user_id"),
        ({"user_id": "mei", "content": "secret", "timestamp": "yesterday"}, "timestamp must be"),
        ({"user_id": "mei", "content": "secret", "expiration_date": "soon"}, "expiration_date"),
        ({"user_id": "mei", "content": "secret", "metadata": {"user_id": "x"}}, "metadata must not contain user_id"),
        ({"user_id": "mei", "content": "secret", "infer": "no"}, "infer must be True or False"),
        ({"user_id": "mei", "content": "secret", "key": " "}, "idempotency_key"),
        ({"user_id": "mei", "content": "secret", "metdata": {}}, "unknown field metdata"),
    ],
)
def test_a_line_that_is_no_turn_says_what_is_wrong_with_it_and_never_its_text(line: object, told: str) -> None:
    found = reason(line)
    assert told in found
    assert "secret" not in found


def test_a_bad_line_does_not_stop_the_reader() -> None:
    assert [type(found) for found in read(LINE, b"{", LINE)] == [Numbered, BadLine, Numbered]


def test_a_field_can_be_passed_over_by_name() -> None:
    assert turn({**LINE, "session": 3}, ignore=["session"]).scope.user_id == "mei"


def test_a_key_of_the_line_is_the_key() -> None:
    assert keys({**LINE, "key": "s1-t01"}) == ["s1-t01"]


def test_the_same_lines_get_the_same_keys_again_whatever_stands_between_them() -> None:
    other = {**LINE, "content": "My cat is called Tofu."}
    first, second = keys(LINE, other)
    assert keys(other, b"\n", b"{", LINE) == [second, first]


def test_equal_lines_are_told_apart_by_their_number_among_each_other() -> None:
    found = keys(LINE, LINE, LINE)
    assert len(set(found)) == 3
    assert keys(LINE, LINE, LINE) == found


def test_two_ways_to_write_one_turn_have_one_key() -> None:
    spelled = {
        "timestamp": "2026-03-14T09:00:00Z",
        "messages": [{"content": "I live in Lisbon now.", "role": "user"}],
        "user_id": "mei",
        "metadata": {},
        "infer": True,
    }
    assert keys(LINE) == keys(spelled)
    assert keys({key: value for key, value in LINE.items() if key != "user_id"}, user_id="mei") == keys(LINE)


@pytest.mark.parametrize(
    "change",
    [
        {"content": "I live in Porto now."},
        {"user_id": "ann"},
        {"run_id": "r1"},
        {"timestamp": "2026-03-15T10:00:00+01:00"},
        {"metadata": {"kind": "note"}},
        {"infer": False},
        {"role": "assistant"},
        {"expiration_date": "2027-01-01"},
        {"prompt": "Only places."},
    ],
)
def test_another_content_has_another_key(change: dict[str, Any]) -> None:
    assert keys(LINE) != keys({**LINE, **change})


@given(st.lists(st.sampled_from(["Tea, please.", "Coffee, please.", "Water, please."]), max_size=12), st.randoms())
def test_the_order_of_lines_does_not_change_the_set_of_keys(said: list[str], random: Any) -> None:
    lines = [{"content": text, "user_id": "mei"} for text in said]
    mixed = list(lines)
    random.shuffle(mixed)
    found = keys(*lines)
    assert len(set(found)) == len(lines)
    assert set(keys(*mixed)) == set(found)
