"""The feed of changes: every verb tells, nothing is passed over, and what is derived from it equals what is there."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from memline import AsyncMemory, Memory
from memline.errors import DuplicateMemory, InvalidCursor, InvalidInput, StaleCursor, UnknownOption
from memline.ledger import changes as feed
from memline.ledger.changes import changes_after, newest_place, prune_changes, write_changes
from memline.ledger.purge import purge_expired
from memline.ledger.schema import changes, ledger_meta
from memline.ledger.session import Ledger
from memline.search import changes as search_changes
from memline.settings import load_settings
from tests.parts import HandClock

MEI, BOB = {"user_id": "mei"}, {"user_id": "bob"}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> HandClock:
    return HandClock(NOON)


@pytest.fixture
def memory(tmp_path: Path, ledger_url: str, clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    """The embedded mode on a clock that is moved by hand."""
    year = 31_536_000.0  # the tests expire and prune, and nobody beside them
    small = "tests.chaos.small_parts:SmallEmbedder"
    settings = load_settings(home=tmp_path, ledger_url=ledger_url, embedder=small, reconcile_every=0, prune_every=year)
    opened = Memory(settings=settings)
    opened._house.clock = clock
    read = search_changes.read_changes

    def read_when_told(ledger: Ledger, *given: Any, **options: Any) -> dict[str, Any]:
        wait_until_told(ledger)
        return read(ledger, *given, **options)

    monkeypatch.setattr(search_changes, "read_changes", read_when_told)
    with opened:
        yield opened


def wait_until_told(ledger: Ledger) -> None:
    """What is committed is told when no transaction is open that began before it: one of the engine's, of the relay say, may be."""
    if ledger.is_sqlite:
        return
    with ledger.write() as tx:
        now = tx.execute(sa.text("SELECT pg_current_xact_id()::text::bigint")).scalar_one()
    deadline = time.monotonic() + 180
    while True:
        with ledger.read() as connection:
            oldest = connection.execute(sa.text("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")).scalar_one()
        if oldest > now:
            return
        assert time.monotonic() < deadline, "a transaction stays open"
        time.sleep(0.01)


def say(memory: Memory, text: str, **options: Any) -> str:
    """One verbatim memory; its id."""
    given: dict[str, Any] = MEI | {"infer": False, "wait": True} | options
    return str(memory.add(text, **given)["results"][0]["id"])


def told(memory: Memory, since: str | None = None) -> list[tuple[str, str, int]]:
    return [(each["event"], each["id"], each["version"]) for each in memory.changes(since)["results"]]


def purge(memory: Memory, clock: HandClock) -> None:
    with memory._house.ledger.write() as tx:
        purge_expired(tx, before=clock.now().date() - timedelta(days=1), limit=100, now=clock.now())


def prune(memory: Memory) -> None:
    wait_until_told(memory._house.ledger)  # what is not told yet is not pruned
    memory._house.pruner.run_from(0)


def row(memory_id: str, *, version: int = 1, namespace: str = "n", at: datetime = NOON) -> dict[str, Any]:
    return {"namespace": namespace, "memory_id": memory_id, "version": version, "event": "ADD", "at": at}


def test_every_verb_tells(memory: Memory, clock: HandClock) -> None:
    start = memory.changes(since="now")
    assert start["results"] == []
    one = say(memory, "Box one", expiration_date="2026-03-05")
    two = say(memory, "Box two")
    memory.update(one, metadata={"shelf": "a"})
    memory.update(two, "Box two, moved")
    memory.update(two, expiration_date="2026-04-05")
    assert told(memory) == [("ADD", one, 1), ("ADD", two, 1), ("UPDATE", one, 2), ("UPDATE", two, 2), ("UPDATE", two, 3)]
    place = memory.changes()["cursor"]
    clock.advance(86400 * 6)
    memory._house.expirer.run()
    assert told(memory, place) == [("EXPIRE", one, 3)]
    place = memory.changes(place)["cursor"]
    purge(memory, clock)
    memory.delete(two)
    assert told(memory, place) == [("DELETE", one, 4), ("DELETE", two, 4)]
    place = memory.changes(place)["cursor"]
    three, four, five = say(memory, "Box three"), say(memory, "Box four", user_id="bob"), say(memory, "Box five", user_id="ann")
    memory.delete_all(user_id="mei")
    memory.erase(user_id="bob")
    memory.reset(confirm=memory.namespace)
    found = told(memory, place)
    assert found[0] == ("ADD", three, 1) and ("ADD", four, 1) not in found
    assert found[3:] == [("DELETE", three, 2), ("ERASE", four, 2), ("DELETE", five, 2)]
    assert len(told(memory, start["cursor"])) == 14


def test_a_newer_answer_tells_what_it_supersedes(memory: Memory) -> None:
    for city in ("Berlin", "Porto"):
        memory.add(f"I live in {city}.", user_id="mei", wait=True)
    berlin, porto = memory.get_all(filters=MEI, include_superseded=True)["results"]
    assert told(memory) == [("ADD", berlin["id"], 1), ("SUPERSEDE", berlin["id"], 2), ("ADD", porto["id"], 1)]


def test_an_erased_memory_leaves_its_id_only(memory: Memory, clock: HandClock) -> None:
    kept, gone = say(memory, "Box one", user_id="bob"), say(memory, "Box two")
    place = memory.changes()["cursor"]
    before = clock.now()
    clock.advance(60)
    memory.erase(user_id="mei")
    assert told(memory) == [("ADD", kept, 1), ("ERASE", gone, 1), ("ERASE", gone, 2)]
    assert told(memory, place) == [("ERASE", gone, 2)]  # who had read of it goes on
    with memory._house.ledger.read() as connection:
        assert all(at > before for at in connection.execute(sa.select(changes.c.at).where(changes.c.memory_id == gone)).scalars())


def test_the_feed_holds_no_content_and_no_scope(memory: Memory) -> None:
    secret = {"user_id": "secret-user", "agent_id": "secret-agent"}
    first = say(memory, "The secret-code is X1234567", metadata={"secret-key": "secret-value"}, **secret)
    memory.update(first, "The secret-code is X7654321", metadata={"more": "secret-more"})
    memory.delete(first, reason="secret-reason")
    with memory._house.ledger.read() as connection:
        rows = json.dumps([list(each) for each in connection.execute(sa.select(changes))], default=str)
    for word in ("secret", "X1234567", "X7654321"):
        assert word not in rows and word not in json.dumps(memory.changes())
    assert set(memory.changes()["results"][0]) == {"id", "event", "version", "at", "cursor"}


def test_a_cache_that_follows_equals_what_is_there(memory: Memory, clock: HandClock) -> None:
    chance, cache, place = random.Random(7), dict[str, Any](), None
    live: list[str] = []
    for step in range(40):
        do = chance.choice(("add", "add", "add", "update", "delete", "expire", "clear"))
        if do == "add":
            live.append(say(memory, f"Box {step}", user_id=chance.choice(("mei", "bob"))))
        elif do == "update" and live:
            try:
                memory.update(chance.choice(live), f"Box {step} again", metadata={"step": step})
            except DuplicateMemory:
                pytest.fail("no two say the same")
        elif do == "delete" and live:
            memory.delete(live.pop(chance.randrange(len(live))))
        elif do == "expire" and live:
            memory.update(chance.choice(live), expiration_date=clock.now().date())
            clock.advance(86400)
            memory._house.expirer.run()
        elif do == "clear" and step % 3 == 0:
            memory.erase(**MEI) if chance.random() < 0.5 else memory.delete_all(**BOB)
        if chance.random() < 0.4 or step == 39:
            page = memory.changes(place, limit=chance.randint(1, 5))
            while page["results"]:
                for change in page["results"]:
                    item = memory.get(change["id"]) if change["event"] in ("ADD", "UPDATE") else None
                    cache.pop(change["id"], None)
                    if item is not None and item.get("expiration_date", "9") >= str(clock.now().date()) and "superseded_by" not in item:
                        cache[change["id"]] = (item["memory"], item["version"])
                place = page["cursor"]
                page = memory.changes(place, limit=chance.randint(1, 5))
            live = [each for each in live if memory.get(each) is not None]
            there = [item for each in (MEI, BOB) for item in memory.get_all(filters=each, top_k=1000)["results"]]
            assert cache == {item["id"]: (item["memory"], item["version"]) for item in there}


def test_pages_join_and_each_result_has_a_cursor(memory: Memory) -> None:
    ids = [say(memory, f"Box {number}") for number in range(5)]
    first = memory.changes(limit=2)
    assert [each["id"] for each in first["results"]] == ids[:2] and first["cursor"] == first["results"][1]["cursor"]
    assert [each["id"] for each in memory.changes(first["results"][0]["cursor"])["results"]] == ids[1:]
    end = memory.changes(first["cursor"])["cursor"]
    assert memory.changes(end) == {"results": [], "cursor": end}
    assert memory.changes("now")["cursor"] == end
    assert memory.in_namespace("other").changes()["results"] == []


@pytest.mark.parametrize("since", [7, "", "nothing", b"x", "a" * 20_000])
def test_what_is_no_cursor_is_refused(memory: Memory, since: Any) -> None:
    with pytest.raises(InvalidCursor):
        memory.changes(since)


def test_bad_calls_are_refused(memory: Memory) -> None:
    say(memory, "Box one")
    cursor = memory.changes()["cursor"]
    with pytest.raises(InvalidCursor, match="another question"):
        memory.in_namespace("other").changes(cursor)
    with pytest.raises(InvalidCursor):
        memory.changes(memory.get_all(filters=MEI, top_k=1).get("next_cursor", "x"))
    for limit in (0, -1, 10_001, True, "5", 1.5):
        with pytest.raises(InvalidInput, match="limit"):
            memory.changes(limit=limit)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="whole namespace"):
        memory.changes(within=MEI)
    with pytest.raises(UnknownOption):
        memory.changes(filters=MEI)


def test_asyncio_has_it(memory: Memory) -> None:
    one = say(memory, "Box one")

    async def read() -> dict[str, Any]:
        return await AsyncMemory(memory=memory).changes(limit=1)

    assert [each["id"] for each in asyncio.run(read())["results"]] == [one]


def test_a_number_that_was_drawn_first_and_commits_last_is_not_passed_over(ledger: Ledger) -> None:
    if ledger.is_sqlite:
        pytest.skip("SQLite has one writer")
    with ledger.write() as slow:
        write_changes(slow, [row("a")])
        with ledger.write() as fast:
            write_changes(fast, [row("b")])
        found, place = changes_after(ledger, "n", None, limit=10)
        assert found == [] and newest_place(ledger, "n").no == 0  # b has the higher number: not before a has ended
    found, place = changes_after(ledger, "n", place, limit=10)
    assert [each.memory_id for each in found] == ["a", "b"]


def test_the_order_is_that_of_transactions_where_numbers_say_otherwise(ledger: Ledger) -> None:
    if ledger.is_sqlite:
        pytest.skip("SQLite has one writer")
    with ledger.engine.connect() as early, early.begin():
        early.execute(sa.text("SELECT pg_current_xact_id()"))
        with ledger.write() as late:
            write_changes(late, [row("late")])
        place = newest_place(ledger, "n")
        write_changes(early, [row("early")])
        assert changes_after(ledger, "n", place, limit=10)[0] == []
    found, place = changes_after(ledger, "n", place, limit=1)
    assert [each.memory_id for each in found] == ["early"]
    assert [each.memory_id for each in changes_after(ledger, "n", place, limit=10)[0]] == ["late"]


def test_a_transaction_that_fails_tells_nothing(ledger: Ledger) -> None:
    with ledger.engine.connect() as connection, connection.begin() as begun:
        write_changes(connection, [row("a")])
        begun.rollback()
    with ledger.write() as tx:
        write_changes(tx, [row("b")])
    assert [each.memory_id for each in changes_after(ledger, "n", None, limit=10)[0]] == ["b"]


def test_old_changes_are_pruned_and_a_cursor_before_them_is_refused(ledger: Ledger) -> None:
    empty = newest_place(ledger, "n")
    for number in range(6):
        with ledger.write() as tx:
            write_changes(tx, [row(f"m{number}", at=NOON + timedelta(days=number)), row(f"m{number}", namespace="o", at=NOON)])
    places = [each.place for each in changes_after(ledger, "n", None, limit=10)[0]]
    with ledger.write() as tx:
        assert prune_changes(tx, until=NOON + timedelta(days=3), limit=2) == 2
    with ledger.write() as tx:
        assert prune_changes(tx, until=NOON + timedelta(days=3), limit=100) == 6  # one more here, five of the other
    with ledger.write() as tx:
        assert prune_changes(tx, until=NOON + timedelta(days=3), limit=100) == 0
    assert [each.memory_id for each in changes_after(ledger, "n", None, limit=10)[0]] == ["m3", "m4", "m5"]
    assert [each.memory_id for each in changes_after(ledger, "o", None, limit=10)[0]] == ["m5"]
    assert [each.memory_id for each in changes_after(ledger, "n", places[3], limit=10)[0]] == ["m4", "m5"]
    for stale in (empty, places[0], places[2]):
        with pytest.raises(feed.Stale):
            changes_after(ledger, "n", stale, limit=10)


def test_a_quiet_reader_at_the_end_keeps_its_place(memory: Memory, clock: HandClock) -> None:
    say(memory, "Box one")
    place = memory.changes()["cursor"]
    clock.advance(86400 * 90)
    two = say(memory, "Box two")
    prune(memory)
    assert told(memory, place) == [("ADD", two, 1)]
    for _ in range(2):
        clock.advance(86400 * 90)
        three = say(memory, f"Box {clock.now()}")
        prune(memory)
    with pytest.raises(StaleCursor, match="begin anew"):
        memory.changes(place)
    assert told(memory)[-1] == ("ADD", three, 1)


def test_a_ledger_that_was_put_back_is_noticed(ledger: Ledger) -> None:
    for name in ("a", "b"):
        with ledger.write() as tx:
            write_changes(tx, [row(name)])
    place = newest_place(ledger, "n")
    with ledger.write() as tx:  # yesterday's ledger, and another change since
        tx.execute(sa.delete(changes).where(changes.c.memory_id == "b"))
    with pytest.raises(feed.Stale):
        changes_after(ledger, "n", place, limit=10)
    with ledger.write() as tx:
        tx.execute(sa.update(changes).where(changes.c.memory_id == "a").values(no=place.no))
    with pytest.raises(feed.Stale):
        changes_after(ledger, "n", place, limit=10)


def test_ids_of_transactions_of_another_server_are_flattened(ledger: Ledger) -> None:
    if ledger.is_sqlite:
        pytest.skip("SQLite has no ids of transactions")
    with ledger.write() as tx:
        write_changes(tx, [row("a"), row("b")])
    place = newest_place(ledger, "n")
    with ledger.write() as tx:  # as a dump of a server that has seen more brings them
        tx.execute(sa.update(changes).values(xid=1 << 40))
        tx.execute(sa.update(ledger_meta).where(ledger_meta.c.key == "changes.source").values(value="another"))
    with ledger.write() as tx:
        write_changes(tx, [row("c")])
    assert [each.memory_id for each in changes_after(ledger, "n", None, limit=10)[0]] == ["a", "b", "c"]
    stale = feed.Place(place.no, place.check, "another")
    with pytest.raises(feed.Stale):
        changes_after(ledger, "n", stale, limit=10)
