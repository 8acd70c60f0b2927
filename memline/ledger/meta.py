"""What the ledger knows of itself: the embedder that made its vectors, and the move to another one that is under way.

A process holds one embedder for as long as it lives. Every transaction that stores a vector, and everything that compares vectors, asks
here whether that is still the ledger's own: after a move to another one, of equal dimension perhaps, nothing of the former is stored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.errors import EmbedderMismatch, ServiceUnavailable
from memline.ledger.schema import ledger_meta
from memline.ledger.session import insert

__all__ = [
    "Embedders",
    "Move",
    "check_embedder",
    "check_own_embedder",
    "claim_ledger",
    "embedders",
    "forget_former",
    "save_move",
    "stored_embedder",
]

_EMBEDDER, _MOVE, _FORMER = "embedder", "embedder.move", "embedder.former"


@dataclass(frozen=True, slots=True)
class Move:
    """A move to another embedder that was begun: `memline index reembed` gathers its vectors."""

    model: str
    dimension: int
    #: Whose move it is: a run that another one took over from stores nothing.
    run: str
    #: Until then nothing that has a vector is committed: the last few are gathered, and swapped.
    closed_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Embedders:
    """Model and dimension of the ledger's embedder (None before the first vector), and what is known of others."""

    own: tuple[str, int] | None = None
    move: Move | None = None
    #: The one before, while its index may still be there.
    former: tuple[str, int] | None = None

    @property
    def known(self) -> list[tuple[str, int]]:
        """Those whose index has a reason to be there."""
        return [found for found in (self.own, None if self.move is None else (self.move.model, self.move.dimension)) if found is not None]


def embedders(connection: Connection, *, lock: bool = False) -> Embedders:
    """What the ledger says of embedders, in one statement. *lock*: and nobody changes it until this transaction ends."""
    query = sa.select(ledger_meta.c.key, ledger_meta.c.value).where(ledger_meta.c.key.in_((_EMBEDDER, _MOVE, _FORMER)))
    values: dict[str, str] = {key: value for key, value in connection.execute(query.with_for_update() if lock else query)}
    return Embedders(_pair(values.get(_EMBEDDER)), _move(values.get(_MOVE)), _pair(values.get(_FORMER)))


def stored_embedder(connection: Connection) -> tuple[str, int] | None:
    """Model and dimension of this ledger's vectors; None before the first one."""
    return _pair(connection.execute(sa.select(ledger_meta.c.value).where(ledger_meta.c.key == _EMBEDDER)).scalar_one_or_none())


def check_embedder(tx: Connection, model: str, dimension: int) -> None:
    """Claims the ledger for an embedder; raises EmbedderMismatch where another one, even of equal dimension, has it."""
    value = _text((model, dimension))
    tx.execute(insert(tx, ledger_meta).values(key=_EMBEDDER, value=value).on_conflict_do_nothing(index_elements=["key"]))
    stored = stored_embedder(tx)
    if stored is not None and stored != (model, dimension):
        raise EmbedderMismatch(
            f"The memories of this ledger were embedded by {stored[0]} ({stored[1]} dimensions), the settings name {model} "
            f"({dimension} dimensions): vectors of two models can't be compared. `memline index reembed` moves the ledger to the embedder "
            "of the settings; or set the former again."
        )


def check_own_embedder(connection: Connection, model: str, dimension: int, *, storing_at: datetime | None = None) -> None:
    """Raises EmbedderMismatch where the ledger moved to another embedder than this process holds. One indexed read.

    *storing_at*: now, of a transaction that stores a vector and has its subjects' locks (the swap takes all of them). It is told
    ServiceUnavailable while a move gathers the last vectors: it waits a moment, and nothing is wrong with it.
    """
    found = embedders(connection)
    if found.own is not None and found.own != (model, dimension):
        raise EmbedderMismatch(
            f"This process embeds by {model} ({dimension} dimensions), the memories of the ledger have vectors of {found.own[0]} "
            f"({found.own[1]} dimensions) since `memline index reembed`: restart it with the new settings. Nothing was stored."
        )
    if storing_at is not None and found.move is not None and found.move.closed_until is not None and storing_at < found.move.closed_until:
        raise ServiceUnavailable("The ledger is about to change over to another embedder: this waits for a moment. Nothing was stored.")


def save_move(tx: Connection, move: Move | None) -> None:
    """Writes what is known of a move; None: there is none."""
    if move is None:
        tx.execute(sa.delete(ledger_meta).where(ledger_meta.c.key == _MOVE))
        return
    closed = None if move.closed_until is None else move.closed_until.astimezone(UTC).isoformat()
    _save(tx, _MOVE, json.dumps({"model": move.model, "dimension": move.dimension, "run": move.run, "closed_until": closed}))


def claim_ledger(tx: Connection, move: Move) -> None:
    """The move has arrived: its embedder is the ledger's own, and the one before is remembered until its index is gone."""
    own = stored_embedder(tx)
    if own is not None:
        _save(tx, _FORMER, _text(own))
    _save(tx, _EMBEDDER, _text((move.model, move.dimension)))
    save_move(tx, None)


def forget_former(tx: Connection) -> None:
    """The index of the embedder before is gone."""
    tx.execute(sa.delete(ledger_meta).where(ledger_meta.c.key == _FORMER))


def _save(tx: Connection, key: str, value: str) -> None:
    statement: Any = insert(tx, ledger_meta).values(key=key, value=value)
    tx.execute(statement.on_conflict_do_update(index_elements=["key"], set_={"value": statement.excluded.value}))


def _text(embedder: tuple[str, int]) -> str:
    return f"{embedder[0]}|{embedder[1]}"


def _pair(value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    model, _, dimension = value.rpartition("|")
    return model, int(dimension)


def _move(value: str | None) -> Move | None:
    if value is None:
        return None
    raw = json.loads(value)
    move = Move(raw["model"], raw["dimension"], raw["run"])
    return move if raw["closed_until"] is None else replace(move, closed_until=datetime.fromisoformat(raw["closed_until"]))
