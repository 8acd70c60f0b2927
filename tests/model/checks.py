"""The guarantees as questions to the world. Each failure names the guarantee."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import date
from typing import Any

from memline.contracts.content_hash import content_hash
from memline.contracts.filters import parse
from memline.contracts.scope import Scope
from memline.ledger.memories import MemoryRow
from memline.ledger.receipts import receipt_state
from memline.outbox.verify import verify
from memline.search.listing import list_matching
from tests.model.reference import facts_told
from tests.model.world import SCOPES, World

__all__ = ["Checks"]

_ALLOWED = {
    ("accepted", "committed"),
    ("accepted", "searchable"),
    ("accepted", "failed"),
    ("accepted", "cancelled"),
    ("failed", "cancelled"),
    ("committed", "searchable"),
}

#: Each must find nothing.
_NEVER = {
    "G2: one key of a scope has two jobs": "SELECT min(id) FROM jobs WHERE key IS NOT NULL GROUP BY lane, key HAVING count(*) > 1",
    "G3: a memory whose job is not committed": """
        SELECT m.id FROM memories m LEFT JOIN jobs j ON j.id = m.job_id WHERE coalesce(j.state, '') NOT IN ('committed', 'searchable')""",
    "G3: an outcome that is no memory": """
        SELECT j.id FROM jobs j, json_each(j.outcome) o
        WHERE o.type != 'null' AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.id = json_extract(o.value, '$[0]'))""",
    "G3: history of no memory": "SELECT memory_id FROM history WHERE memory_id NOT IN (SELECT id FROM memories)",
    "G3: history does not tell every version": """
        SELECT id FROM memories m WHERE version != (SELECT count(*) FROM history h WHERE h.memory_id = m.id)""",
    "G3: an entity linked to what is not committed": """
        SELECT memory_no FROM entity_links WHERE memory_no NOT IN (SELECT no FROM memories WHERE state != 'deleted')""",
    "G4: two live memories of one content": """
        SELECT min(id) FROM memories WHERE state = 'live' GROUP BY lane, content_hash HAVING count(*) > 1""",
    "G5: two batches in one lane": """
        SELECT lane FROM jobs WHERE lease_id IS NOT NULL GROUP BY lane HAVING count(DISTINCT lease_id) > 1""",
    "G5: a job runs without its lane": """
        SELECT j.id FROM jobs j JOIN lanes l ON l.key = j.lane WHERE j.lease_id IS NOT NULL AND j.lease_id IS NOT l.lease_id""",
    "G5: a lane is held by a batch that has none of its jobs": """
        SELECT key FROM lanes l WHERE lease_id IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.lane = l.key AND j.lease_id = l.lease_id)""",
    "G7: superseded by what was said before it": """
        SELECT m.id FROM memories m JOIN memories n ON n.id = m.superseded_by
        WHERE n.valid_from < m.valid_from OR n.owner_no != m.owner_no""",
}


class Checks:
    """What is asked after every step, and in the end."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._states: dict[str, str] = {}
        self._written = 0

    def after_a_step(self) -> None:
        world = self.world
        assert not world.swallowed, f"an error was swallowed: {world.swallowed}"
        assert not world.stream.set_aside_ids, "a turn was set aside"
        for what, query in _NEVER.items():
            found = world.sql.execute(query).fetchall()
            assert not found, f"{what}: {found}"
        # folded here and not by the product's own hash: no text of these tests has quotes, or differs in the case of a code
        live = [
            (lane, " ".join(text.lower().split()))
            for lane, text in world.sql.execute("SELECT lane, text FROM memories WHERE state = 'live'")
        ]
        assert len(live) == len(set(live)), f"G4: one content is live twice in a scope: {live}"
        self._keys()
        self._order()
        self._ends()
        self._index_is_made_from_committed_rows()

    def _keys(self) -> None:
        world, reference = self.world, self.world.reference
        there = {job_id for (job_id,) in world.sql.execute("SELECT id FROM jobs")}
        assert there == set(reference.jobs), f"G2: jobs {there ^ set(reference.jobs)} are too many or too few"
        repeats = {turn_id: (job_id, bool(conflict)) for turn_id, job_id, conflict, _ in world.sql.execute("SELECT * FROM repeats")}
        assert repeats == reference.repeats, f"G2: {repeats} instead of {reference.repeats}"

    def _order(self) -> None:
        world, reference = self.world, self.world.reference
        seats: dict[tuple[str, str], list[str]] = defaultdict(list)
        for lane, producer, job_id in world.sql.execute(
            "SELECT lane, producer, id FROM jobs WHERE place IS NOT NULL ORDER BY lane, place, no"
        ):
            seats[lane, producer].append(job_id)
        should = {key: numbers.seated for key, numbers in reference.numbers.items() if numbers.seated}
        assert seats == should, f"G5: seats {dict(seats)} instead of {should}"
        counted = dict(world.sql.execute("SELECT name, value FROM counters"))
        late, gaps = counted.get("late_turns", 0), counted.get("order_gaps", 0)
        assert (late, gaps) == (reference.late, reference.gaps), f"G5: {late} late, {gaps} gaps counted"
        places: dict[str, int] = {}
        for lane, place, job_id in world.sql.execute("SELECT lane, place, job_id FROM memories ORDER BY no"):
            if job_id not in world.retried:
                assert place >= places.get(lane, 0), f"G5: {job_id} took effect after a later turn of its lane"
                places[lane] = place

    def _ends(self) -> None:
        world = self.world
        states = dict(world.sql.execute("SELECT id, state FROM jobs"))
        for job_id, before in self._states.items():
            now = states[job_id]
            replayed = before == "failed" and job_id in world.retried
            assert now == before or replayed or (before, now) in _ALLOWED, f"G1: {job_id} went from {before} to {now}"
        self._states = states
        committed = {job_id for (job_id,) in world.sql.execute("SELECT id FROM jobs WHERE committed_at IS NOT NULL")}
        assert not committed & world.doomed, f"G6: {committed & world.doomed} committed although their subject was erased"
        assert not committed & world.cancelled, f"G6: {committed & world.cancelled} committed although their scope was deleted"
        left = {job_id for job_id in world.cancelled if states[job_id] != "cancelled"}
        assert not left, f"G6: {left} are not cancelled although their scope was deleted"

    def _index_is_made_from_committed_rows(self) -> None:
        rounds = self.world.index.rounds
        ids = {write.key.id for written in rounds[self._written :] for write in written if write.key.kind == "memory" and write.object}
        self._written = len(rounds)
        for memory_id in ids:
            assert self._rows("id = ?", memory_id), f"G3: the index was shown {memory_id}, which was never committed"

    def _rows(self, where: str, *values: Any) -> list[Any]:
        columns = "id, job_id, lane, owner_no, state, verbatim, slot, valid_from, content_hash, ordinal"
        return self.world.sql.execute(f"SELECT {columns} FROM memories WHERE {where}", values).fetchall()

    def reads_are_honest(self, query: str) -> None:
        """A search and a listing of every scope (G7); the listing is complete, too."""
        world = self.world
        today = world.clock.now().date()
        for scope in SCOPES:
            wanted = parse(scope.ids())
            for hit in world.searcher.search(scope.namespace, query, wanted, top_k=100, threshold=0.0).results:
                self._may_be_seen(hit.row, scope, today)
            listed = list_matching(world.ledger, scope.namespace, wanted, top_k=1000, show_expired=False, now=world.clock.now()).rows
            for row in listed:
                self._may_be_seen(row, scope, today)
            assert {row.id for row in listed} == self._visible(scope, today), "G7: the listing is not complete"

    def _visible(self, scope: Scope, today: date) -> set[str]:
        return {
            memory_id
            for memory_id, job_id, *_ in self._rows("state = 'live'")
            if _within(self.world.turns[job_id].scope, scope) and not _expired(self._last_day(memory_id, job_id), today)
        }

    def _last_day(self, memory_id: str, job_id: str) -> date | None:
        return self.world.expires.get(memory_id, self.world.turns[job_id].expires_on)

    def _may_be_seen(self, row: MemoryRow, scope: Scope, today: date) -> None:
        turn = self.world.turns[row.job_id]
        assert row.id not in self.world.deleted, f"G7: {row.id} is deleted, and was read"
        assert _within(turn.scope, scope), f"G7: {row.id} belongs to {turn.scope}, and was read in {scope}"
        assert not _expired(self._last_day(row.id, row.job_id), today), f"G7: {row.id} is expired, and was read"
        told = self.world.updated.get(row.id, [fact.text for fact in facts_told(turn)])
        assert row.text == told[-1] or row.text in [fact.text for fact in facts_told(turn)], f"G3: nobody told {row.text!r}"
        assert row.id not in self.world.updated or row.text == told[-1], f"G3: {row.id} is not as it was changed: {row.text!r}"
        assert row.verbatim or row.state == "live", f"G7: {row.id} is {row.state}, and was read"
        if row.slot is not None:
            # but for a twin that expired: it never stands in the way, whenever it was said
            newer = self._rows(
                "owner_no = ? AND slot = ? AND valid_from > ? AND NOT (state = 'expired' AND content_hash = ?)",
                row.owner_no,
                row.slot,
                row.valid_from.isoformat(timespec="microseconds"),
                row.content_hash,
            )
            assert not newer, f"G7: {row.id} was read although {newer[0][0]} answers {row.slot!r} anew"

    def in_the_end(self) -> None:
        """When all is quiet: G1, G3 and G8 as a whole."""
        world = self.world
        world.until_quiet()
        self.after_a_step()
        world.spools_are_drained_and_failed_jobs_replayed()
        world.delete(0)  # by now the index was shown all
        world.until_quiet()
        self.after_a_step()
        world.reconcile(deep=True)
        world.until_quiet()
        self.after_a_step()
        report = verify(world.ledger, world.index, deep=True)
        assert report.sound and report.lag == 0, f"G8: {json.dumps(report.to_json())}"
        for what, query in {
            "a lease is left": "SELECT id FROM leases",
            "a lane is not done": "SELECT key FROM lanes WHERE lease_id IS NOT NULL OR done_position != last_position",
            "an outbox row is left": "SELECT object_id FROM outbox",
            "a job is in no end state": """
                SELECT id FROM jobs WHERE finished_at IS NULL OR state NOT IN ('searchable', 'failed', 'cancelled')""",
        }.items():
            left = world.sql.execute(query).fetchall()
            assert not left, f"G1: {what}: {left}"
        lost = world.stream.owed - set(world.reference.jobs) - set(world.reference.repeats)
        assert not lost, f"G1: {lost} reached the stream and no ledger"
        self._every_turn_has_its_effect()
        self.reads_are_honest("User lives in Paris")
        self._everything_is_found()

    def _every_turn_has_its_effect(self) -> None:
        world = self.world
        memories = {row[0]: row for row in self._rows("1")}
        for job_id, lane, state, stage, outcome, place in world.sql.execute("SELECT id, lane, state, stage, outcome, place FROM jobs"):
            turn = world.reference.jobs[job_id]
            if state in ("failed", "cancelled"):
                assert state == "failed" or job_id in world.doomed | world.cancelled, f"G1: {job_id} is {state}"
                continue
            facts, told = facts_told(turn), json.loads(outcome)
            assert len(facts) == len(told), f"G1: {job_id} told {len(facts)} facts, {len(told)} had an effect"
            for ordinal, (fact, (memory_id, event)) in enumerate(zip(facts, told, strict=True)):
                row = memories[memory_id]
                same = row[8] == content_hash(fact.text) or memory_id in world.updated or row[4] == "deleted"
                assert row[2] == lane and same, f"G3: {job_id} tells of {memory_id}, which says another thing"
                own = (row[1], row[9]) == (job_id, ordinal)
                assert own == (event == "ADD"), f"G3: {job_id} tells {event} of {memory_id}"
            if stage == "done":
                query = "SELECT text, place, withheld FROM messages WHERE job_id = ? ORDER BY ordinal"
                saved = world.sql.execute(query, (job_id,)).fetchall()
                forgotten = job_id in world.forgotten or any(memory_id in world.deleted for memory_id, _ in told)
                # what another memory of the turn came from is hidden, and goes with the last of them
                kept = not forgotten or any(row[1] == job_id and row[4] != "deleted" for row in memories.values())
                should = [(message.text, place, 1 if forgotten else None) for message in turn.messages] if kept else []
                assert saved == should, f"G5: the messages of {job_id} are not at its place, or still there: {saved}"
        with world.ledger.read() as connection:
            for turn_id in [*world.reference.jobs, *world.reference.repeats]:
                state_of_turn = receipt_state(connection, turn_id)
                assert state_of_turn is not None and state_of_turn.finished and state_of_turn.status.ended, (
                    f"G1: {turn_id}: {state_of_turn}"
                )

    def _everything_is_found(self) -> None:
        """With the index whole, a search that asks for all finds all: of equal contents of an owner one."""
        world = self.world
        for scope in SCOPES:
            hits = world.searcher.search(scope.namespace, "User lives in Paris", parse(scope.ids()), top_k=100, threshold=0.0).results
            found = {(hit.row.owner_no, hit.row.content_hash) for hit in hits}
            visible = self._visible(scope, world.clock.now().date())
            there = {(row[3], row[8]) for row in self._rows("state = 'live'") if row[0] in visible}
            assert there <= found, f"G8: {len(there - found)} memories of {scope} are not found"


def _within(inner: Scope, outer: Scope) -> bool:
    return inner.namespace == outer.namespace and outer.ids().items() <= inner.ids().items()


def _expired(expires_on: date | None, today: date) -> bool:
    return expires_on is not None and expires_on < today
