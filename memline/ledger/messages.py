"""What was said in a lane, in its order; and what of it is not shown to a model again, since a memory that came from it was deleted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.message import CONTEXT, CONTEXT_LIMIT, SOURCES, Message, cut
from memline.contracts.receipt import Event
from memline.ledger.jobs import Job, Stage, lock_which
from memline.ledger.results import FACTS, load_results
from memline.ledger.schema import jobs, memories, messages, stage_results
from memline.ledger.session import insert

__all__ = ["carries", "forget_sources", "save_messages", "sources_of", "strip_payloads", "window_before"]

#: Messages of a job by their place in the turn; None: it is not known which, so all that may be a source.
_Which = frozenset[int] | None

#: Rows named in one statement.
_CHUNK = 500


def save_messages(tx: Connection, found: Sequence[Job]) -> None:
    """Stores the messages of jobs at their places; a second time changes nothing. System and developer messages are no conversation, and
    a message that only calls tools says nothing; what a tool said is kept up to `CONTEXT_LIMIT`.

    Those that a memory came from which is deleted by now are left out, or hidden where another memory names them.
    """
    withheld, redacted = _withheld_of(tx, found)
    named = _named(tx, list(withheld))

    def is_hidden(job: Job, ordinal: int, role: str) -> bool:
        return _is_in(withheld, job.id, ordinal, role)

    def is_gone(job: Job, ordinal: int, role: str) -> bool:
        kept = _is_in(named, job.id, ordinal, role) and not _is_in(redacted, job.id, ordinal, role)
        return is_hidden(job, ordinal, role) and not kept

    rows = [
        {
            "lane": job.lane,
            "place": job.place,
            "ordinal": ordinal,
            "job_id": job.id,
            "role": message.role,
            "name": message.name,
            "text": cut(message.text, CONTEXT_LIMIT) if message.role in CONTEXT else message.text,
            "said_at": job.said_at,
            "withheld": True if is_hidden(job, ordinal, message.role) else None,
        }
        for job in found
        for ordinal, message in enumerate(job.messages)
        if message.role in (*SOURCES, *CONTEXT) and message.text.strip() and not is_gone(job, ordinal, message.role)
    ]
    if rows:
        tx.execute(insert(tx, messages).on_conflict_do_nothing(index_elements=["job_id", "ordinal"]), rows)
    if withheld:  # what the window must not show is not kept with the job either; save is its last stage
        strip_payloads(tx, jobs.c.id.in_(list(withheld)))


def window_before(connection: Connection, lane: str, place: int, *, size: int) -> list[Message]:
    """The last *size* messages of a lane before the turn at *place*, oldest first."""
    query = (
        sa.select(messages.c.role, messages.c.text, messages.c.name)
        .where(messages.c.lane == lane, messages.c.place < place, messages.c.withheld.is_not(True))
        .order_by(messages.c.place.desc(), messages.c.ordinal.desc())
        .limit(size)
    )
    return [Message(role, text, name) for role, text, name in reversed(connection.execute(query).all())]


class Source(Protocol):
    """What is needed of a memory to find the messages that it came from."""

    @property
    def id(self) -> str: ...

    @property
    def lane(self) -> str: ...

    @property
    def job_id(self) -> str: ...


def sources_of(tx: Connection, rows: Sequence[Source]) -> dict[str, _Which]:
    """By job, the messages that memories which are about to be deleted came from: of the turn that made one and of turns that repeated it
    the one that the extractor named, or all of its user's and assistant's. The jobs are locked: before the outbox, as everybody does.
    """
    by_lane: dict[str, set[str]] = {}
    for row in rows:
        by_lane.setdefault(row.lane, set()).add(row.job_id)
    turns: dict[str, list[list[str]]] = {}
    for lane, job_ids in by_lane.items():
        repeats = sa.cast(jobs.c.outcome, sa.Text).contains(Event.DUPLICATE.value)
        query = sa.select(jobs.c.id, jobs.c.outcome).where(jobs.c.lane == lane, sa.or_(jobs.c.id.in_(job_ids), repeats))
        turns |= {job_id: outcome for job_id, outcome in tx.execute(query) if outcome}
    withheld = _withheld(tx, turns, {row.id for row in rows})
    if withheld:
        lock_which(tx, jobs.c.id.in_(list(withheld)))
    return withheld


def forget_sources(tx: Connection, found: Mapping[str, _Which], *, redact: bool = False, hidden_only: bool = False) -> None:
    """Takes the messages that deleted memories came from (`sources_of`) out of their lanes, so that no model learns them again from there.

    One that another memory names is only hidden, and goes with the last of them; *redact*: it goes now. *hidden_only*: of these turns only
    what was hidden before. The rest of a turn stays. A turn that is not saved yet does the same when it is.
    """
    ids = list(found)
    for start in range(0, len(ids), _CHUNK):
        _forget(tx, {job_id: found[job_id] for job_id in ids[start : start + _CHUNK]}, redact=redact, hidden_only=hidden_only)


def _forget(tx: Connection, withheld: Mapping[str, _Which], *, redact: bool, hidden_only: bool) -> None:
    ids = list(withheld)
    named = {} if redact else _named(tx, ids)
    gone: list[int] = []
    hidden: list[int] = []
    for said in tx.execute(
        sa.select(messages.c.no, messages.c.job_id, messages.c.ordinal, messages.c.role)
        .where(messages.c.job_id.in_(ids))
        .where(*([messages.c.withheld.is_(True)] if hidden_only else []))
    ):
        if _is_in(withheld, said.job_id, said.ordinal, said.role):
            (hidden if _is_in(named, said.job_id, said.ordinal, said.role) else gone).append(said.no)
    for start in range(0, len(gone), _CHUNK):
        tx.execute(sa.delete(messages).where(messages.c.no.in_(gone[start : start + _CHUNK])))
    for start in range(0, len(hidden), _CHUNK):
        tx.execute(sa.update(messages).where(messages.c.no.in_(hidden[start : start + _CHUNK])).values(withheld=True))
    strip_payloads(tx, jobs.c.id.in_(ids), jobs.c.stage == Stage.DONE.value)


def strip_payloads(tx: Connection, *which: sa.ColumnElement[bool]) -> None:
    """Takes from jobs, which are locked, what they carried, with what the stages left for them."""
    tx.execute(sa.delete(stage_results).where(stage_results.c.job_id.in_(sa.select(jobs.c.id).where(*which))))
    tx.execute(sa.update(jobs).where(*which, carries()).values(messages=sa.null(), metadata=sa.null(), prompt=None))


def carries() -> sa.ColumnElement[bool]:
    """The jobs that `strip_payloads` changes."""
    return sa.or_(jobs.c.messages.is_not(sa.null()), jobs.c.metadata.is_not(sa.null()), jobs.c.prompt.is_not(None))


def _withheld_of(tx: Connection, found: Sequence[Job]) -> tuple[dict[str, _Which], dict[str, _Which]]:
    """By job, the messages that deleted memories came from; and those that redacted ones did."""
    rows = tx.execute(sa.select(jobs.c.id, jobs.c.outcome).where(jobs.c.no.in_([job.no for job in found])))
    turns = {job_id: outcome for job_id, outcome in rows if outcome}
    ids = sorted({memory_id for outcome in turns.values() for memory_id, _ in outcome})
    gone: dict[str, str] = {}
    for start in range(0, len(ids), 500):
        some = (memories.c.id.in_(ids[start : start + 500]), memories.c.state == "deleted")
        gone |= {row.id: row.content_hash for row in tx.execute(sa.select(memories.c.id, memories.c.content_hash).where(*some))}
    redacted = {memory_id for memory_id, hashed in gone.items() if not hashed}
    return (_withheld(tx, turns, gone) if gone else {}), (_withheld(tx, turns, redacted) if redacted else {})


def _named(tx: Connection, job_ids: Sequence[str]) -> dict[str, _Which]:
    """By job, the messages that memories of it which are not deleted came from."""
    found: dict[str, _Which] = {}
    if not job_ids:
        return found
    query = sa.select(memories.c.job_id, memories.c.message).where(memories.c.job_id.in_(list(job_ids)), memories.c.state != "deleted")
    for job_id, message in tx.execute(query):
        before = found.get(job_id, frozenset())
        found[job_id] = None if message is None or before is None else before | {message}
    return found


def _withheld(tx: Connection, turns: Mapping[str, Sequence[Sequence[str]]], gone: Collection[str]) -> dict[str, _Which]:
    """By job, the messages that *gone* memories came from, of the jobs that have any. *turns*: outcomes by job."""
    told = {
        job_id: [(ordinal, event) for ordinal, (memory_id, event) in enumerate(outcome) if memory_id in gone]
        for job_id, outcome in turns.items()
    }
    told = {job_id: facts for job_id, facts in told.items() if facts}
    if not told:
        return {}
    named: dict[str, Any] = {}  # as long as the job keeps what its stages left
    own: dict[tuple[str, int], int | None] = {}
    ids = list(told)
    for start in range(0, len(ids), _CHUNK):
        some = ids[start : start + _CHUNK]
        named |= load_results(tx, FACTS, some)
        query = sa.select(memories.c.job_id, memories.c.ordinal, memories.c.message).where(memories.c.job_id.in_(some))
        own |= {(job_id, ordinal): message for job_id, ordinal, message in tx.execute(query)}
    found: dict[str, _Which] = {}
    for job_id, facts in told.items():
        known = [own.get((job_id, ordinal)) if event == Event.ADD else _message_of(named.get(job_id), ordinal) for ordinal, event in facts]
        found[job_id] = None if any(message is None for message in known) else frozenset(m for m in known if m is not None)
    return found


def _message_of(facts: Any, ordinal: int) -> int | None:
    message = facts[ordinal]["message"] if facts is not None and ordinal < len(facts) else None
    return message if isinstance(message, int) else None


def _is_in(found: Mapping[str, _Which], job_id: str, ordinal: int, role: str) -> bool:
    """Whether a message is one of those of its job."""
    if job_id not in found:
        return False
    which = found[job_id]
    return role in SOURCES if which is None else ordinal in which
