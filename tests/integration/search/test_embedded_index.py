"""The embedded index: exact, up to date in every process and thread, bounded in memory, rebuilt when its form changes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from memline.contracts.errors import EmbedderMismatch
from memline.contracts.filters import ScopeIds
from memline.contracts.index_object import IndexObject, Kind, ObjectKey
from memline.ledger.migrate import open_ledger
from memline.ledger.schema import memories
from memline.ledger.session import Ledger
from memline.search.index import embedded_cache
from memline.search.index.embedded import EmbeddedIndex
from memline.search.index.embedded_tables import tables_of
from memline.search.index.port import Write
from tests.integration.search.world import World

ANN, BOB = ScopeIds(user_id="ann"), ScopeIds(user_id="bob")
DIMENSION = 8


@pytest.fixture
def ledger_file(tmp_path: Path) -> Iterator[Ledger]:
    opened = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    open_ledger(opened)
    yield opened
    opened.close()


@pytest.fixture(params=["in the ledger", "beside it"])
def index(request: pytest.FixtureRequest, ledger_file: Ledger, tmp_path: Path) -> EmbeddedIndex:
    store = ledger_file if request.param == "in the ledger" else Ledger(f"sqlite:///{tmp_path / 'index.db'}")
    return EmbeddedIndex(store, ledger_file)


def direction(angle: float) -> NDArray[np.float32]:
    vector = np.zeros(DIMENSION, np.float32)
    vector[0], vector[1] = np.cos(angle), np.sin(angle)
    return vector


def put(
    name: str,
    angle: float = 0.0,
    *,
    user: str = "ann",
    run: str | None = None,
    kind: Kind = "memory",
    version: int = 1,
    namespace: str = "n",
) -> Write:
    key = ObjectKey(kind, namespace, name)
    return Write(key, IndexObject(key, version, user, None, run, ("two words", name), direction(angle).tobytes()))


def drop(name: str, kind: Kind = "memory") -> Write:
    return Write(ObjectKey(kind, "n", name), None)


def names(
    index: EmbeddedIndex, *scopes: ScopeIds, angle: float = 0.0, limit: int = 100, offset: int = 0, kind: Kind = "memory"
) -> list[str]:
    return [found.id for found in index.nearest(kind, "n", scopes or (ANN,), direction(angle), limit=limit, offset=offset)]


def test_the_nearest_come_first_with_their_cosine(index: EmbeddedIndex) -> None:
    index.write([put("far", 1.2), put("near", 0.1), put("middle", 0.6)])
    found = index.nearest("memory", "n", [ANN], direction(0.0), limit=2)
    assert [nominee.id for nominee in found] == ["near", "middle"]
    assert found[0].value == pytest.approx(np.cos(0.1), abs=1e-6)


def test_a_read_is_narrowed_by_namespace_kind_and_every_id_that_is_set(index: EmbeddedIndex) -> None:
    index.write([put("a", run="r1"), put("b"), put("c", user="bob"), put("d", namespace="other"), put("e", kind="entity")])
    assert set(names(index, ANN)) == {"a", "b"}
    assert names(index, ScopeIds(user_id="ann", run_id="r1")) == ["a"]
    assert names(index, ScopeIds(user_id="bob", run_id="r1")) == []
    assert set(names(index, ANN, BOB)) == {"a", "b", "c"}
    assert set(names(index, ANN, ScopeIds(run_id="r1"))) == {"a", "b"}
    assert names(index, ANN, kind="entity") == ["e"]
    assert set(names(index, ScopeIds())) == {"a", "b", "c"}


def test_pages_follow_each_other_without_gap_or_repetition_also_among_equals(index: EmbeddedIndex) -> None:
    index.write([put(f"m{n:03}", 0.3 if n % 3 else 0.1) for n in range(60)])
    whole = names(index, limit=60)
    assert [name for offset in range(0, 60, 7) for name in names(index, limit=7, offset=offset)] == whole
    assert names(index, limit=7, offset=60) == [] and names(index, limit=0) == []


def test_a_write_is_seen_by_the_next_read(index: EmbeddedIndex) -> None:
    assert names(index) == []
    index.write([put("a", 0.5)])
    assert names(index) == ["a"]
    index.write([put("b", 0.1), put("a", 0.0, version=2)])
    assert names(index) == ["a", "b"]
    index.write([drop("a")])
    assert names(index) == ["b"]
    index.write([put("a", 0.7, version=3)])
    assert names(index) == ["b", "a"]
    index.write([drop("a"), drop("b"), drop("never there")])
    assert names(index) == []


def test_one_object_twice_in_a_batch_is_as_the_later_write_says(index: EmbeddedIndex) -> None:
    answers = index.write([put("a", 0.1), drop("a"), put("b", 0.1), put("b", 1.0, version=2)])
    assert len(answers) == 4 and all(answer.error is None for answer in answers)
    assert names(index) == ["b"]
    assert index.nearest("memory", "n", [ANN], direction(1.0), limit=1)[0].value == pytest.approx(1.0, abs=1e-6)


def test_a_write_that_is_rolled_back_was_never_there(ledger_file: Ledger) -> None:
    index = EmbeddedIndex(ledger_file, ledger_file)
    index.write([put("a")])
    assert names(index) == ["a"]

    def fail() -> None:
        with ledger_file.write() as tx:
            index.write([put("b"), drop("a")], tx=tx)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert names(index) == ["a"]
    with ledger_file.write() as tx:
        index.write([put("c", 0.2)], tx=tx)
    assert names(index) == ["a", "c"]


def test_an_object_of_the_wrong_dimension_fails_alone(index: EmbeddedIndex) -> None:
    index.write([put("a")])
    key = ObjectKey("memory", "n", "odd")
    odd = Write(key, IndexObject(key, 1, "ann", None, None, (), np.ones(3, np.float32).tobytes()))
    answers = index.write([put("b", 0.1), odd])
    assert answers[0].error is None and answers[1].key == key and "8 dimensions" in str(answers[1].error)
    assert names(index) == ["a", "b"]


def test_a_question_of_the_wrong_dimension_is_an_error_with_both_numbers(index: EmbeddedIndex) -> None:
    index.write([put("a")])
    with pytest.raises(EmbedderMismatch, match=r"8 dimensions.*of 3"):
        index.nearest("memory", "n", [ANN], np.ones(3, np.float32), limit=1)


def test_a_walk_goes_through_every_object_in_the_order_of_ids(index: EmbeddedIndex) -> None:
    writes = [put(f"m{n:02}", n / 10) for n in range(25)] + [put("e", kind="entity"), put("o", namespace="other")]
    index.write(list(reversed(writes)))
    walked = list(index.walk("memory", "n", limit=4, vectors=True))
    assert [state.key.id for state in walked] == [f"m{n:02}" for n in range(25)]
    for state, write in zip(walked, writes, strict=False):
        assert write.object is not None
        assert (state.digest, state.vector_digest, state.version) == (write.object.digest, write.object.vector_digest, 1)
    assert [state.key.id for state in index.walk("memory", "n", after="m20")] == ["m21", "m22", "m23", "m24"]
    assert next(iter(index.walk("memory", "n"))).vector_digest is None


def test_a_change_by_hand_shows_in_the_digest(index: EmbeddedIndex, ledger_file: Ledger) -> None:
    index.write([put("a")])
    before = next(iter(index.walk("memory", "n", vectors=True)))
    with index._store.write() as tx:
        tx.execute(sa.update(tables_of(None).objects).values(user_id="bob"))
    after = next(iter(index.walk("memory", "n", vectors=True)))
    assert after.digest != before.digest and after.vector_digest == before.vector_digest


_STEPS = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.one_of(st.none(), st.floats(0, 3.1))), min_size=1, max_size=30)


@settings(max_examples=40)
@given(_STEPS, st.integers(1, 5))
def test_whatever_is_written_a_cached_read_equals_a_fresh_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, float | None]], every: int
) -> None:
    folder = tmp_path_factory.mktemp("index")
    ledger = Ledger(f"sqlite:///{folder / 'ledger.db'}")
    with ledger.write() as tx:
        memories.metadata.create_all(tx)
    index = EmbeddedIndex(ledger, ledger)
    expected: dict[str, float] = {}
    for number, (name, angle) in enumerate(steps):
        index.write([drop(name) if angle is None else put(name, angle, version=number + 1)])
        expected.pop(name, None)
        if angle is not None:
            expected[name] = float(direction(angle)[0])
        if number % every == 0:
            _same(index, expected)
    _same(index, expected)
    _same(EmbeddedIndex(ledger, ledger), expected)
    ledger.close()


def _same(index: EmbeddedIndex, expected: dict[str, float]) -> None:
    found = {nominee.id: nominee.value for nominee in index.nearest("memory", "n", [ANN], direction(0.0), limit=100)}
    assert found == {name: pytest.approx(value, abs=1e-6) for name, value in expected.items()}


def test_many_replacements_leave_no_dead_rows_in_memory(index: EmbeddedIndex) -> None:
    index.write([put(f"m{n}", n / 500) for n in range(500)])
    for version in range(2, 6):
        index.write([put(f"m{n}", n / 500, version=version) for n in range(500)])
        assert len(names(index, limit=1000)) == 500
    recalled = index.recall("memory", "n", ANN)
    assert recalled is not None and len(recalled.versions) < 1000
    assert {recalled.versions[recalled.row_of[f"m{n}"]] for n in range(500)} == {5}


def test_the_cache_is_bounded_and_what_does_not_fit_is_read_from_the_file(index: EmbeddedIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_cache, "CHUNK", 50)
    index.write([put(f"m{n:03}", n / 200) for n in range(200)])
    index.write([put(f"b{n:03}", n / 20, user="bob") for n in range(20)])
    small = EmbeddedIndex(index._store, index._ledger, cache_bytes=20_000)
    assert names(small, limit=30) == names(index, limit=30)
    assert names(small, limit=30, offset=30) == names(index, limit=30, offset=30)
    assert small.recall("memory", "n", ANN) is None
    assert names(small, BOB) == names(index, BOB)
    assert small.recall("memory", "n", BOB) is not None
    assert small._cache.bytes <= 20_000


def test_the_least_recently_used_matrix_leaves_first(index: EmbeddedIndex) -> None:
    index.write([put(f"{user}{n}", n / 50, user=user) for user in ("ann", "bob", "cat") for n in range(50)])
    small = EmbeddedIndex(index._store, index._ledger, cache_bytes=32_000)
    for scope in (ANN, BOB, ANN, ScopeIds(user_id="cat")):
        names(small, scope)
    assert small.recall("memory", "n", BOB) is None
    assert small.recall("memory", "n", ANN) is not None and small.recall("memory", "n", ScopeIds(user_id="cat")) is not None


def test_threads_that_read_while_one_writes_see_whole_states(index: EmbeddedIndex) -> None:
    index.write([put("pair0", 0.1), put("pair1", 0.1)])

    def read(_: int) -> list[float]:
        return [found.value for found in index.nearest("memory", "n", [ANN], direction(0.0), limit=10)]

    with ThreadPoolExecutor(4) as pool:
        reads = [pool.submit(read, n) for n in range(40)]
        for version in range(2, 12):
            index.write([put("pair0", version / 10, version=version), put("pair1", version / 10, version=version)])
            reads += [pool.submit(read, n) for n in range(10)]
        for done in reads:
            values = done.result()
            assert len(values) == 2 and values[0] == pytest.approx(values[1], abs=1e-6)


def test_another_process_sees_what_this_one_writes_and_the_other_way_round(index: EmbeddedIndex) -> None:
    index.write([put("a")])
    other = EmbeddedIndex(Ledger(index._store.shown_url), Ledger(index._ledger.shown_url))
    assert names(other) == ["a"]
    index.write([put("b", 0.2)])
    assert names(other) == ["a", "b"]
    other.write([drop("a"), put("b", 0.4, version=2), put("c", 0.1)])
    assert names(index) == names(other) == ["c", "b"]


def _in_child(work: Callable[[], bool]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if work() else 3)
        except BaseException:
            os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")
def test_a_forked_child_reads_and_writes_even_if_the_parent_was_in_the_middle_of_it(index: EmbeddedIndex) -> None:
    index.write([put("a"), put("b", 0.2)])
    assert names(index) == ["a", "b"]
    entry = index._cache._entries[embedded_cache.Narrowing("memory", "n", ANN)]

    def child() -> bool:
        index.write([drop("a"), put("c", 0.1)])
        return names(index) == ["c", "b"]

    with entry.lock:  # as if another thread of the parent were reading
        assert _in_child(child) == 0
    assert names(index) == ["c", "b"]


def test_tables_of_another_form_are_made_anew_and_ask_to_be_filled(index: EmbeddedIndex) -> None:
    index.write([put("a")])
    assert not index.needs_rebuild
    with index._store.write() as tx:
        tx.execute(sa.update(tables_of(None).meta).where(tables_of(None).meta.c.key == "form").values(value="0"))
    again = EmbeddedIndex(index._store, index._ledger)
    assert again.needs_rebuild and names(again) == []
    again.write([put("a")])
    again.mark_rebuilt()
    assert not again.needs_rebuild and not EmbeddedIndex(index._store, index._ledger).needs_rebuild


def test_a_new_index_beside_a_full_ledger_asks_to_be_filled(ledger_file: Ledger, tmp_path: Path) -> None:
    World(ledger_file, tmp_path).say("User likes tea")
    assert EmbeddedIndex(Ledger(f"sqlite:///{tmp_path / 'new.db'}"), ledger_file).needs_rebuild
    assert not EmbeddedIndex(ledger_file, ledger_file).needs_rebuild


def test_matching_ranks_by_bm25_within_the_scope(ledger: Ledger, tmp_path: Path) -> None:
    world = World(ledger, tmp_path)
    world.say_all(["User likes green tea", "User likes tea and tea", "User likes coffee"])
    world.say("User likes green tea elsewhere", run="r1")
    world.say("User likes green tea", user="bob")

    def found(*terms: str, scope: ScopeIds = ANN, **page: int) -> list[str]:
        nominees = world.index.matching("default", [scope], terms, **({"limit": 10} | page))
        with world.ledger.read() as connection:
            texts = {row.id: row.text for row in connection.execute(sa.select(memories.c.id, memories.c.text))}
        return [texts[nominee.id] for nominee in nominees]

    assert found("green", "tea") == ["User likes green tea", "User likes green tea elsewhere", "User likes tea and tea"]
    assert found("green", "tea", limit=1, offset=1) == ["User likes green tea elsewhere"]
    assert found("tea", scope=ScopeIds(user_id="ann", run_id="r1")) == ["User likes green tea elsewhere"]
    assert found("nothing") == found() == found("tea", scope=ScopeIds(user_id="nobody")) == []
