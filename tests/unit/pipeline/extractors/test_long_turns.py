"""A long turn in windows: nothing is lost, nothing said twice, cut where a reader would."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memline.contracts.message import Message
from memline.pipeline.extractors.long_turns import OVERLAP, START, Place, between, end_of, tokens_between, window_end
from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.prompt import WINDOW_LIMIT
from memline.pipeline.extractors.tokens import prefix_within, tokens_of

RequestOf = Callable[..., Request]


def windows(request: Request, budget: int) -> list[Request]:
    found: list[Request] = []
    place, whole = START, end_of(request.messages)
    while place < whole:
        end = window_end(request.messages, place, budget)
        assert end > place
        found.append(between(request, place, end))
        place = end
    return found


def test_a_turn_that_fits_is_asked_as_it_is(request_of: RequestOf) -> None:
    request = request_of("short", Message("assistant", "answer"))
    assert windows(request, 500) == [request]


def test_windows_end_at_sentences_and_keep_the_index_of_their_messages(request_of: RequestOf) -> None:
    long = " ".join(f"This is sentence number {number} of many." for number in range(300))
    request = request_of("first", Message("assistant", long, "Ann"), Message("user", "last"))
    found = windows(request, 500)
    assert len(found) > 4
    assert "".join(window.messages[1].text for window in found) == long
    assert all(window.messages[1].text.rstrip().endswith(".") for window in found)
    assert [window.messages[0].text for window in found] == ["first"] + [""] * (len(found) - 1)
    assert [window.messages[2].text for window in found] == [""] * (len(found) - 1) + ["last"]
    assert all([message.role for message in window.messages] == ["user", "assistant", "user"] for window in found)


def test_what_stood_before_a_window_is_shown_as_older_and_is_no_source(request_of: RequestOf) -> None:
    long = " ".join(f"This is sentence number {number} of many." for number in range(100))
    request = request_of("Ann is my sister.", long, window=(Message("user", "before the turn"),))
    first, second, *_ = windows(request, 500)
    assert first.window == request.window
    assert [message.text for message in second.window[:2]] == ["before the turn", "Ann is my sister."]
    tail = second.window[-1].text
    assert len(tail) == OVERLAP == WINDOW_LIMIT
    assert tail == "…" + first.messages[1].text[-(OVERLAP - 1) :]


def test_a_block_of_code_that_fits_is_not_cut_in_two(request_of: RequestOf) -> None:
    prose = "A sentence about the work. " * 55
    code = "```python\n" + "".join(f"value_{number} = {number}\n" for number in range(20)) + "```\n"
    found = windows(request_of(prose + "\n" + code + prose), 500)
    assert "".join(window.messages[0].text for window in found) == prose + "\n" + code + prose
    assert any(code in window.messages[0].text for window in found)


@pytest.mark.parametrize(
    "text", ["a" * 5000, "QUJD" * 2000, "汉" * 3000, "\n" * 4000, "```\n" * 1500, "x. " * 3000, "😀" * 2000, " " * 9000 + "x" * 900]
)
def test_any_text_is_read_whole(request_of: RequestOf, text: str) -> None:
    found = windows(request_of(text), 500)
    assert "".join(window.messages[0].text for window in found) == text


def test_what_a_tool_said_goes_whole_and_is_counted_as_it_is_shown(request_of: RequestOf) -> None:
    request = request_of("ask", Message("tool", "t " * 50_000), Message("assistant", "told"))
    assert tokens_between(request.messages, START, end_of(request.messages)) < 1500
    assert len(windows(request, 1500)) == 1


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool", "system"]), st.text(max_size=400)), min_size=1, max_size=6),
    st.integers(30, 300),
)
def test_every_character_is_new_in_one_window(said: list[tuple[str, str]], budget: int) -> None:
    request = Request(tuple(Message(role, text * 3) for role, text in said), said_at=None)  # type: ignore[arg-type]
    found = windows(request, budget)
    for index, message in enumerate(request.messages):
        assert "".join(window.messages[index].text for window in found) == message.text
    assert all(window.messages[0].role == request.messages[0].role for window in found)


@given(st.text(max_size=500), st.integers(1, 200))
def test_a_prefix_is_within_its_tokens(text: str, tokens: int) -> None:
    size = prefix_within(text, tokens)
    assert size == len(text) or size >= 1
    assert size <= 1 or tokens_of(text[:size]) <= tokens


def test_what_is_no_word_counts_more() -> None:
    assert tokens_of("aGVsbG8gd29ybGQ" * 100) >= 1000
    assert tokens_of("I like tea in the morning.") <= 9
    assert tokens_of("我住在上海") == 5


def test_a_place_is_ordered() -> None:
    assert Place(0, 5) < Place(1) < Place(1, 1)
