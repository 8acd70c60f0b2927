"""Where a fact was said: the rules tell it, for other extractors it is found where the text stands to the letter."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from memline.contracts.fact import Fact
from memline.contracts.message import Message
from memline.pipeline.asking import Extraction
from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.rules import RuleExtractor
from memline.pipeline.located import placed

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def place(fact: Fact, *texts: str, role: str = "user") -> Fact:
    (found,) = placed(Extraction([fact]), [Message(role, text) for text in texts]).facts
    return found


def test_a_text_that_its_message_has_to_the_letter_is_found_there() -> None:
    found = place(Fact("I live in Porto.", message=1), "Hello there.", "Well, I live in Porto. And you?")
    assert (found.message, found.span) == (1, (6, 21))


def test_a_text_that_stands_there_twice_or_not_has_no_place() -> None:
    assert place(Fact("I like tea", message=0), "I like tea, yes, I like tea").span is None
    assert place(Fact("User lives in Porto", message=0), "I live in Porto").span is None


def test_a_message_that_nobody_named_is_not_guessed_at() -> None:
    found = place(Fact("I live in Porto"), "I live in Porto")
    assert (found.message, found.span) == (None, None)
    assert place(Fact("I live in Porto", message=1), "I live in Porto", "and so on").span is None


def test_a_span_that_lies_in_no_message_is_dropped() -> None:
    assert place(Fact("x", message=0, span=(0, 99)), "short").span is None
    assert place(Fact("x", message=7, span=(0, 1)), "short").span is None
    assert place(Fact("x", message=0, span=(1, 3)), "short").span == (1, 3)


def spans(text: str) -> list[tuple[str, str | None]]:
    request = Request(messages=(Message("user", text),), said_at=NOON)
    extractor = RuleExtractor()
    facts = extractor.read(extractor.ask(request), request)
    return [(fact.text, None if fact.span is None else text[fact.span[0] : fact.span[1]]) for fact in facts]


def test_the_rules_tell_the_sentences_that_a_fact_was_made_of() -> None:
    assert spans("Hi! I live in Porto. I have a cat. It is black and called Tux.") == [
        ("User lives in Porto", "I live in Porto."),
        ("User has a cat. It is black and called Tux", "I have a cat. It is black and called Tux."),
    ]
    assert spans("你好！我住在上海。我养了一只猫。")[0][1] == "我住在上海。"


def test_a_sentence_that_is_said_twice_has_the_place_of_each() -> None:
    text = "I like tea. I live in Porto. I like tea."
    request = Request(messages=(Message("user", text),), said_at=NOON)
    extractor = RuleExtractor()
    found = [fact.span for fact in extractor.read(extractor.ask(request), request)]
    assert found == [(0, 11), (12, 28)]


@given(st.text(alphabet="Iamhvet ikogPTx.!?\n-,我是猫。", max_size=200))
def test_a_span_always_lies_in_its_message(text: str) -> None:
    for _, said in spans(text):
        assert said is None or (said and said in text)


def test_what_the_write_policy_masked_is_no_fact_alone() -> None:
    assert spans("My ssh key:\n[masked: private key]\nI live in Porto.") == [("User lives in Porto", "I live in Porto.")]
    assert [text for text, _ in spans("My password is [masked: password].")] == ["User's password is [masked: password]"]
