"""What nobody needs to remember, and what only begins like it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Texts = Callable[..., list[str]]


@pytest.mark.parametrize(
    "said",
    [
        "Hi!",
        "Hello there",
        "Hey, how are you?",
        "Good morning!",
        "Good evening everyone",
        "Thanks!",
        "Thank you so much for your help",
        "Thanks for the detailed guidance!",
        "Thanks a lot, that's really helpful",
        "Thanks, Mel!",
        "You're welcome!",
        "No problem",
        "Sure",
        "Okay, sounds good",
        "Great, thanks!",
        "Got it.",
        "I see",
        "Makes sense",
        "That's awesome!",
        "Wow, that's amazing",
        "I'm so glad to hear that",
        "So happy for you!",
        "Congrats, Ana!",
        "Good luck with everything",
        "Have a great day",
        "See you tomorrow",
        "Bye for now",
        "Take care",
        "Nice to meet you",
        "What's up?",
        "I'm good, thanks. And you?",
        "Haha",
        "Absolutely!",
        "Never mind",
        "Happy birthday!",
        "Sorry about that",
        "👍",
        "...",
        "???",
    ],
)
def test_a_pleasantry_is_dropped(texts: Texts, said: str) -> None:
    assert texts(said) == []


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Thanks for the ride to Berlin, Ana Lee!", "Thanks for the ride to Berlin, Ana Lee!"),
        ("Good news: I passed the exam.", "Good news: User passed the exam"),
        ("That's Ana's cat.", "That's Ana's cat"),
        ("I'm fine with 30 euros.", "User is fine with 30 euros"),
        ("Great, I got the job at Siemens.", "Great, User got the job at Siemens"),
        ("Sorry, I live in Rome.", "User lives in Rome"),
        ("Ok so my son is called Max", "Ok so User's son is called Max"),
        ("Happy to say I'm engaged.", "Happy to say User is engaged"),
    ],
)
def test_a_fact_beside_a_pleasantry_stays(texts: Texts, said: str, kept: str) -> None:
    assert texts(said) == [kept]
