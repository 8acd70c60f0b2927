"""Days named from where the speaker stands get their dates, seen from when the turn was said."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.relative_dates import with_dates
from memline.pipeline.extractors.rules import RuleExtractor

#: A Monday.
SAID_AT = datetime(2023, 5, 8, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("User met Ana yesterday.", "User met Ana yesterday (2023-05-07)."),
        ("Yesterday User met Ana. Last week Leo came.", "Yesterday (2023-05-07) User met Ana. Last week (week of 2023-05-01) Leo came."),
        ("User ran tomorrow morning", "User ran tomorrow morning (2023-05-09)"),
        ("User saw Leo the day before yesterday", "User saw Leo the day before yesterday (2023-05-06)"),
        ("User saw Leo two days ago", "User saw Leo two days ago (2023-05-06)"),
        ("User began a couple of years ago", "User began a couple of years ago (2021)"),
        ("User moved 3 months ago", "User moved 3 months ago (2023-02)"),
        ("User moved last Friday", "User moved last Friday (2023-05-05)"),
        ("User was ill last Monday", "User was ill last Monday (2023-05-01)"),
        ("User hikes next weekend", "User hikes next weekend (weekend of 2023-05-20)"),
        ("User retires this year", "User retires this year (2023)"),
        ("User saw yesterday's match", "User saw yesterday's (2023-05-07) match"),
        ("用户上周五去了巴黎", "用户上周五（2023-05-05）去了巴黎"),
        ("用户这个星期天休息", "用户这个星期天（2023-05-14）休息"),
        ("用户大前天吃了面", "用户大前天（2023-05-05）吃了面"),
        ("用户三个月前搬家", "用户三个月前（2023-02）搬家"),
        ("用户两周前买了车", "用户两周前（2023-04-24当周）买了车"),
        ("用户去年毕业", "用户去年（2022）毕业"),
    ],
)
def test_a_relative_day_gets_its_date(said: str, kept: str) -> None:
    assert with_dates(said, SAID_AT) == kept


@pytest.mark.parametrize(
    "said",
    [
        "User flies next Friday",  # of this week, or of the next
        "User flies on Friday",
        "User wrote it in two weeks",
        'User reads "Yesterday" and `today`',
        "User reads USA Today",
        "It is a today-only offer",
        "User met Ana yesterday (7 May)",
        "User sees https://example.org/last week",
        "User left twenty-two days ago",
        "User left 1.5 years ago, or 1,200 days ago",
        "User left two or three days ago",
        "User left a hundred and two days ago",
        "User slept badly over the last week",
        "User recalls the last year of school",
        "User works out this week or next",
        "用户二十三天前离开，两三天前回来",
        "用户三月前离开",
        "用户2019年前离开",
        "用户目前天天跑步，以上周期不变",
        "用户以前天天跑步",
        "用户读《明天》",
    ],
)
def test_what_may_mean_two_days_or_none_stays_as_it_is(said: str) -> None:
    assert with_dates(said, SAID_AT) == said


def test_a_date_that_no_calendar_has_is_not_written() -> None:
    first = datetime(1, 1, 1, tzinfo=UTC)
    assert with_dates("User came yesterday, last month and a year ago", first) == "User came yesterday, last month and a year ago"


def test_the_end_of_a_year_and_a_leap_day_are_counted_right() -> None:
    assert with_dates("User came last month", datetime(2024, 1, 31, tzinfo=UTC)) == "User came last month (2023-12)"
    assert with_dates("User came yesterday", datetime(2024, 3, 1, tzinfo=UTC)) == "User came yesterday (2024-02-29)"


@given(st.text(max_size=200), st.datetimes(timezones=st.just(UTC)))
def test_words_are_only_added_to(text: str, at: datetime) -> None:
    found = iter(with_dates(text, at))
    assert all(character in found for character in text)


@given(st.text(alphabet="yesterday lastwekmonhg 上周昨天五(（", max_size=60))
def test_a_text_that_has_its_dates_gets_no_more(text: str) -> None:
    once = with_dates(text, SAID_AT)
    assert with_dates(once, SAID_AT) == once


def test_the_extractor_by_rules_writes_dates_seen_from_the_turns_own_time(request_of: Callable[..., Request]) -> None:
    extractor = RuleExtractor()
    request = request_of("I met Ana yesterday.", said_at=SAID_AT)
    (fact,) = extractor.read(extractor.ask(request), request)
    assert fact.text == "User met Ana yesterday (2023-05-07)"
