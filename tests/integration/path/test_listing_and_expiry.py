"""Listing, counting, entities, expiry and backdating through the front door."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memline import AsyncMemory, Memory
from memline.errors import InvalidCursor, InvalidInput, ScopeRequired, UnknownOption
from memline.ledger.lifetimes import set_lifetime
from memline.settings import load_settings
from tests.parts import HandClock

MEI = {"user_id": "mei"}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> HandClock:
    return HandClock(NOON)


@pytest.fixture
def memory(tmp_path: Path, clock: HandClock) -> Iterator[Memory]:
    """The embedded mode on a clock that is moved by hand."""
    settings = load_settings(home=tmp_path, embedder="tests.chaos.small_parts:SmallEmbedder", reconcile_every=0, default_lifetime=None)
    opened = Memory(settings=settings)
    opened._house.clock = clock  # before anything is built
    with opened:
        yield opened


def say(memory: Memory, text: str, **options: Any) -> str:
    """One verbatim memory; its id."""
    given: dict[str, Any] = MEI | {"infer": False, "wait": True} | options
    return str(memory.add(text, **given)["results"][0]["id"])


def texts(answer: dict[str, Any]) -> list[str]:
    return [item["memory"] for item in answer["results"]]


def test_a_walk_over_pages(memory: Memory) -> None:
    ids = [say(memory, f"Box {number}") for number in range(5)]
    first = memory.get_all(filters=MEI, top_k=2)
    assert ([item["id"] for item in first["results"]], first["total"]) == (ids[:2], 5)
    second = memory.get_all(filters=MEI, top_k=3, cursor=first["next_cursor"])
    assert ([item["id"] for item in second["results"]], second["total"]) == (ids[2:], 5)
    assert "next_cursor" not in second and "score" not in second["results"][0]
    assert memory.count(filters=MEI) == 5
    with pytest.raises(InvalidCursor):
        memory.in_namespace("other").get_all(filters=MEI, cursor=first["next_cursor"])


def test_entities_of_a_user(memory: Memory) -> None:
    rome = say(memory, "we met Anna in Rome")
    say(memory, "we met Bert in Oslo", user_id="bob")
    first = memory.entities(filters=MEI, top_k=1)
    second = memory.entities(filters=MEI, top_k=9, cursor=first["next_cursor"])
    assert [item["name"] for item in (*first["results"], *second["results"])] == ["Anna", "Rome"]
    assert first["results"] == [{"name": "Anna", "type": "PROPER", "count": 1, "memory_ids": [rome], "user_id": "mei"}]
    assert "next_cursor" not in second


def test_bad_input_changes_nothing_and_says_so(memory: Memory) -> None:
    for call in (
        lambda: memory.get_all(filters=MEI, cursor="x"),
        lambda: memory.get_all(filters=MEI, top_k=-1),
        lambda: memory.get_all(filters=MEI, include_superseded="yes"),  # type: ignore[arg-type]
        lambda: memory.entities(filters=MEI, cursor="x"),
        lambda: memory.entities(filters=MEI, memory_ids=-1),
        lambda: memory.entities(filters=MEI, top_k="all"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidInput):
            call()
    for unscoped in (memory.get_all, memory.count, memory.entities):
        with pytest.raises(ScopeRequired):
            unscoped()
        with pytest.raises(UnknownOption, match="filters"):
            unscoped(user_id="mei")
        with pytest.raises(UnknownOption, match="colour"):
            unscoped(filters=MEI, colour="blue")


def test_expiry_from_the_last_day_to_the_purge(memory: Memory, clock: HandClock) -> None:
    gone = say(memory, "Parked on deck 3 of the Orly garage", expiration_date="2026-03-01")
    kept = say(memory, "Likes tea")
    clock.advance(12 * 3600 - 1)
    assert memory.count(filters=MEI) == 2
    clock.advance(1)  # midnight in UTC; nothing has marked it yet
    for _ in range(2):
        assert texts(memory.get_all(filters=MEI)) == texts(memory.search("parked deck", filters=MEI, threshold=0)) == ["Likes tea"]
        assert memory.count(filters=MEI) == memory.get_all(filters=MEI)["total"] == 1
        assert "Orly" not in [item["name"] for item in memory.entities(filters=MEI)["results"]]
        shown = memory.get_all(filters=MEI, show_expired=True)
        assert ([item["id"] for item in shown["results"]], shown["total"]) == ([gone, kept], 2)
        assert memory.search("parked deck", filters=MEI, show_expired=True)["results"][0]["id"] == gone
        assert (memory.get(gone) or {})["expiration_date"] == "2026-03-01"
        memory._house.expirer.run()
        memory.flush()
    assert [row["event"] for row in memory.history(gone)] == ["ADD", "EXPIRE"]
    clock.advance(30 * 86400)  # 1 April: the grace's last day is the 31st of March
    memory._house.expirer.run()
    assert memory.get(gone) is None
    assert texts(memory.get_all(filters=MEI, show_expired=True)) == ["Likes tea"]
    assert [row["event"] for row in memory.history(gone)] == ["ADD", "EXPIRE", "DELETE"]


def test_the_last_day_of_the_grace_still_shows_it(memory: Memory, clock: HandClock) -> None:
    gone = say(memory, "Parked on deck 3", expiration_date="2026-03-01")
    clock.advance(30 * 86400)
    memory._house.expirer.run()
    assert clock.now().date() == date(2026, 3, 31)
    assert memory.get(gone) is not None


def test_an_expired_duplicate_never_blocks_a_new_fact(memory: Memory, clock: HandClock) -> None:
    first = say(memory, "Parked on deck 3", expiration_date="2026-03-01")
    assert say(memory, "Parked on deck 3") == first  # until then it is the same
    clock.advance(86400)
    second = say(memory, "Parked on deck 3", expiration_date="2026-03-02")
    clock.advance(86400)
    memory._house.expirer.run()
    third = say(memory, "Parked on deck 3")
    assert len({first, second, third}) == 3
    assert [item["id"] for item in memory.get_all(filters=MEI)["results"]] == [third]


def test_an_expiration_in_the_past_is_taken_and_hidden(memory: Memory) -> None:
    """A backdated turn may have had its day: mem0 takes it, and an import has to keep it."""
    old = say(memory, "Parked on deck 3", timestamp="2025-01-01T10:00:00Z", expiration_date="2025-01-02")
    assert memory.get_all(filters=MEI)["results"] == []
    assert (memory.get(old) or {})["occurred_at"] == "2025-01-01T10:00:00+00:00"


def test_a_namespace_and_the_settings_give_memories_a_lifetime(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path, embedder="tests.chaos.small_parts:SmallEmbedder", default_lifetime=7)
    memory = Memory(settings=settings)
    memory._house.clock = clock = HandClock(NOON)
    with memory:
        short = memory.in_namespace("short")
        with memory._house.ledger.write() as tx:
            set_lifetime(tx, "short", 1, now=NOON)
        one, other = say(memory, "Likes tea", timestamp="2020-01-01"), say(short, "Likes tea")
        assert (memory.get(one) or {})["expiration_date"] == "2026-03-08"
        assert (short.get(other) or {})["expiration_date"] == "2026-03-02"
        clock.advance(2 * 86400)
        assert (memory.count(filters=MEI), short.count(filters=MEI)) == (1, 0)


def test_the_engine_expires_and_purges_by_itself(tmp_path: Path) -> None:
    settings = load_settings(
        home=tmp_path, embedder="tests.chaos.small_parts:SmallEmbedder", expired_grace=0, prune_every=0.1, reconcile_every=0
    )
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date()
    with Memory(settings=settings) as memory:
        gone = say(memory, "Parked on deck 3", expiration_date=yesterday)
        deadline = datetime.now(UTC) + timedelta(seconds=180)
        while memory.get(gone) is not None:
            assert datetime.now(UTC) < deadline, "it was not purged"
            time.sleep(0.02)
        assert memory.history(gone)[-1]["reason"] == "expired"


def test_a_turn_of_long_ago_is_kept_with_its_time_and_its_dates(memory: Memory) -> None:
    """Case 48: the time of an imported chat anchors its relative dates, and comes back with the memory."""
    answer = memory.add("I met Anna in Rome yesterday.", **MEI, timestamp="2023-05-08T13:00:00Z", wait=True)
    (item,) = memory.get_all(filters=MEI)["results"]
    assert item["id"] == answer["results"][0]["id"]
    assert item["memory"] == "User met Anna in Rome yesterday (2023-05-07)"
    assert item["occurred_at"] == "2023-05-08T13:00:00+00:00"
    assert item["created_at"].startswith("2026-03-01")
    assert texts(memory.get_all(filters={**MEI, "occurred_at": {"lt": "2024-01-01"}})) == [item["memory"]]
    assert memory.search("Whom did I meet?", filters=MEI, threshold=0)["results"][0]["occurred_at"] == item["occurred_at"]


def test_asyncio_has_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        settings = load_settings(home=tmp_path, embedder="tests.chaos.small_parts:SmallEmbedder")
        async with AsyncMemory(settings=settings) as memory:
            for number in range(3):
                await memory.add(f"we saw Rome {number} times", **MEI, infer=False, wait=True)
            first = await memory.get_all(filters=MEI, top_k=2)
            rest = await memory.get_all(filters=MEI, top_k=2, cursor=first["next_cursor"])
            assert len(first["results"]) + len(rest["results"]) == first["total"] == await memory.count(filters=MEI) == 3
            (entity,) = (await memory.entities(filters=MEI))["results"]
            assert (entity["name"], entity["count"]) == ("Rome", 3)

    asyncio.run(main())


def test_an_import_keeps_times_and_expiry(memory: Memory, tmp_path: Path) -> None:
    from memline.cli.import_lines import LineReader, Numbered

    line = {"user_id": "mei", "content": "Parked on deck 3", "timestamp": "2023-05-08T13:00:00+02:00", "expiration_date": "2023-05-09"}
    house = memory._house
    reader = LineReader("default", {}, infer=False, max_turn=1000, id_source=house.ids, clock=house.clock)
    (found,) = reader.read([json.dumps(line).encode()])
    assert isinstance(found, Numbered)
    assert found.turn.occurred_at == datetime(2023, 5, 8, 11, tzinfo=UTC)
    assert found.turn.expires_on == date(2023, 5, 9)
