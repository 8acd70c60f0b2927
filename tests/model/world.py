"""The real ledger, stages, relay and reconciler, one call at a time, in a world where everything may happen between two calls."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

from memline.contracts import failpoints
from memline.contracts.errors import DuplicateMemory, ServiceUnavailable
from memline.contracts.failpoints import Fault
from memline.contracts.scope import Scope, Subject
from memline.contracts.turn import Turn
from memline.ledger.accept import accept_turns
from memline.ledger.claim import ClaimLimits
from memline.ledger.delete_all import delete_all, reset_namespace
from memline.ledger.jobs import retry_job
from memline.ledger.leases import Lease, LeaseTimes
from memline.ledger.marks import place_of
from memline.ledger.retire import delete_memory
from memline.ledger.schema import metadata
from memline.ledger.session import Ledger
from memline.outbox import compare
from memline.outbox.reconcile import Reconciler
from memline.outbox.relay import Relay, RelayLimits
from memline.pipeline import extract, runner
from memline.pipeline.edit import UNCHANGED, Change, edit_memory
from memline.pipeline.parts import RetryPolicy
from memline.pipeline.runner import claim_and_send, run_stage
from memline.search.searcher import Searcher
from memline.workers import accept_loop
from memline.workers.accept_loop import AcceptLoop
from memline.workers.sweep import sweep_once
from tests.model.fakes import Killed, Lines, ListStream, ModelIndex, SameThread, one_at_a_time
from tests.model.reference import Reference
from tests.model.troubles import ACCEPT, INSIDE, RELAY, STAGE, Trouble
from tests.parts import CountingIds, HandClock, TrigramEmbedder, WordAnalyser, make_parts

__all__ = ["SCOPES", "World"]

#: Two lanes of one owner, and a namesake in another namespace.
SCOPES = (Scope("default", "ann"), Scope("default", "ann", None, "r1"), Scope("other", "ann"))

ORDER_WAIT, LEASE, RESEND = 30.0, 60.0, 5.0


class World:
    """Everything around one ledger file. What is handed over is `hand_over`n, the rest are steps."""

    def __init__(self, template: bytes, *, paid: bool) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="memline-model-")
        path = Path(self._folder.name) / "ledger.db"
        path.write_bytes(template)
        self.ledger = Ledger(f"sqlite:///{path}")
        self.sql = sqlite3.connect(path, isolation_level=None)
        self.clock = HandClock()
        self.stream = ListStream(self.clock)
        self.index = ModelIndex()
        self.parts = make_parts(
            self.ledger,
            index=self.index,
            clock=self.clock,
            extractor=Lines(paid=paid),
            times=LeaseTimes(lease=LEASE, resend=RESEND),
            limits=ClaimLimits(in_flight=3, batch=3, unit=2, paid_unit=2),
            retry=RetryPolicy(max_attempts=2, first_delay=1.0, longest_delay=8.0, asks=2),
            order_wait=ORDER_WAIT,
        )
        self.searcher = Searcher(self.ledger, self.index, WordAnalyser(), TrigramEmbedder(), self.clock, timer=lambda: 0.0)
        self.reference = Reference(ORDER_WAIT)
        self._relay_ids = CountingIds("relay")
        self._relays = [self._new_relay(), self._new_relay()]
        self._loops = {name: self._new_loop(name) for name in ("one", "two")}
        self.turns: dict[str, Turn] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        #: Turns that did not reach the stream, and may come later.
        self.spooled: list[Turn] = []
        #: Messages that wait in the broker, and those that were delivered once.
        self.messages: list[Lease] = []
        self.delivered: list[Lease] = []
        self.deleted: set[str] = set()
        #: What updates made of memories: texts, and the last day where one was given.
        self.updated: dict[str, list[str]] = {}
        self.expires: dict[str, date | None] = {}
        #: Jobs that a deletion of their scope cancelled, or came behind, and jobs whose messages it took.
        self.cancelled: set[str] = set()
        self.forgotten: set[str] = set()
        self._marks: list[tuple[Scope, str, datetime]] = []
        self.doomed: set[str] = set()
        self.retried: set[str] = set()
        #: The index was changed by somebody else, so that a reconciler may find drift.
        self.hurt = False
        self.swallowed: list[str] = []
        self.fenced = 0
        self._send_fails = False
        self._plan: dict[str, Callable[[], None]] = {}
        self._accepting: list[tuple[Turn, str]] = []
        self._patches = ExitStack()
        self._patch()

    def _patch(self) -> None:
        give_back = runner._give_back

        def watched(run: Any, jobs: Any, error: Exception) -> None:
            if not isinstance(error, (Fault, ServiceUnavailable)) and type(error) is not RuntimeError:
                self.swallowed.append(f"{run.lease.stage}: {error!r}")
            give_back(run, jobs, error)

        def accepted(tx: Any, turns: Sequence[Turn], **given: Any) -> Any:
            self._accepting = list(zip(turns, given["entries"], strict=True))
            try:
                return accept_turns(tx, turns, **given)
            except Exception as error:
                self.swallowed.append(f"accept: {error!r}")
                raise

        for target, name, value in (
            (failpoints, "hit", self._hit),
            (runner, "_give_back", watched),
            (accept_loop, "accept_turns", accepted),
            (compare, "PAGE", 3),
            (extract, "ThreadPoolExecutor", SameThread),
            (extract, "wait", one_at_a_time()),
        ):
            self._patches.enter_context(mock.patch.object(target, name, value))

    def close(self) -> None:
        self._patches.close()
        self.sql.close()
        self.ledger.close()
        self._folder.cleanup()

    def _new_relay(self) -> Relay:
        limits = RelayLimits(rows=3, lease=LEASE, attempts=3, longest_pause=8.0)
        return Relay(self.ledger, self.index, self.clock, self._relay_ids, limits)

    def _new_loop(self, name: str) -> AcceptLoop:
        return AcceptLoop(self.stream, self.parts, self._send, consumer=name, count=4)

    def _send(self, leases: Sequence[Lease]) -> None:
        fails, self._send_fails = self._send_fails, False
        if fails:
            raise ServiceUnavailable("The broker does not answer.")
        self.messages += leases

    # What happens at the named points

    def _hit(self, point: str) -> None:
        if point == "accept.after_commit":
            late = {turn.id for turn, entry in self._accepting if self._is_behind_a_mark(turn, entry)}
            fresh = late - self.reference.jobs.keys() - self.reference.repeats.keys()
            self.reference.arrive([turn for turn, _ in self._accepting], self.clock.now(), fresh)
            self.cancelled |= fresh - self.reference.repeats.keys()
        if (act := self._plan.pop(point, None)) is not None:
            act()

    def _act(self, trouble: Trouble, afterwards: Callable[[], None] = lambda: None) -> Callable[[], None]:
        def act() -> None:
            if trouble.kind == "kill":
                raise Killed
            if trouble.kind == "raise":
                raise Fault("something broke")
            if trouble.kind == "lost":
                raise ServiceUnavailable("An answer was lost.")
            if trouble.kind == "send":
                self._send_fails = True
                return
            for step in trouble.meanwhile:
                self.simple_step(step)
            afterwards()

        return act

    def _with_plan(self, plan: dict[str, Callable[[], None]], run: Callable[[], Any]) -> Any:
        """What *run* returns; None where it was killed or a part did not answer."""
        outer, self._plan = self._plan, plan
        try:
            return run()
        except (Killed, ServiceUnavailable):
            return None
        finally:
            self._plan = outer
            self._send_fails = False

    # Steps

    def simple_step(self, name: str) -> None:
        """A step without choices, such as happens while somebody else is at work."""
        steps: dict[str, Callable[[], object]] = {
            "lease passes": lambda: self.clock.advance(LEASE + 1),
            "half a lease passes": lambda: self.clock.advance(LEASE / 2),
            "seconds pass": lambda: self.clock.advance(RESEND + 1),
            "a day passes": lambda: self.clock.advance(86_400),
            "sweep": self.sweep,
            "work": self.work,
            "one stage": lambda: self.deliver(0),
            "accept": lambda: self.accept("two"),
            "relay": lambda: self.relay(1),
            "delete": lambda: self.delete(0),
            "delete newest": lambda: self.delete(-1),
            "delete on its way": self.delete_on_its_way,
            "update": lambda: self.update(0, "User met Zoe Z9"),
            "delete all": lambda: self.delete_all(0, whole=False),
            "erase": lambda: self.erase(0),
            "index away": self.index_away,
        }
        steps[name]()

    def hand_over(self, turn: dict[str, Any], *, producer: str, how: str) -> None:
        scope: Scope = turn["scope"]
        number = self._numbers[scope.lane, producer] = self._numbers.get((scope.lane, producer), 0) + 1
        made = Turn(id=f"turn-{len(self.turns) + 1:03}", handed_at=self.clock.now(), producer=producer, number=number, **turn)
        self.turns[made.id] = made
        if how == "lost":
            self.spooled.append(made.as_spooled())
            return
        self.stream.append(made, first=how == "overtakes")
        if how == "twice":
            self.stream.append(made)

    def hand_over_again(self, which: int) -> None:
        """A turn comes out of a spool, or an entry whose XADD was answered with an error is appended once more."""
        if self.spooled:
            self.stream.append(self.spooled.pop(which % len(self.spooled)))
        elif self.turns:
            self.stream.append(list(self.turns.values())[which % len(self.turns)])

    def accept(self, consumer: str, trouble: Trouble | None = None, *, done_lost: str | None = None) -> None:
        self.stream.loses = done_lost
        plan = {} if trouble is None else {"accept." + trouble.point(ACCEPT): self._act(trouble)}
        self._with_plan(plan, lambda: self._loops[consumer].run_once(block_ms=0))
        self.stream.loses = None
        if trouble is not None and trouble.kind == "kill":
            self._loops[consumer] = self._new_loop(consumer)

    def claim(self) -> None:
        claim_and_send(self.parts, self._send)

    def deliver(self, which: int, trouble: Trouble | None = None, *, keep: bool = False) -> None:
        """A worker gets a message; *keep*: and it will come a second time."""
        if not self.messages:
            return
        which %= len(self.messages)
        lease = self.messages[which] if keep else self.messages.pop(which)
        self.delivered.append(lease)
        self._run(lease, trouble)

    def deliver_again(self, which: int, trouble: Trouble | None = None) -> None:
        if self.delivered:
            self._run(self.delivered[which % len(self.delivered)], trouble)

    def _run(self, lease: Lease, trouble: Trouble | None) -> None:
        ledger_then: list[Any] = []

        def note() -> None:
            if not self._holds(lease):
                ledger_then.append(self.dump())

        plan = {}
        if trouble is not None:
            point = trouble.point(STAGE)
            inside = INSIDE.get(lease.stage, (f"{lease.stage}.taken",))
            name = inside[trouble.at // 4 % len(inside)] if point == "inside" else f"{lease.stage}.{point}"
            plan = {name: self._act(trouble, note if point != "after_commit" else lambda: None)}
        worker = f"worker-{len(self.delivered)}"
        after = self._with_plan(plan, lambda: run_stage(self.parts, lease.id, lease.epoch, lease.stage, worker=worker, send=self._send))
        if ledger_then:
            self.fenced += 1
            assert after is None and self.dump() == ledger_then[0], f"G6: a worker whose lease was gone wrote at {lease.stage}"
        if after is not None:
            self.messages.append(after)

    def _holds(self, lease: Lease) -> bool:
        query = "SELECT count(*) FROM leases WHERE id = ? AND epoch = ? AND stage = ? AND taken AND until > ?"
        now = self.clock.now().isoformat(timespec="microseconds")
        return bool(self.sql.execute(query, (lease.id, lease.epoch, lease.stage.value, now)).fetchone()[0])

    def dump(self) -> list[Any]:
        """Every row but the replies, and what is counted of their calls: what was paid for is kept also by those who come too late."""
        tables = [name for name in metadata.tables if name not in ("stage_results", "usage", "counters")]
        counted = self.sql.execute("SELECT * FROM counters WHERE name != 'repeated_calls' ORDER BY name").fetchall()
        return [counted, *(self.sql.execute(f"SELECT * FROM {name}").fetchall() for name in tables)]

    def lose_message(self, which: int) -> None:
        if self.messages:
            self.messages.pop(which % len(self.messages))

    def sweep(self) -> None:
        self.reference.pass_gaps(self.clock.now())
        sweep_once(self.parts, self._send)

    def work(self, most: int = 300) -> None:
        """Workers run until nothing is ready."""
        for _ in range(most):
            if not self.messages:
                self.claim()
            if not self.messages:
                return
            self.deliver(0)
        raise AssertionError("G1: the workers turn in a circle")

    def relay(self, which: int, trouble: Trouble | None = None, *, fault: str = "") -> None:
        index, started, away = self.index, self.clock.now(), self.index.away
        index.loses_answer, index.partial = fault == "lost", fault == "partial"
        if fault in ("silent", "breaks"):
            first = self.sql.execute("SELECT object_id FROM outbox ORDER BY next_at LIMIT 1").fetchone()
            if first is not None:
                index.silent_about, index.breaks_on = ({first[0]}, None) if fault == "silent" else (set(), first[0])

        def note() -> None:
            # a relay that writes after its lease may leave an older state, which the reconciler finds
            self.hurt |= (self.clock.now() - started).total_seconds() >= LEASE

        plan = {} if trouble is None else {"relay." + trouble.point(RELAY): self._act(trouble, note)}
        relay = self._relays[which % 2]
        self._with_plan(plan, relay.run_once)
        if trouble is not None and trouble.kind == "kill":
            self._relays[which % 2] = self._new_relay()
        away = index.away if trouble is not None else away
        index.heal()
        index.away = away

    def index_away(self) -> None:
        self.index.away = True

    def damage(self, how: str, which: int) -> None:
        strangers = self.sql.execute("SELECT namespace, id FROM memories ORDER BY state = 'live', namespace DESC").fetchall()
        self.hurt = True
        self.index.damage(how, which, strangers)

    def reconcile(self, *, deep: bool, in_pieces: bool = False) -> None:
        """A whole pass; *in_pieces*: each call stops at its budget after a page, and another process goes on."""
        found = 0
        try:
            for _ in range(500):
                reconciler = Reconciler(self.ledger, self.index, self.clock, timer=lambda: 0.0)
                done = reconciler.run(budget=0.0 if in_pieces else None, deep=deep)
                found += done.repaired
                if done.complete:
                    break
            else:
                raise AssertionError("G8: a pass in pieces does not end")
        except ServiceUnavailable:
            assert self.index.away
            return
        parked = self.sql.execute("SELECT value FROM counters WHERE name = 'outbox_parked'").fetchone()
        assert self.hurt or parked or found == 0, f"G8: {found} differences were taken for drift, and nobody touched the index"

    def delete(self, which: int) -> None:
        rows = self.sql.execute("SELECT namespace, id FROM memories WHERE state != 'deleted' ORDER BY no").fetchall()
        if rows:
            namespace, memory_id = rows[which % len(rows)]
            delete_memory(self.ledger, namespace, memory_id, now=self.clock.now())
            self.deleted.add(memory_id)

    def update(self, which: int, text: str | None, *, expires: int | None = None, tag: str | None = None) -> None:
        """Somebody edits a memory: its text, its last day (in days from now; a negative number takes it away), its metadata."""
        rows = self.sql.execute("SELECT namespace, id FROM memories WHERE state != 'deleted' ORDER BY no").fetchall()
        if not rows:
            return
        namespace, memory_id = rows[which % len(rows)]
        day = None if expires is None or expires < 0 else self.clock.now().date() + timedelta(days=expires)
        change = Change(text, None if tag is None else {"tag": tag}, UNCHANGED if expires is None else day)
        duplicate_of = None
        try:
            edit_memory(self.parts, namespace, memory_id, change)
        except DuplicateMemory as error:
            duplicate_of = error.duplicate_of
        if duplicate_of is not None:
            query = "SELECT count(*) FROM memories WHERE id = ? AND state = 'live'"
            assert self.sql.execute(query, (duplicate_of,)).fetchone()[0], "G4: a duplicate of what is not live"
            return
        if text is not None:
            self.updated.setdefault(memory_id, []).append(text)
        if expires is not None:
            self.expires[memory_id] = day

    def delete_all(self, which: int, *, whole: bool) -> None:
        """A scope is deleted with the turns that were handed over before; *whole*: its namespace."""
        scope = SCOPES[which % len(SCOPES)]
        place, now = place_of(self.stream.draw_place()), self.clock.now()
        marked = Scope(scope.namespace) if whole else scope
        self._marks.append((marked, place, now))
        jobs = {job_id: committed for job_id, committed in self.sql.execute("SELECT id, committed_at FROM jobs WHERE state != 'cancelled'")}
        of_scope = {job_id for job_id in jobs if _covers(marked, self.turns[job_id].scope)}
        uncommitted = {job_id for job_id in of_scope if jobs[job_id] is None}
        there = self.sql.execute("SELECT id, job_id FROM memories WHERE state != 'deleted'").fetchall()
        if whole:
            done = reset_namespace(self.ledger, scope.namespace, now=now, place=place)
        else:
            done = delete_all(self.ledger, scope, now=now, place=place)
        gone = {memory_id for memory_id, job_id in there if _covers(marked, self.turns[job_id].scope)}
        assert (done.deleted, done.cancelled) == (len(gone), len(uncommitted)), f"a deletion counts {done}"
        self.deleted |= gone
        self.cancelled |= uncommitted
        self.forgotten |= of_scope
        self.reference.cancel(uncommitted)

    def _is_behind_a_mark(self, turn: Turn, entry: str) -> bool:
        return any(
            _covers(scope, turn.scope) and (place_of(entry) < place or (turn.spooled and turn.handed_at <= at + timedelta(seconds=60)))
            for scope, place, at in self._marks
        )

    def delete_on_its_way(self) -> None:
        """A memory is deleted that a relay has in its hands at the moment."""
        query = "SELECT count(*) FROM memories m WHERE m.state != 'deleted' AND m.no < (SELECT min(n.no) FROM memories n"
        query += " JOIN outbox o ON o.object_id = n.id WHERE o.lease IS NOT NULL AND n.state != 'deleted')"
        self.delete(self.sql.execute(query).fetchone()[0])

    def erase(self, which: int) -> None:
        """The first thing an erase does: it raises the epoch of its subject. Jobs under the old one must end cancelled."""
        scope = SCOPES[which % len(SCOPES)]
        with self.ledger.write() as tx:
            tx.exec_driver_sql(
                "INSERT INTO subjects VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET epoch = epoch + 1",
                (Subject(scope.namespace, "user", "ann").key,),
            )
        query = "SELECT id FROM jobs WHERE namespace = ? AND committed_at IS NULL"
        self.doomed |= {job_id for (job_id,) in self.sql.execute(query, (scope.namespace,))}

    def retriable(self) -> list[str]:
        query = "SELECT id FROM jobs WHERE finished_at IS NOT NULL AND stage != 'done' AND messages IS NOT NULL AND state != 'cancelled'"
        return [job_id for (job_id,) in self.sql.execute(query)]

    def retry(self, which: int) -> None:
        if ids := self.retriable():
            job_id = ids[which % len(ids)]
            with self.ledger.write() as tx:
                retry_job(tx, job_id, now=self.clock.now())
            self.retried.add(job_id)

    def spools_are_drained_and_failed_jobs_replayed(self) -> None:
        for turn in self.spooled:
            self.stream.append(turn)
        self.spooled = []
        for _ in self.retriable():
            self.retry(0)

    def until_quiet(self) -> None:
        """The faults are over: everything runs until nothing is left to do."""
        self.index.heal()
        for _ in range(40):
            self.accept("one")
            self.sweep()
            self.work()
            while self._relays[0].run_once():
                pass
            open_jobs, waiting = self.sql.execute(
                "SELECT (SELECT count(*) FROM jobs WHERE finished_at IS NULL), (SELECT count(*) FROM outbox WHERE NOT parked)"
            ).fetchone()
            if not self.stream.entries and not open_jobs and not waiting:
                return
            self.clock.advance(11)
        raise AssertionError(f"G1: not quiet: {len(self.stream.entries)} entries, {open_jobs} jobs, {waiting} outbox rows")


def _covers(outer: Scope, inner: Scope) -> bool:
    return outer.namespace == inner.namespace and outer.ids().items() <= inner.ids().items()
