"""What the ledger knows of itself: the embedder that made its vectors."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.errors import EmbedderMismatch
from memline.ledger.schema import ledger_meta
from memline.ledger.session import insert

__all__ = ["check_embedder", "stored_embedder"]


def stored_embedder(connection: Connection) -> tuple[str, int] | None:
    """Model and dimension of this ledger's vectors; None before the first one."""
    value = connection.execute(sa.select(ledger_meta.c.value).where(ledger_meta.c.key == "embedder")).scalar_one_or_none()
    if value is None:
        return None
    model, _, dimension = value.rpartition("|")
    return model, int(dimension)


def check_embedder(tx: Connection, model: str, dimension: int) -> None:
    """Claims the ledger for an embedder; raises EmbedderMismatch where another one, even of equal dimension, has it."""
    tx.execute(insert(tx, ledger_meta).values(key="embedder", value=f"{model}|{dimension}").on_conflict_do_nothing(index_elements=["key"]))
    stored = stored_embedder(tx)
    if stored is not None and stored != (model, dimension):
        raise EmbedderMismatch(
            f"The memories of this ledger were embedded by {stored[0]} ({stored[1]} dimensions), the settings name {model} "
            f"({dimension} dimensions): vectors of two models can't be compared. Set the former again, or use another ledger."
        )
