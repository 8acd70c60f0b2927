"""The commit: facts become memories, with their vectors, postings, history and outbox rows, in one transaction.

The rows are decided in memory, job by job, against what is live under the owners' locks, and written at the end, each table once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts import metrics
from memline.contracts.content_hash import content_hash, text_md5
from memline.contracts.fact import Fact, Relation
from memline.contracts.ids import derived_id, digest_of
from memline.contracts.receipt import Event, Status
from memline.ledger.history import HistoryMode, write_history
from memline.ledger.jobs import Job
from memline.ledger.lifetimes import Lifetime, last_day, lifetimes_of
from memline.ledger.outbox import enqueue
from memline.ledger.pairs import has_pair
from memline.ledger.retire import drop_postings
from memline.ledger.schema import jobs, memories, memory_links, owners, postings, vectors
from memline.ledger.session import when_committed
from memline.ledger.sightings import record_sightings

__all__ = ["Candidate", "commit_memories"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A fact on its way into the ledger, with what was computed for it."""

    fact: Fact
    #: Term -> how often, and the number of terms.
    terms: Mapping[str, int]
    length: int
    vector: bytes


@dataclass(slots=True)
class _Commit:
    """What a transaction is going to write."""

    now: datetime
    #: By namespace, of memories that bring no expiration date.
    lifetimes: Mapping[str, Lifetime] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    links: list[list[tuple[str, str]]] = field(default_factory=list)
    #: Live rows by (lane, hash), by (owner, slot), by id: those of the ledger, then those decided here. By slot, also past answers that
    #: a turn which comes late may lie between.
    by_hash: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    by_slot: dict[tuple[int, str], list[dict[str, Any]]] = field(default_factory=dict)
    by_id: dict[str, dict[str, Any]] = field(default_factory=dict)
    changed: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    outcomes: dict[str, list[list[str]]] = field(default_factory=dict)
    #: What was said again: (memory id, job id, when).
    seen: list[tuple[str, str, datetime]] = field(default_factory=list)


def commit_memories(
    tx: Connection,
    found: Sequence[tuple[Job, Sequence[Candidate]]],
    *,
    model: str,
    extractor: str,
    procedure: str = "",
    now: datetime,
    default_lifetime: Lifetime = None,
    keep: HistoryMode = HistoryMode.FULL,
) -> dict[str, list[list[str]]]:
    """Commits the facts of jobs, in the order given; returns each job's outcome as [memory id, event].

    The caller holds the subjects' locks and, exclusively, the owners'. A fact that is live in its scope already is reported as a
    duplicate of it and leaves a sighting there, an expired twin is retired first, and what a newer fact of the same owner answers anew
    is superseded. A second commit of a job changes nothing: its memories' ids depend on the job alone, and a committed job is skipped.
    *extractor* is recorded with the jobs, for a procedural memory followed by *procedure*, the version of its own rules.
    *default_lifetime* in days, for memories without an expiration date in a namespace that says nothing of it.
    """
    work = _Commit(now, lifetimes_of(tx, (job.scope.namespace for job, candidates in found if candidates), default_lifetime))
    committed = _committed_before(tx, [job.no for job, _ in found])
    found = [(job, candidates) for job, candidates in found if job.no not in committed]
    work.outcomes |= {outcome[0]: outcome[1] for outcome in committed.values()}
    _load(tx, work, found)
    for job, candidates in found:
        outcome = work.outcomes.setdefault(job.id, [])
        for ordinal, candidate in enumerate(candidates):
            outcome.append(_decide(work, job, ordinal, candidate))
    _write(tx, work, model=model, keep=keep, traces={job.id: job.trace for job, _ in found if job.trace is not None})
    for job, _ in found:
        outcome = work.outcomes[job.id]
        added = any(event == Event.ADD for _, event in outcome)
        state = Status.COMMITTED if added else Status.SEARCHABLE
        tx.execute(
            sa.update(jobs)
            .where(jobs.c.no == job.no)
            .values(
                state=state.value,
                outcome=outcome,
                reason=None if added else _why_nothing(outcome),
                extractor=_by(job, extractor, procedure),
                committed_at=now,
                searchable_at=None if added else now,
            )
        )
    when_committed(tx, lambda: _measure(work.outcomes, [job for job, _ in found], now))
    return work.outcomes


def _by(job: Job, extractor: str, procedure: str) -> Any:
    """Who extracted: as extract noted it (a stored reply may be of another model or prompt than today's), else *extractor*."""
    if not job.infer:
        return None
    name = sa.func.coalesce(jobs.c.extractor, extractor)
    return name if job.memory_type is None else name.concat(procedure)


def _measure(outcomes: Mapping[str, Sequence[Sequence[str]]], committed: Sequence[Job], now: datetime) -> None:
    for job in committed:
        seconds = max(0.0, (now - job.handed_at).total_seconds())
        metrics.COMMITTED_SECONDS.observe(seconds)
        events = [event for _, event in outcomes[job.id]]
        if Event.ADD.value not in events:  # nothing has to be shown: it is searchable now
            metrics.SEARCHABLE_SECONDS.observe(seconds)
        if duplicates := events.count(Event.DUPLICATE.value):
            metrics.DUPLICATES.add(duplicates)


def _why_nothing(outcome: Sequence[Sequence[str]]) -> str:
    if not outcome:
        return "nothing to extract"
    return "duplicate of " + ", ".join(dict.fromkeys(memory_id for memory_id, _ in outcome))


def _committed_before(tx: Connection, job_nos: Sequence[int]) -> dict[int, tuple[str, list[list[str]]]]:
    query = sa.select(jobs.c.no, jobs.c.id, jobs.c.outcome).where(jobs.c.no.in_(list(job_nos)), jobs.c.committed_at.is_not(None))
    return {row.no: (row.id, row.outcome) for row in tx.execute(query)}


def _load(tx: Connection, work: _Commit, found: Sequence[tuple[Job, Sequence[Candidate]]]) -> None:
    hashes = sorted({(job.lane, content_hash(c.fact.text)) for job, candidates in found for c in candidates})
    slots = sorted({(job.owner_no, c.fact.slot) for job, candidates in found for c in candidates if c.fact.slot is not None})
    linked = sorted({link.memory_id for _, candidates in found for c in candidates for link in c.fact.links})
    columns = [memories.c[name] for name in _KEPT]
    live = memories.c.state == "live"
    said_first = min((job.said_at for job, _ in found), default=work.now)
    ended_after = sa.and_(memories.c.state == "superseded", memories.c.valid_to > said_first)
    # an answer that expired has ended what was said before it, marked or not
    expired_after = sa.and_(memories.c.state == "expired", memories.c.valid_from > said_first)
    queries = [has_pair(sa.select(*columns).where(live), memories.c.lane, memories.c.content_hash, some) for some in _chunks(hashes)]
    queries += [
        has_pair(sa.select(*columns).where(sa.or_(live, ended_after, expired_after)), memories.c.owner_no, memories.c.slot, some)
        for some in _chunks(slots)
    ]
    queries += [sa.select(*columns).where(live, memories.c.id.in_(some)) for some in _chunks(linked)]
    for query in queries:
        for row in tx.execute(query):
            _remember(work, dict(row._mapping) | {"was_live": row.state == "live"})


def _chunks(items: Sequence[T], size: int = 400) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


_KEPT = (
    "no", "id", "namespace", "lane", "owner_no", "content_hash", "slot", "version", "state", "text", "length", "expires_on", "valid_from",
    "valid_to", "verbatim", "superseded_by",
)  # fmt: skip


def _remember(work: _Commit, row: dict[str, Any]) -> None:
    if row["id"] in work.by_id:
        return
    work.by_id[row["id"]] = row
    if row["state"] == "live":
        work.by_hash[row["lane"], row["content_hash"]] = row
    if row["slot"] is not None:
        work.by_slot.setdefault((row["owner_no"], row["slot"]), []).append(row)


def _decide(work: _Commit, job: Job, ordinal: int, candidate: Candidate) -> list[str]:
    fact = candidate.fact
    hashed = content_hash(fact.text)
    twin = work.by_hash.get((job.lane, hashed))
    if twin is not None and twin["state"] == "live":
        if not _expired(twin, work.now):
            if twin.get("job_id") != job.id:  # twice in one turn is said once
                work.seen.append((twin["id"], job.id, job.said_at))
            return [twin["id"], Event.DUPLICATE.value]
        _retire(work, twin, job)
    row = _memory_row(job, ordinal, candidate, hashed, work.now)
    if row["expires_on"] is None:
        row["expires_on"] = last_day(work.now, work.lifetimes.get(row["namespace"]))
    for other in _answers(work, job, fact):
        _order(work, row, other, job)
    work.rows.append(row)
    work.candidates.append(candidate)
    work.links.append([(link.memory_id, link.relation.value) for link in fact.links if _is_of_owner(work, link.memory_id, job)])
    work.history.append(_history(row, Event.ADD, job, old=None, new=row["text"], at=work.now))
    if row["superseded_by"] is not None:
        row["version"] = 2
        work.history.append(_history(row, Event.SUPERSEDE, job, old=row["text"], new=row["text"], at=work.now, by=row["superseded_by"]))
    _remember(work, row)
    return [row["id"], Event.ADD.value]


def _expired(row: Mapping[str, Any], now: datetime) -> bool:
    expires_on: date | None = row["expires_on"]
    return expires_on is not None and expires_on < now.date()


def _is_of_owner(work: _Commit, memory_id: str, job: Job) -> bool:
    return memory_id in work.by_id and work.by_id[memory_id]["owner_no"] == job.owner_no


def _answers(work: _Commit, job: Job, fact: Fact) -> list[dict[str, Any]]:
    """Memories of the owner that answer the same question as the new one, or that the model says it closes."""
    found = [work.by_id[link.memory_id] for link in fact.links if link.relation.closes and _is_of_owner(work, link.memory_id, job)]
    if fact.slot is not None:
        found += work.by_slot.get((job.owner_no, fact.slot), [])
    unique = {other["id"]: other for other in found}
    hashed = content_hash(fact.text)
    return [
        other
        for other in unique.values()
        if other["state"] in ("live", "superseded")
        # a twin that expired never stands in the way, whenever it was said
        or (other["state"] == "expired" and other["valid_from"] > job.said_at and other["content_hash"] != hashed)
    ]


def _order(work: _Commit, row: dict[str, Any], other: dict[str, Any], job: Job) -> None:
    """Each answer holds until the next one was said, whichever arrived first. A verbatim memory is only marked."""
    if other["valid_from"] > row["valid_from"]:
        if row["valid_to"] is None or other["valid_from"] < row["valid_to"]:
            row["valid_to"] = other["valid_from"]
            if not row["verbatim"]:
                row |= {"superseded_by": other["id"], "state": "superseded"}
        return
    if other["valid_to"] is not None and other["valid_to"] <= row["valid_from"]:
        return  # another answer, before this one, has closed it
    other |= {"valid_to": row["valid_from"], "version": other["version"] + 1}
    if not other["verbatim"]:
        other |= {"state": "superseded", "superseded_by": row["id"]}
    work.changed[other["id"]] = other
    work.history.append(_history(other, Event.SUPERSEDE, job, old=other["text"], new=other["text"], at=work.now, by=row["id"]))


def _retire(work: _Commit, row: dict[str, Any], job: Job) -> None:
    """An expired memory makes room for its twin."""
    row |= {"state": "expired", "version": row["version"] + 1}
    work.changed[row["id"]] = row
    work.history.append(_history(row, Event.EXPIRE, job, old=row["text"], new=None, at=work.now))
    del work.by_hash[row["lane"], row["content_hash"]]


def _memory_row(job: Job, ordinal: int, candidate: Candidate, hashed: str, now: datetime) -> dict[str, Any]:
    fact, scope = candidate.fact, job.scope
    return {
        "id": derived_id("memory", job.id, str(ordinal)),
        "namespace": scope.namespace,
        "lane": job.lane,
        "owner_no": job.owner_no,
        "user_id": scope.user_id,
        "agent_id": scope.agent_id,
        "run_id": scope.run_id,
        "job_id": job.id,
        "ordinal": ordinal,
        "place": job.place,
        "state": "live",
        "version": 1,
        "text": fact.text,
        "content_hash": hashed,
        "md5": text_md5(fact.text),
        "digest": digest_of(fact.text, hashed),
        "length": candidate.length,
        "metadata": job.metadata,
        "attributed_to": fact.attributed_to if job.infer else None,
        "role": fact.role,
        "actor_id": fact.actor,
        "memory_type": job.memory_type,
        "verbatim": not job.infer,
        "slot": fact.slot,
        "message": fact.message,
        "span_start": None if fact.span is None else fact.span[0],
        "span_end": None if fact.span is None else fact.span[1],
        "expires_on": job.expires_on,
        "occurred_at": job.said_at,
        "created_at": now,
        "updated_at": now,
        "valid_from": job.said_at,
        "valid_to": None,
        "superseded_by": None,
    }


def _history(
    row: Mapping[str, Any], event: Event, job: Job, *, old: str | None, new: str | None, at: datetime, by: str | None = None
) -> dict[str, Any]:
    return {
        "memory_id": row["id"],
        "namespace": row["namespace"],
        "version": row["version"],
        "event": event.value,
        "old_text": old,
        "new_text": new,
        "job_id": job.id,
        "actor_id": row.get("actor_id"),
        "role": row.get("role"),
        "reason": None if by is None else f"superseded by {by}",
        "at": at,
    }


def _write(tx: Connection, work: _Commit, *, model: str, keep: HistoryMode, traces: Mapping[str, str]) -> None:
    for row in work.changed.values():
        if "no" in row:
            tx.execute(
                sa.update(memories)
                .where(memories.c.no == row["no"])
                .values(
                    state=row["state"],
                    version=row["version"],
                    valid_to=row["valid_to"],
                    superseded_by=row["superseded_by"],
                    updated_at=work.now,
                )
            )
    gone = [row["no"] for row in work.changed.values() if "no" in row and row["state"] == "expired"]
    drop_postings(tx, gone)
    past = [row["no"] for row in work.changed.values() if "no" in row and row["was_live"] and row["state"] == "superseded"]
    if past:
        tx.execute(sa.update(postings).where(postings.c.memory_no.in_(past)).values(live=False))
    delta: dict[int, list[int]] = {}
    for row in work.changed.values():
        if "no" in row and row["was_live"] and row["state"] != "live":
            _add(delta, row["owner_no"], -1, -row["length"])
    if work.rows:
        numbers = {memory_id: no for memory_id, no in tx.execute(sa.insert(memories).returning(memories.c.id, memories.c.no), work.rows)}
        _write_rows(tx, work, numbers, model=model)
        for row in work.rows:
            if row["state"] == "live":
                _add(delta, row["owner_no"], 1, row["length"])
    for owner_no, (live, length) in sorted(delta.items()):
        tx.execute(sa.update(owners).where(owners.c.no == owner_no).values(live=owners.c.live + live, length=owners.c.length + length))
    write_history(tx, work.history, keep=keep)
    record_sightings(tx, work.seen)
    shown = {row["id"]: (row["namespace"], row["version"]) for row in (*work.changed.values(), *work.rows)}
    enqueue(tx, "memory", shown, now=work.now, traces={row["id"]: traces.get(row["job_id"]) for row in work.rows})


def _add(delta: dict[int, list[int]], owner_no: int, live: int, length: int) -> None:
    entry = delta.setdefault(owner_no, [0, 0])
    entry[0] += live
    entry[1] += length


def _write_rows(tx: Connection, work: _Commit, numbers: Mapping[str, int], *, model: str) -> None:
    vector_rows, posting_rows, link_rows = [], [], []
    for row, candidate, links in zip(work.rows, work.candidates, work.links, strict=True):
        no = numbers[row["id"]]
        vector_rows.append({"memory_no": no, "model": model, "dimension": len(candidate.vector) // 4, "vector": candidate.vector})
        # one that came after its day and was retired at once, for its twin in the same batch, has no terms: as any that expired
        terms = {} if row["state"] == "expired" else candidate.terms
        posting_rows += [
            {
                "owner_no": row["owner_no"],
                "term": term,
                "memory_no": no,
                "tf": tf,
                "length": candidate.length,
                "live": row["state"] == "live",
            }
            for term, tf in terms.items()
        ]
        for memory_id, relation in links:
            to_no = work.by_id[memory_id].get("no") or numbers.get(memory_id)
            if to_no is not None and to_no != no:
                link_rows.append({"memory_no": no, "to_no": to_no, "relation": Relation(relation).value})
    tx.execute(sa.insert(vectors), vector_rows)
    if posting_rows:
        tx.execute(sa.insert(postings), posting_rows)
    if link_rows:
        tx.execute(sa.insert(memory_links), link_rows)
