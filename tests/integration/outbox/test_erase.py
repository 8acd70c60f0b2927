"""Erasing a subject: what goes, what stays, who is fenced, and what the certificate says. On SQLite and on PostgreSQL."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from memline.contracts.erasing import Sought
from memline.contracts.errors import ServiceUnavailable
from memline.contracts.receipt import Status
from memline.contracts.scope import Scope, Subject
from memline.ledger.accept import Outcome, accept_turns
from memline.ledger.claim import claim
from memline.ledger.erase_rows import ERASED
from memline.ledger.locks import lock_subjects
from memline.ledger.meta import check_embedder
from memline.ledger.receipts import receipt_state
from memline.ledger.schema import entities, erased_turns, erasure_objects, jobs, leases, memories, memory_links, outbox, tombstones
from memline.ledger.schema_base import metadata
from memline.ledger.session import Ledger
from memline.ledger.tombstones import is_erased
from memline.outbox.erase import POSTGRES_TABLES
from memline.outbox.relay import RelayLimits
from memline.outbox.tombstone_file import EraseKey
from memline.outbox.verify import verify
from memline.pipeline.parts import Parts
from memline.pipeline.runner import run_stage
from memline.producer.spool import Spool
from memline.search.index.port import Write
from tests.integration.outbox.erasing import ANN, KEY, SECRET, eraser, holders, rows_of_others, say
from tests.parts import (
    START,
    HandClock,
    MemoryIndex,
    ScriptedExtractor,
    accept,
    job_of,
    make_parts,
    make_relay,
    make_turn,
    run_all,
    table,
)


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    found = make_parts(ledger)
    with ledger.write() as tx:
        check_embedder(tx, found.embedder.model, found.embedder.dimension)
    return found


def test_nothing_of_the_subject_is_in_any_column_of_any_table_and_others_keep_every_row(parts: Parts, tmp_path: Path) -> None:
    text = f"Anna keeps passport {SECRET} at home"
    say(parts, text, user="bob", metadata={"kind": "note"})
    say(parts, "bob likes tea", user="bob", agent="helper")
    before = rows_of_others(parts.ledger)
    first = say(parts, text, metadata={"pin": f"pin-{SECRET}"}, idempotency_key=f"key-{SECRET}", prompt=f"mind {SECRET}")
    say(parts, f"boom {SECRET}")
    say(parts, f"[home] ann lives at {SECRET} street\n[home] ann lives in Kyoto", run="r1")
    say(parts, "ann likes jazz", agent="helper")
    waiting = make_turn(f"still waiting {SECRET}", user=ANN.value)
    accept(parts, waiting)
    unseen = make_turn(f"not shown yet {SECRET}", user=ANN.value)
    accept(parts, unseen)
    assert len(holders(parts.ledger, SECRET)) > 8
    certificate = eraser(parts, tmp_path).erase(ANN)
    assert holders(parts.ledger, ANN.value) == set()
    assert {where.partition(".")[0] for where in holders(parts.ledger, SECRET)} == {
        where.partition(".")[0] for where, value in _cells_of(before) if SECRET in value
    }
    assert rows_of_others(parts.ledger) == before
    assert certificate["proof"]["sound"] and not any(certificate["counts"]["after"].values())
    assert certificate["counts"]["before"]["memories"] == 4 and certificate["counts"]["removed"]["memories"] == 4
    assert certificate["counts"]["removed"]["stage_results"] == certificate["counts"]["before"]["stage_results"] > 0
    shown = json.dumps(certificate)
    assert ANN.value not in shown and SECRET not in shown
    assert isinstance(parts.index, MemoryIndex)
    assert {found.user_id for found in parts.index.objects.values()} == {"bob"}
    with parts.ledger.read() as connection:
        done, cancelled = receipt_state(connection, first), receipt_state(connection, waiting.id)
    assert done is not None and (done.status, done.results, done.finished) == (Status.SEARCHABLE, (), True)
    assert cancelled is not None and (cancelled.status, cancelled.reason) == (Status.CANCELLED, "its subject was erased")
    assert verify(parts.ledger, parts.index, deep=True).to_json() == {"sound": True, "findings": [], "lag": 0}


def _cells_of(rows: dict[str, list[Any]]) -> Iterator[tuple[str, str]]:
    return ((f"{name}.x", repr(row)) for name, found in rows.items() for row in found)


def test_an_agent_and_a_run_go_with_everybody_in_them_and_nobody_else(parts: Parts, tmp_path: Path) -> None:
    say(parts, "one Anna", agent="helper")
    say(parts, "two Anna", user=None, agent="helper")
    say(parts, "three Anna", run="trip")
    say(parts, "four Anna")
    erase = eraser(parts, tmp_path).erase
    erase(Subject("default", "agent", "helper"))
    assert [row.text for row in table(parts.ledger, memories)] == ["three Anna", "four Anna"]
    erase(Subject("default", "run", "trip"))
    assert [row.text for row in table(parts.ledger, memories)] == ["four Anna"]
    assert [row.name for row in table(parts.ledger, entities)] == ["Anna"]
    assert verify(parts.ledger, parts.index).sound


def test_what_a_memory_of_the_run_had_superseded_stays_superseded_and_names_nothing(parts: Parts, tmp_path: Path) -> None:
    say(parts, "[home] ann lives in Berlin", run="first")
    say(parts, "[home] ann lives in Porto", run="second")
    (gone,) = table(parts.ledger, memories, memories.c.run_id == "second")
    eraser(parts, tmp_path).erase(Subject("default", "run", "second"))
    (left,) = table(parts.ledger, memories)
    assert (left.state, left.superseded_by) == ("superseded", ERASED)
    assert holders(parts.ledger, gone.id) == {"changes.memory_id"} and table(parts.ledger, memory_links) == []
    assert verify(parts.ledger, parts.index).sound


def test_what_is_added_afterwards_is_new_and_waits_for_no_number_of_before(parts: Parts, tmp_path: Path) -> None:
    say(parts, "one", producer="p", number=1)
    say(parts, "two", producer="p", number=2)
    eraser(parts, tmp_path).erase(ANN)
    new = make_turn("three", user=ANN.value, producer="p", number=3, at=parts.clock.now())
    with parts.ledger.write() as tx:
        (accepted,) = accept_turns(tx, [new], now=parts.clock.now(), order_wait=30, entries=["99999999999999-0"])
    assert accepted.outcome is Outcome.NEW and job_of(parts.ledger, new.id).position == 1
    run_all(parts)
    assert [row.text for row in table(parts.ledger, memories)] == ["three"]
    make_relay(parts).drain()
    assert verify(parts.ledger, parts.index).sound


def test_turns_that_come_late_leave_nothing_but_their_id(parts: Parts, tmp_path: Path) -> None:
    say(parts, "one")
    eraser(parts, tmp_path).erase(ANN)
    (stone,) = table(parts.ledger, tombstones)
    early, spooled, in_time, ahead = (
        make_turn(f"late {SECRET}", user=ANN.value, id="early"),
        make_turn(f"late {SECRET}", user=ANN.value, id="spooled", spooled=True, at=stone.at),
        make_turn("after", user=ANN.value, id="after", at=stone.at),
        make_turn(f"a clock 2 s ahead {SECRET}", user=ANN.value, id="ahead", spooled=True, at=HandClock(stone.at).advance(2)),
    )
    with parts.ledger.write() as tx:
        accepted = accept_turns(
            tx,
            [early, spooled, make_turn("bob", user="bob", id="bob"), in_time, ahead],
            now=parts.clock.now(),
            order_wait=30,
            entries=["1-0", "99999999999999-0", "1-1", "99999999999999-1", "99999999999999-2"],
        )
    assert [(each.turn_id, each.outcome.value) for each in accepted] == [
        ("early", "cancelled"), ("spooled", "cancelled"), ("bob", "new"), ("after", "new"), ("ahead", "cancelled"),
    ]  # fmt: skip
    assert holders(parts.ledger, SECRET) == set()
    assert sorted(row.id for row in table(parts.ledger, jobs)) == ["after", "bob"]
    with parts.ledger.write() as tx:  # a redelivery of one is the same one
        (again,) = accept_turns(tx, [early], now=parts.clock.now(), order_wait=30, entries=["1-0"])
    assert again.outcome is Outcome.CANCELLED


def test_while_it_runs_every_turn_of_the_subject_ends_cancelled(parts: Parts, tmp_path: Path) -> None:
    say(parts, "one")
    seen: list[str] = []

    def during(writes: Any) -> None:
        if not seen:
            (accepted,) = accept(parts, make_turn(f"meanwhile {SECRET}", user=ANN.value, id="meanwhile"))
            seen.append(accepted.outcome.value)

    assert isinstance(parts.index, MemoryIndex)
    parts.index.during = during
    eraser(parts, tmp_path).erase(ANN)
    assert seen == ["cancelled"] and holders(parts.ledger, SECRET) == set()
    assert {row.turn_id: row.state for row in table(parts.ledger, erased_turns)}["meanwhile"] == "cancelled"


@pytest.mark.parametrize("stages", range(5))
def test_a_worker_that_was_at_it_commits_nothing_and_is_waited_for(parts: Parts, tmp_path: Path, stages: int) -> None:
    """A batch of two users is at its stage when one of them is erased; the other's turn goes on."""
    accept(parts, make_turn(f"Anna has {SECRET}", user=ANN.value, id="gone"), make_turn("Anna has tea", user="bob", id="stays"))
    with parts.ledger.write() as tx:
        (lease,) = claim(tx, now=parts.clock.now(), limits=_one_batch(parts), times=parts.times, new_id=parts.ids.new, paid=False)
    sent: list[Any] = []
    current: Any = lease
    for _ in range(stages):
        current = run_stage(parts, current.id, current.epoch, current.stage, worker="w", send=sent.extend)
    looks = 0

    def look(_seconds: float) -> None:
        nonlocal looks
        looks += 1
        assert table(parts.ledger, tombstones)[0].finished_at is None
        if looks == 3:  # the worker comes to its end in the middle of the waiting
            worker.send(None)

    def work() -> Iterator[None]:
        from memline.ledger import leases as verbs

        with parts.ledger.write() as tx:
            taken = verbs.take(tx, current.id, current.epoch, current.stage, worker="w", now=parts.clock.now(), times=parts.times)
        yield
        with parts.ledger.write() as tx:
            assert taken is not None
            verbs.hand_back(tx, taken, now=parts.clock.now())
        yield

    worker: Any = work()
    next(worker)
    certificate = eraser(parts, tmp_path, sleep=look).erase(ANN)
    assert looks == 3 and certificate["proof"]["sound"]
    run_all(parts)
    assert holders(parts.ledger, SECRET) == set()
    assert [row.text for row in table(parts.ledger, memories)] == ["Anna has tea"]
    make_relay(parts).drain()
    assert verify(parts.ledger, parts.index).sound


def _one_batch(parts: Parts) -> Any:
    from memline.ledger.claim import ClaimLimits

    return ClaimLimits(in_flight=1, batch=8, unit=8)


def test_a_reply_that_comes_after_the_erasure_is_not_kept(ledger: Ledger, tmp_path: Path) -> None:
    """A paid model is at it when its subject is erased: its worker is waited for, finds the job gone, and commits nothing of it."""
    looked, certificates = threading.Event(), []

    def look(seconds: float) -> None:
        looked.set()
        time.sleep(seconds)

    def work() -> None:
        certificates.append(eraser(parts, tmp_path, sleep=look).erase(ANN))

    erasing = threading.Thread(target=work)

    def wait(first: str) -> None:
        if first.startswith("My passport"):
            erasing.start()
            assert looked.wait(300)

    parts = make_parts(ledger, extractor=ScriptedExtractor(wait=wait))
    with ledger.write() as tx:
        check_embedder(tx, parts.embedder.model, parts.embedder.dimension)
    accept(parts, make_turn(f"My passport is {SECRET}", user=ANN.value, id="gone"), make_turn("bob likes tea", user="bob", id="stays"))
    run_all(parts)
    erasing.join(300)
    run_all(parts)
    assert certificates and certificates[0]["proof"]["sound"]
    assert holders(ledger, SECRET) == set() and holders(ledger, ANN.value) == set()
    assert [row.text for row in table(ledger, memories)] == ["bob likes tea"]


def test_a_relay_that_writes_late_brings_nothing_back(parts: Parts, tmp_path: Path) -> None:
    """A relay has read the memory and is about to write it: the erasure waits for its lease, and removes what it wrote."""
    accept(parts, make_turn(f"Anna keeps {SECRET}", user=ANN.value))
    run_all(parts)
    assert isinstance(parts.index, MemoryIndex)
    index, began = parts.index, []

    def during(writes: Any) -> None:
        if began or all(write.object is None for write in writes):
            return
        began.append(list(writes))

        def late(_seconds: float) -> None:
            assert isinstance(parts.clock, HandClock)
            parts.clock.advance(_seconds)
            index.write([Write(write.key, write.object) for write in began[0]])  # whatever it is told, it writes what it read

        eraser(parts, tmp_path, sleep=late).erase(ANN)

    index.during = during
    make_relay(parts, RelayLimits(lease=5)).run_once()
    index.during = None
    assert began
    # the round that was under way wrote once more after it: in this test its call lasts longer than any deadline
    from memline.outbox.reconcile import Reconciler

    assert isinstance(parts.clock, HandClock)
    Reconciler(parts.ledger, index, parts.clock).run()
    make_relay(parts, ids="later").drain()
    assert index.objects == {} and table(parts.ledger, outbox) == []


def test_spooled_turns_of_this_machine_are_overwritten_where_they_lie(parts: Parts, tmp_path: Path) -> None:
    owner = Spool(tmp_path / "spool", "living")
    for number, (text, user) in enumerate([(f"a {SECRET}", ANN.value), ("b", "bob"), (f"c {SECRET}", ANN.value)], 1):
        owner.append(make_turn(text, user=user, id=f"s{number}", producer="living", number=number))
    dead = tmp_path / "spool" / "0dead.jsonl"
    dead.write_bytes(
        make_turn(f"d {SECRET}", user=ANN.value, id="s4").to_wire().encode()
        + b'\n{"user_id": "ann-the-erased", "text": "e '
        + SECRET.encode()
    )
    (tmp_path / "spool" / "0dead.torn").write_bytes(
        b'{"v":1,"namespace":"default","user_id":"ann-the-erased","messages":[{"text":"' + SECRET.encode()
    )
    certificate = eraser(parts, tmp_path).erase(ANN)
    assert certificate["proof"]["sound"]
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes() and ANN.value.encode() not in path.read_bytes(), path
    sent: list[str] = []
    owner.drain(sent.append)
    assert [json.loads(wire)["id"] for wire in sent] == ["s2"]
    owner.append(make_turn("after", user="bob", id="s5"))
    owner.drain(sent.append)
    assert [json.loads(wire)["id"] for wire in sent] == ["s2", "s5"]
    owner.close()
    assert Spool(tmp_path / "spool").adopt(sent.append) == 0
    assert {row.turn_id for row in table(parts.ledger, erased_turns)} == {"s1", "s3", "s4"}


def test_an_index_that_does_not_answer_leaves_the_subject_shut_and_the_same_call_goes_on(parts: Parts, tmp_path: Path) -> None:
    say(parts, f"Anna keeps {SECRET}")
    assert isinstance(parts.index, MemoryIndex)
    parts.index.away = True
    with pytest.raises(ServiceUnavailable):
        eraser(parts, tmp_path).erase(ANN)
    assert accept(parts, make_turn("more", user=ANN.value))[0].outcome is Outcome.CANCELLED
    assert holders(parts.ledger, SECRET) == set()
    parts.index.away = False
    certificate = eraser(parts, tmp_path).resume("default")[0]
    assert certificate["proof"]["sound"] and certificate["epoch"] == 1
    assert certificate["counts"]["before"]["memories"] == 1
    assert parts.index.objects == {} and table(parts.ledger, erasure_objects) == []
    assert eraser(parts, tmp_path).resume("default") == []


def test_erased_twice_the_second_time_finds_nothing_and_raises_the_epoch(parts: Parts, tmp_path: Path) -> None:
    say(parts, "one")
    first, second = eraser(parts, tmp_path).erase(ANN), eraser(parts, tmp_path / "other").erase(Subject("default", "user", "nobody"))
    assert (first["epoch"], second["epoch"]) == (1, 1)
    assert not any(second["counts"]["before"].values())


def test_the_tombstone_outside_can_not_be_told_without_its_key(parts: Parts, tmp_path: Path) -> None:
    say(parts, "one")
    certificate = eraser(parts, tmp_path).erase(ANN)
    path = tmp_path / "tombstones.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    begun, ended = map(json.loads, path.read_text().splitlines())
    assert (begun["finished"], ended["finished"]) == (False, True) and begun["id"] == ended["id"]
    assert ANN.value not in path.read_text() and ANN.key not in path.read_text()
    assert KEY.unseal(ended["id"], ended["sealed"]) == ANN.key
    assert EraseKey(b"another", "x").unseal(ended["id"], ended["sealed"]) != ANN.key
    assert certificate["subject"]["hash"] == ended["hash"]


def test_an_old_memory_of_an_erased_subject_is_told_from_a_new_one(parts: Parts, tmp_path: Path) -> None:
    say(parts, "one")
    eraser(parts, tmp_path).erase(ANN)
    (stone,) = table(parts.ledger, tombstones)
    scope = Scope.of("default", ANN.value, "helper")
    with parts.ledger.write() as tx:
        lock_subjects(tx, scope.subjects)
        assert is_erased(tx, scope, START)
        assert not is_erased(tx, scope, HandClock(stone.at).advance(1))
        assert not is_erased(tx, Scope.of("default", "bob"), START)


def test_verify_finds_what_is_older_than_the_tombstone(parts: Parts, tmp_path: Path) -> None:
    eraser(parts, tmp_path).erase(ANN)
    say(parts, "brought back")
    assert verify(parts.ledger, parts.index).sound
    with parts.ledger.write() as tx:
        tx.execute(sa.update(memories).values(created_at=HandClock(START).advance(-3600)))
    findings = verify(parts.ledger, parts.index).to_json()["findings"]
    assert [(found["store"], found["problem"]) for found in findings] == [("memories", "older than the erasure of its subject")]


def test_leases_that_nobody_took_are_not_waited_for(parts: Parts, tmp_path: Path) -> None:
    accept(parts, make_turn("one", user=ANN.value))
    with parts.ledger.write() as tx:
        claim(tx, now=parts.clock.now(), limits=_one_batch(parts), times=parts.times, new_id=parts.ids.new, paid=False)
    certificate = eraser(parts, tmp_path).erase(ANN)
    assert certificate["waited_seconds"] == 0 and table(parts.ledger, leases) == []


def test_only_whole_ids_are_sought() -> None:
    sought = Sought(ANN.key, "default", "user", ANN.value)
    other = make_turn(f"{ANN.value} and {SECRET}", user="bob").to_wire().encode()
    assert sought.turn_in(other) is None and not sought.holds(other)
    assert sought.turn_in(make_turn("x", user=ANN.value, namespace="other").to_wire().encode()) is None
    assert sought.holds(make_turn("x", user=ANN.value).to_wire().encode()[:-20])


def test_two_who_erase_one_subject_at_once_are_one_erasure_and_the_later_touches_nothing_new(parts: Parts, tmp_path: Path) -> None:
    say(parts, f"Anna keeps {SECRET}")
    assert isinstance(parts.index, MemoryIndex)
    certificates: list[Any] = []

    def during(writes: Any) -> None:
        if certificates:
            return
        certificates.append({})
        parts.index.during = None  # type: ignore[attr-defined]
        certificates.append(eraser(parts, tmp_path).erase(ANN))  # another process is faster
        say(parts, "added afterwards")

    parts.index.during = during
    certificate = eraser(parts, tmp_path).erase(ANN)
    assert certificate == certificates[1]
    assert [row.text for row in table(parts.ledger, memories)] == ["added afterwards"]
    assert len(table(parts.ledger, tombstones)) == 1
    make_relay(parts).drain()
    assert verify(parts.ledger, parts.index).sound


#: Tables that hold nothing of a subject: ids of memories in the feed of changes, counts, names of namespaces and leases, and what an
#: erasure itself leaves.
_FREE = {
    "changes", "counters", "erased_numbers", "erased_turns", "erasure_objects", "heartbeats", "index_tenants", "leases", "ledger_meta",
    "lost_turns", "marks", "namespace_options", "subjects", "tombstones", "usage",
}  # fmt: skip


def test_every_table_is_either_erased_from_or_free_of_subjects() -> None:
    """A new table has to be thought of: in `erase_rows`, in the census, and in what PostgreSQL is made to write anew."""
    assert set(metadata.tables) - set(POSTGRES_TABLES) == _FREE
