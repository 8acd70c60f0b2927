"""What every backend of the index port promises: objects, scopes, rankings, walks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memline.contracts.errors import EmbedderMismatch
from memline.contracts.filters import ScopeIds
from memline.contracts.index_object import ObjectKey
from memline.search.index.port import Write
from tests.integration.search.backends import ANN, DIMENSION, Backend, id_of, put, removed, unit


def test_nothing_is_there_before_the_first_write(backend: Backend) -> None:
    index = backend.index
    assert index.nearest("memory", "n", [ANN], unit(1), limit=5) == []
    assert index.nearest_any("entity", "n", [ANN], [unit(1), unit(2)], limit=5) == []
    assert index.matching("n", [ANN], ["tea"], limit=5) == []
    assert list(index.walk("memory", "n")) == []
    assert index.look([ObjectKey("memory", "n", id_of("a"))]) == {}
    assert index.namespaces() == []
    assert index.write([]) == []


def test_what_was_put_is_there_at_once(backend: Backend) -> None:
    write = put("a", agent="bot", run="r1", version=3, terms=("tea", "green", "tea"))
    backend.write(write)
    assert write.object is not None
    (state,) = backend.stored(vectors=True)
    assert (state.key, state.version) == (write.key, 3)
    assert (state.digest, state.vector_digest) == (write.object.digest, write.object.vector_digest)
    assert backend.index.nearest("memory", "n", [ANN], unit(int(id_of("a")[:8], 16)), limit=5)[0].value == pytest.approx(1.0, abs=1e-5)


def test_an_object_is_replaced_whole(backend: Backend) -> None:
    backend.write(put("a", agent="bot", run="r1", terms=("tea",)))
    backend.write(put("a", user="bob", version=2, terms=("coffee",), vector=unit(7)))
    assert backend.ids(ANN) == backend.ids(ScopeIds(agent_id="bot")) == backend.ids(ScopeIds(run_id="r1")) == set()
    assert backend.ids(ScopeIds(user_id="bob")) == {id_of("a")}
    (state,) = backend.stored(vectors=True)
    wanted = put("a", user="bob", version=2, terms=("coffee",), vector=unit(7)).object
    assert wanted is not None
    assert (state.version, state.digest, state.vector_digest) == (2, wanted.digest, wanted.vector_digest)


def test_what_was_removed_is_gone_and_removing_it_again_does_nothing(backend: Backend) -> None:
    backend.write(put("a"), put("b"))
    backend.write(removed("a"), removed("never there"))
    backend.write(removed("a"))
    backend.write(removed("a", namespace="never written to"), removed("a", kind="entity"))
    assert backend.ids() == {id_of("b")}
    assert [state.key.id for state in backend.stored()] == [id_of("b")]


def test_of_one_object_twice_in_a_batch_the_later_write_holds(backend: Backend) -> None:
    answers = backend.index.write([put("a", version=1), removed("b"), removed("a"), put("a", version=2), put("b"), removed("b")])
    assert [answer.error for answer in answers] == [None] * 6
    assert [(state.key.id, state.version) for state in backend.stored()] == [(id_of("a"), 2)]


def test_memories_and_entities_are_apart(backend: Backend) -> None:
    backend.write(put("a"), put("b", kind="entity", terms=("green tea",)))
    assert backend.ids() == {id_of("a")}
    assert backend.ids(kind="entity") == {id_of("b")}
    assert backend.stored("entity")[0].key == ObjectKey("entity", "n", id_of("b"))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_vector_that_is_no_number_is_refused_and_hides_no_other(backend: Backend, value: float) -> None:
    if not backend.knows_dimension:
        pytest.skip("this index takes any vector")
    broken = unit(1).copy()
    broken[0] = value
    answers = backend.index.write([put("a"), put("broken", vector=broken), put("c")])
    assert [answer.error is None for answer in answers] == [True, False, True]
    assert {found.id for found in backend.index.nearest("memory", "n", [ANN], unit(2), limit=5)} == {id_of("a"), id_of("c")}


def test_an_object_that_is_wrong_fails_alone_and_its_error_holds_no_word_of_it(backend: Backend) -> None:
    if not backend.knows_dimension:
        pytest.skip("this index takes any vector")
    wrong = put("wrong", terms=("hushhush",), vector=unit(1, DIMENSION // 2))
    answers = backend.index.write([put("a"), wrong, removed("b"), put("c")])
    assert [answer.key for answer in answers] == [put("a").key, wrong.key, removed("b").key, put("c").key]
    assert [answer.error is None for answer in answers] == [True, False, True, True]
    assert "dimension" in str(answers[1].error)
    assert "hushhush" not in str(answers[1].error)
    assert backend.ids() == {id_of("a"), id_of("c")}


@pytest.mark.parametrize(
    "names",
    [
        ("ann.lee", "Ann_Lee", "ann", "ann-lee", "ANN", "ann.", "lee"),
        ("用户", "用户1", "用", "Ünal", "unal", "U\u0308nal", "ünal"),
        ("a" * 256, "a" * 255, "0", "00", "user:1", 'quote"', "back\\slash", "a,b", "{}", "null", "_"),
        ("👩‍👩‍👧", "👩", "é", "e\u0301", "ß", "ss", "ı", "i", "İ"),
    ],
)
def test_every_id_is_a_person_of_its_own(backend: Backend, names: tuple[str, ...]) -> None:
    backend.write(*(put(f"user {name}", user=name) for name in names))
    backend.write(*(put(f"agent {name}", user=None, agent=name) for name in names))
    backend.write(*(put(f"run {name}", user=None, run=name) for name in names))
    for name in names:
        assert backend.ids(ScopeIds(user_id=name)) == {id_of(f"user {name}")}
        assert backend.ids(ScopeIds(agent_id=name)) == {id_of(f"agent {name}")}
        assert backend.ids(ScopeIds(run_id=name)) == {id_of(f"run {name}")}


def test_a_scope_holds_what_has_all_its_ids_and_several_are_joined_by_or(backend: Backend) -> None:
    backend.write(put("a"), put("ar", run="r"), put("ab", agent="bot"), put("abr", agent="bot", run="r"))
    backend.write(put("b", user="bob"), put("br", user="bob", run="r"), put("r", user=None, run="r"))

    def words(*scopes: ScopeIds) -> set[str]:
        ids = backend.ids(*scopes)
        return {word for word in ("a", "ar", "ab", "abr", "b", "br", "r") if id_of(word) in ids}

    assert words(ANN) == {"a", "ar", "ab", "abr"}
    assert words(ScopeIds("ann", "bot")) == {"ab", "abr"}
    assert words(ScopeIds("ann", None, "r")) == {"ar", "abr"}
    assert words(ScopeIds("ann", "bot", "r")) == {"abr"}
    assert words(ScopeIds(run_id="r")) == {"ar", "abr", "br", "r"}
    assert words(ScopeIds("bob"), ScopeIds("ann", "bot")) == {"b", "br", "ab", "abr"}
    assert words(ANN, ScopeIds("ann", "bot"), ScopeIds("nobody")) == {"a", "ar", "ab", "abr"}
    assert backend.index.nearest("memory", "n", [], unit(1), limit=5) == []
    assert backend.index.matching("n", [], ["tea"], limit=5) == []


def test_namespaces_are_walls(backend: Backend) -> None:
    names = ("n", "N", "n.", "other namespace".replace(" ", "-"), "命名", "n" * 256)
    backend.write(*(put(f"in {name}", namespace=name) for name in names))
    for name in names:
        assert backend.ids(namespace=name) == {id_of(f"in {name}")}
        assert [state.key for state in backend.stored(namespace=name)] == [ObjectKey("memory", name, id_of(f"in {name}"))]
        assert backend.index.look([ObjectKey("memory", name, id_of("in another"))]) == {}
    backend.write(removed("in n", namespace="N"))
    assert backend.ids() == {id_of("in n")}
    assert backend.index.namespaces() == sorted(names)


def test_the_nearest_come_first_with_their_cosine_and_pages_tile_the_ranking(backend: Backend) -> None:
    words = [f"w{number}" for number in range(250)]
    backend.write(*(put(word) for word in words))
    query = unit(5)
    cosines = {id_of(word): float(unit(int(id_of(word)[:8], 16)) @ query) for word in words}
    wanted = sorted(cosines, key=lambda object_id: (-cosines[object_id], object_id))
    pages = [backend.index.nearest("memory", "n", [ANN], query, limit=40, offset=offset) for offset in range(0, 280, 40)]
    found = [nominee for page in pages for nominee in page]
    assert [nominee.id for nominee in found] == wanted
    assert [nominee.value for nominee in found] == pytest.approx([cosines[object_id] for object_id in wanted], abs=1e-5)
    assert backend.index.nearest("memory", "n", [ANN], query, limit=5, offset=250) == []
    assert backend.index.nearest("memory", "n", [ANN], query, limit=0) == []
    # one call that is deeper than a server brings at a time
    assert [nominee.id for nominee in backend.index.nearest("memory", "n", [ANN], query, limit=240)] == wanted[:240]


def test_of_equally_near_objects_the_smaller_id_comes_first_on_every_page(backend: Backend) -> None:
    words = [f"w{number}" for number in range(40)]
    backend.write(*(put(word, vector=unit(number % 2)) for number, word in enumerate(words)))
    wanted = [*sorted(id_of(word) for word in words[1::2]), *sorted(id_of(word) for word in words[::2])]
    pages = [backend.index.nearest("memory", "n", [ANN], unit(1), limit=7, offset=offset) for offset in range(0, 40, 7)]
    assert [nominee.id for page in pages for nominee in page] == wanted


def test_one_question_finds_what_is_near_any_of_several_vectors(backend: Backend) -> None:
    words = [f"w{number}" for number in range(60)]
    backend.write(*(put(word, kind="entity", terms=(word,)) for word in words))
    queries = [unit(number) for number in (100, 200, 300)]
    best: dict[str, float] = {}
    for query in queries:
        for nominee in backend.index.nearest("entity", "n", [ANN], query, limit=10):
            best[nominee.id] = max(nominee.value, best.get(nominee.id, -1.0))
    found = backend.index.nearest_any("entity", "n", [ANN], queries, limit=10)
    assert {nominee.id: nominee.value for nominee in found} == pytest.approx(best, abs=1e-5)
    assert [nominee.value for nominee in found] == sorted((nominee.value for nominee in found), reverse=True)
    assert backend.index.nearest_any("entity", "n", [ANN], [], limit=10) == []
    assert backend.index.nearest_any("entity", "n", [ScopeIds("bob")], queries, limit=10) == []
    assert len(backend.index.nearest_any("entity", "n", [ANN], queries[:1], limit=150)) == 60


def test_a_question_of_another_dimension_is_refused(backend: Backend) -> None:
    if not backend.knows_dimension:
        pytest.skip("this index takes any vector")
    backend.write(put("a"))
    with pytest.raises(EmbedderMismatch, match=f"{DIMENSION} dimensions"):
        backend.index.nearest("memory", "n", [ANN], unit(1, DIMENSION // 2), limit=5)
    with pytest.raises(EmbedderMismatch, match=f"{DIMENSION} dimensions"):
        backend.index.nearest_any("memory", "n", [ANN], [unit(1, DIMENSION // 2)], limit=5)


def test_a_walk_brings_every_object_in_the_order_of_ids_page_by_page(backend: Backend) -> None:
    words = [f"w{number}" for number in range(330)]
    writes = [put(word, version=number + 1) for number, word in enumerate(words)]
    backend.write(*writes)
    wanted = sorted(write.key.id for write in writes)
    for limit in (1000, 50, 7):
        assert [state.key.id for state in backend.stored(limit=limit)] == wanted
    assert [state.key.id for state in backend.stored(after=wanted[99], limit=50)] == wanted[100:]
    assert backend.stored(after=wanted[-1]) == []
    some = list(islice(backend.index.walk("memory", "n", after=wanted[9], limit=20, vectors=True), 20))
    assert [state.key.id for state in some] == wanted[10:30]
    digests = {write.key.id: (write.object.version, write.object.digest, write.object.vector_digest) for write in writes if write.object}
    assert {state.key.id: (state.version, state.digest, state.vector_digest) for state in some}.items() <= digests.items()
    assert {state.vector_digest for state in backend.stored(limit=50)} == {None}


def test_a_look_brings_what_is_there_of_what_was_asked_for(backend: Backend) -> None:
    writes = [put(f"w{number}") for number in range(230)]
    backend.write(*writes, put("e", kind="entity"), put("o", namespace="other"))
    missing = [ObjectKey("memory", "n", id_of("missing")), ObjectKey("entity", "n", id_of("w1")), ObjectKey("memory", "n", "no uuid")]
    missing += [ObjectKey("memory", "other", id_of("w1")), ObjectKey("memory", "unknown", id_of("w1"))]
    there = [*(write.key for write in writes), ObjectKey("entity", "n", id_of("e")), ObjectKey("memory", "other", id_of("o"))]
    found = backend.index.look([*missing, *there, there[0]], vectors=True)
    assert found.keys() == set(there)
    for write in writes:
        assert write.object is not None
        state = found[write.key]
        assert (state.digest, state.vector_digest) == (write.object.digest, write.object.vector_digest)
    assert backend.index.look(there[:1])[there[0]].vector_digest is None


def test_thousands_are_removed_at_once(backend: Backend) -> None:
    writes = [put(f"w{number}") for number in range(2_300)]
    backend.write(*writes)
    answers = backend.index.write([Write(write.key, None) for write in writes[:-3]])
    assert {answer.error for answer in answers} == {None}
    assert len(answers) == len(writes) - 3
    assert {state.key.id for state in backend.stored()} == {write.key.id for write in writes[-3:]}


@pytest.mark.parametrize(
    "terms", [(), ("a", "a", "b"), ("green tea",), ("\u2028", "ñ", "👩‍👩‍👧"), ("x" * 64,) * 500, ("  two  spaces ",), ("\x1f",)]
)
def test_terms_and_names_come_back_as_they_were(backend: Backend, terms: tuple[str, ...]) -> None:
    for kind in ("memory", "entity"):
        write = put("a", kind=kind, terms=terms)  # type: ignore[arg-type]
        backend.write(write)
        assert write.object is not None
        assert backend.stored(kind)[0].digest == write.object.digest  # type: ignore[arg-type]


def test_vectors_come_back_bit_by_bit(backend: Backend) -> None:
    odd = np.zeros(DIMENSION, "<f4")
    odd[:4] = [1e-30, -0.0, np.nextafter(np.float32(1), np.float32(0)), 1e-7]
    writes = [put("odd", vector=odd), put("long", vector=unit(1) * 3), *(put(f"w{number}") for number in range(20))]
    backend.write(*writes)
    wanted = {write.key.id: write.object.vector_digest for write in writes if write.object is not None}
    assert {state.key.id: state.vector_digest for state in backend.stored(vectors=True)} == wanted


def test_threads_write_and_read_at_once(backend: Backend) -> None:
    def work(number: int) -> int:
        backend.write(*(put(f"{number} {each}", user=f"u{number}", namespace=f"n{number % 3}") for each in range(20)))
        backend.write(removed(f"{number} 0", namespace=f"n{number % 3}"))
        return len(backend.ids(ScopeIds(f"u{number}"), namespace=f"n{number % 3}"))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(12))) == [19] * 12


_namespaces = count(1)
_words = st.sampled_from([f"w{number}" for number in range(6)])
_steps = st.lists(st.lists(st.tuples(_words, st.integers(0, 3), st.sampled_from(["ann", "bob"])), min_size=1, max_size=6), max_size=5)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_steps)
def test_any_sequence_of_batches_leaves_what_a_dict_would_hold(backend: Backend, steps: list[list[tuple[str, int, str]]]) -> None:
    namespace = f"any{next(_namespaces)}"
    held: dict[str, tuple[int, str]] = {}
    for batch in steps:
        writes = [
            put(word, version=version, user=user, namespace=namespace) if version else removed(word, namespace=namespace)
            for word, version, user in batch
        ]
        for word, version, user in batch:
            held.pop(id_of(word), None)
            if version:
                held[id_of(word)] = (version, user)
        backend.write(*writes)
        assert {state.key.id: state.version for state in backend.stored(namespace=namespace)} == {
            object_id: version for object_id, (version, _) in held.items()
        }
        for user in ("ann", "bob"):
            wanted = {object_id for object_id, (_, owner) in held.items() if owner == user}
            assert backend.ids(ScopeIds(user), namespace=namespace) == wanted
