"""What explain shows: enough to compute every score again, and to know what made it."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from memline import Memory
from memline.contracts.errors import NotSupportedYet, UnknownOption
from memline.ledger.session import Ledger
from memline.search.explain import score_details
from memline.search.signals import SIGNALS
from memline.search.weights import DEFAULT
from tests.integration.search.world import World
from tests.parts import TrigramEmbedder


def score_of(details: dict[str, Any], weights: dict[str, Any]) -> float:
    """The score by what explain shows, and nothing else."""
    total = sum(signal["weighted"] for signal in details["signals"].values())
    return 1 / (1 + math.exp(-weights["slope"] * (total - weights["middle"])))


@pytest.fixture
def world(own_ledger: Ledger, tmp_path: Path) -> World:
    found = World(own_ledger, tmp_path)
    found.say_all([f"User likes tea number {n}" for n in range(20)])
    found.say("Ticket INC-48213 was escalated", name="Ann Lee")
    found.say("[work] User works at Contoso", occurred_at=found.day(1))
    found.say("[work] User works at Fabrikam", occurred_at=found.day(10))
    return found


@pytest.mark.parametrize(
    "question", ["INC-48213", "Where does the user work, at Fabrikam?", "tea number 3", "What did Ann say of a ticket?"]
)
@pytest.mark.parametrize("down", [False, True], ids=["whole", "no embedder"])
def test_every_score_can_be_computed_again(world: World, question: str, down: bool) -> None:
    given: dict[str, Any] = {}
    if down:
        from memline.contracts.errors import ProviderUnavailable

        def fail(_texts: Any) -> None:
            raise ProviderUnavailable

        given["embedder"] = TrigramEmbedder(fail=fail)
    found = world.find(question, threshold=0, top_k=50, explain=True, include_superseded=True, searcher=world.search_with(**given))
    assert found.results
    by_id = {hit.row.id: hit for hit in found.results}
    for hit in found.results:
        details = score_details(hit, threshold=0.1)
        assert set(details["signals"]) == set(SIGNALS)
        assert details["raw_score"] == pytest.approx(sum(value.weighted for value in hit.signals.values()))
        again = score_of(details, dict(found.models["weights"]))
        if hit.below is None:
            assert again == pytest.approx(hit.score, abs=1e-9)
        else:
            assert again > hit.score and hit.score < by_id[hit.below].score
            assert details["below"] == hit.below
        if not down:
            weighted = {name: value.raw * DEFAULT.signals[name] for name, value in hit.signals.items()}
            assert weighted == {name: pytest.approx(value.weighted, abs=1e-9) for name, value in hit.signals.items()}


def test_explain_names_models_analysers_weights_and_the_time_of_each_phase(world: World) -> None:
    found = world.find("tea", explain=True)
    assert found.models["embedder"] == {"model": "trigrams", "dimension": 64}
    assert found.models["analyser"] == "words" and found.models["index"].startswith("embedded") and found.models["reranker"] is None
    assert found.models["weights"]["source"] == "default" and len(found.models["weights"]["version"]) == 8
    assert (found.models["weights"]["middle"], found.models["weights"]["slope"]) == (DEFAULT.middle, DEFAULT.slope)
    assert set(found.phases) == {"analyse", "embed", "read", "nominate", "score"} and min(found.phases.values()) >= 0
    plain = world.find("tea")
    assert plain.models == {} and plain.phases == {}


def test_another_weighting_has_another_version(world: World) -> None:
    from dataclasses import replace

    other = world.search_with(weights=replace(DEFAULT, middle=1.0))
    first, second = (world.find("tea", explain=True, searcher=each).models["weights"]["version"] for each in (world.searcher, other))
    assert first != second


def test_ranks_terms_and_entities_are_shown(world: World) -> None:
    details = score_details(world.find("INC-48213", explain=True).results[0], threshold=0.1)
    assert details["matched_terms"] == ["inc-48213"] and details["matched_entities"] == ["inc-48213"]
    assert details["ranks"]["words"] == 1 and details["ranks"]["entity"] == 1 and details["ranks"]["vector"] >= 1
    assert details["why"].startswith("exact code inc-48213")


class TicketLast(TrigramEmbedder):
    """The meaning of a ticket is the opposite of everything else, its own number among it."""

    def _one(self, text: str) -> NDArray[np.float32]:
        vector = np.zeros(self.dimension, np.float32)
        vector[0] = -1.0 if "Ticket" in text else 1.0
        return vector


def test_t11_a_code_is_found_among_200_memories_by_its_words_alone(memline_home: Path) -> None:
    with Memory(embedder=TicketLast()) as memory:
        for n in range(200):
            memory.add(f"We travelled to the harbour of town number{n} by train", user_id="ann", infer=False)
        memory.add("Ticket INC-48213 was escalated", user_id="ann", infer=False)
        memory.flush(300)
        found = memory.search("INC-48213", filters={"user_id": "ann"}, top_k=5, explain=True)
        nobodys = memory.search("INC-99999", filters={"user_id": "ann"}, top_k=5, threshold=0, explain=True)
    first = found["results"][0]
    assert first["memory"] == "Ticket INC-48213 was escalated" and first["score"] > 0.5
    details = first["score_details"]
    assert details["semantic_score"] == 0 and details["bm25_score"] > 0 and details["signals"]["code"]["raw"] == 1
    assert details["final_score"] == first["score"] == pytest.approx(score_of(details, found["models"]["weights"]), abs=1e-9)
    assert all(item["score"] < first["score"] for item in found["results"][1:])
    for item in nobodys["results"]:
        shown = item["score_details"]
        assert shown["bm25_score"] == shown["signals"]["code"]["raw"] == shown["signals"]["coverage"]["raw"] == 0
        assert shown["matched_terms"] == shown["matched_entities"] == [] and "words" not in shown["ranks"]


def test_memory_takes_a_threshold_between_0_and_1_of_the_final_score(memline_home: Path) -> None:
    with Memory() as memory:
        for n in range(6):
            memory.add(f"Note {n}: the kettle is on shelf {n}", user_id="ann", infer=False)
        memory.flush(300)
        asked: dict[str, Any] = {"filters": {"user_id": "ann"}}
        every = memory.search("which shelf is the kettle on", threshold=0, **asked)["results"]
        assert len(every) == 6 and all(0 < item["score"] <= 1 for item in every)
        cut = memory.search("which shelf is the kettle on", threshold=every[2]["score"], **asked)["results"]
        assert [item["id"] for item in cut] == [item["id"] for item in every if item["score"] >= every[2]["score"]]
        assert memory.search("which shelf is the kettle on", threshold=1, **asked)["results"] == []


def test_a_reference_date_is_refused_with_what_there_is_instead(memline_home: Path) -> None:
    with Memory() as memory:
        with pytest.raises(UnknownOption, match="as_of") as error:
            memory.search("what happened last week", filters={"user_id": "ann"}, reference_date=datetime(2026, 1, 1, tzinfo=UTC))
        assert isinstance(error.value, ValueError) and not isinstance(error.value, NotSupportedYet)
