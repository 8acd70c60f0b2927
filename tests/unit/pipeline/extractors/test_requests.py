"""Facts inside English questions and requests, and questions that hold none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Texts = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Since I'm allergic to peanuts, what can I eat?", ["User is allergic to peanuts"]),
        ("What can I cook tonight since I'm vegan?", ["User is vegan"]),
        ("I'm vegetarian, what should I cook?", ["User is vegetarian"]),
        ("I moved to Berlin last month, remember?", ["User moved to Berlin last month (2026-04)"]),
        ("Can you remember that my locker code is 4471?", ["User's locker code is 4471"]),
        ("The server db-07 is down, can you check?", ["The server db-07 is down"]),
        ("My wife Ana is pregnant, which vitamins are safe?", ["User's wife Ana is pregnant"]),
        ("Because my knee hurts, can you suggest an easy route?", ["User's knee hurts"]),
        ("How do I get to Oslo, given that I have no car?", ["User has no car"]),
        ("I need to be in Rome by May 3 and my budget is 400 euros, what are the options?", None),
        (
            "Can you recommend a hotel in Kyoto for my trip on May 3rd with my wife Ana?",
            ["User asks to recommend a hotel in Kyoto for User's trip on May 3rd with User's wife Ana"],
        ),
        (
            "What should I name my new puppy, a 3-month-old beagle?",
            ["User asks: What should User name User's new puppy, a 3-month-old beagle?"],
        ),
        ("Remind me to call Ana at 5pm.", ["User asks to remind User to call Ana at 5pm"]),
        (
            "I'm torn between Oslo at $110,000 and Rome at $120,000, can you help me decide",
            ["User is torn between Oslo at $110,000 and Rome at $120,000"],
        ),
        (
            "Plan a birthday party for my daughter Mia, who turns 7 on June 2.",
            ["Plan a birthday party for User's daughter Mia, who turns 7 on June 2"],
        ),
        ("Recommend a vet near Bonn for my cat Tom.", ["User asks to recommend a vet near Bonn for User's cat Tom"]),
    ],
)
def test_a_fact_inside_a_request_is_kept(texts: Texts, said: str, kept: list[str] | None) -> None:
    found = texts(said)
    if kept is None:
        assert "May 3" in found[0]
        assert "400 euros" in found[0]
        assert "options" not in "".join(found)
    else:
        assert found == kept


@pytest.mark.parametrize(
    "said",
    [
        "What is the capital of France?",
        "How do I boil an egg?",
        "Can you help me?",
        "Could you explain recursion?",
        "Tell me a joke about cats.",
        "Write a poem about the sea.",
        "Explain quantum mechanics",
        "Summarize this text.",
        "what time is it in Tokyo",
        "Is it going to rain tomorrow?",
        "Do you like music?",
        "Who wrote Dune?",
        "Why is the sky blue?",
        "Any tips?",
        "Should I bring an umbrella?",
        "Where can I buy stamps?",
        "Give me three examples.",
        "Translate this into German: good night",
        "How are you today?",
        "And you?",
        "Which one is better?",
        "Can you fix the bug in this function?",
        "Please list the planets.",
        "What about Rome?",
        "Did you know that?",
        "Does it work?",
        "What do you think?",
        "Would you mind?",
        "How long does it take?",
        "Show me the code",
    ],
)
def test_a_bare_question_or_request_is_dropped(texts: Texts, said: str) -> None:
    assert texts(said) == []


def test_a_sentence_that_only_begins_like_a_question_is_a_statement(texts: Texts) -> None:
    assert texts("What I like is jazz. When we met, it rained.") == ["What User likes is jazz", "When User and others met, it rained"]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("What's a good gift for my mom? She loves orchids.", ["User asks: What's a good gift for User's mom? She loves orchids"]),
        (
            "Can you book a table for two at Luigi's on Friday? It's our anniversary.",
            ["User asks to book a table for two at Luigi's on Friday. It's User's anniversary"],
        ),
        ("你能订一家餐厅吗？这是我的结婚纪念日。", ["用户问：你能订一家餐厅吗？这是用户的结婚纪念日"]),
    ],
)
def test_a_request_is_kept_where_the_next_sentence_needs_it(texts: Texts, said: str, kept: list[str]) -> None:
    assert texts(said) == kept


def test_wishes_for_how_to_be_answered_are_kept(texts: Texts) -> None:
    assert texts("I want you to call me Captain. Please call me Sam. From now on, answer in German.") == [
        "User asks: User wants you to call User Captain",
        "Please call User Sam",
        "From now on, answer in German",
    ]
