"""Expiry and purge in the ledger, on both databases: the edges of the day, who counts it, what it frees, and that it is deleted whole."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from memline.contracts.errors import InvalidInput
from memline.ledger.audit import CHECKS, violations
from memline.ledger.counters import read_counters
from memline.ledger.expire import expire_due
from memline.ledger.history import HistoryMode, history_of
from memline.ledger.lifetimes import NEVER, check_lifetime, clear_lifetime, last_day, lifetime_of, set_lifetime
from memline.ledger.memories import load_memory
from memline.ledger.outbox import outbox_size
from memline.ledger.purge import first_day_kept, overdue, purge_expired
from memline.ledger.schema import entities, entity_links, memories, owners, postings, vectors
from memline.ledger.session import Ledger
from memline.pipeline.parts import Parts
from memline.workers.expirer import Expirer
from tests.parts import START, HandClock, accept, job_of, make_parts, make_relay, make_turn, run_all, table

TODAY = START.date()
DAY = timedelta(days=1)


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    return make_parts(ledger, clock=HandClock())


def tell(parts: Parts, *texts: str, **options: Any) -> list[str]:
    """One turn, run to its end; the ids of its memories."""
    turn = make_turn("\n".join(texts), **options)
    accept(parts, turn)
    run_all(parts)
    return [row.id for row in table(parts.ledger, memories, memories.c.job_id == turn.id)]


def states(parts: Parts) -> list[str]:
    return [row.state for row in table(parts.ledger, memories)]


def expire(parts: Parts, now: datetime, limit: int = 100) -> int:
    with parts.ledger.write() as tx:
        return expire_due(tx, now=now, limit=limit)


def purge(parts: Parts, before: date, limit: int = 100, **options: Any) -> int:
    with parts.ledger.write() as tx:
        return purge_expired(tx, before=before, limit=limit, now=START, **options)


def is_sound(parts: Parts) -> bool:
    with parts.ledger.read() as connection:
        return not [found for check in CHECKS for found in violations(connection, check, limit=5)]


@pytest.mark.parametrize(
    ("at", "state"),
    [
        (datetime(2026, 3, 1, 23, 59, 59, 999999, tzinfo=UTC), "live"),
        (datetime(2026, 3, 2, tzinfo=UTC), "expired"),
    ],
)
def test_a_memory_lives_to_the_last_moment_of_its_day_in_utc(parts: Parts, at: datetime, state: str) -> None:
    tell(parts, "User parks on deck 3", expires_on=TODAY)
    expire(parts, at)
    assert states(parts) == [state]


def test_what_expired_is_counted_no_more_and_keeps_its_text(parts: Parts) -> None:
    (gone,) = tell(parts, "User met Anna in Rome", expires_on=TODAY)
    (kept,) = tell(parts, "User likes tea")
    make_relay(parts).drain()
    assert expire(parts, parts.clock.advance(86400)) == 1  # type: ignore[attr-defined]
    row, other = table(parts.ledger, memories)
    assert (row.state, row.version, row.text, row.expires_on) == ("expired", 2, "User met Anna in Rome", TODAY)
    (owner,) = table(parts.ledger, owners)
    assert (owner.live, owner.length) == (1, other.length)
    assert {each.memory_no for each in table(parts.ledger, postings)} == {other.no}
    assert {each.memory_no for each in table(parts.ledger, vectors)} == {row.no, other.no}
    with parts.ledger.read() as connection:
        told = [(each["event"], each["version"], each["old_text"], each["reason"]) for each in history_of(connection, "default", gone)]
        assert told == [("ADD", 1, None, None), ("EXPIRE", 2, "User met Anna in Rome", "expired")]
        assert read_counters(connection)["memories_expired"] == 1
    assert is_sound(parts)
    make_relay(parts).drain()
    index = parts.index.objects  # type: ignore[attr-defined]
    assert {key.id for key in index if key.kind == "memory"} == {kept}
    assert expire(parts, START + DAY) == 0


def test_a_history_without_texts_says_that_it_expired_without_its_text(parts: Parts) -> None:
    (gone,) = tell(parts, "User likes tea", expires_on=TODAY)
    with parts.ledger.write() as tx:
        expire_due(tx, now=START + DAY, limit=10, keep=HistoryMode.HASHES)
    with parts.ledger.read() as connection:
        assert history_of(connection, "default", gone)[-1]["old_text"] is None


def test_an_expired_twin_blocks_nothing_marked_or_not(parts: Parts) -> None:
    (first,) = tell(parts, "User likes tea", expires_on=TODAY)
    parts.clock.advance(86400)  # type: ignore[attr-defined]
    (second,) = tell(parts, "User likes tea", expires_on=TODAY + DAY)
    parts.clock.advance(86400)  # type: ignore[attr-defined]
    expire(parts, parts.clock.now())
    (third,) = tell(parts, "User likes tea")
    assert len({first, second, third}) == 3
    assert states(parts) == ["expired", "expired", "live"]
    assert is_sound(parts)


def test_what_comes_after_its_day_is_taken_and_hidden_at_once(parts: Parts) -> None:
    at = START - 30 * DAY
    (old,) = tell(parts, "User parks on deck 3", expires_on=TODAY - 20 * DAY, occurred_at=at)
    with parts.ledger.read() as connection:
        row = load_memory(connection, "default", old)
    assert row is not None and row.is_expired(TODAY) and (row.state, row.occurred_at) == ("live", at)
    assert expire(parts, START) == 1


def test_an_expired_answer_does_not_bring_back_the_one_it_had_closed(parts: Parts) -> None:
    tell(parts, "[home] User lives in Berlin")
    tell(parts, "[home] User lives in Porto", expires_on=TODAY, at=START + timedelta(hours=1))
    expire(parts, START + DAY)
    assert states(parts) == ["superseded", "expired"]
    assert is_sound(parts)


@pytest.mark.parametrize("marked", [True, False])
def test_an_answer_that_comes_late_stays_closed_by_one_that_has_expired_since(parts: Parts, marked: bool) -> None:
    (newer,) = tell(parts, "[home] User lives in Porto", expires_on=TODAY, at=START)
    parts.clock.advance(86400)  # type: ignore[attr-defined]
    if marked:
        expire(parts, parts.clock.now())
    (late,) = tell(parts, "[home] User lives in Berlin", at=parts.clock.now(), occurred_at=START - 9 * DAY)
    row = table(parts.ledger, memories, memories.c.id == late)[0]
    assert (row.state, row.superseded_by, row.valid_to) == ("superseded", newer, START)
    assert is_sound(parts)


def test_a_twin_said_earlier_than_one_that_expired_is_not_hidden_by_it(parts: Parts) -> None:
    tell(parts, "[home] User lives in Porto", expires_on=TODAY, at=START)
    expire(parts, START + DAY)
    tell(parts, "[home] User lives in Porto", occurred_at=START - 9 * DAY)
    assert states(parts) == ["expired", "live"]


def test_a_superseded_memory_past_its_day_is_purged_too_and_marked_never(parts: Parts) -> None:
    tell(parts, "[home] User lives in Berlin", expires_on=TODAY)
    tell(parts, "[home] User lives in Porto", at=START + timedelta(hours=1))
    assert expire(parts, START + DAY) == 0
    assert purge(parts, TODAY + DAY) == 1
    assert states(parts) == ["deleted", "live"]
    assert is_sound(parts)


def test_a_purge_leaves_nothing_that_was_made_from_the_text(parts: Parts) -> None:
    (gone,) = tell(parts, "User met Anna in Rome", expires_on=TODAY)
    expire(parts, START + DAY)
    make_relay(parts).drain()
    assert purge(parts, TODAY) == 0
    assert purge(parts, TODAY + DAY) == 1
    (row,) = table(parts.ledger, memories)
    assert (row.state, row.text, row.version) == ("deleted", "", 3)
    for source in (postings, vectors, entities, entity_links):
        assert table(parts.ledger, source) == []
    with parts.ledger.read() as connection:
        assert [(each["event"], each["reason"]) for each in history_of(connection, "default", gone)][-1] == ("DELETE", "expired")
        assert load_memory(connection, "default", gone) is None
        assert read_counters(connection)["memories_purged"] == 1
        assert outbox_size(connection)[0] > 0
    make_relay(parts).drain()
    assert not parts.index.objects  # type: ignore[attr-defined]
    assert is_sound(parts)


def test_a_dry_run_counts_by_namespace_and_changes_nothing(parts: Parts) -> None:
    tell(parts, "User likes tea", "User likes oil", expires_on=TODAY - DAY)
    tell(parts, "User likes jam", expires_on=TODAY - 3 * DAY, namespace="other")
    tell(parts, "User likes rye", expires_on=TODAY)
    tell(parts, "User likes ale")
    with parts.ledger.read() as connection:
        found = overdue(connection, before=TODAY)
        assert [(each.namespace, each.number, each.oldest) for each in found] == [
            ("default", 2, TODAY - DAY),
            ("other", 1, TODAY - 3 * DAY),
        ]
        assert [each.namespace for each in overdue(connection, before=TODAY, namespace="other")] == ["other"]
    assert set(states(parts)) == {"live"}
    assert purge(parts, TODAY, namespace="other") == 1
    assert purge(parts, TODAY, limit=1) == 1
    assert states(parts).count("deleted") == 2


def test_the_grace_is_counted_in_days_after_the_last_one() -> None:
    assert first_day_kept(datetime(2026, 3, 31, 23, 59, tzinfo=UTC), 30) == date(2026, 3, 1)
    assert first_day_kept(START, 0) == TODAY
    assert first_day_kept(datetime(1, 1, 5, tzinfo=UTC), 30) == date.min


def test_a_pass_marks_and_purges_in_batches_and_goes_on_where_its_budget_ended(parts: Parts) -> None:
    clock = parts.clock
    for number in range(5):
        tell(parts, f"User owns lamp {number}", expires_on=TODAY, user=f"user-{number % 2}")
    seconds = iter(range(0, 1000, 2))
    expirer = Expirer(parts.ledger, clock, grace=2, every=300, budget=3, batch=2, seconds=lambda: next(seconds))
    assert expirer.run_once() == 0
    assert expirer.run_once() == 0  # not due
    clock.advance(86400)  # type: ignore[attr-defined]
    assert expirer.run_once() == 4
    assert states(parts).count("expired") == 4
    assert expirer.run_once() == 1  # it was not through, so the next pass did not have to wait
    clock.advance(86400)  # type: ignore[attr-defined]
    assert expirer.run_once() == 0
    clock.advance(86400)  # type: ignore[attr-defined]
    while expirer.run_once():
        pass
    assert states(parts) == ["deleted"] * 5
    assert is_sound(parts)
    assert all((row.live, row.length) == (0, 0) for row in table(parts.ledger, owners))


def test_memories_without_a_date_of_their_own_last_as_long_as_their_namespace_says(ledger: Ledger) -> None:
    parts = make_parts(ledger, clock=HandClock(), default_lifetime=10)
    with ledger.write() as tx:
        set_lifetime(tx, "short", 1, now=START)
        set_lifetime(tx, "long", None, now=START)
    for namespace in ("default", "short", "long"):
        tell(parts, "User likes tea", namespace=namespace, occurred_at=START - 99 * DAY)
        tell(parts, "User likes oil", namespace=namespace, expires_on=TODAY + 5 * DAY)
    found = {(row.namespace, row.text): row.expires_on for row in table(ledger, memories)}
    assert found == {
        ("default", "User likes tea"): TODAY + 10 * DAY,
        ("short", "User likes tea"): TODAY + DAY,
        ("long", "User likes tea"): None,
        **{(namespace, "User likes oil"): TODAY + 5 * DAY for namespace in ("default", "short", "long")},
    }


def test_a_lifetime_is_set_shown_and_cleared(ledger: Ledger) -> None:
    with ledger.write() as tx:
        assert lifetime_of(tx, "a", 7) == (7, None)
        set_lifetime(tx, "a", 3, now=START)
        assert lifetime_of(tx, "a", 7) == (3, START)
        set_lifetime(tx, "a", None, now=START)
        assert lifetime_of(tx, "a", 7) == (None, START)
        assert lifetime_of(tx, "b", None) == (None, None)
        assert clear_lifetime(tx, "a") and not clear_lifetime(tx, "a")
        assert lifetime_of(tx, "a", 7) == (7, None)


@pytest.mark.parametrize("value", [0, -1, 36_501, 1.5, True, "7", NEVER])
def test_a_lifetime_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(InvalidInput, match="lifetime"):
        check_lifetime(value)


def test_a_lifetime_that_ends_after_every_calendar_is_for_ever() -> None:
    assert last_day(datetime(9999, 12, 1, tzinfo=UTC), 31) is None


def test_a_job_keeps_what_the_caller_gave(parts: Parts) -> None:
    with parts.ledger.write() as tx:
        set_lifetime(tx, "default", 1, now=START)
    turn = make_turn("User likes tea")
    accept(parts, turn)
    run_all(parts)
    assert job_of(parts.ledger, turn.id).expires_on is None
