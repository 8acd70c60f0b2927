"""Memories from elsewhere become memories of this ledger: rows, vectors, terms, history, links and outbox in one transaction a batch.

A memory that was superseded by one that is not here (yet) is given a placeholder for it: a deleted row of version 1, without content,
which the memory itself fills when it comes. So every batch leaves a ledger that `verify` finds sound, whatever its order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.content_hash import content_hash
from memline.contracts.ids import derived_id
from memline.contracts.portable import PortableMemory
from memline.ledger.changes import write_changes
from memline.ledger.entities import Named, link_entities
from memline.ledger.expire import expire_memory
from memline.ledger.history import HistoryMode, write_history
from memline.ledger.locks import lock_owners, lock_subjects
from memline.ledger.memories import load_memories
from memline.ledger.outbox import enqueue
from memline.ledger.schema import history, memories, memory_links, owners, postings, vectors
from memline.ledger.session import insert
from memline.ledger.sightings import record_sightings
from memline.ledger.transfer_decide import Decision, Fate, Known, decide
from memline.ledger.transfer_jobs import Seats
from memline.ledger.transfer_rows import arrival, history_rows, memory_row, placeholder_history, placeholder_row

__all__ = ["Arriving", "Stored", "lock_for", "store_memories"]


@dataclass(frozen=True, slots=True)
class Arriving:
    """A memory with what was made of its text, outside the transaction."""

    memory: PortableMemory
    #: Term -> how often.
    terms: Mapping[str, int]
    #: Normalised names that it mentions.
    mentions: Sequence[str]
    vector: bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """What a batch did: a decision a memory, in order, and how many links to memories that are not here were left out."""

    decisions: Sequence[Decision]
    links_dropped: int = 0


@dataclass(slots=True)
class _Taken:
    """A memory that is stored: its row, and the version of the deleted row it comes back to (0: it is new)."""

    arriving: Arriving
    restored: int
    row: dict[str, Any]
    no: int = 0


def lock_for(tx: Connection, found: Sequence[PortableMemory]) -> None:
    """Locks what `store_memories` needs: the subjects shared, the owners exclusively."""
    scopes = {memory.scope for memory in found}
    lock_subjects(tx, {subject for scope in scopes for subject in scope.subjects})
    lock_owners(tx, {scope.owner.key for scope in scopes})


def store_memories(
    tx: Connection,
    found: Sequence[Arriving],
    named: Sequence[Named],
    *,
    model: str,
    now: datetime,
    restore_deleted: bool = False,
    dated: bool = True,
    keep: HistoryMode = HistoryMode.FULL,
) -> Stored:
    """Stores what may be stored of *found*; *named*: those of the names they mention that are new in their scope.

    The caller holds the locks of `lock_for`. A second time nothing is changed.
    """
    arriving = [each.memory for each in found]
    decisions, known = decide(tx, arriving, restore_deleted=restore_deleted, dated=dated, now=now)
    aliases = {memory.id: (memory, decision.other) for memory, decision in zip(arriving, decisions, strict=True) if decision.other}
    some = [(each, decision) for each, decision in zip(found, decisions, strict=True) if decision.fate.stores]
    dropped = 0
    if some:
        for each, _ in some:
            _make_room(tx, each.memory, known, now=now, keep=keep)
        taken = _write(tx, some, known, aliases, model=model, now=now, keep=keep)
        dropped = _link(tx, taken)
        _link_names(tx, taken, named, model=model, now=now)
    _redirect(tx, known, aliases)
    return Stored(decisions, dropped)


def _make_room(tx: Connection, memory: PortableMemory, known: Known, *, now: datetime, keep: HistoryMode) -> None:
    """A live twin that is past its day is retired."""
    twin = known.live.get((memory.scope.lane, content_hash(memory.text))) if memory.state == "live" else None
    if twin is not None and twin.no is not None:
        for row in load_memories(tx, memory.scope.namespace, nos=[twin.no]):
            if row.state == "live":
                expire_memory(tx, row, now=now, reason=f"made room for {memory.id}", keep=keep)


def _write(
    tx: Connection,
    some: Sequence[tuple[Arriving, Decision]],
    known: Known,
    aliases: Mapping[str, tuple[PortableMemory, str | None]],
    *,
    model: str,
    now: datetime,
    keep: HistoryMode,
) -> list[_Taken]:
    batch = {each.memory.id: each.memory for each, _ in some}
    answers = {memory.id: _answer(memory, batch, known, aliases) for memory in batch.values() if memory.superseded_by is not None}
    here_already = {*batch, *known.by_id, *(other for _, other in aliases.values())}
    missing = _not_there(tx, sorted(set(answers.values()) - here_already))
    seats = Seats(tx, list(batch.values()), now=now)
    placeholders: dict[str, dict[str, Any]] = {}
    taken: list[_Taken] = []
    for each, decision in some:
        memory = each.memory
        comes_back = decision.fate is Fate.RESTORED
        restored = known.by_id[memory.id].version if comes_back else 0
        row = memory_row(memory, length=sum(each.terms.values()), restored=restored, now=now)
        row |= _seat_of(known.by_id[memory.id]) if comes_back else seats.seat(memory, memory.id)
        row["owner_no"] = seats.owner_no(memory.scope.lane)
        row["superseded_by"] = answer = answers.get(memory.id)
        if answer is not None and answer in missing and answer not in placeholders:
            row_of_it = placeholder_row(memory, answer, now=now) | {"owner_no": row["owner_no"]}
            placeholders[answer] = row_of_it | seats.seat(memory, answer)
        taken.append(_Taken(each, restored, row))
    _put_rows(tx, taken, list(placeholders.values()), known)
    seats.write(batch.keys())
    _put_made(tx, taken, model=model)
    told = [event for each in taken for event in history_rows(each.arriving.memory, each.row, restored=each.restored, now=now)]
    write_history(tx, [*told, *(placeholder_history(row, now=now) for row in placeholders.values())], keep=keep, new=False)
    write_changes(tx, [arrival(each.row, now=now) for each in taken])
    found = [each.arriving.memory for each in taken]
    record_sightings(tx, [(memory.id, seen.turn, seen.at) for memory in found for seen in memory.sightings])
    enqueue(tx, "memory", {each.row["id"]: (each.row["namespace"], each.row["version"]) for each in taken}, now=now)
    return taken


def _not_there(tx: Connection, ids: Sequence[str]) -> set[str]:
    there = set(tx.execute(sa.select(memories.c.id).where(memories.c.id.in_(ids))).scalars()) if ids else set()
    return set(ids) - there


def _seat_of(row: Any) -> dict[str, Any]:
    return {"job_id": row.job_id, "ordinal": row.ordinal, "place": row.place}


def _answer(
    memory: PortableMemory,
    batch: Mapping[str, PortableMemory],
    known: Known,
    aliases: Mapping[str, tuple[PortableMemory, str | None]],
) -> str:
    """The id of what superseded *memory*: as it says, or of its twin here, or of a placeholder where that id is another owner's."""
    answer = str(memory.superseded_by)
    owner = memory.scope.owner.key
    if answer in aliases and aliases[answer][0].scope.owner.key == owner:
        return str(aliases[answer][1])
    named = batch.get(answer)
    here = known.by_id.get(answer)
    elsewhere = named.scope.owner.key != owner if named is not None else here is not None and here.owner_key != owner
    return derived_id("placeholder", memory.id, answer) if elsewhere else answer


def _put_rows(tx: Connection, taken: Sequence[_Taken], placeholders: Sequence[dict[str, Any]], known: Known) -> None:
    """Writes the rows of memories; of those that come back, or whose place was kept, over the row that is there."""
    new = [each.row for each in taken if each.row["id"] not in known.by_id]
    new += placeholders
    numbers: dict[str, int] = {}
    if new:
        numbers = {memory_id: no for memory_id, no in tx.execute(sa.insert(memories).returning(memories.c.id, memories.c.no), new)}
    for each in taken:
        here = known.by_id.get(each.row["id"])
        each.no = numbers[each.row["id"]] if here is None else here.no
        if here is not None:
            tx.execute(sa.update(memories).where(memories.c.no == here.no).values(each.row))
            if not each.restored:
                tx.execute(sa.delete(history).where(history.c.memory_id == each.row["id"]))


def _put_made(tx: Connection, taken: Sequence[_Taken], *, model: str) -> None:
    """Vectors and terms, and the owners' totals."""
    vector_rows, posting_rows = [], []
    added: dict[int, list[int]] = {}
    for each in taken:
        row, vector = each.row, each.arriving.vector
        vector_rows.append({"memory_no": each.no, "model": model, "dimension": len(vector) // 4, "vector": vector})
        live = row["state"] == "live"
        if row["state"] != "expired":
            posting_rows += [
                {"owner_no": row["owner_no"], "term": term, "memory_no": each.no, "tf": tf, "length": row["length"], "live": live}
                for term, tf in each.arriving.terms.items()
            ]
        if live:
            entry = added.setdefault(row["owner_no"], [0, 0])
            entry[0] += 1
            entry[1] += row["length"]
    tx.execute(sa.insert(vectors), vector_rows)
    if posting_rows:
        tx.execute(sa.insert(postings), posting_rows)
    for owner_no, (live_ones, length) in sorted(added.items()):
        more = {"live": owners.c.live + live_ones, "length": owners.c.length + length}
        tx.execute(sa.update(owners).where(owners.c.no == owner_no).values(**more))


def _link(tx: Connection, taken: Sequence[_Taken]) -> int:
    """Links to memories of the same owner that are here; returns how many are not."""
    wanted = sorted({link.to for each in taken for link in each.arriving.memory.links})
    there: dict[str, Any] = {}
    for start in range(0, len(wanted), 500):
        some = sa.and_(memories.c.id.in_(wanted[start : start + 500]), memories.c.state != "deleted")
        there |= {row.id: row for row in tx.execute(sa.select(memories.c.id, memories.c.no, memories.c.owner_no).where(some))}
    rows: dict[tuple[int, int], str] = {}
    dropped = 0
    for each in taken:
        for link in each.arriving.memory.links:
            to = there.get(link.to)
            if to is None or to.owner_no != each.row["owner_no"] or to.no == each.no:
                dropped += 1
            else:
                rows[each.no, to.no] = link.relation.value
    if rows:
        found = [{"memory_no": no, "to_no": to_no, "relation": relation} for (no, to_no), relation in sorted(rows.items())]
        tx.execute(insert(tx, memory_links).on_conflict_do_nothing(), found)
    return dropped


def _link_names(tx: Connection, taken: Sequence[_Taken], named: Sequence[Named], *, model: str, now: datetime) -> None:
    pairs = [(each.row["lane"], norm, each.no) for each in taken for norm in each.arriving.mentions]
    linked = {(lane, norm) for lane, norm, _ in pairs}
    lanes = {each.row["lane"]: (each.row["namespace"], each.row["owner_no"]) for each in taken}
    link_entities(tx, lanes, [name for name in named if (name.lane, name.norm) in linked], pairs, model=model, now=now)


def _redirect(tx: Connection, known: Known, aliases: Mapping[str, tuple[PortableMemory, str | None]]) -> None:
    """What was superseded by a memory that turned out to be a duplicate, and waits by its placeholder, was superseded by its twin."""
    for memory_id, (memory, other) in aliases.items():
        here = known.by_id.get(memory_id)
        if here is not None and here.owner_key == memory.scope.owner.key:
            owner_no = tx.execute(sa.select(owners.c.no).where(owners.c.key == here.owner_key)).scalar_one()
            waiting = sa.and_(memories.c.owner_no == owner_no, memories.c.superseded_by == memory_id, memories.c.id != other)
            tx.execute(sa.update(memories).where(waiting).values(superseded_by=other))
