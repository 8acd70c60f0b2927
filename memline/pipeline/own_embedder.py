"""Whether the embedder that this process holds is still the ledger's: `memline index reembed` may have moved it to another one."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from memline.contracts.errors import EmbedderMismatch
from memline.ledger.meta import check_own_embedder
from memline.pipeline.parts import Parts

__all__ = ["check_storing", "misfit"]


def misfit(connection: Connection, parts: Parts) -> EmbedderMismatch | None:
    """Why this process must not work on turns: what it would store, and what it would find, is of another model. One indexed read."""
    try:
        check_own_embedder(connection, parts.embedder.model, parts.embedder.dimension)
    except EmbedderMismatch as error:
        return error
    return None


def check_storing(tx: Connection, parts: Parts) -> None:
    """For a transaction that stores vectors and has its subjects' locks. Raises EmbedderMismatch after a move, ServiceUnavailable while
    one is about to end.
    """
    check_own_embedder(tx, parts.embedder.model, parts.embedder.dimension, storing_at=parts.clock.now())
