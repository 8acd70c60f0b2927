"""Turns become jobs: keys, numbers and seats in the lane, in one transaction for a batch of turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts import metrics
from memline.contracts.erasing import MarkedTurn
from memline.contracts.receipt import Status
from memline.contracts.turn import Turn
from memline.ledger.counters import count, count_masked
from memline.ledger.jobs import Stage
from memline.ledger.locks import epoch_sums, lock_subjects
from memline.ledger.marks import cancelled_by_marks
from memline.ledger.namespace_prompt import Instructions, instructions_of, prompts_of
from memline.ledger.pairs import has_pair
from memline.ledger.schema import idempotency_keys, jobs, lost_turns, repeats
from memline.ledger.seats import (
    bring_forward,
    ensure_lanes,
    follow,
    load_producers,
    lock_lanes,
    seat,
    write_lanes,
    write_producers,
    write_released,
)
from memline.ledger.session import when_committed
from memline.ledger.tombstones import end_erased, turns_of_erased

__all__ = ["Accepted", "Outcome", "accept_turns"]


class Outcome(StrEnum):
    """What became of a turn that arrived."""

    NEW = "new"
    AGAIN = "again"  # this very turn was accepted before
    REPEAT = "repeat"  # its key was used before, for the same content
    CONFLICT = "conflict"  # its key was used before, for another content
    CANCELLED = "cancelled"  # its scope was deleted, or its subject erased, after it was handed over


def _measure(accepted: Sequence[Accepted]) -> None:
    for each in accepted:
        metrics.ACCEPTED_TURNS.add(1, outcome=each.outcome.value)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A turn and the job that stands for it."""

    turn_id: str
    job_id: str
    outcome: Outcome


def accept_turns(
    tx: Connection,
    turns: Sequence[Turn],
    *,
    now: datetime,
    order_wait: float,
    entries: Sequence[str] | None = None,
    clock_margin: float = 60.0,
) -> list[Accepted]:
    """Writes the jobs of *turns*, in the order given.

    *entries*: the ids of their stream entries, by which a turn that was handed over before its scope was deleted ends cancelled, with
    nothing of what it carried (`ledger.marks`); None for turns that come straight from the caller. *clock_margin*: seconds after such a
    deletion up to which a spooled turn counts as before it.
    A turn that arrives before an earlier number of its producer is held for at most *order_wait* seconds. A turn whose id is known
    is not written again; every number that arrives is recorded, also one that makes no job.
    """
    scopes = {turn.scope.lane: turn.scope for turn in turns}
    lock_subjects(tx, {subject for scope in scopes.values() for subject in scope.subjects})
    margin = timedelta(seconds=clock_margin)
    arrived: list[tuple[Turn, str | None]] = list(zip(turns, entries or (None for _ in turns), strict=True))
    if gone := turns_of_erased(tx, arrived, margin=margin):
        return _accept_others(tx, turns, gone, now=now, order_wait=order_wait, entries=entries, clock_margin=clock_margin)
    stopped = cancelled_by_marks(tx, zip(turns, entries, strict=True) if entries else (), margin=margin)
    epochs = epoch_sums(tx, {lane: scope.subjects for lane, scope in scopes.items()})
    ensure_lanes(tx, list(scopes.values()), now=now)
    seats = lock_lanes(tx, list(scopes))
    known = _known_turns(tx, [turn.id for turn in turns])
    prompts = prompts_of(tx, (turn.scope.namespace for turn in turns))
    keys = _known_keys(tx, turns)
    producers = load_producers(tx, {(turn.scope.lane, turn.producer) for turn in turns if turn.producer})

    accepted: list[Accepted] = []
    rows: list[dict[str, Any]] = []
    ended: list[dict[str, Any]] = []
    released: list[dict[str, Any]] = []
    new_keys: list[dict[str, Any]] = []
    new_repeats: list[dict[str, Any]] = []
    late = 0
    for turn in turns:
        if turn.id in known:
            accepted.append(Accepted(turn.id, known[turn.id], Outcome.AGAIN))
            continue
        lane = turn.scope.lane
        row: dict[str, Any] | None = None
        first = keys.get((lane, turn.idempotency_key)) if turn.idempotency_key is not None else None
        if first is not None:
            conflict = first[1] != turn.fingerprint
            new_repeats.append({"turn_id": turn.id, "job_id": first[0], "conflict": conflict, "at": now})
            accepted.append(Accepted(turn.id, first[0], Outcome.CONFLICT if conflict else Outcome.REPEAT))
            if not conflict and turn.producer:
                row = bring_forward(producers[lane, turn.producer], first[0], turn.number)
                released += [row] if row is not None else []
        else:
            told = instructions_of(turn, prompts.get(turn.scope.namespace))
            new = _job_row(turn, told, epochs=epochs[lane], now=now)
            if turn.id in stopped:
                ended.append(_ended_row(new, stopped[turn.id], now=now))  # its number is used, a seat it has none
                accepted.append(Accepted(turn.id, turn.id, Outcome.CANCELLED))
            else:
                row = new
                rows.append(row)
                accepted.append(Accepted(turn.id, turn.id, Outcome.NEW))
            if turn.idempotency_key is not None:
                keys[lane, turn.idempotency_key] = (turn.id, turn.fingerprint)
                new_keys.append(
                    {"lane": lane, "key": turn.idempotency_key, "job_id": turn.id, "fingerprint": turn.fingerprint, "created_at": now}
                )
        known[turn.id] = accepted[-1].job_id
        if not turn.producer:
            seat(seats[lane], row)
            continue
        producer = producers[lane, turn.producer]
        if turn.number > producer.expected and turn.number not in producer.waiting:
            producer.waiting[turn.number] = row
            if row is not None:
                row["held_until"] = row["held_until"] or now + timedelta(seconds=order_wait)
            continue
        if turn.number == producer.expected:
            producer.expected += 1
        else:
            late += 1  # passed by `release_held`, or (which no producer does) given out twice: it takes the next seat
        seat(seats[lane], row)
        released += follow(seats[lane], producer)

    for some in (rows, ended):
        if some:
            tx.execute(sa.insert(jobs), some)
    write_released(tx, list({row["no"]: row for row in released if "no" in row}.values()))
    write_producers(tx, producers, now=now)
    write_lanes(tx, seats, now=now)
    if new_keys:
        tx.execute(sa.insert(idempotency_keys), new_keys)
    if new_repeats:
        tx.execute(sa.insert(repeats), new_repeats)
    tx.execute(sa.delete(lost_turns).where(lost_turns.c.turn_id.in_([turn.id for turn in turns])))
    when_committed(tx, lambda: _measure(accepted))
    count(tx, "late_turns", late)
    count(tx, "turns_cancelled", len(ended))
    for row in rows:
        count_masked(tx, row["masked"] or {})
    return accepted


def _accept_others(
    tx: Connection,
    turns: Sequence[Turn],
    gone: Sequence[Turn],
    *,
    now: datetime,
    order_wait: float,
    entries: Sequence[str] | None,
    clock_margin: float,
) -> list[Accepted]:
    """Ends turns of erased subjects, of which neither a job nor a lane is made, and accepts the others."""
    ids = {turn.id for turn in gone}
    end_erased(tx, [MarkedTurn(t.id, t.scope.namespace, t.scope.lane, t.producer, t.number) for t in gone], now=now)
    left = [place for place, turn in enumerate(turns) if turn.id not in ids]
    some = None if entries is None else [entries[place] for place in left]
    rest = [turns[place] for place in left]
    accepted = accept_turns(tx, rest, now=now, order_wait=order_wait, entries=some, clock_margin=clock_margin) if rest else []
    others = iter(accepted)
    return [Accepted(turn.id, turn.id, Outcome.CANCELLED) if turn.id in ids else next(others) for turn in turns]


def _known_turns(tx: Connection, ids: Sequence[str]) -> dict[str, str]:
    known = {turn_id: turn_id for turn_id in tx.execute(sa.select(jobs.c.id).where(jobs.c.id.in_(list(ids)))).scalars()}
    rows = tx.execute(sa.select(repeats.c.turn_id, repeats.c.job_id).where(repeats.c.turn_id.in_(list(ids))))
    return known | {turn_id: job_id for turn_id, job_id in rows}


def _known_keys(tx: Connection, turns: Sequence[Turn]) -> dict[tuple[str, str | None], tuple[str, str]]:
    wanted = [(turn.scope.lane, turn.idempotency_key) for turn in turns if turn.idempotency_key is not None]
    if not wanted:
        return {}
    table = idempotency_keys.c
    query = sa.select(table.lane, table.key, table.job_id, table.fingerprint)
    rows = tx.execute(has_pair(query, table.lane, table.key, wanted))
    return {(lane, key): (job_id, fingerprint) for lane, key, job_id, fingerprint in rows}


def _job_row(turn: Turn, told: Instructions, *, epochs: int, now: datetime) -> dict[str, Any]:
    return {
        "id": turn.id,
        "lane": turn.scope.lane,
        "namespace": turn.scope.namespace,
        "producer": turn.producer,
        "number": turn.number,
        "place": None,
        "position": None,
        "held_until": None,
        "state": Status.ACCEPTED.value,
        "stage": Stage.EXTRACT.value,
        "epochs": epochs,
        "messages": [message.to_json() for message in turn.messages],
        "infer": turn.infer,
        "prompt": told.text,
        "prompt_source": told.source,
        "prompt_hash": told.hash,
        "memory_type": turn.memory_type,
        "metadata": dict(turn.metadata),
        "masked": dict(turn.masked) or None,
        "expires_on": turn.expires_on,
        "key": turn.idempotency_key,
        "fingerprint": turn.fingerprint,
        "said_at": turn.said_at,
        "occurred_at": turn.occurred_at,
        "handed_at": turn.handed_at,
        "accepted_at": now,
        "trace": turn.trace,
    }


def _ended_row(row: dict[str, Any], reason: str, *, now: datetime) -> dict[str, Any]:
    """The row of a turn that ends cancelled as it arrives: what it carried is not kept."""
    kept = {name: value for name, value in row.items() if name not in ("messages", "metadata", "prompt", "prompt_source", "prompt_hash")}
    return kept | {"state": Status.CANCELLED.value, "reason": reason, "finished_at": now}
