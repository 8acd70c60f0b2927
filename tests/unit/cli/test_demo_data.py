"""The conversation and the questions that `memline demo` ships with."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import datetime, timedelta
from importlib import resources
from itertools import pairwise
from typing import Any

import pytest

from memline.contracts.fact import Fact
from memline.contracts.turn import check_idempotency_key, check_messages, check_timestamp
from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.rules import RuleExtractor

KINDS = {"code", "paraphrase", "other-language", "changed", "name", "number", "plan", "chinese"}
CHINESE = re.compile(r"[\u4e00-\u9fff]")
#: Words that carry no content, for the check of the paraphrase.
FUNCTION_WORDS = {"a", "an", "do", "does", "i", "in", "is", "my", "of", "on", "the", "to", "would"}


def _read(name: str) -> str:
    return (resources.files("memline.cli") / "demo_data" / name).read_text(encoding="utf-8")


def _turns() -> list[dict[str, Any]]:
    return [json.loads(line) for line in _read("conversation.jsonl").splitlines()]


def _questions() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(_read("questions.json"))
    return found


def _said(turn: dict[str, Any]) -> str:
    return str(turn["messages"][0]["content"])


def _facts(turn: dict[str, Any]) -> list[Fact]:
    extractor = RuleExtractor()
    request = Request(check_messages(turn["messages"], max_bytes=1 << 20), datetime.fromisoformat(turn["timestamp"]))
    return list(extractor.read(extractor.ask(request), request))


def _where(pattern: str) -> list[int]:
    """Positions of the turns whose user message contains *pattern*."""
    return [at for at, turn in enumerate(_turns()) if re.search(pattern, _said(turn))]


def test_every_line_is_a_turn_of_one_user_and_one_assistant_message() -> None:
    for turn in _turns():
        assert set(turn) == {"key", "session", "user_id", "timestamp", "messages"}
        assert turn["user_id"] == "mei"
        assert [set(message) for message in turn["messages"]] == [{"role", "content"}] * 2
        assert [message["role"] for message in turn["messages"]] == ["user", "assistant"]


def test_memline_accepts_every_turn_as_it_stands() -> None:
    for turn in _turns():
        assert len(check_messages(turn["messages"], max_bytes=1 << 20)) == 2
        assert check_timestamp(turn["timestamp"]) is not None
        assert check_idempotency_key(turn["key"]) == turn["key"]


def test_keys_number_the_turns_of_each_session_without_a_gap() -> None:
    seen: Counter[int] = Counter()
    for turn in _turns():
        seen[turn["session"]] += 1
        assert turn["key"] == f"s{turn['session']}-t{seen[turn['session']]:02}"
    assert sorted(seen) == list(range(1, len(seen) + 1))
    assert 8 <= len(seen) <= 10


def test_it_is_long_enough_to_be_worth_searching() -> None:
    assert len(_turns()) >= 48


def test_times_carry_a_zone_ascend_and_span_three_weeks() -> None:
    times = [datetime.fromisoformat(turn["timestamp"]) for turn in _turns()]
    assert all(time.utcoffset() is not None for time in times)
    assert all(earlier < later for earlier, later in pairwise(times))
    assert times[-1] - times[0] >= timedelta(days=18)


def test_a_few_turns_are_chinese() -> None:
    assert 6 <= sum(1 for turn in _turns() if CHINESE.search(_said(turn))) <= 8


def test_one_turn_is_nothing_but_a_greeting() -> None:
    assert "Good morning!" in [_said(turn) for turn in _turns()]


def test_one_sentence_is_said_again_word_for_word_in_another_session() -> None:
    turns = _turns()
    sessions = {turns[at]["session"] for at in _where(r"(^|[.!?] )I am allergic to walnuts\.( |$)")}
    assert len(sessions) == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (r"I live in Munich", r"I live in Lisbon now\."),
        (r"I work at Contoso\.", r"I work at Fabrikam now\."),
        (r"My locker code is 4471\.", r"My locker code is 9038 now\."),
        (r"My favourite coffee is a flat white", r"My favourite coffee is a galão now\."),
        (r"My weekly call with Jonas Brandt is on Thursday", r"My weekly call with Jonas Brandt is on Friday at 14:00 now\."),
    ],
)
def test_a_fact_that_changes_is_stated_plainly_once_before_and_once_after(before: str, after: str) -> None:
    old, new = _where(before), _where(after)
    assert len(old) == len(new) == 1
    assert old[0] < new[0]


@pytest.mark.parametrize("code", ["INC-48213", "PO-7731-B", "TP571", "SN-TPX1-0092", "14A", "38"])
def test_codes_and_numbers_are_said_by_the_user(code: str) -> None:
    assert _where(rf"\b{re.escape(code)}\b")


def test_the_questions_cover_every_kind_and_are_eight_or_nine() -> None:
    questions = _questions()
    assert 8 <= len(questions) <= 9
    assert {question["kind"] for question in questions} == KINDS
    for question in questions:
        assert set(question) == {"question", "why", "expect", "kind"}
        assert question["question"].strip() and "\n" not in question["why"]


def test_what_a_question_expects_was_said_by_the_user_in_one_turn() -> None:
    said = [_said(turn) for turn in _turns()]
    for question in _questions():
        assert question["expect"]
        assert any(all(part in text for part in question["expect"]) for text in said), question["question"]


def test_the_rule_based_extractor_finds_what_each_question_expects_in_one_memory() -> None:
    texts = [fact.text for turn in _turns() for fact in _facts(turn)]
    for question in _questions():
        assert any(all(part in text for part in question["expect"]) for text in texts), question["question"]


def test_the_rule_based_extractor_finds_nothing_in_the_greeting_and_the_same_text_in_what_is_repeated() -> None:
    facts = {turn["key"]: [fact.text for fact in _facts(turn)] for turn in _turns()}
    assert facts["s1-t01"] == []
    repeated = [text for texts in facts.values() for text in texts if "walnuts" in text]
    assert len(repeated) == 2 and len(set(repeated)) == 1


def test_the_rule_based_extractor_takes_the_two_homes_for_answers_to_one_question() -> None:
    slots = [fact.slot for turn in _turns() for fact in _facts(turn) if fact.text.startswith("User lives in ")]
    assert len(slots) == 2 and slots[0] is not None and slots[0] == slots[1]


def test_the_other_language_is_asked_both_ways() -> None:
    ways = {
        (bool(CHINESE.search(question["question"])), bool(CHINESE.search(question["expect"][0])))
        for question in _questions()
        if question["kind"] == "other-language"
    }
    assert ways == {(True, False), (False, True)}


def test_the_paraphrase_shares_no_content_word_with_what_was_said() -> None:
    question = next(question for question in _questions() if question["kind"] == "paraphrase")
    asked = set(re.findall(r"[a-z]+", question["question"].lower())) - FUNCTION_WORDS
    (turn,) = (text for text in map(_said, _turns()) if question["expect"][0] in text)
    sentence = next(part for part in re.split(r"(?<=[.!?]) ", turn) if question["expect"][0] in part)
    assert not asked & set(re.findall(r"[a-z]+", sentence.lower()))


def test_the_data_is_plain_utf8_without_escapes_or_stray_characters() -> None:
    for name in ("conversation.jsonl", "questions.json"):
        text = _read(name)
        assert text.endswith("\n") and "\\u" not in text and "\r" not in text
        assert all(character == "\n" or character.isprintable() for character in text)
