"""Postings as they are read for a question: all of them, or their numbers first; the same BM25 and the same counts either way."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pytest
import sqlalchemy as sa

from memline.ledger import postings as postings_module
from memline.ledger.postings import K1, B, bm25, counts_of, read_postings, term_statistics
from memline.ledger.schema import memories, owners
from memline.ledger.session import Ledger
from tests.parts import accept, make_parts, make_turn, run_all

TEXTS = {
    "ann": ["tea tea and milk", "a cup of tea", "coffee with milk", "nothing of the kind", "tea in the 三 garden's O'Neill_x"],
    "bob": ["tea", "tea and tea and tea", "milk"],
}


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    parts = make_parts(ledger)
    accept(parts, *(make_turn(text, user=user) for user, texts in TEXTS.items() for text in texts))
    run_all(parts)
    return ledger


def numbers(connection: sa.Connection) -> tuple[list[int], dict[int, str]]:
    """The owners, and the text of each memory."""
    rows = connection.execute(sa.select(memories.c.no, memories.c.text)).all()
    return list(connection.execute(sa.select(owners.c.no)).scalars()), {no: text for no, text in rows}


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"[\w-]+", text.lower()))


def naive(texts: dict[int, str], terms: list[str]) -> dict[int, float]:
    """BM25 by the book."""
    held = {no: words(text) for no, text in texts.items()}
    mean = sum(sum(counts.values()) for counts in held.values()) / len(held)
    found: dict[int, float] = {}
    for term in terms:
        n = sum(term in counts for counts in held.values())
        idf = math.log(1 + (len(held) - n + 0.5) / (n + 0.5))
        for no, counts in held.items():
            if tf := counts[term]:
                length = sum(counts.values())
                found[no] = found.get(no, 0.0) + idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * length / mean))
    return found


@pytest.mark.parametrize("whole", [2_000, 0])
def test_it_ranks_by_the_book(filled: Ledger, monkeypatch: pytest.MonkeyPatch, whole: int) -> None:
    monkeypatch.setattr(postings_module, "WHOLE", whole)
    terms = ["tea", "milk", "三", "o", "unknown"]
    with filled.read() as connection:
        nos, texts = numbers(connection)
        statistics = term_statistics(connection, nos, terms)
        found = bm25(statistics.postings or read_postings(connection, nos, terms), statistics, limit=100)
    assert statistics.live == 8 and (statistics.postings is None) == (whole == 0)
    assert dict(statistics.frequency) == {term: number for term in terms if (number := sum(term in words(t) for t in texts.values()))}
    assert dict(found) == pytest.approx(naive(texts, terms))
    assert [value for _, value in found] == sorted((value for _, value in found), reverse=True)


def test_pages_tile_the_ranking_and_of_equals_the_newest_comes_first(filled: Ledger) -> None:
    with filled.read() as connection:
        nos, _ = numbers(connection)
        statistics = term_statistics(connection, nos, ["tea", "milk"])
    assert statistics.postings is not None
    every = bm25(statistics.postings, statistics, limit=100)
    assert [bm25(statistics.postings, statistics, limit=1, offset=place)[0] for place in range(len(every))] == every
    assert every == sorted(every, key=lambda found: (-found[1], -found[0]))
    assert bm25(statistics.postings, statistics, limit=0) == [] == bm25(statistics.postings, statistics, limit=5, offset=50)


def test_an_owner_reads_its_own(filled: Ledger) -> None:
    with filled.read() as connection:
        _, texts = numbers(connection)
        no = connection.execute(sa.select(owners.c.no).where(owners.c.user_id == "bob")).scalar_one()
        found = term_statistics(connection, [no], ["tea", "milk"])
    assert found.live == 3 and dict(found.frequency) == {"tea": 2, "milk": 1}
    assert found.postings is not None
    assert {texts[int(number)] for number in found.postings.memory_nos} == set(TEXTS["bob"])


@pytest.mark.parametrize("read", [[], ["tea"], ["milk", "tea", "garden", "another"]])
def test_counts_are_the_same_whatever_was_read_before(filled: Ledger, monkeypatch: pytest.MonkeyPatch, read: list[str]) -> None:
    monkeypatch.setattr(postings_module, "WHOLE", 0)
    terms = ["milk", "tea", "coffee", "unknown"]
    with filled.read() as connection:
        nos, texts = numbers(connection)
        statistics = term_statistics(connection, nos, terms)
        if read:
            statistics = postings_module.TermStatistics(
                statistics.live, statistics.mean_length, statistics.frequency, read_postings(connection, nos, read)
            )
        asked = [no for no in sorted(texts, reverse=True) if no % 3]
        found = counts_of(connection, nos, asked, terms, statistics)
        assert counts_of(connection, nos, [], terms, statistics).shape == (0, 4)
    assert found.tolist() == [[words(texts[no])[term] for term in terms] for no in asked]


def test_without_owners_or_terms_there_is_nothing(filled: Ledger) -> None:
    with filled.read() as connection:
        nos, _ = numbers(connection)
        nobody = term_statistics(connection, [], ["tea"])
        nothing = term_statistics(connection, nos, [])
        assert (nobody.live, nobody.mean_length, dict(nobody.frequency)) == (0, 0.0, {})
        assert nothing.postings is not None and len(nothing.postings.memory_nos) == 0
        assert np.array_equal(counts_of(connection, nos, [1], [], nothing), np.zeros((1, 0)))
