"""The reconciler: whatever somebody did to the index, after one pass it equals the ledger; on both databases."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from memline.contracts.clock import SystemClock
from memline.contracts.index_object import ObjectKey
from memline.ledger.counters import read_counters
from memline.ledger.memories import index_objects
from memline.ledger.outbox import enqueue
from memline.ledger.reconciling import last_full_pass
from memline.ledger.schema import jobs, memories, outbox
from memline.outbox import compare
from memline.outbox.reconcile import Reconciler, refill
from memline.outbox.verify import verify
from memline.search.index.port import Write
from tests.integration.outbox.stores import Stores, copied_object, copy_file, equal, fill, in_index, open_stores
from tests.parts import TrigramEmbedder, accept, make_turn, run_all, table


@pytest.fixture
def stores(ledger_url: str, tmp_path: Path) -> Iterator[Stores]:
    with open_stores(ledger_url, tmp_path / "index.db") as filled:
        fill(filled)
        assert equal(filled)
        yield filled


def counted(stores: Stores) -> dict[str, int]:
    with stores.ledger.read() as connection:
        found = read_counters(connection)
    return {name.removeprefix("drift_"): number for name, number in found.items() if name.startswith("drift_") and number}


def repair(stores: Stores, **options: object) -> dict[str, int]:
    """One pass to its end, and what it found."""
    done = stores.reconciler.run(**options)  # type: ignore[arg-type]
    assert done.complete
    stores.relay.drain()
    assert verify(stores.ledger, stores.index, deep=True).sound == equal(stores)
    return {name: number for name, number in done.drift.items() if number}


def test_an_index_that_equals_the_ledger_is_left_alone(stores: Stores) -> None:
    assert repair(stores, deep=True) == {}
    assert counted(stores) == {}
    assert table(stores.ledger, outbox) == []


def test_objects_deleted_by_hand_come_back(stores: Stores) -> None:
    in_index(stores, f"DELETE FROM index_objects WHERE id = '{stores.id_of('one')}'", "DELETE FROM index_objects WHERE kind = 'entity'")
    assert repair(stores) == {"missing": 5}
    assert equal(stores)
    assert counted(stores) == {"missing": 5, "repaired": 5}
    assert repair(stores, deep=True) == {}


def test_terms_changed_by_hand_under_the_same_version_are_put_right(stores: Stores) -> None:
    in_index(stores, f"UPDATE index_objects SET terms = 'lies' WHERE id = '{stores.id_of('one')}'")
    assert repair(stores) == {"changed": 1}
    assert equal(stores)


def test_an_owner_changed_by_hand_is_put_right(stores: Stores) -> None:
    in_index(stores, f"UPDATE index_objects SET user_id = 'eve' WHERE id = '{stores.id_of('one')}'")
    assert repair(stores) == {"changed": 1}
    assert equal(stores)


def test_a_vector_changed_by_hand_is_put_right_by_a_deep_pass(stores: Stores) -> None:
    in_index(stores, f"UPDATE index_objects SET vector = zeroblob(256) WHERE id = '{stores.id_of('one')}'")
    assert repair(stores) == {}
    assert not equal(stores)
    assert repair(stores, deep=True) == {"changed": 1}
    assert equal(stores)


def test_a_foreign_object_is_removed_also_where_no_turn_was_ever_accepted(stores: Stores) -> None:
    one = stores.id_of("one")
    in_index(stores, copied_object(one, id="foreign"), copied_object(one, id="also", namespace="unheard-of"))
    assert repair(stores) == {"orphaned": 2}
    assert equal(stores)


def test_a_deleted_memory_that_came_back_is_removed(stores: Stores) -> None:
    gone = stores.delete("three")
    stores.relay.drain()
    in_index(stores, copied_object(stores.id_of("one"), id=gone))
    assert repair(stores) == {"resurrected": 1}
    assert equal(stores)
    assert counted(stores) == {"resurrected": 1, "repaired": 1}


def test_a_memory_under_another_namespace_comes_home(stores: Stores) -> None:
    in_index(stores, f"UPDATE index_objects SET namespace = 'a-wrong-one' WHERE id = '{stores.id_of('one')}'")
    repair(stores)
    assert equal(stores)


def test_yesterdays_index_becomes_todays(ledger_url: str, tmp_path: Path) -> None:
    """Since then memories came, went, and were superseded."""
    file = tmp_path / "index.db"
    with open_stores(ledger_url, file) as stores:
        fill(stores)
    copy_file(file, tmp_path / "yesterday.db")
    with open_stores(ledger_url, file) as stores:
        stores.say("seven Paris", "[home] ann lives in Bern", "eight", user="ann")
        stores.delete("one")
        stores.delete("two Anna")
        stores.relay.drain()
        assert equal(stores)
    for left in tmp_path.glob("index.db*"):
        left.unlink()
    copy_file(tmp_path / "yesterday.db", file)
    with open_stores(ledger_url, file) as stores:
        assert not equal(stores)
        # two memories and Anna, whom nobody names any more, are back; Kyoto is not told that Bern followed
        assert repair(stores) == {"missing": 5, "stale": 1, "resurrected": 2, "orphaned": 1}
        assert equal(stores)


def test_what_was_set_aside_is_tried_again(stores: Stores) -> None:
    """The fault is over: one pass, and the index is whole, whatever number of tries was spent."""
    one = stores.id_of("one")
    in_index(stores, f"DELETE FROM index_objects WHERE id = '{one}'")
    with stores.ledger.write() as tx:
        enqueue(tx, "memory", {one: ("default", 1), stores.id_of("three"): ("default", 1)}, now=stores.clock.now())
    with stores.ledger.write() as tx:
        tx.execute(outbox.update().values(parked=True, attempts=20))
    found = verify(stores.ledger, stores.index)  # what was set aside is no lag: nothing would show it
    assert (found.counts["index (memory)", "missing"], found.lag) == (1, 0)
    done = stores.reconciler.run()
    stores.relay.drain()
    assert (done.revived, table(stores.ledger, outbox)) == (2, [])
    assert equal(stores)


def test_a_job_is_searchable_after_the_outbox_was_emptied_by_hand(stores: Stores) -> None:
    accept(stores.parts, make_turn("seven", id="g"))
    run_all(stores.parts)
    with stores.ledger.write() as tx:
        tx.execute(outbox.delete())
    assert repair(stores) == {"missing": 1}
    assert [row.state for row in table(stores.ledger, jobs, jobs.c.id == "g")] == ["searchable"]
    assert equal(stores)


def test_passes_within_a_budget_go_on_where_the_last_one_stopped(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "PAGE", 2)
    stores.say("nine", "ten", "eleven", user="cem", namespace="other")
    in_index(stores, "DELETE FROM index_objects")
    missing = len(table(stores.ledger, memories, memories.c.state != "deleted")) + 4
    seconds = count()
    passes = []
    while not passes or not passes[-1].complete:
        # in whichever process; each look at the clock is a second, so each pass ends at its first page
        reconciler = Reconciler(stores.ledger, stores.index, stores.clock, timer=lambda: float(next(seconds)))
        passes.append(reconciler.run(budget=1))
        assert len(passes) < 30
    assert len(passes) > 4
    assert sum(done.drift["missing"] for done in passes) == missing
    assert max(done.drift["missing"] for done in passes) <= 2
    stores.relay.drain()
    assert equal(stores)
    with stores.ledger.read() as connection:
        assert last_full_pass(connection) == stores.clock.now()


def test_a_pass_that_is_stopped_goes_on_later(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "PAGE", 2)
    in_index(stores, "DELETE FROM index_objects")
    first = stores.reconciler.run(budget=1000, stopped=lambda: True)
    assert not first.complete
    rest = stores.reconciler.run(budget=1000)
    assert rest.complete
    assert first.repaired and rest.repaired
    stores.relay.drain()
    assert equal(stores)


def test_a_pass_over_chosen_namespaces_leaves_the_others(stores: Stores) -> None:
    stores.say("nine", namespace="other")
    in_index(stores, "DELETE FROM index_objects")
    assert stores.reconciler.run(namespaces=["other"]).repaired == 1


def test_writes_that_go_on_meanwhile_are_lag_and_no_drift(stores: Stores) -> None:
    """Real threads: one adds and deletes, one relays, and passes run one after the other."""
    over = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        for number in range(25):
            accept(stores.parts, make_turn(f"item {number} Anna\n[home] ann lives at {number}"))
            run_all(stores.parts)
            if number % 3 == 0:
                stores.delete(f"item {number} Anna")

    def relay() -> None:
        own = stores.relay
        while not over.is_set():
            if not own.run_once():
                time.sleep(0.001)

    def watched(work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=watched, args=[work]) for work in (write, relay)]
    for thread in threads:
        thread.start()
    passes = 0
    try:
        while threads[0].is_alive() or not passes:
            done = stores.reconciler.run(deep=True)
            assert done.repaired == 0, done.drift
            assert verify(stores.ledger, stores.index).to_json()["findings"] == []
            passes += 1
    finally:
        threads[0].join()
        over.set()
        threads[1].join()
    assert failures == []
    assert counted(stores) == {}
    stores.relay.drain()
    assert equal(stores)


def test_a_write_between_the_looks_is_lag(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """The relay shows the index a change after the ledger was read: at whichever moment, it is never drift."""
    index, one = stores.index, stores.id_of("one")
    in_index(stores, f"UPDATE index_objects SET terms = 'lies' WHERE id = '{one}'")  # so that there is a second look
    look = index.look

    def slow_look(keys: list[ObjectKey], *, vectors: bool = False) -> object:
        stores.delete("one")
        stores.relay.drain()
        return look(keys, vectors=vectors)

    monkeypatch.setattr(index, "look", slow_look)
    assert {step.drift for step in compare.compare(stores.ledger, index, "memory", "default") if not isinstance(step, str)} == set()
    monkeypatch.undo()

    def late_look(keys: list[ObjectKey], *, vectors: bool = False) -> object:
        found = look(keys, vectors=vectors)
        stores.delete("three")
        stores.relay.drain()
        return found

    in_index(stores, f"UPDATE index_objects SET terms = 'lies' WHERE id = '{stores.id_of('three')}'")
    monkeypatch.setattr(index, "look", late_look)
    assert [step.drift for step in compare.compare(stores.ledger, index, "memory", "default") if not isinstance(step, str)] == ["lag"]


def test_a_relay_that_wakes_up_late_and_writes_an_old_state_is_repaired(stores: Stores) -> None:
    one = stores.id_of("one")
    key = ObjectKey("memory", "default", one)
    with stores.ledger.read() as connection:
        old = index_objects(connection, [key])[key]
    stores.delete("one")
    stores.relay.drain()
    stores.index.write([Write(key, old)])
    assert repair(stores) == {"resurrected": 1}
    assert equal(stores)


def test_an_empty_index_is_filled_without_one_embedding_call(ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_stores(ledger_url, tmp_path / "index.db") as stores:
        fill(stores)
        stores.say("nine", namespace="other")
    with open_stores(ledger_url, tmp_path / "new.db") as stores:
        assert stores.index.needs_rebuild
        embedder = stores.parts.embedder
        assert isinstance(embedder, TrigramEmbedder)
        told: list[int] = []
        number = refill(stores.ledger, stores.clock, told=told.append)
        stores.index.mark_rebuilt()
        stores.relay.drain()
        assert (number, told[-1], embedder.calls) == (12, 12, [])
        assert equal(stores)
        assert not stores.index.needs_rebuild
        assert repair(stores, deep=True) == {}


def test_a_real_clock_dates_a_full_pass(stores: Stores) -> None:
    before = SystemClock().now()
    Reconciler(stores.ledger, stores.index, SystemClock()).run(budget=600)
    with stores.ledger.read() as connection:
        found = last_full_pass(connection)
    assert found is not None and before <= found <= SystemClock().now()
