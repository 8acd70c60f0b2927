"""What holds for every text."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memline.contracts.fact import Fact
from memline.contracts.turn import Message
from memline.pipeline.extractors.rules import RuleExtractor
from memline.pipeline.extractors.spans import tokens

Extract = Callable[..., list[Fact]]

#: The session's fixtures hold no state.
_SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)

_WORDS = st.sampled_from(
    ["I", "I'm", "my", "we", "you", "like", "have", "is", "it", "Berlin", "and", "to", ",", ".", "?",
     "since", "what", "can you", "thanks",
     "hi",
     "\n", "- ", "```", "我", "我的", "住在", "，", "。", "吗", "谢谢", "上海", "“", "”", '"', "'", "42", "3.5", "a@b.org", "https://x.io/a",
     "code"]
)  # fmt: skip


@_SHARED
@given(st.one_of(st.text(max_size=300), st.lists(_WORDS, max_size=40).map(" ".join), st.lists(_WORDS, max_size=40).map("".join)))
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_extraction_never_fails_and_is_the_same_each_time(extract: Extract, role: str, text: str) -> None:
    facts = extract(Message(role, text))
    assert facts == extract(Message(role, text))
    assert all(fact.text.strip() and fact.message == 0 and fact.attributed_to == role for fact in facts)


@_SHARED
@given(
    st.text(st.sampled_from("abc MYI我.,"), min_size=1, max_size=30).filter(str.strip),
    st.integers(0, 10**12),
    st.sampled_from(["I told Ana that {} is in room {}", "My file {} has {} lines, and we like it", "我把{}放在{}号柜子里"]),
)
def test_quotes_and_numbers_survive_to_the_letter(extract: Extract, quoted: str, number: int, frame: str) -> None:
    facts = extract(frame.format(f'"{quoted}"', number))
    kept = " ".join(fact.text for fact in facts)
    assert f'"{quoted}"' in kept
    assert str(number) in kept


@given(st.text(max_size=300))
def test_tokens_joined_are_the_text(text: str) -> None:
    assert "".join(token.text for token in tokens(text)) == text


@pytest.mark.parametrize(
    "part",
    ["I like the number {n}. ", "我喜欢数字{n}。", "x", " ", '"', "“", "'", "I ", "my ", "a.b", "a@", "http://",
     "www.", "(", "- a\n", "```\n",
     "i'd ",
     "and I ", "so ", "hi, ", "thanks ", "不", "我", "，", "?", "can you ", "I'm a, ", "1. ", "\n",
     "# ", "“a”", "Ana's ", "remember ",
     "that, ", "ab\n", "I am\n", "it. ", "Ana, "],
)  # fmt: skip
@pytest.mark.parametrize("role", ["user", "assistant"])
def test_two_hundred_thousand_characters_are_no_trouble(extract: Extract, part: str, role: str) -> None:
    text = part.format(n=7) * (200_000 // len(part.format(n=7)))
    assert extract(Message(role, text)) is not None


def test_a_long_text_of_statements_loses_none(extract: Extract) -> None:
    text = " ".join(f"I own book number {n}." for n in range(8000))
    facts = extract(text)
    assert [re.search(r"\d+", fact.text).group() for fact in facts] == [str(n) for n in range(8000)]  # type: ignore[union-attr]


def test_a_long_sentence_loses_nothing(extract: Extract) -> None:
    text = "The list is " + " ".join(f"item{n}" for n in range(20_000))
    kept = " ".join(fact.text for fact in extract(text))
    assert kept == text


def test_the_rules_look_at_nothing_but_the_messages() -> None:
    extractor = RuleExtractor()
    assert not extractor.wants_context
    assert not extractor.paid
