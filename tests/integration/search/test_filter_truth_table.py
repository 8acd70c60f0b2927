"""Filters through the whole path: one table for search, get_all and delete_all, both databases and every index backend.

A search asks the ledger first where a scope is small, and nominates where it is large: both ways are taken.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from memline import Memory
from memline.contracts.errors import InvalidInput
from memline.contracts.filters import parse
from memline.search import gather
from memline.search.index.port import OfSpace
from memline.settings import load_settings
from tests.filter_table import FIELDS, MORE, MORE_ROWS, REFUSED, ROWS, TRUTH_TABLE
from tests.unit.contracts.test_filters_against_naive import fields, unscoped

#: Parts that cost nothing to load: what a filter matches does not depend on them.
PARTS = {"embedder": "tests.parts:TrigramEmbedder", "extractor": "tests.parts:LineExtractor", "reconcile_every": 0}

Found = Callable[[Mapping[str, Any]], list[str]]


@pytest.fixture(params=["embedded", "weaviate"])
def index_settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Settings of one backend of the index, in which there is nothing."""
    if request.param == "embedded":
        return {"index": "embedded"}
    server = request.getfixturevalue("weaviate_server")
    where = {"weaviate_url": server.url, "weaviate_grpc_url": server.grpc_url, "weaviate_api_key": server.api_key}
    return {"index": "weaviate", "weaviate_prefix": f"T{os.urandom(6).hex()}", **where}


@pytest.fixture
def memory(ledger_url: str, index_settings: dict[str, Any], tmp_path: Path) -> Iterator[Memory]:
    """A memory that holds the rows of the table, searchable."""
    with Memory(settings=load_settings(home=tmp_path, ledger_url=ledger_url, **PARTS, **index_settings)) as opened:
        for user, rows, options in (("u", ROWS, {}), ("v", MORE_ROWS, FIELDS)):
            for name, metadata in rows.items():
                opened.add(f"Note {name}", user_id=user, infer=False, metadata=metadata, **options.get(name, {}))
        opened.add("Note elsewhere", user_id="w", infer=False, metadata=ROWS["r1"])
        opened.flush(300)
        yield opened
        if isinstance(index := opened._house.index, OfSpace):
            index.drop()


def names(answer: dict[str, Any]) -> list[str]:
    return sorted(item["memory"].removeprefix("Note ") for item in answer["results"])


def by_search(memory: Memory) -> Found:
    def found(filters: Mapping[str, Any]) -> list[str]:
        answer = memory.search("note", filters=filters, threshold=0, top_k=50)
        assert "missing" not in answer
        return names(answer)

    return found


def by_listing(memory: Memory) -> Found:
    return lambda filters: names(memory.get_all(filters=filters, top_k=50))


@pytest.fixture(params=["search of a small scope", "search of a large scope", "get_all"])
def found(request: pytest.FixtureRequest, memory: Memory, monkeypatch: pytest.MonkeyPatch) -> Found:
    """One way to ask; names of what is found."""
    if request.param == "get_all":
        return by_listing(memory)
    if request.param == "search of a large scope":
        monkeypatch.setattr(gather, "ASKED_FIRST", 0)
    return by_search(memory)


def test_the_truth_table_holds_on_every_path(found: Found) -> None:
    for user, table in (("u", TRUTH_TABLE), ("v", MORE)):
        wrong = {}
        for condition, expected in table:
            if (got := found({"user_id": user, **condition})) != expected.split():
                wrong[str(condition)] = (got, expected.split())
        assert wrong == {}


def test_what_is_refused_is_refused_on_every_path(found: Found) -> None:
    for raw, message in REFUSED:
        with pytest.raises(InvalidInput) as caught:
            found(raw)
        assert str(caught.value).startswith(message)


def test_delete_all_takes_the_same_ids_and_nothing_else(memory: Memory) -> None:
    wrong: list[Any] = ["*", "u*", "", " ", "lee ann", {"in": ["u", "v"]}, ["u"], {"ne": "w"}, True]
    for value in wrong:
        with pytest.raises(InvalidInput):
            memory.delete_all(user_id=value)
    with pytest.raises(InvalidInput):
        memory.delete_all()
    assert by_listing(memory)({"user_id": "u"}) == [*ROWS]
    memory.delete_all(user_id="v", agent_id="bot")
    assert by_listing(memory)({"user_id": "v"}) == by_search(memory)({"user_id": "v"}) == ["m1", "m3", "m4"]
    memory.delete_all(user_id="u")
    assert by_listing(memory)({"user_id": "u"}) == by_search(memory)({"user_id": "u"}) == []
    assert by_listing(memory)({"user_id": "w"}) == ["elsewhere"]


def test_ids_that_look_alike_are_different_people(memory: Memory, found: Found) -> None:
    """T12: by no analysis of an index are they one."""
    people = ("ann.lee", "Ann_Lee", "ann", "ANN")
    for user in people:
        for kind in ("movies", "food"):
            memory.add(f"Note {user} {kind}", user_id=user, infer=False, metadata={"category": kind})
    memory.flush(300)
    for user in people:
        assert found({"user_id": user, "category": "movies"}) == [f"{user} movies"]
        assert found({"user_id": user}) == [f"{user} food", f"{user} movies"]
    assert found({"user_id": "lee"}) == []
    either = {"OR": [{"user_id": "ann", "category": "food"}, {"user_id": "Ann_Lee", "category": "movies"}]}
    assert found(either) == ["Ann_Lee movies", "ann food"]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Memory, dict[str, dict[str, Any]]]]:
    """A memory of user `a` whose rows hold values of every type under the same keys, and its items as a filter sees them."""
    values: list[Any] = [
        0,
        5,
        5.5,
        -1,
        True,
        False,
        None,
        "",
        "a",
        "ab",
        "Straße",
        "5",
        "2024-05-01",
        "2024-05-01T12:00:00Z",
        "2024-05-01T23:00:00-02:00",
        "2024-13-01",
        ["a", 5, None],
        [],
        [True, "2024-05-02"],
    ]
    with Memory(settings=load_settings(home=tmp_path_factory.mktemp("mixed"), **PARTS)) as memory:
        rows = {}
        for number, value in enumerate(values):
            other = values[(7 * number + 3) % len(values)]
            metadata = {"k": value, "m": other} | ({"when": value} if number % 3 else {}) | ({"deep": {"k": other}} if number % 2 else {})
            rows[f"Note {number}"] = {"user_id": "a", **metadata}
            memory.add(f"Note {number}", user_id="a", infer=False, metadata=metadata)
        memory.flush(300)
        yield memory, rows


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=unscoped | fields)
def test_search_and_get_all_agree_with_the_evaluator_on_any_filter(
    mixed: tuple[Memory, dict[str, dict[str, Any]]], raw: dict[str, Any]
) -> None:
    memory, rows = mixed
    filters = {"user_id": "a", **raw}
    expected = sorted(name.removeprefix("Note ") for name, row in rows.items() if parse(filters).matches(row))
    assert by_listing(memory)(filters) == by_search(memory)(filters) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gather, "ASKED_FIRST", 0)
        assert by_search(memory)(filters) == expected
