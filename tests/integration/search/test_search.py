"""The path of a question, on both databases: what is found, in which order, and what is never seen."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from numpy.typing import NDArray

from memline.contracts.errors import InvalidDate, InvalidInput
from memline.contracts.filters import parse
from memline.contracts.index_object import ObjectKey
from memline.ledger.memories import index_objects
from memline.ledger.retire import delete_memory
from memline.ledger.schema import memories
from memline.ledger.session import Ledger
from memline.search import gather as gather_module
from memline.search.index.port import Write
from tests.integration.search.world import World, standing, statements
from tests.parts import START, TrigramEmbedder


@pytest.fixture
def world(ledger: Ledger, tmp_path: Path) -> World:
    return World(ledger, tmp_path)


class OneDirection(TrigramEmbedder):
    """Everything means the same, but for what holds a mark: that is the opposite of all else."""

    mark = "INC-"

    def _one(self, text: str) -> NDArray[np.float32]:
        vector = np.zeros(self.dimension, np.float32)
        vector[0] = 1.0
        if self.mark in text and " " in text:
            vector[0] = -1.0
        return vector


def test_the_memory_that_was_asked_for_comes_first(world: World) -> None:
    world.say_all(["User likes green tea", "User works at Fabrikam", "User has a dog named Poppy", "User lives in Oslo"])
    assert world.texts("Where does the user work, at Fabrikam?")[0] == "User works at Fabrikam"
    assert world.texts("a dog called Poppy")[0] == "User has a dog named Poppy"


def test_an_exact_code_is_found_where_its_meaning_is_the_opposite(ledger: Ledger, tmp_path: Path) -> None:
    """T11: the embedding puts it last, and it comes first, with a score far above the threshold."""
    world = World(ledger, tmp_path, embedder=OneDirection())
    world.say_all([f"User travels to city number{n}" for n in range(100)])
    world.say("Ticket INC-48213 was escalated")
    found = world.find("INC-48213", top_k=5).results
    assert found[0].row.text == "Ticket INC-48213 was escalated"
    assert found[0].score > 0.5
    assert found[0].signals["meaning"].raw == 0 and found[0].signals["code"].raw == 1
    assert found[0].terms == ("inc-48213",) and found[0].ranks["words"] == 1


def test_a_code_that_nobody_mentioned_finds_no_word(world: World) -> None:
    world.say_all(["Ticket INC-48213 was escalated", "User likes tea"])
    assert all(hit.terms == hit.entities == () and hit.signals["code"].raw == 0 for hit in world.find("INC-99999", threshold=0).results)


class NothingInCommon(TrigramEmbedder):
    """Every text means something of its own."""

    def _one(self, text: str) -> NDArray[np.float32]:
        return np.eye(self.dimension, dtype=np.float32)[len(text) % self.dimension]


def test_what_has_nothing_to_do_with_the_question_stays_under_the_threshold(ledger: Ledger, tmp_path: Path) -> None:
    world = World(ledger, tmp_path, embedder=NothingInCommon())
    world.say("Xylophones quickly jumped")
    assert world.find("embargo on wood").results == []
    assert len(world.find("embargo on wood", threshold=0).results) == 1


def test_a_read_sees_its_scope_and_nothing_else(world: World) -> None:
    for user in ("ann", "ann.lee", "Ann_Lee"):
        world.say(f"User {user} likes tea", user=user)
    world.say("User likes tea elsewhere", user="ann", namespace="other")
    world.say("agent likes tea", user=None, agent="a1")
    world.say("User ann likes tea with a1", user="ann", agent="a1", run="r1")
    assert set(world.texts("likes tea", {"user_id": "ann"})) == {"User ann likes tea", "User ann likes tea with a1"}
    assert world.texts("likes tea", {"user_id": "ann.lee"}) == ["User ann.lee likes tea"]
    assert world.texts("likes tea", {"user_id": "Ann_Lee"}) == ["User Ann_Lee likes tea"]
    assert set(world.texts("likes tea", {"agent_id": "a1"})) == {"agent likes tea", "User ann likes tea with a1"}
    assert world.texts("likes tea", {"user_id": "ann", "run_id": "r1"}) == ["User ann likes tea with a1"]
    assert world.texts("likes tea", {"user_id": "ann"}, namespace="other") == ["User likes tea elsewhere"]
    either = {"OR": [{"user_id": "ann.lee"}, {"user_id": "Ann_Lee"}]}
    assert set(world.texts("likes tea", either)) == {"User ann.lee likes tea", "User Ann_Lee likes tea"}
    assert world.texts("likes tea", {"AND": [{"user_id": "ann"}, {"user_id": "bob"}]}) == []


def test_a_deleted_memory_is_gone_even_where_the_index_brings_it_back(world: World) -> None:
    (tea,) = world.say("User likes tea")
    world.say("User likes coffee")
    with world.ledger.read() as connection:
        (ghost,) = index_objects(connection, [ObjectKey("memory", "default", tea)]).values()
    delete_memory(world.ledger, "default", tea, now=world.clock.now())
    assert world.texts("tea") == ["User likes coffee"]  # the index has not heard of it yet
    world.relay.drain()
    world.index.write([Write(ghost.key, ghost)])
    assert world.texts("tea") == ["User likes coffee"]


def test_one_live_memory_is_found_behind_hundreds_of_expired_ones(world: World) -> None:
    texts = [f"User drinks tea in cup {n}" for n in range(400)]
    world.say_all(texts, expires_on=START.date())
    world.say("User drinks tea in a glass of water and so on")
    world.clock.advance(3 * 86400)
    found = world.find("User drinks tea in cup 7", top_k=5, threshold=0)
    assert [hit.row.text for hit in found.results] == ["User drinks tea in a glass of water and so on"]
    assert not found.incomplete
    assert len(world.find("User drinks tea in cup 7", top_k=5, show_expired=True).results) == 5


def test_an_expiration_date_is_inclusive(world: World) -> None:
    world.say("User has a ticket", expires_on=date(2026, 3, 5))
    world.clock.advance(4 * 86400)  # 5 March
    assert world.texts("ticket") == ["User has a ticket"]
    world.clock.advance(86400)
    assert world.texts("ticket") == []


def test_a_search_that_gave_up_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather_module, "ROUNDS", 0)
    world.say_all([f"User drinks tea in cup {n}" for n in range(90)], expires_on=START.date())
    world.clock.advance(3 * 86400)
    found = world.find("User drinks tea in cup 7", top_k=5)
    assert found.results == [] and found.incomplete


def test_the_current_fact_is_what_is_found(world: World) -> None:
    """T8: by default what is current, on request what was, with `as_of` what was then."""
    world.say("[work] User works at Contoso", occurred_at=world.day(1))
    world.say("[work] User works at Fabrikam", occurred_at=world.day(10))
    assert world.texts("where does the user work") == ["User works at Fabrikam"]
    assert world.texts("Contoso") == ["User works at Fabrikam"]
    both = world.find("where does the user work", include_superseded=True, threshold=0).results
    assert [hit.row.text for hit in both] == ["User works at Fabrikam", "User works at Contoso"]
    assert both[1].row.valid_to == world.day(10) and both[1].row.superseded_by == both[0].row.id
    assert both[1].signals["superseded"].raw == 1 and both[1].score < both[0].score
    assert world.texts("where does the user work", as_of=world.day(5)) == ["User works at Contoso"]
    assert world.texts("where does the user work", as_of=world.day(11)) == ["User works at Fabrikam"]
    assert world.texts("where does the user work", as_of=world.day(0)) == []


def test_a_past_fact_is_found_by_a_word_that_no_current_one_holds(world: World) -> None:
    world.say("[work] User works at Contoso", occurred_at=world.day(1))
    world.say("[work] User works at Fabrikam", occurred_at=world.day(10))
    found = world.find("Contoso", as_of=world.day(5)).results
    assert found[0].terms == ("contoso",) and found[0].ranks["words"] == 1


def test_a_verbatim_memory_is_not_hidden_when_it_is_superseded_but_comes_below(world: World) -> None:
    (old,) = world.say("The code of the door is 4711-A", name="Ann")
    (new,) = world.say("The lock was changed", name="Ann")
    with world.ledger.write() as tx:
        tx.execute(sa.update(memories).where(memories.c.id == old).values(state="superseded", superseded_by=new, valid_to=world.day(1)))
    found = world.find("The code of the door is 4711-A", threshold=0).results
    assert [hit.row.id for hit in found] == [new, old]


def test_a_filter_is_asked_of_the_ledger_row(world: World) -> None:
    """T15, in part: the index knows nothing of these keys."""
    for text, metadata in [
        ("Team Meeting one", {"cat": "work", "prio": 5}),
        ("Team lunch two", {"cat": "home", "prio": 9}),
        ("Team three", {"prio": 1, "archived": True}),
        ("Team four", {"cat": "work", "prio": 7}),
    ]:
        world.say(text, metadata=metadata)

    def found(**condition: Any) -> set[str]:
        return {text.split()[-1] for text in world.texts("Team", {"user_id": "ann", **condition})}

    assert found(cat="work") == {"one", "four"}
    assert found(prio={"gte": 5, "lte": 7}) == {"one", "four"}
    assert found(cat={"ne": "work"}) == {"two", "three"}
    assert found(NOT=[{"cat": "work", "prio": 5}]) == {"two", "three", "four"}
    assert found(AND=[{"OR": [{"cat": "work"}]}, {"OR": [{"prio": 9}]}]) == set()
    assert found(created_at={"lt": "2026-01-01"}) == set()


def test_a_filter_gives_the_same_whether_the_ledger_or_the_index_is_asked_first(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(120):
        world.say_all([f"User saw film {n}"], metadata={"good": n % 40 == 0})
    wanted = {"user_id": "ann", "good": True}
    first = [(hit.row.id, round(hit.score, 6)) for hit in world.find("film 7", wanted, top_k=3, threshold=0).results]
    monkeypatch.setattr(gather_module, "ASKED_FIRST", 10)
    second = [(hit.row.id, round(hit.score, 6)) for hit in world.find("film 7", wanted, top_k=3, threshold=0).results]
    assert len(first) == 3 and first == second


def test_what_was_said_in_several_runs_is_one_result_and_what_two_users_said_is_two(world: World) -> None:
    world.say("User likes tea", run="r1")
    world.clock.advance(60)
    world.say("User likes tea", run="r2")
    world.say("User likes tea", user="bob")
    assert world.texts("tea") == ["User likes tea"]
    assert len(world.texts("tea", {"OR": [{"user_id": "ann"}, {"user_id": "bob"}]})) == 2


def test_of_equals_the_newest_comes_first(world: World) -> None:
    for n in range(4):
        world.say("User likes tea", run=f"r{n}", user=None, occurred_at=world.day(n))
    runs = {"OR": [{"run_id": f"r{n}"} for n in range(4)]}
    found = world.find("coffee", runs, threshold=0).results
    assert [hit.row.occurred_at for hit in found] == [world.day(n) for n in (3, 2, 1, 0)]


def test_the_turn_next_to_what_matches_is_a_candidate(world: World) -> None:
    world.say_all(["What is the name of your dog", "She is called Poppy", *[f"zzz qqq {n}" for n in range(200)]], infer=False)
    found = world.find("What is the name of your dog", top_k=10, threshold=0).results
    answer = next(hit for hit in found if hit.row.text == "She is called Poppy")
    assert answer.signals["words_near"].raw > 0


def test_what_stands_next_to_an_extracted_fact_is_not_its_context(world: World) -> None:
    world.say_all(["User has a dog", "User likes tea"])
    found = world.find("a dog", threshold=0).results
    assert [hit.row.text for hit in found] == ["User has a dog", "User likes tea"]
    assert found[1].signals["words_near"].raw == 0 and found[1].signals["answers"].raw == 0


def test_nothing_deleted_or_expired_is_context(world: World) -> None:
    (dog,) = world.say("A dog was seen", name="Ann")
    (quiet,) = world.say("Nothing else", name="Ann")

    def near() -> float:
        return next(hit for hit in world.find("dog", threshold=0).results if hit.row.id == quiet).signals["words_near"].raw

    assert near() > 0
    delete_memory(world.ledger, "default", dog, now=world.clock.now())
    assert near() == 0


def test_who_is_named_matters(world: World) -> None:
    world.say("I adopted a cat", name="Ann Lee")
    world.say("I adopted a cat too, Ann", name="Bob")
    found = world.find("What did Ann adopt?", threshold=0).results
    assert [hit.row.actor_id for hit in found] == ["Ann Lee", "Bob"]
    assert found[0].signals["same_actor"].raw == 1 and found[1].signals["other_actor"].raw == 1


def test_an_entity_leads_to_the_memories_that_name_it(world: World) -> None:
    world.say_all(["User met Poppy today", "User bought bread", "In town User saw Mia"])
    found = world.find("Who is Poppy", threshold=0).results[0]
    assert found.row.text == "User met Poppy today"
    assert found.entities == ("poppy",) and found.signals["entity"].raw == 1 and found.ranks["entity"] == 1


def test_an_entity_that_everything_names_counts_little(world: World) -> None:
    world.say_all([f"User met Poppy on occasion {n}" for n in range(60)])
    found = world.find("Who is Poppy", threshold=0).results[0]
    assert found.signals["entity"].raw == pytest.approx(1 / (1 + 0.001 * 59**2))


def test_a_month_that_is_named_is_the_month_it_happened_in(world: World) -> None:
    world.say("User went hiking", occurred_at=datetime(2023, 5, 7, tzinfo=UTC))
    world.say("User went hiking again", occurred_at=datetime(2023, 8, 7, tzinfo=UTC))
    assert world.texts("hiking in August 2023")[0] == "User went hiking again"
    assert world.texts("hiking in May 2023")[0] == "User went hiking"


def test_the_threshold_is_one_of_scores_and_top_k_of_results(world: World) -> None:
    world.say_all([f"User likes tea number {n}" for n in range(10)])
    every = world.find("tea number 3", threshold=0).results
    assert len(every) == 10
    cut = every[4].score
    assert [hit.row.id for hit in world.find("tea number 3", threshold=cut).results] == [hit.row.id for hit in every[:5]]
    assert [hit.row.id for hit in world.find("tea number 3", threshold=0, top_k=3).results] == [hit.row.id for hit in every[:3]]
    assert world.find("tea", top_k=0).results == []


def test_a_score_does_not_depend_on_how_many_results_are_wanted(world: World) -> None:
    world.say_all([f"User likes tea number {n}" for n in range(30)])
    few = {hit.row.id: hit.score for hit in world.find("tea number 3", threshold=0, top_k=2).results}
    many = {hit.row.id: hit.score for hit in world.find("tea number 3", threshold=0, top_k=30).results}
    assert few == {memory_id: pytest.approx(many[memory_id], abs=1e-6) for memory_id in few}


def test_the_same_question_has_the_same_answer(world: World) -> None:
    world.say_all([f"User likes tea {n % 5} {n}" for n in range(40)])
    first = [hit.row.id for hit in world.find("tea 3", threshold=0).results]
    again = [hit.row.id for hit in world.find("tea 3", threshold=0, searcher=world.search_with()).results]
    assert first == again


def test_explain_tells_the_phases(world: World) -> None:
    world.say("User likes tea")
    assert set(world.find("tea", explain=True).phases) == {"analyse", "embed", "read", "nominate", "score"}
    assert world.find("tea").phases == {}


def test_a_scope_without_memories_has_no_results(world: World) -> None:
    world.say("User likes tea")
    found = world.find("tea", {"user_id": "nobody"})
    assert found.results == [] and not found.incomplete and found.missing == ()


def test_a_page_of_text_is_a_question_too(world: World) -> None:
    world.say_all(["User likes tea", "Ticket INC-48213 was escalated"])
    page = " ".join(f"word{n} filler" for n in range(8000)) + " INC-48213"
    assert world.texts(page[:200_000] + " INC-48213")[0] == "Ticket INC-48213 was escalated"


@pytest.mark.parametrize("options", [{"top_k": True}, {"top_k": -1}, {"threshold": 2}, {"threshold": float("nan")}])
def test_bad_input_is_refused(world: World, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        world.find("tea", **options)
    with pytest.raises(InvalidInput):
        world.find(" \n ")


def test_as_of_needs_a_time_zone(world: World) -> None:
    with pytest.raises(InvalidDate):
        world.find("tea", as_of=datetime(2026, 1, 1))


def test_the_number_of_statements_does_not_grow(world: World) -> None:
    searcher = world.search_with(timer=standing)  # weights that were read are read again when they are some seconds old

    def asked() -> int:
        world.find("User likes tea with Poppy in cup 7", searcher=searcher)  # the caches are warm afterwards
        with statements(world.ledger, world.store) as found:
            world.find("User likes tea with Poppy in cup 7", searcher=searcher)
        return len(found)

    world.say_all([f"User likes tea with Poppy in cup {n}" for n in range(3)])
    few = asked()
    for run in range(12):
        world.say_all([f"User likes tea with Poppy in cup {n}, {run}" for n in range(25)], run=f"r{run}")
    assert asked() <= few + 2
    assert few <= 30


def test_a_search_of_another_scope_costs_no_more_for_a_large_one(world: World) -> None:
    """The index and the postings of one user are read, whatever others there are."""
    world.say("User likes tea")
    world.say_all([f"User likes tea in cup {n}" for n in range(100)], user="bob")
    world.find("tea")
    assert world.index.recall("memory", "default", parse({"user_id": "ann"}).scopes[0]).vectors.shape[0] == 1  # type: ignore[union-attr]
