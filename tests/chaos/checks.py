"""What must hold when all is quiet after a fault."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from memline import Memory, Receipt, Status
from memline.compose import House
from memline.errors import ServiceUnavailable, UnknownReceipt
from memline.ledger.counters import read_counters
from memline.ledger.schema import memories, messages
from memline.outbox.verify import verify

__all__ = [
    "SCOPES",
    "TURNS",
    "fact",
    "problems_of_the_ledger",
    "problems_of_the_receipts",
    "problems_of_the_searches",
    "problems_of_the_stores",
    "said",
]

#: The conversation: so many turns in so many lanes.
TURNS, SCOPES = 12, 4


def said(number: int) -> str:
    """What the user says in a turn."""
    return f"I bought lamp number {number}."


def fact(number: int) -> str:
    """What is remembered of it."""
    return f"User bought lamp number {number}."


def problems_of_the_receipts(receipts: Sequence[Receipt], *, may_be_lost: int) -> tuple[list[str], int]:
    """What is wrong with how the turns ended, and how many were lost."""
    problems, states = [], []
    for receipt in receipts:
        try:
            states.append(receipt.refresh())
        except (UnknownReceipt, ServiceUnavailable) as error:
            problems.append(f"receipt: {type(error).__name__}")
    lost = sum(state.status is Status.LOST for state in states)
    if lost > may_be_lost:
        problems.append(f"{lost} turns lost, {may_be_lost} were only queued")
    bad = sorted({state.status.value for state in states} - {"searchable", "lost"})
    if bad:
        reasons = "; ".join(str(state.reason) for state in states if state.status.value in bad)
        problems.append(f"receipts ended {', '.join(bad)}: {reasons}")
    return problems, lost


def problems_of_the_ledger(house: House, *, lost: int) -> list[str]:
    """Nothing doubled, nothing missing but what was lost, and that counted; each lane in order."""
    problems = []
    with house.ledger.read() as connection:
        texts = list(connection.execute(sa.select(memories.c.text).where(memories.c.state == "live")).scalars())
        spoken = connection.execute(sa.select(messages.c.lane, messages.c.text).order_by(messages.c.lane, messages.c.place)).all()
        counters = read_counters(connection)
    if len(texts) != len(set(texts)):
        problems.append(f"{len(texts) - len(set(texts))} memories doubled")
    missing = {fact(number) for number in range(TURNS)} - set(texts)
    if len(missing) > lost:
        problems.append(f"{len(missing)} facts missing")
    if lost and counters["lost_turns"] + counters["order_gaps"] == 0:
        problems.append("what was lost was not counted")
    for lane in {row.lane for row in spoken}:
        numbers = [int(row.text.split()[4].rstrip(".")) for row in spoken if row.lane == lane and "lamp" in row.text]
        first = list(dict.fromkeys(numbers))
        if first != sorted(first):
            problems.append("a lane is out of order")
    return problems


def problems_of_the_stores(house: House) -> list[str]:
    """Every store agrees with the ledger."""
    report = verify(house.ledger, house.index, deep=True)
    return [f"{store}: {problem} ({number})" for (store, problem), number in sorted(report.counts.items())]


def problems_of_the_searches(memory: Memory) -> list[str]:
    """A search finds every fact of each scope."""
    problems = []
    for number in range(SCOPES):
        found = memory.search("which lamp was bought?", filters={"user_id": f"user-{number}"}, top_k=100, threshold=0)["results"]
        if len([item for item in found if "lamp" in item["memory"]]) != TURNS // SCOPES:
            problems.append("a search does not find them all")
    return problems
