"""What the rules keep of an assistant's message."""

from __future__ import annotations

from collections.abc import Callable

from memline.contracts.fact import Fact
from memline.contracts.turn import Message

Extract = Callable[..., list[Fact]]


def _said(text: str) -> Message:
    return Message("assistant", text)


def test_recommendations_and_deeds_are_kept_as_the_assistants(extract: Extract) -> None:
    facts = extract(_said("I've booked the Hotel Lindner for May 3rd. I recommend you try Ramen Street in Kyoto. Let me know!"))
    assert [(fact.text, fact.attributed_to, fact.message) for fact in facts] == [
        ("Assistant has booked the Hotel Lindner for May 3rd", "assistant", 0),
        ("Assistant recommends User try Ramen Street in Kyoto", "assistant", 0),
    ]


def test_at_most_three_sentences_are_kept(extract: Extract) -> None:
    text = " ".join(f"I recommend Hotel Number{n} in Kyoto." for n in range(9))
    assert len(extract(_said(text))) == 3


def test_lists_headings_and_code_are_never_kept(extract: Extract) -> None:
    text = "## I recommend Kyoto\n\n- I recommend Hotel A\n- I recommend Hotel B\n\n"
    text += "1. I booked Hotel C\n\n```\nI booked Hotel D on May 3.\n```"
    assert extract(_said(text)) == []


def test_explanations_are_not_kept(extract: Extract) -> None:
    text = "Sure! Here is how it works. You can use a list. This function adds two numbers. Feel free to ask. Would you like Python 3.11?"
    assert extract(_said(text)) == []


def test_an_echo_of_the_user_is_not_kept(extract: Extract) -> None:
    facts = extract("I booked the Hotel Lindner in Bonn.", _said("Great, the Hotel Lindner in Bonn is booked."))
    assert [fact.attributed_to for fact in facts] == ["user"]


def test_a_named_person_in_the_assistants_role_is_a_person(extract: Extract) -> None:
    facts = extract(Message("assistant", "I love my cat. She is 3.", "Mel"))
    assert [(fact.text, fact.attributed_to) for fact in facts] == [("Mel loves Mel's cat. She is 3", "assistant")]
