"""Ids: new ones carry their time, derived ones what they name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memline.contracts.clock import SystemClock
from memline.contracts.ids import TimeOrderedIds, derived_id, digest_of, handed_over_at


class StoppedClock:
    """A clock that stands until it is set."""

    def __init__(self, time: datetime) -> None:
        self.time = time

    def now(self) -> datetime:
        return self.time


times = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(9999, 12, 31), timezones=st.just(UTC))
parts = st.lists(st.none() | st.text(st.sampled_from("ab1:-\x00"), max_size=4) | st.binary(max_size=3), max_size=4).map(tuple)


def as_bytes(value: tuple[str | bytes | None, ...]) -> tuple[bytes | None, ...]:
    return tuple(part.encode() if isinstance(part, str) else part for part in value)


@given(times)
@example(datetime(2038, 10, 13, 9, 45, 52, 259000, tzinfo=UTC))  # a float of seconds is a millisecond short here
def test_a_new_id_is_a_uuid_7_that_holds_its_millisecond(time: datetime) -> None:
    made = TimeOrderedIds(StoppedClock(time)).new()
    value = UUID(made)
    assert (value.version, value.variant, str(value)) == (7, "specified in RFC 4122", made)
    assert handed_over_at(made) == time - timedelta(microseconds=time.microsecond % 1000)


@given(times, times)
def test_ids_are_ordered_by_their_time(one: datetime, other: datetime) -> None:
    clock = StoppedClock(one)
    source = TimeOrderedIds(clock)
    first = source.new()
    clock.time = other
    second = source.new()
    if other - one >= timedelta(milliseconds=1):
        assert first < second


def test_ids_of_one_millisecond_are_all_different() -> None:
    source = TimeOrderedIds(StoppedClock(datetime(2026, 5, 1, tzinfo=UTC)))
    assert len({source.new() for _ in range(1000)}) == 1000


def test_the_system_clock_is_the_default_and_in_utc() -> None:
    before = SystemClock().now()
    made = handed_over_at(TimeOrderedIds().new())
    assert made is not None
    assert before.utcoffset() == timedelta(0)
    assert made >= before - timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "other",
    [
        "",
        "text",
        "3c3abaab-2cfb-4118-a30b-fd4ae2ef23a4",  # a version 4
        derived_id("a"),
        "0196881B-5C00-7000-8000-000000000000",
        "{0196881b-5c00-7000-8000-000000000000}",
        "0196881b5c0070008000000000000000",
        "ffffffff-ffff-7fff-bfff-ffffffffffff",
    ],
)
def test_another_id_holds_no_time(other: str) -> None:
    assert handed_over_at(other) is None


@given(parts, parts)
def test_a_digest_is_the_same_only_for_the_same_parts(one: tuple[str | bytes | None, ...], other: tuple[str | bytes | None, ...]) -> None:
    assert (digest_of(*one) == digest_of(*other)) == (as_bytes(one) == as_bytes(other))


def test_a_digest_keeps_the_borders_of_its_parts_and_tells_none_from_blank() -> None:
    digests = {digest_of(*value) for value in [("a", "bc"), ("ab", "c"), ("abc",), ("1:a",), (None,), ("",), ("-",), (), (None, None)]}
    assert len(digests) == 9


@pytest.mark.parametrize("size", [8, 16, 32])
def test_a_digest_has_two_hex_digits_a_byte(size: int) -> None:
    assert len(digest_of("a", size=size)) == 2 * size


@given(st.lists(st.text(max_size=3), max_size=3).map(tuple), st.lists(st.text(max_size=3), max_size=3).map(tuple))
def test_a_derived_id_is_a_uuid_that_depends_on_its_parts_only(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (derived_id(*one) == derived_id(*other)) == (one == other)
    assert UUID(derived_id(*one)).version == 5


def test_a_derived_id_is_the_same_in_every_process_and_version() -> None:
    assert derived_id("import", "file", "1") == "99747de7-8d94-5b73-931c-b6356f68a249"
