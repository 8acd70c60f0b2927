"""Stage 6: the messages of a turn enter the window of its lane, also those of a turn without a memory."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.engine import Connection

from memline.ledger.jobs import Job
from memline.ledger.messages import save_messages
from memline.pipeline.parts import Batch, Parts, Prepared

__all__ = ["commit", "prepare"]


def prepare(_parts: Parts, _batch: Batch) -> Prepared:
    """Nothing is needed from outside."""
    return Prepared()


def commit(tx: Connection, _parts: Parts, jobs: Sequence[Job], _prepared: Prepared) -> None:
    """Saves the messages at the job's place in the conversation."""
    save_messages(tx, jobs)
