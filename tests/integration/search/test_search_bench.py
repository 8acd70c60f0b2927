"""`make bench-search`, small: what it reports, and that memories loaded in bulk are found as any other."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import search_bench
from bench.bulk import Bulk, made_texts, material_of
from bench.search_speed import percentile
from memline.contracts.filters import parse
from memline.contracts.scope import Scope
from memline.ledger.memories import list_memories
from memline.ledger.session import Ledger
from memline.search.index.embedded import EmbeddedIndex
from memline.search.searcher import Searcher
from tests.parts import HandClock, TrigramEmbedder, WordAnalyser


def talk(name: str) -> dict[str, Any]:
    lines = ["I adopted a dog called Poppy", "How old is she?", "She is three years old", "My locker code is 44711", "I moved to Oslo"]
    turns = [{"speaker": ("Ann", "Bob")[at % 2], "dia_id": f"D1:{at + 1}", "text": f"{text} {name}."} for at, text in enumerate(lines)]
    return {
        "sample_id": name,
        "conversation": {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns},
        "qa": [
            {"question": "What is the locker code?", "evidence": ["D1:4"], "category": 4},
            {"question": "Where did Ann move?", "evidence": ["D1:5"], "category": 1},
            {"question": "Who knows?", "evidence": [], "category": 5},
        ],
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder in the shape of the published data."""
    chat = {
        "chat": [
            {
                "time_anchor": "March-15-2024",
                "turns": [
                    [
                        {"id": 1, "role": "user", "content": "I plan a trip to Kyoto in May."},
                        {"id": 2, "role": "assistant", "content": "Book the train to Kyoto early."},
                    ]
                ],
            }
        ],
        "probing_questions": {"information_extraction": [{"question": "Which trip is planned?", "source_chat_ids": [1]}]},
    }
    for folder, name, content in (("locomo", "two.json", [talk("one"), talk("two")]), ("beam", "chat.json", chat)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(json.dumps(content))
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], file: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    monkeypatch.setattr(sys, "argv", ["search_bench", *arguments, "--json", str(file)])
    search_bench.main()
    return json.loads(file.read_text()), capsys.readouterr().out


def test_the_report_names_what_was_measured_and_what_was_not(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    embedders = ["--embedder", "tests.parts:TrigramEmbedder", "--embedder", "simulator"]
    report, shown = run(monkeypatch, capsys, tmp_path / "out.json", str(data), *embedders, "--sizes", "40", "--total", "60")
    assert list(report["embedders"].values()) == ["trigrams, 64 dimensions", "simulator (hashed words), 1536 dimensions"]
    assert report["weights"]["source"] == "default" and report["index"].startswith("embedded")
    measured = {(each["data"], each["embedder"]): each for each in report["quality"]}
    assert len(measured) == 4
    first = measured["locomo", "trigrams"]
    assert (first["conversations"], first["memories"], first["questions"]) == (2, 10, 4)
    assert first["published_weights"]["recall@10"] == 100.0
    assert set(first["without_leg"]) == {"vector", "words", "entity"}
    assert set(first["without_signal"]) == {"none", *report["weights"]["signals"]}
    assert "left_out_weights" in first
    assert "without_leg" not in measured["locomo", "simulator (hashed words)"]
    assert measured["beam", "trigrams"]["memories"] == 2
    assert [(one["scope"], one["namespace"]) for one in report["speed"]["searches"]] == [(40, 40), (40, 60)]
    if importlib.util.find_spec("mem0") is None:
        assert "import mem0 fails" in report["not_run"]["mem0"] and "Not run" in shown
    assert "without the words leg" in shown


def test_without_data_only_speed_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(search_bench, "BASE_TEXTS", 30)
    monkeypatch.setattr(search_bench, "TIMED", 5)
    report, shown = run(monkeypatch, capsys, tmp_path / "out.json", "--embedder", "tests.parts:TrigramEmbedder", "--sizes", "0.05k")
    assert report["quality"] == [] and set(report["not_run"]) == {"quality", "mem0"}
    assert report["speed"]["searches"][0]["scope"] == 50 and report["speed"]["made_from"] == "made sentences"
    assert "no folder with data was named" in shown


def test_memories_loaded_in_bulk_are_found_as_any_other_and_the_same_seed_makes_the_same(ledger: Ledger, tmp_path: Path) -> None:
    store = ledger if ledger.is_sqlite else Ledger(f"sqlite:///{tmp_path / 'index.db'}")
    index, embedder = EmbeddedIndex(store, ledger), TrigramEmbedder()
    material = material_of(made_texts(20, 1), WordAnalyser(), embedder)
    scopes = [Scope.of(namespace, "ann") for namespace in ("a", "b")]
    for scope in scopes:
        Bulk(ledger, index, material, embedder.model).fill(scope, 50)
    wanted = parse({"user_id": "ann"})
    with ledger.read() as connection:
        first, second = ([row.text for row in list_memories(connection, name, wanted.scopes)] for name in ("a", "b"))
    assert first == second and len(set(first)) == 50
    searcher = Searcher(ledger, index, WordAnalyser(), embedder, HandClock(), deadline=60)
    found = searcher.search("a", first[33], wanted, top_k=3).results
    assert found[0].row.text == first[33]
    assert {"vector", "words"} <= set(found[0].ranks)
    assert found[0].entities or "entity" not in found[0].ranks


def test_a_percentile_is_by_nearest_rank() -> None:
    assert (percentile([3, 1, 2], 0.5), percentile([1], 0.95), percentile(list(range(100)), 0.95)) == (2, 1, 95)
