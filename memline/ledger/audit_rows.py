"""Checks that compute anew what a row says of itself, page by page: the hashes of each text, the outcome of each turn, its messages.

What a page finds is looked at a second time, in another transaction: only what is still wrong then is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.content_hash import content_hash, text_md5
from memline.contracts.ids import digest_of
from memline.ledger.audit import Found
from memline.ledger.audit_parts import is_one_of
from memline.ledger.schema import entities, jobs, memories, messages, vectors
from memline.ledger.session import Ledger

__all__ = ["recomputed"]

#: Rows of a page.
PAGE = 1000

#: How far from 1 the length of a vector may be: float32 after rounding.
_TOLERANCE = 1e-3

_SILENT = ("system", "developer")

#: A look at the rows whose numbers lie in (first, second]: what is wrong with them.
_Look = Callable[[Connection, int, int], list[Found]]


def recomputed(ledger: Ledger, *, deep: bool, limit: int) -> Iterator[Found]:
    """What does not agree with what is computed from it, at most *limit* a kind; *deep*: every vector is read, too."""
    yield from _pages(ledger, memories.c.no, _texts, limit)
    yield from _pages(ledger, jobs.c.no, _outcomes, limit)
    yield from _pages(ledger, jobs.c.no, _messages, limit)
    if deep:
        yield from _pages(ledger, vectors.c.memory_no, _memory_vectors, limit)
        yield from _pages(ledger, entities.c.no, _entity_vectors, limit)


def _pages(ledger: Ledger, number: sa.ColumnElement[int], look: _Look, limit: int) -> Iterator[Found]:
    after, told = 0, 0
    while told < limit:
        with ledger.read() as connection:
            page = sa.select(number.label("no")).where(number > after).order_by(number).limit(PAGE).subquery()
            upto = connection.execute(sa.select(sa.func.max(page.c.no))).scalar_one()
            if upto is None:
                return
            found = look(connection, after, upto)
        if found:
            with ledger.read() as connection:
                still = set(look(connection, after, upto))
            for each in found:
                if each in still and told < limit:
                    told += 1
                    yield each
        after = upto


def _texts(connection: Connection, after: int, upto: int) -> list[Found]:
    columns = memories.c
    query = sa.select(columns.id, columns.text, columns.content_hash, columns.md5, columns.digest).where(
        columns.no > after, columns.no <= upto, ~is_one_of(columns.state, "deleted")
    )
    found = []
    for row in connection.execute(query):
        hashed = content_hash(row.text)
        if hashed != row.content_hash or text_md5(row.text) != row.md5:
            found.append(Found("memories", "its text is not the one that was hashed", row.id))
        elif digest_of(row.text, hashed) != row.digest:
            found.append(Found("memories", "its digest is not that of its text", row.id))
    return found


def _outcomes(connection: Connection, after: int, upto: int) -> list[Found]:
    """A turn returned ids of memories that are in the ledger, its own among them."""
    rows = connection.execute(sa.select(jobs.c.id, jobs.c.outcome).where(jobs.c.no > after, jobs.c.no <= upto)).all()
    named = {row.id: {memory_id for memory_id, _ in row.outcome or ()} for row in rows}
    own: dict[str, set[str]] = {}
    query = sa.select(memories.c.job_id, memories.c.id).join(jobs, jobs.c.id == memories.c.job_id)
    for job_id, memory_id in connection.execute(query.where(jobs.c.no > after, jobs.c.no <= upto)):
        own.setdefault(job_id, set()).add(memory_id)
    known = {memory_id for ids in own.values() for memory_id in ids}
    known |= _known(connection, sorted({memory_id for ids in named.values() for memory_id in ids} - known))
    found = [
        Found("jobs", "it returned the id of a memory that is not in the ledger", job_id) for job_id, ids in named.items() if ids - known
    ]
    left_out = [job_id for job_id, ids in named.items() if own.get(job_id, set()) - ids]
    return found + [Found("jobs", "its outcome leaves out a memory of its own", job_id) for job_id in left_out]


def _messages(connection: Connection, after: int, upto: int) -> list[Found]:
    """Of a finished turn every message was saved; one whose messages were removed by age says nothing."""
    within = (jobs.c.no > after, jobs.c.no <= upto)
    ended = (jobs.c.finished_at.is_not(None), jobs.c.stage == "done", is_one_of(jobs.c.state, "committed", "searchable"))
    counted = sa.select(messages.c.job_id, sa.func.count()).join(jobs, jobs.c.id == messages.c.job_id).where(*within)
    rows = connection.execute(sa.select(jobs.c.id, _number_of_messages(connection)).where(*within, *ended)).all()
    saved = {job_id: number for job_id, number in connection.execute(counted.group_by(messages.c.job_id))}
    suspects = [job_id for job_id, said in rows if said and saved.get(job_id, 0) != said]  # a system message is not saved
    return [
        Found("messages", "a finished turn was not saved", job_id)
        for job_id, spoken in _spoken(connection, suspects)
        if saved.get(job_id, 0) != spoken
    ]


def _number_of_messages(connection: Connection) -> sa.ColumnElement[Any]:
    """Messages of a job; null or 0 where they were removed."""
    counted: sa.ColumnElement[Any] = sa.func.json_array_length(jobs.c.messages)
    if connection.dialect.name == "postgresql":  # JSON's own null is no array there
        counted = sa.case((sa.func.json_typeof(jobs.c.messages) == "array", counted))
    return counted


def _spoken(connection: Connection, job_ids: Sequence[str]) -> Iterator[tuple[str, int]]:
    for start in range(0, len(job_ids), 20):  # a turn may have a megabyte
        query = sa.select(jobs.c.id, jobs.c.messages).where(jobs.c.id.in_(job_ids[start : start + 20]))
        for job_id, said in connection.execute(query):
            yield job_id, sum(message["role"] not in _SILENT for message in said or ())


def _known(connection: Connection, ids: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(ids), 500):
        found |= set(connection.execute(sa.select(memories.c.id).where(memories.c.id.in_(ids[start : start + 500]))).scalars())
    return found


def _memory_vectors(connection: Connection, after: int, upto: int) -> list[Found]:
    query = (
        sa.select(memories.c.id, vectors.c.vector)
        .join(memories, memories.c.no == vectors.c.memory_no)
        .where(vectors.c.memory_no > after, vectors.c.memory_no <= upto)
    )
    return _not_of_length_one("vectors", connection.execute(query).all())


def _entity_vectors(connection: Connection, after: int, upto: int) -> list[Found]:
    query = sa.select(entities.c.id, entities.c.vector).where(entities.c.no > after, entities.c.no <= upto)
    return _not_of_length_one("entities", connection.execute(query).all())


def _not_of_length_one(store: str, rows: Sequence[Any]) -> list[Found]:
    found = []
    for object_id, raw in rows:
        vector = np.frombuffer(raw, dtype="<f4") if len(raw) % 4 == 0 else np.full(1, np.nan, np.float32)
        length = float(np.sqrt(np.dot(vector, vector)))
        if not abs(length - 1.0) <= _TOLERANCE:  # so written, it finds NaN
            found.append(Found(store, "its vector is not of length 1", object_id))
    return found
