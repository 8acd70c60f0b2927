"""Seats in a lane: a turn's place in the conversation and its turn in the queue, by the numbers of its producer.

A number that arrives before an earlier one of its producer is held, and follows it; what is still missing after `order_wait` is passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.scope import Scope
from memline.ledger.counters import count
from memline.ledger.locks import lock_of_lanes
from memline.ledger.pairs import has_pair
from memline.ledger.schema import jobs, lane_numbers, lane_producers, lanes, owners
from memline.ledger.session import insert
from memline.ledger.tombstones import expected_after_erasure

__all__ = [
    "Lane",
    "Producer",
    "bring_forward",
    "ensure_lanes",
    "follow",
    "load_producers",
    "lock_lanes",
    "release_held",
    "seat",
    "write_lanes",
    "write_producers",
    "write_released",
]


@dataclass(slots=True)
class Lane:
    """A lane while turns are seated in it."""

    last_place: int
    last_position: int
    seated: int = 0


@dataclass(slots=True)
class Producer:
    """What one producer owes one lane: the next number, and what arrived beyond it (with its job, if it made one)."""

    expected: int
    waiting: dict[int, dict[str, Any] | None] = field(default_factory=dict)
    #: Numbers that the ledger has as waiting.
    stored: set[int] = field(default_factory=set)


def ensure_lanes(tx: Connection, scopes: Sequence[Scope], *, now: datetime) -> None:
    """Lanes and owners of *scopes* exist afterwards."""
    found = {scope.lane: scope for scope in scopes}
    there = set(tx.execute(sa.select(lanes.c.key).where(lanes.c.key.in_(list(found)))).scalars())
    missing = [scope for lane, scope in sorted(found.items()) if lane not in there]
    if not missing:
        return
    by_key = {scope.owner.key: scope.owner for scope in missing}
    numbers: dict[str, int] = {}
    while len(numbers) < len(by_key):  # an erasure of another lane may just have removed an owner that had no other
        tx.execute(
            insert(tx, owners).on_conflict_do_nothing(index_elements=["key"]),
            [
                {"key": key, "namespace": owner.namespace, "user_id": owner.user_id, "agent_id": owner.agent_id, "run_id": owner.run_id}
                for key, owner in sorted(by_key.items())
            ],
        )
        found_owners = sa.select(owners.c.key, owners.c.no).where(owners.c.key.in_(list(by_key))).order_by(owners.c.key)
        numbers = {key: no for key, no in tx.execute(found_owners.with_for_update(read=True, key_share=True))}
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


def lock_lanes(tx: Connection, keys: Sequence[str]) -> dict[str, Lane]:
    """The lanes of *keys*, locked until the transaction ends."""
    query = (
        sa.select(lanes.c.key, lanes.c.last_place, lanes.c.last_position)
        .where(lanes.c.key.in_(list(keys)))
        .order_by(lanes.c.key)
        .with_for_update(key_share=True)  # rows that only name a lane (a commit's memories) need not wait
    )
    return {row.key: Lane(row.last_place, row.last_position) for row in tx.execute(query)}


def load_producers(tx: Connection, wanted: set[tuple[str, str]]) -> dict[tuple[str, str], Producer]:
    """What each producer owes each lane (pairs of lane and producer)."""
    found = {pair: Producer(expected=1) for pair in wanted}
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


def seat(lane: Lane, row: dict[str, Any] | None) -> None:
    """Gives a job the next seat of the conversation and the next turn in the queue."""
    if row is None:
        return
    lane.last_place += 1
    lane.last_position += 1
    lane.seated += 1
    row |= {"place": lane.last_place, "position": lane.last_position, "held_until": None}


def bring_forward(producer: Producer, job_id: str, number: int) -> dict[str, Any] | None:
    """A turn handed over twice, the later call of which arrived first and is held: it takes effect at the place of the earlier call."""
    for later, row in producer.waiting.items():
        if later > number and row is not None and row["id"] == job_id:
            producer.waiting[later] = None
            row["number"] = number
            return row
    return None


def follow(lane: Lane, producer: Producer) -> list[dict[str, Any]]:
    """Seats what waited for the number that just arrived, and what waited for that."""
    released = []
    while producer.expected in producer.waiting:
        row = producer.waiting.pop(producer.expected)
        producer.expected += 1
        seat(lane, row)
        if row is not None:
            released.append(row)
    return released


def write_released(tx: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Writes the seats of jobs that were held."""
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


def write_producers(tx: Connection, producers: dict[tuple[str, str], Producer], *, now: datetime) -> None:
    """Writes the numbers that producers owe, and those that wait for one."""
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


def write_lanes(tx: Connection, seats: dict[str, Lane], *, now: datetime) -> None:
    """Writes how far the lanes are filled; one that was empty is ready at once."""
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


def release_held(tx: Connection, *, now: datetime, limit: int = 200) -> int:
    """Seats turns whose gap did not close within `order_wait`; counts the missing ones. Returns how many were seated."""
    due = sa.select(jobs.c.lane).where(jobs.c.held_until <= now).order_by(jobs.c.held_until).limit(limit)
    due_lanes = sorted(set(tx.execute(due).scalars()))
    if not due_lanes:
        return 0
    lock_of_lanes(tx, due_lanes)
    seats = lock_lanes(tx, due_lanes)
    held = tx.execute(
        sa.select(jobs.c.lane, jobs.c.producer, jobs.c.number)
        .where(jobs.c.held_until <= now, jobs.c.lane.in_(due_lanes))
        .order_by(jobs.c.lane, jobs.c.producer, jobs.c.number)
    ).all()
    producers = load_producers(tx, {(row.lane, row.producer) for row in held})
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
                seat(seats[row.lane], earlier)
                released.append(earlier)
        producer.expected = row.number
        released += follow(seats[row.lane], producer)
    write_released(tx, released)
    write_producers(tx, producers, now=now)
    write_lanes(tx, seats, now=now)
    count(tx, "order_gaps", gaps)
    return len(released)
