"""What the tests of erasing share: an eraser on small parts, and reading everything there is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from memline.contracts.scope import Subject
from memline.ledger.session import Ledger
from memline.outbox.erase import Eraser, Stores
from memline.outbox.tombstone_file import EraseKey, TombstoneFile
from memline.pipeline.parts import Parts
from memline.producer.erase_spool import SpoolEraser
from tests.parts import CountingIds, HandClock, accept, make_relay, make_turn, run_all

__all__ = ["ANN", "KEY", "SECRET", "cells", "eraser", "holders", "rows_of_others", "say"]

SECRET = "X1234567"
ANN = Subject("default", "user", "ann-the-erased")
KEY = EraseKey(b"a key of this test", "this test")

_erasers = count(1)


def eraser(parts: Parts, folder: Path, *, sleep: Callable[[float], None] | None = None, **stores: Any) -> Eraser:
    """An eraser whose waiting moves the clock of *parts*, unless *sleep* does otherwise."""
    clock = parts.clock
    assert isinstance(clock, HandClock)
    files = [parts.ledger] if parts.ledger.is_sqlite else []
    given = {"indexes": [parts.index], "turns": [SpoolEraser(folder / "spool")], "sqlite": files, "folders": [folder]} | stores
    return Eraser(
        parts.ledger,
        Stores(**given),
        clock,
        CountingIds(f"erasure-{next(_erasers)}"),
        KEY,
        TombstoneFile(folder / "tombstones.jsonl"),
        grace=30.0,
        sleep=sleep or clock.advance,
    )


def say(parts: Parts, text: str, *, user: str | None = ANN.value, **options: Any) -> str:
    """A turn that is run to its end and shown to the index; its id."""
    turn = make_turn(text, user=user, **options)
    accept(parts, turn)
    run_all(parts)
    make_relay(parts).drain()
    return turn.id


def cells(ledger: Ledger) -> Iterator[tuple[str, str]]:
    """Every value of every column of every table there is, as text."""
    with ledger.read() as connection:
        inspector = sa.inspect(connection)
        for name in inspector.get_table_names():
            for row in connection.execute(sa.text(f'SELECT * FROM "{name}"')).mappings():
                for column, value in row.items():
                    yield (
                        f"{name}.{column}",
                        value.hex() if isinstance(value, bytes) else json.dumps(value, default=str, ensure_ascii=False),
                    )


def holders(ledger: Ledger, text: str) -> set[str]:
    """The columns in which *text* stands."""
    return {where for where, value in cells(ledger) if text in value}


def rows_of_others(ledger: Ledger) -> dict[str, list[Any]]:
    """Every row of every table, but for what an erasure itself writes, counts, and the feed of changes, which has ids and no content."""
    own = {
        "changes",
        "tombstones",
        "erased_turns",
        "erased_numbers",
        "erasure_objects",
        "subjects",
        "counters",
        "ledger_meta",
        "alembic_version",
    }
    found = {}
    with ledger.read() as connection:
        for name in sorted(set(sa.inspect(connection).get_table_names()) - own):
            found[name] = sorted(connection.execute(sa.text(f'SELECT * FROM "{name}"')).all(), key=repr)
    return found
