"""Turns become jobs: keys, numbers and seats in the lane, in one transaction for a batch of turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts import metrics
from memline.contracts.erasing import MarkedTurn
from memline.contracts.receipt import Status
from memline.contracts.scope import Scope
from memline.contracts.turn import Turn
from memline.ledger.counters import count, count_masked
from memline.ledger.jobs import Stage
from memline.ledger.locks import epoch_sums, lock_subjects
from memline.ledger.marks import cancelled_by_marks
from memline.ledger.namespace_prompt import Instructions, instructions_of, prompts_of
from memline.ledger.pairs import has_pair
from memline.ledger.schema import idempotency_keys, jobs, lane_numbers, lane_producers, lanes, lost_turns, owners, repeats
from memline.ledger.session import insert, when_committed
from memline.ledger.tombstones import end_erased, expected_after_erasure, turns_of_erased

__all__ = ["Accepted", "Outcome", "accept_turns", "ensure_lanes", "release_held"]


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


@dataclass(slots=True)
class _Lane:
    """A lane while turns are seated in it."""

    last_place: int
    last_position: int
    seated: int = 0


@dataclass(slots=True)
class _Producer:
    """What one producer owes one lane: the next number, and what arrived beyond it (with its job, if it made one)."""

    expected: int
    waiting: dict[int, dict[str, Any] | None] = field(default_factory=dict)
    #: Numbers that the ledger has as waiting.
    stored: set[int] = field(default_factory=set)


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
    seats = _lock_lanes(tx, list(scopes))
    known = _known_turns(tx, [turn.id for turn in turns])
    prompts = prompts_of(tx, (turn.scope.namespace for turn in turns))
    keys = _known_keys(tx, turns)
    producers = _load_producers(tx, {(turn.scope.lane, turn.producer) for turn in turns if turn.producer})

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
                row = _bring_forward(producers[lane, turn.producer], first[0], turn.number)
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
            _seat(seats[lane], row)
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
        _seat(seats[lane], row)
        released += _follow(seats[lane], producer)

    for some in (rows, ended):
        if some:
            tx.execute(sa.insert(jobs), some)
    _write_released(tx, list({row["no"]: row for row in released if "no" in row}.values()))
    _write_producers(tx, producers, now=now)
    _write_lanes(tx, seats, now=now)
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


def release_held(tx: Connection, *, now: datetime, limit: int = 200) -> int:
    """Seats turns whose gap did not close within `order_wait`; counts the missing ones. Returns how many were seated."""
    due = sa.select(jobs.c.lane).where(jobs.c.held_until <= now).order_by(jobs.c.held_until).limit(limit)
    due_lanes = sorted(set(tx.execute(due).scalars()))
    if not due_lanes:
        return 0
    seats = _lock_lanes(tx, due_lanes)
    held = tx.execute(
        sa.select(jobs.c.lane, jobs.c.producer, jobs.c.number)
        .where(jobs.c.held_until <= now, jobs.c.lane.in_(due_lanes))
        .order_by(jobs.c.lane, jobs.c.producer, jobs.c.number)
    ).all()
    producers = _load_producers(tx, {(row.lane, row.producer) for row in held})
    released: list[dict[str, Any]] = []
    gaps = 0
    for row in held:
        producer = producers[row.lane, row.producer]
        if row.number < producer.expected:
            continue  # seated with the one before it
        # numbers between that arrived without a job are no gap
        arrived = sum(1 for number in producer.waiting if producer.expected <= number < row.number)
        gaps += row.number - producer.expected - arrived
        for number in sorted(number for number in producer.waiting if number < row.number):
            earlier = producer.waiting.pop(number)
            if earlier is not None:
                _seat(seats[row.lane], earlier)
                released.append(earlier)
        producer.expected = row.number
        released += _follow(seats[row.lane], producer)
    _write_released(tx, released)
    _write_producers(tx, producers, now=now)
    _write_lanes(tx, seats, now=now)
    count(tx, "order_gaps", gaps)
    return len(released)


def ensure_lanes(tx: Connection, scopes: Sequence[Scope], *, now: datetime) -> None:
    """Lanes and owners of *scopes* exist afterwards."""
    found = {scope.lane: scope for scope in scopes}
    there = set(tx.execute(sa.select(lanes.c.key).where(lanes.c.key.in_(list(found)))).scalars())
    missing = [scope for lane, scope in sorted(found.items()) if lane not in there]
    if not missing:
        return
    by_key = {scope.owner.key: scope.owner for scope in missing}
    tx.execute(
        insert(tx, owners).on_conflict_do_nothing(index_elements=["key"]),
        [
            {"key": key, "namespace": owner.namespace, "user_id": owner.user_id, "agent_id": owner.agent_id, "run_id": owner.run_id}
            for key, owner in sorted(by_key.items())
        ],
    )
    numbers: dict[str, int] = {
        key: no for key, no in tx.execute(sa.select(owners.c.key, owners.c.no).where(owners.c.key.in_(list(by_key))))
    }
    tx.execute(
        insert(tx, lanes).on_conflict_do_nothing(index_elements=["key"]),
        [
            {
                "key": scope.lane,
                "namespace": scope.namespace,
                "user_id": scope.user_id,
                "agent_id": scope.agent_id,
                "run_id": scope.run_id,
                "owner_no": numbers[scope.owner.key],
                "ready_at": now,
            }
            for scope in missing
        ],
    )


def _lock_lanes(tx: Connection, keys: Sequence[str]) -> dict[str, _Lane]:
    query = (
        sa.select(lanes.c.key, lanes.c.last_place, lanes.c.last_position)
        .where(lanes.c.key.in_(list(keys)))
        .order_by(lanes.c.key)
        .with_for_update(key_share=True)  # rows that only name a lane (a commit's memories) need not wait
    )
    return {row.key: _Lane(row.last_place, row.last_position) for row in tx.execute(query)}


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


def _load_producers(tx: Connection, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], _Producer]:
    found = {pair: _Producer(expected=1) for pair in wanted}
    if not wanted:
        return found
    table = lane_producers.c
    for row in tx.execute(has_pair(sa.select(lane_producers), table.lane, table.producer, wanted)):
        found[row.lane, row.producer].expected = row.expected
    fresh = [pair for pair in sorted(wanted) if found[pair].expected == 1]
    for pair, expected in expected_after_erasure(tx, fresh).items():
        found[pair].expected = expected
    numbers = lane_numbers.c
    waiting = sa.select(numbers.lane, numbers.producer, numbers.number, jobs.c.no, jobs.c.id, jobs.c.held_until).outerjoin(
        jobs,
        sa.and_(
            jobs.c.lane == numbers.lane,
            jobs.c.producer == numbers.producer,
            jobs.c.number == numbers.number,
            jobs.c.position.is_(None),  # an equality that (lane, position) has an index for
            jobs.c.held_until.is_not(None),
        ),
    )
    for lane, producer, number, no, job_id, held_until in tx.execute(has_pair(waiting, numbers.lane, numbers.producer, wanted)):
        held = {"no": no, "id": job_id, "number": number, "place": None, "position": None, "held_until": held_until}
        found[lane, producer].waiting[number] = None if no is None else held
        found[lane, producer].stored.add(number)
    return found


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


def _seat(lane: _Lane, row: dict[str, Any] | None) -> None:
    """Gives a job the next seat of the conversation and the next turn in the queue."""
    if row is None:
        return
    lane.last_place += 1
    lane.last_position += 1
    lane.seated += 1
    row |= {"place": lane.last_place, "position": lane.last_position, "held_until": None}


def _bring_forward(producer: _Producer, job_id: str, number: int) -> dict[str, Any] | None:
    """A turn handed over twice, the later call of which arrived first and is held: it takes effect at the place of the earlier call."""
    for later, row in producer.waiting.items():
        if later > number and row is not None and row["id"] == job_id:
            producer.waiting[later] = None
            row["number"] = number
            return row
    return None


def _follow(lane: _Lane, producer: _Producer) -> list[dict[str, Any]]:
    """Seats what waited for the number that just arrived, and what waited for that."""
    released = []
    while producer.expected in producer.waiting:
        row = producer.waiting.pop(producer.expected)
        producer.expected += 1
        _seat(lane, row)
        if row is not None:
            released.append(row)
    return released


def _write_released(tx: Connection, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        tx.execute(
            sa.update(jobs)
            .where(jobs.c.no == sa.bindparam("job_no"))
            .values(
                place=sa.bindparam("seat"),
                position=sa.bindparam("turn"),
                number=sa.bindparam("its_number"),
                held_until=sa.bindparam("held", type_=jobs.c.held_until.type),
            ),
            [
                {
                    "job_no": row["no"],
                    "seat": row["place"],
                    "turn": row["position"],
                    "its_number": row["number"],
                    "held": row["held_until"],
                }
                for row in rows
            ],
        )


def _write_producers(tx: Connection, producers: dict[tuple[str, str], _Producer], *, now: datetime) -> None:
    if not producers:
        return
    statement = insert(tx, lane_producers)
    tx.execute(
        statement.on_conflict_do_update(
            index_elements=["lane", "producer"], set_={"expected": statement.excluded.expected, "seen_at": statement.excluded.seen_at}
        ),
        [
            {"lane": lane, "producer": name, "expected": producer.expected, "seen_at": now}
            for (lane, name), producer in sorted(producers.items())
        ],
    )
    numbers = [
        {"lane": lane, "producer": name, "number": number}
        for (lane, name), producer in sorted(producers.items())
        for number in sorted(producer.waiting.keys() - producer.stored)
    ]
    if numbers:
        tx.execute(insert(tx, lane_numbers).on_conflict_do_nothing(), numbers)
    table = lane_numbers.c
    for (lane, name), producer in sorted(producers.items()):
        if producer.stored - producer.waiting.keys():
            tx.execute(sa.delete(lane_numbers).where(table.lane == lane, table.producer == name, table.number < producer.expected))


def _write_lanes(tx: Connection, seats: dict[str, _Lane], *, now: datetime) -> None:
    seated = [
        {"lane": key, "place": lane.last_place, "last": lane.last_position, "at": now} for key, lane in sorted(seats.items()) if lane.seated
    ]
    if not seated:
        return
    was_empty = lanes.c.last_position == lanes.c.done_position
    tx.execute(
        sa.update(lanes)
        .where(lanes.c.key == sa.bindparam("lane"))
        .values(
            last_place=sa.bindparam("place"),
            last_position=sa.bindparam("last"),
            ready_at=sa.case((was_empty, sa.bindparam("at", type_=lanes.c.ready_at.type)), else_=lanes.c.ready_at),
        ),
        seated,
    )
