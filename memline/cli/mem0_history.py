"""mem0's history.db: what happened to the memories that are imported. Of those that are not it is left where it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from memline.contracts.errors import InvalidDate, InvalidInput
from memline.contracts.portable import PortableEvent, PortableMemory
from memline.contracts.receipt import Event
from memline.contracts.turn import check_timestamp

__all__ = ["Mem0History"]


class Mem0History:
    """The table `history` of a file, which is only read. Raises InvalidInput where it is none of mem0's."""

    def __init__(self, file: Path) -> None:
        if not file.is_file():
            raise InvalidInput(f"The file {file} is not there.")
        self._file = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
        self._file.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
        self._file.row_factory = sqlite3.Row
        try:
            # mem0 has no index over memory_id; in the order of its rows, since its times do not sort
            self._file.execute(
                "CREATE TEMP TABLE found AS SELECT rowid AS place, memory_id, old_memory, new_memory, event, created_at, updated_at, "
                "actor_id, role FROM main.history"
            )
            self._file.execute("CREATE INDEX temp.found_of ON found (memory_id, place)")
        except sqlite3.DatabaseError as error:
            self._file.close()
            raise InvalidInput(f"The file {file} is no history.db of mem0 ({error}).") from None

    def told(self, memory: PortableMemory, mem0_id: str) -> PortableMemory:
        """*memory* with its history, where there is one."""
        rows = self._file.execute("SELECT * FROM temp.found WHERE memory_id = ? ORDER BY place", (mem0_id,)).fetchall()
        events = _events(memory, rows)
        return replace(memory, history=events, version=len(events)) if events else memory

    def close(self) -> None:
        self._file.close()


def _events(memory: PortableMemory, rows: Sequence[sqlite3.Row]) -> tuple[PortableEvent, ...]:
    found: list[PortableEvent] = []
    for row in rows:
        text = _text(row["new_memory"])
        if row["event"] not in ("ADD", "UPDATE") or text is None:
            continue  # a memory that is there was not deleted
        who: dict[str, Any] = {"actor_id": _text(row["actor_id"]), "role": _text(row["role"])}
        if not found and row["event"] == "UPDATE":
            first = _text(row["old_memory"]) or text
            found.append(PortableEvent(1, Event.ADD.value, memory.created_at, new_text=first, reason="not in mem0's history"))
        if not found:
            found.append(PortableEvent(1, Event.ADD.value, _time(row["created_at"], memory.created_at), new_text=text, **who))
        else:
            at = _time(row["updated_at"], memory.updated_at)
            found.append(
                PortableEvent(len(found) + 1, Event.UPDATE.value, at, old_text=found[-1].new_text, new_text=text, **who),
            )
    if found and found[-1].new_text != memory.text:
        found.append(
            PortableEvent(
                len(found) + 1,
                Event.UPDATE.value,
                memory.updated_at,
                old_text=found[-1].new_text,
                new_text=memory.text,
                reason="not in mem0's history",
            )
        )
    return tuple(found)


def _text(value: object) -> str | None:
    return value.replace("\x00", "") if isinstance(value, str) and value else None


def _time(value: object, default: datetime) -> datetime:
    try:
        return check_timestamp(value) or default
    except InvalidDate:
        return default
