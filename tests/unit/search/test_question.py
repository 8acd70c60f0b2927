"""What a question asks for."""

from __future__ import annotations

import numpy as np
import pytest

from memline.contracts.fact import Analysis, EntityMention
from memline.search.actors import named_in
from memline.search.question import asks_when, first_entities, holds_time_words, is_question, question_of


def ask(text: str, terms: tuple[str, ...] = (), entities: tuple[EntityMention, ...] = ()) -> object:
    return question_of(text, Analysis(terms, entities), None)


@pytest.mark.parametrize(
    "text", ["When did Ann move?", "what year was it", "How long has she lived there?", "你什么时候搬家的", "哪天去的医院"]
)
def test_a_question_may_ask_for_a_time(text: str) -> None:
    assert asks_when(text)


@pytest.mark.parametrize("text", ["What does Ann drink?", "Where does she live", "他住在哪里"])
def test_other_questions_do_not(text: str) -> None:
    assert not asks_when(text)


@pytest.mark.parametrize(
    "text",
    ["I went there yesterday.", "It was in 2019", "on the 3rd", "at 10:30", "last week, I think", "On Monday!", "我昨天去了", "5月3日出发"],
)
def test_words_of_time_are_seen(text: str) -> None:
    assert holds_time_words(text)


@pytest.mark.parametrize("text", ["I like tea", "Room 4711", "Call 20190", "我喜欢喝茶", "the lasting impression"])
def test_other_words_are_not_taken_for_time(text: str) -> None:
    assert not holds_time_words(text)


@pytest.mark.parametrize(
    ("text", "asks"), [("Really?", True), ('He said "why?"', True), ("真的吗？ ", True), ("Why? I know.", False), ("ok", False)]
)
def test_a_text_that_ends_asking_is_a_question(text: str, asks: bool) -> None:
    assert is_question(text) is asks


@pytest.mark.parametrize(
    ("text", "months", "years"),
    [
        ("What happened in May 2023?", {5}, {2023}),
        ("May I ask who called?", set(), set()),
        ("You may ask", set(), set()),
        ("in may or june", {5, 6}, set()),
        ("2023年12月的旅行", {12}, {2023}),
        ("What about 1999?", set(), {1999}),
    ],
)
def test_months_and_years_are_read(text: str, months: set[int], years: set[int]) -> None:
    found = question_of(text, Analysis((), ()), None)
    assert found.months == months and found.years == years


def test_codes_are_identifiers_and_what_looks_like_one() -> None:
    terms = ("ticket", "inc-48213", "inc", "48213", "2023", "b2b", "wh-1000xm5")
    entities = (EntityMention("B2B", "IDENTIFIER"), EntityMention("Kyoto", "PROPER"))
    assert question_of("x", Analysis(terms, entities), None).codes == {"inc-48213", "48213", "b2b", "wh-1000xm5"}


def test_terms_come_once_and_eight_entities_at_most() -> None:
    entities = tuple(EntityMention(f"Name{n % 12}", "PROPER") for n in range(24))
    analysis = Analysis(("tea", "milk", "tea"), entities)
    found = question_of("x", analysis, np.zeros((9, 4), np.float32))
    assert found.terms == ("tea", "milk")
    assert [mention.name for mention in found.entities] == [f"Name{n}" for n in range(8)]
    assert len(first_entities(analysis)) == len(found.entity_vectors) == 8


def test_a_question_names_a_speaker_by_the_whole_name_or_the_first_word_of_it() -> None:
    actors = {"Ann", "Ann Lee", "Bo Chen", "Mo", "7", "小明"}
    assert named_in("What did Ann say?", actors) == {"Ann", "Ann Lee"}
    assert named_in("Where is Bo?", actors) == {"Bo Chen"}
    assert named_in("Anna and Moritz met 7 people", actors) == set()
    assert named_in("小明住在哪里", actors) == {"小明"}
    assert named_in("ann's cat", actors) == {"Ann", "Ann Lee"}
