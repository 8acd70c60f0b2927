"""`memline import --from mem0`: whatever shape the store gave back, ids and times stay, and what is odd is counted."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memline.cli.mem0_history import Mem0History
from memline.cli.mem0_items import NOTES, memory_of
from memline.contracts.errors import InvalidInput
from memline.contracts.portable import PortableMemory
from tests.unit.cli.program import memline, memline_json

FIXTURES = Path(__file__).parent.parent.parent / "fixtures" / "mem0"
NOW = datetime(2026, 3, 1, 9, tzinfo=UTC)
BERLIN = "3f1c2a50-7d1e-4b7a-9a54-0d8c1f6f0a01"
LAMP = "3f1c2a50-7d1e-4b7a-9a54-0d8c1f6f0a04"


def payload(**fields: Any) -> dict[str, Any]:
    return {"id": BERLIN, "payload": {"data": "User has a cat", "user_id": "ann", "created_at": "2025-01-01T00:00:00+00:00"} | fields}


def mapped(item: object, **ids: str) -> tuple[PortableMemory | None, dict[str, int]]:
    notes: Counter[str] = Counter()
    memory = memory_of(item, "default", ids, now=NOW, notes=notes)
    assert set(notes) <= set(NOTES)
    return memory, dict(notes)


def history_db(path: Path, rows: Sequence[tuple[Any, ...]]) -> Path:
    """A history.db; a row: memory id, old text, new text, event, created_at, updated_at, is_deleted, actor, role."""
    with closing(sqlite3.connect(path)) as file:
        file.execute(
            "CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT, event TEXT, created_at DATETIME, "
            "updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT)"
        )
        file.executemany("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", [(f"h{n}", *row) for n, row in enumerate(rows)])
        file.commit()
    return path


@pytest.mark.parametrize("name", ["qdrant_scroll.json", "weaviate_objects.json", "get_all.json"])
def test_every_shape_gives_the_same_memory(name: str) -> None:
    document = json.loads((FIXTURES / name).read_text(encoding="utf-8"))
    items = document.get("objects") or document.get("results") or document["result"]["points"]
    (item,) = [each for each in items if each["id"] == BERLIN]
    memory, notes = mapped(item)
    assert memory is not None and notes == {}
    assert (memory.id, memory.text, memory.scope.ids()) == (BERLIN, "User lives in Berlin", {"user_id": "ann"})
    assert memory.metadata == {"kind": "home", "weight": 0.5, "tags": ["a", "b"]}
    assert memory.created_at == memory.occurred_at == datetime(2025, 1, 2, 16, tzinfo=UTC)
    assert (memory.attributed_to, memory.verbatim, memory.slot) == ("user", False, "user|live")


def test_what_mem0_kept_as_it_stood_is_verbatim() -> None:
    memory, _ = mapped(payload(role="user", actor_id="Ann"))
    assert memory is not None and (memory.verbatim, memory.role, memory.actor_id, memory.slot) == (True, "user", "Ann", None)


@pytest.mark.parametrize(
    ("fields", "counted"),
    [
        ({"data": ""}, "empty"),
        ({"data": None}, "empty"),
        ({"entity_type": "PROPER", "linked_memory_ids": [BERLIN]}, "entities"),
        ({"created_at": None}, "without_a_time"),
        ({"created_at": "yesterday"}, "without_a_time"),
        ({"created_at": "2025-01-01T00:00:00"}, "times_without_zone"),
        ({"expiration_date": "never"}, "unreadable_expirations"),
        ({"hash": "0" * 32}, "hash_differs"),
    ],
)
def test_what_is_odd_is_counted(fields: dict[str, Any], counted: str) -> None:
    memory, notes = mapped(payload(**fields))
    assert notes == {counted: 1}
    assert (memory is None) == (counted in ("empty", "entities"))
    if counted == "without_a_time":
        assert memory is not None and memory.created_at == NOW


def test_an_id_that_is_no_uuid_becomes_another_always_the_same() -> None:
    items = [payload() | {"id": 7}, payload() | {"id": "7"}, payload() | {"id": None}]
    found = [mapped(item) for item in items]
    assert [notes for _, notes in found] == [{"new_ids": 1}] * 3
    first, second, third = (memory.id for memory, _ in found if memory is not None)
    assert first == second != third


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ([], "must be an object, not list"),
        ({"id": "x"}, "neither a point of Qdrant"),
        (payload(user_id=None), "At least one of user_id"),
        (payload(user_id="*"), "wildcards"),
        (payload(data=7), "data must be a string"),
        (payload(role=7), "role must be a string"),
        (payload(data="secret\x00"), "NUL"),
    ],
)
def test_what_can_be_no_memory_says_why_without_its_text(item: object, told: str) -> None:
    with pytest.raises(InvalidInput, match=told) as found:
        mapped(item)
    assert "secret" not in str(found.value)


def test_a_memory_without_an_id_takes_that_of_the_options() -> None:
    memory, _ = mapped(payload(user_id=None), agent_id="a1")
    assert memory is not None and memory.scope.ids() == {"agent_id": "a1"}


def test_a_history_is_told_in_the_order_of_its_rows_and_ends_with_what_is_there(tmp_path: Path) -> None:
    at = "2025-01-02T08:00:00-08:00"
    rows = [
        (BERLIN, None, "Berlin", "ADD", at, None, 0, "Ann", "user"),
        (BERLIN, "Berlin", "Porto", "UPDATE", at, "2025-01-03T00:00:00+00:00", 0, None, None),
        (LAMP, "Lamp", "Red lamp", "UPDATE", at, "not a time", 0, None, None),
        ("gone", None, "secret", "ADD", at, None, 0, None, None),
    ]
    with closing(Mem0History(history_db(tmp_path / "history.db", rows))) as found:
        memory, _ = mapped(payload(data="User has a cat"))
        assert memory is not None
        told = found.told(memory, BERLIN)
        assert told.version == 3 and told.history is not None
        assert [(event.version, event.event, event.old_text, event.new_text, event.reason) for event in told.history] == [
            (1, "ADD", None, "Berlin", None),
            (2, "UPDATE", "Berlin", "Porto", None),
            (3, "UPDATE", "Porto", "User has a cat", "not in mem0's history"),
        ]
        lamp = found.told(memory, LAMP)
        assert lamp.history is not None and [event.new_text for event in lamp.history] == ["Lamp", "Red lamp", "User has a cat"]
        assert found.told(memory, "nobody") is memory
    with pytest.raises(InvalidInput, match=r"no history\.db"):
        Mem0History(FIXTURES / "get_all.json")
    with pytest.raises(InvalidInput, match="not there"):
        Mem0History(tmp_path / "none.db")


@pytest.mark.usefixtures("light")
def test_a_store_comes_over_whole_and_a_second_import_changes_nothing(tmp_path: Path) -> None:
    rows = [
        (LAMP, None, "Ann keeps a lamp", "ADD", "2025-03-04T10:00:00+00:00", None, 0, "Ann", "user"),
        (LAMP, "Ann keeps a lamp", "Ann keeps the red lamp in box 13", "UPDATE", None, "2025-03-04T11:00:00+00:00", 0, "Ann", "user"),
    ]
    file = history_db(tmp_path / "history.db", rows)
    arguments = ("import", "--from", "mem0", str(FIXTURES / "qdrant_scroll.json"), "--history-db", str(file))
    found = memline_json(*arguments)
    assert (found["items"], found["memories"], found["new"], found["duplicates"]) == (8, 6, 5, 1)
    assert found["notes"] == {
        "hash_differs": 1, "times_without_zone": 1, "empty": 1, "without_a_time": 1, "unreadable_expirations": 1, "entities": 1,
    }  # fmt: skip
    assert memline_json("verify", "--deep")["sound"]
    # in the order of time, not of the store
    shown = [item["memory"] for item in memline_json("list", "-u", "ann", "--show-expired")["results"]]
    assert shown == ["User lives in Berlin", "User lives in Porto", "Ann keeps the red lamp in box 13", "User has a cat"]
    assert [row["event"] for row in memline_json("history", LAMP)] == ["ADD", "UPDATE"]
    before = memline_json("export", "--all", "-o", str(tmp_path / "before"))
    again = memline_json(*arguments)
    assert (again["new"], again["known"], again["duplicates"]) == (0, 5, 1)
    memline("export", "--all", "-o", str(tmp_path / "after"))
    first, second = ((tmp_path / name).read_text(encoding="utf-8").splitlines()[1:] for name in ("before", "after"))
    assert first == second and len(first) == before["memories"] == 5


@pytest.mark.usefixtures("light")
def test_several_files_are_one_store() -> None:
    files = [str(FIXTURES / name) for name in ("get_all.json", "weaviate_objects.json")]
    found = memline_json("import", "--from", "mem0", *files)
    assert (found["items"], found["new"], found["known"]) == (4, 2, 2)


@pytest.mark.usefixtures("light")
def test_a_wrong_item_stops_before_anything_is_imported_or_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "points.jsonl"
    file.write_text("\n".join(json.dumps(item) for item in (payload(), payload(user_id=7.5) | {"id": LAMP})), encoding="utf-8")
    stopped = memline("import", "--from", "mem0", str(file), exit_code=1)
    assert f"{file}, item 2 (line 2): user_id must be a string" in stopped.stderr
    assert memline_json("list", "-u", "ann")["results"] == []
    found = memline_json("import", "--from", "mem0", str(file), "--skip-bad")
    assert (found["new"], found["skipped"]) == (1, 1)
    file.write_text(f"[{json.dumps(payload())}", encoding="utf-8")
    assert "line 1: it ends too early" in memline("import", "--from", "mem0", str(file), exit_code=1).stderr
