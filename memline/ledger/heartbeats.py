"""Who is at work on this ledger: each loop of each process says so about every ten seconds, in one statement a process.

A beat is written by a thread of its own, so it alone proves little: with it goes when the loop's last round ended, and how. A loop that
hangs is told by `round_by`, a process that was stopped, killed or cut off by `beat_by`. Times are by the clock of who beats: hosts whose
clocks differ by half a minute see each other as dead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.schema_running import heartbeats
from memline.ledger.session import insert

__all__ = ["FAILING", "FORGET", "GRACE", "MISSED", "STAGE_LOOP", "Beat", "Process", "beat", "forget_old", "leave", "read_beats"]

#: So many beats that do not come make a process dead.
MISSED = 3

#: Slack for a busy machine and for clocks that differ.
GRACE = timedelta(seconds=2)

#: How long a process that went away without a word is remembered. It bounds the table.
FORGET = timedelta(minutes=15)

#: The loop of a stage that is served is called so, and then as its stage: `stage.extract`.
STAGE_LOOP = "stage."

#: So many rounds in a row have to raise before a loop counts as failing: one may meet a moment.
FAILING = 3

_LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class Process:
    """Who beats."""

    name: str
    host: str
    pid: int
    version: str
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Beat:
    """What a loop of a process said last."""

    process: Process
    loop: str
    beat_at: datetime
    #: A process that says nothing until then is taken for dead.
    beat_by: datetime
    #: When its last round ended, well or not; None before the first.
    round_at: datetime | None
    #: When the next one has to end; None while it waits for something outside.
    round_by: datetime | None
    #: When a round last ended well.
    good_at: datetime | None
    #: Rounds in a row that raised, and why the last one did.
    failures: int
    reason: str | None

    def is_alive(self, now: datetime) -> bool:
        """The process beats. What was said in the future proves nothing: the clock was set back since, and who lives says so again."""
        return now <= self.beat_by + GRACE and self.beat_at - now <= self.beat_by - self.beat_at + GRACE

    def hangs(self, now: datetime) -> bool:
        """The process may beat, but a round of this loop does not end."""
        return self.round_by is not None and now > self.round_by + GRACE

    @property
    def is_failing(self) -> bool:
        """Its rounds raise, one after the other, or it waits for something outside."""
        return self.failures >= FAILING or (self.failures > 0 and (self.good_at is None or self.round_by is None))

    def works(self, now: datetime) -> bool:
        """It is alive, its rounds end, and they end well; one that has yet to end its first round does not work yet."""
        return self.good_at is not None and self.is_alive(now) and not self.hangs(now) and not self.is_failing


def beat(tx: Connection, beats: Sequence[Beat]) -> None:
    """Writes what the loops of a process say, in one statement."""
    if not beats:
        return
    rows = [
        {
            "process": each.process.name,
            "loop": each.loop,
            "host": each.process.host,
            "pid": each.process.pid,
            "version": each.process.version,
            "started_at": each.process.started_at,
            "beat_at": each.beat_at,
            "beat_by": each.beat_by,
            "round_at": each.round_at,
            "round_by": each.round_by,
            "good_at": each.good_at,
            "failures": each.failures,
            "reason": None if each.reason is None else each.reason[:_LONGEST_REASON],
        }
        for each in sorted(beats, key=lambda each: (each.process.name, each.loop))
    ]
    statement = insert(tx, heartbeats).values(rows)
    said = ("beat_at", "beat_by", "round_at", "round_by", "good_at", "failures", "reason")
    tx.execute(
        statement.on_conflict_do_update(index_elements=["process", "loop"], set_={name: getattr(statement.excluded, name) for name in said})
    )


def leave(tx: Connection, process: str) -> None:
    """A process that ends as it was asked to takes its rows along."""
    tx.execute(sa.delete(heartbeats).where(heartbeats.c.process == process))


def forget_old(tx: Connection, *, now: datetime) -> int:
    """Removes processes that went away without a word `FORGET` ago; how many rows."""
    old = sa.select(heartbeats.c.process).where(heartbeats.c.beat_by < now - FORGET).with_for_update(skip_locked=True)
    return tx.execute(sa.delete(heartbeats).where(heartbeats.c.process.in_(old))).rowcount


def read_beats(connection: Connection, *, host: str | None = None) -> list[Beat]:
    """Every beat that is remembered, of *host* or of all, by host, process and loop."""
    query = sa.select(heartbeats).order_by(heartbeats.c.host, heartbeats.c.process, heartbeats.c.loop)
    if host is not None:
        query = query.where(heartbeats.c.host == host)
    return [
        Beat(
            Process(row.process, row.host, row.pid, row.version, row.started_at),
            row.loop,
            row.beat_at,
            row.beat_by,
            row.round_at,
            row.round_by,
            row.good_at,
            row.failures,
            row.reason,
        )
        for row in connection.execute(query)
    ]
