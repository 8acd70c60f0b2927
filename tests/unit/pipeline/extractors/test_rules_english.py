"""English statements in the third person."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memline.contracts.turn import Message
from memline.pipeline.extractors.rules_english import in_third_person
from memline.pipeline.extractors.words_english import agree

Texts = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("I'm moving to Berlin", "User is moving to Berlin"),
        ("I’m moving to Berlin", "User is moving to Berlin"),
        ("my dog is Poppy", "User's dog is Poppy"),
        ("I have two cats.", "User has two cats"),
        ("I've lived in Bonn since 2019.", "User has lived in Bonn since 2019"),
        ("I'd love to see Kyoto.", "User would love to see Kyoto"),
        ("I'd never been to Kyoto.", "User had never been to Kyoto"),
        ("I'll call Ana at 5 p.m. tomorrow.", "User will call Ana at 5 p.m. tomorrow (2026-05-02)"),
        ("I was born in 1990.", "User was born in 1990"),
        ("I don't eat meat.", "User doesn't eat meat"),
        ("I do not eat meat.", "User does not eat meat"),
        ("I haven't seen it since May.", "User hasn't seen it since May"),
        ("I can speak Dutch.", "User can speak Dutch"),
        ("I should take the 8:15 train.", "User should take the 8:15 train"),
        ("I go to yoga on Mondays.", "User goes to yoga on Mondays"),
        ("I study law.", "User studies law"),
        ("I teach math.", "User teaches math"),
        ("I miss Lisbon.", "User misses Lisbon"),
        ("I play the cello.", "User plays the cello"),
        ("I really like tea.", "User really likes tea"),
        ("I also never eat fish.", "User also never eats fish"),
        ("I usually fly with KLM.", "User usually flies with KLM"),
        ("I went to Rome in 2021.", "User went to Rome in 2021"),
        ("I need a new bike.", "User needs a new bike"),
        ("I read Dune last week.", "User read Dune last week (week of 2026-04-20)"),
        ("I put the key under the mat.", "User put the key under the mat"),
        ("Ana gave me her old laptop.", "Ana gave User her old laptop"),
        ("That red bike is mine.", "That red bike is User's"),
        ("I taught myself Rust.", "User taught themselves Rust"),
        ("We went to Rome with my wife Ana.", "User and others went to Rome with User's wife Ana"),
        ("We're planning a trip to Oslo.", "User and others are planning a trip to Oslo"),
        ("Our house has a red door.", "User's house has a red door"),
        ("Ana visited us in June.", "Ana visited User and others in June"),
        ("My wife and I go hiking every Sunday.", "User's wife and User go hiking every Sunday"),
        ("I work at home and drink lots of tea.", "User works at home and drinks lots of tea"),
        ("When I was 10, I lived in Rome.", "When User was 10, User lived in Rome"),
        ("i have a cat named Tom", "User has a cat named Tom"),
        ("im allergic to nuts", "User is allergic to nuts"),
        ("Moved to Oslo last week!", "User moved to Oslo last week (week of 2026-04-20)!"),
        ("The meeting is on May 3.", "The meeting is on May 3"),
        ("No, I work at Fabrikam now.", "User works at Fabrikam now"),
        ("Hi, I'm Ana.", "User is Ana"),
        ("By the way, my flight is KL641.", "User's flight is KL641"),
        ("Please remember that my aunt is called Jo.", "User's aunt is called Jo"),
        ("Ich wohne in Köln.", "Ich wohne in Köln"),
    ],
)
def test_a_statement_is_told_about_the_user(texts: Texts, said: str, kept: str) -> None:
    assert texts(said) == [kept]


@pytest.mark.parametrize(
    ("base", "third"),
    [
        ("like", "likes"),
        ("have", "has"),
        ("am", "is"),
        ("do", "does"),
        ("go", "goes"),
        ("study", "studies"),
        ("play", "plays"),
        ("watch", "watches"),
        ("wash", "washes"),
        ("fix", "fixes"),
        ("pass", "passes"),
        ("focus", "focuses"),
        ("need", "needs"),
        ("bring", "brings"),
        ("can", "can"),
        ("should", "should"),
        ("went", "went"),
        ("walked", "walked"),
        ("put", "put"),
        ("was", "was"),
        ("running", "running"),
        ("don't", "doesn't"),
        ("haven't", "hasn't"),
    ],
)
def test_verbs_agree_with_the_third_person(base: str, third: str) -> None:
    assert agree(base) == third


@pytest.mark.parametrize(
    "text",
    [
        'She said "I love my job and we miss you"',
        "The variable is called `my_list`",
        "The file is at https://my.site.com/me/I?our=us",
        "The address is me@my-house.org",
        "Take the I-95 north",
        "World War I ended in 1918",
        "The film My Fair Lady is old",
        "The US won",
        "「我的名字」is a song",
    ],
)
def test_quotes_codes_titles_and_addresses_stay_to_the_letter(text: str) -> None:
    assert in_third_person(text, "User") == text


def test_an_inverted_auxiliary_agrees_and_its_verb_does_not() -> None:
    assert in_third_person("Do I have to pay for my seat?", "User") == "Does User have to pay for User's seat?"
    assert in_third_person("Where should I go?", "User") == "Where should User go?"


def test_a_named_speaker_is_called_by_the_name(texts: Texts) -> None:
    assert texts(Message("user", "I love my new guitar, it's a Gibson.", "Melanie")) == [
        "Melanie loves Melanie's new guitar, it's a Gibson"
    ]


def test_a_sentence_that_hangs_on_the_one_before_is_joined_to_it(texts: Texts) -> None:
    assert texts("I bought a car. It's blue. I like jazz.") == ["User bought a car. It's blue", "User likes jazz"]


def test_what_hangs_on_a_slot_does_not_vanish_with_it(extract: Callable[..., list[object]]) -> None:
    facts = extract("I moved to Berlin. That was because Ana got a job at Siemens.")
    assert [(fact.text, fact.slot) for fact in facts] == [  # type: ignore[attr-defined]
        ("User moved to Berlin", "user|live"),
        ("User moved to Berlin. That was because Ana got a job at Siemens", None),
    ]


def test_main_clauses_are_taken_apart_where_one_fills_a_slot(extract: Callable[..., list[object]]) -> None:
    facts = extract("My name is Ana Lee and I live in Berlin and work at Contoso.")
    assert [(fact.text, fact.slot) for fact in facts] == [  # type: ignore[attr-defined]
        ("User's name is Ana Lee", "user|name"),
        ("User lives in Berlin", "user|live"),
        ("User works at Contoso", "user|work"),
    ]


def test_code_blocks_are_dropped_and_what_is_said_about_them_is_kept(texts: Texts) -> None:
    assert texts("Here's my code:\n```py\nI = 'my secret'\n```\nI wrote it in 2 hours.") == ["User wrote it in 2 hours"]


def test_a_fence_that_is_never_closed_hides_nothing(texts: Texts) -> None:
    assert texts("```\nI live in Berlin") == ["User lives in Berlin"]


def test_a_list_is_one_fact_with_the_line_that_leads_it(texts: Texts) -> None:
    assert texts("My packing list:\n- tent\n- stove\n\nThanks!") == ["User's packing list: tent; stove"]


def test_the_message_and_its_speaker_come_with_each_fact(extract: Callable[..., list[object]]) -> None:
    facts = extract(Message("system", "I am a system prompt."), "I like tea.", Message("tool", "I am a tool."), "I like jazz.")
    assert [(fact.text, fact.message, fact.attributed_to) for fact in facts] == [  # type: ignore[attr-defined]
        ("User likes tea", 1, "user"),
        ("User likes jazz", 3, "user"),
    ]


def test_a_fact_said_twice_in_a_turn_is_one(texts: Texts) -> None:
    assert texts("I like tea. I like tea!", "I like tea.") == ["User likes tea", "User likes tea!"]
