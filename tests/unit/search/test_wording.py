"""What a text asks for and what it holds, in English and Chinese."""

from __future__ import annotations

import pytest

from memline.search.wording import (
    asks_for_help,
    asks_how_many,
    asks_what_was_answered,
    days_of,
    holds_a_number,
    says_how_it_is_wanted,
    without_names,
)


@pytest.mark.parametrize("text", ["How many dogs do I have?", "how much was it", "我有几个表弟？", "房租多少钱"])
def test_a_question_for_a_number_is_known(text: str) -> None:
    assert asks_how_many(text)


@pytest.mark.parametrize("text", ["How did it go?", "Who is Ann?", "几乎没有"])
def test_other_questions_ask_for_no_number(text: str) -> None:
    assert not asks_how_many(text)


def test_numbers_are_digits_and_words() -> None:
    assert all(holds_a_number(text) for text in ("I have 3 cats", "I have three cats", "we met twice", "养了两只猫"))
    assert not any(holds_a_number(text) for text in ("I have cats", "someone phoned", "养了猫"))


@pytest.mark.parametrize(
    "text", ["Can you show me a login?", "How should I format it?", "What would you suggest?", "怎么安排比较好", "帮我写封信"]
)
def test_a_request_asks_for_help(text: str) -> None:
    assert asks_for_help(text)


def test_a_plain_question_asks_for_no_help() -> None:
    assert not asks_for_help("When did Ann move?") and not asks_for_help("我住在哪里")


def test_a_wish_for_all_times_is_known_from_a_thing_that_happened() -> None:
    assert all(
        says_how_it_is_wanted(text) for text in ("Always use metric units", "User prefers tea", "以后都用中文回答", "我更喜欢靠窗的座位")
    )
    assert not any(says_how_it_is_wanted(text) for text in ("I went to Oslo", "昨天去了杭州"))


def test_who_asks_for_what_the_assistant_said_is_understood() -> None:
    assert asks_what_was_answered("Which hotel did you recommend?") and asks_what_was_answered("你上次推荐的酒店是哪家？")
    assert not asks_what_was_answered("Which hotel did I book?") and not asks_what_was_answered("Can you recommend a hotel?")


def test_days_are_read_in_every_order() -> None:
    assert days_of("on May 7, 2023, or 8th of June") == {(5, 7), (6, 8)}
    assert days_of("五月？7月15日见") == {(7, 15)}
    assert days_of("in May 2023") == set() and days_of("June 42") == set()


def test_names_leave_a_question_as_words_of_their_own() -> None:
    assert without_names("What did Ann's dog eat, Annabel?", frozenset({"Ann"})) == "What did dog eat, Annabel?"
    assert without_names("what does ann lee like", frozenset({"Ann Lee"})) == "what does like"
    assert without_names("王雨桐喜欢什么", frozenset({"王雨桐"})) == "喜欢什么"


def test_a_question_of_a_name_alone_keeps_it() -> None:
    assert without_names("Ann?", frozenset({"Ann"})) == "Ann?"
    assert without_names("Where is Ann?", frozenset()) == "Where is Ann?"
