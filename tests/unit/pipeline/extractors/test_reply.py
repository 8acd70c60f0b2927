"""A model's reply, wrapped and broken in all the ways that models know."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.contracts.errors import ReplyUnreadable
from memline.contracts.fact import Link, Relation
from memline.contracts.turn import Message
from memline.pipeline.extractors.port import Known, Request
from memline.pipeline.extractors.reply import MAX_TEXT, read_facts

ONE = '{"memory": [{"text": "User likes tea"}]}'


@pytest.fixture
def request_with_known(request_of: Callable[..., Request]) -> Request:
    return request_of(
        "a",
        Message("assistant", "b"),
        known=(Known("0", "m-poppy", "User has a dog named Poppy"), Known("1", "m-bonn", "User lives in Bonn")),
    )


@pytest.mark.parametrize(
    "reply",
    [
        ONE,
        f"```json\n{ONE}\n```",
        f"```\n{ONE}```",
        f"Here are the memories:\n{ONE}\nLet me know if you need more!",
        f"Sure (see [docs] {{for}} details): {ONE}",
        f'<think>The user has said {{}} and [] and {{"memory": []}}.</think>\n{ONE}',
        f"The user likes tea.</think>{ONE}",
        f"<think>hm</think>\n```json\n{ONE}\n```\nDone.",
        '{"memory": ["User likes tea"]}',
        '[{"text": "User likes tea"}]',
        '["User likes tea"]',
        '{"facts": ["User likes tea"]}',
        '{"memories": [{"memory": "User likes tea"}]}',
        '{"memory": "User likes tea"}',
        '{"memory": {"text": "User likes tea"}}',
        '{"text": "User likes tea"}',
        '{"name": "save", "arguments": {"memory": [{"text": "User likes tea"}]}}',
        '{"memory": [{"text": {"a": 1}}, {"text": "User likes tea"}]}',
        '{"memory": [null, 7, {"text": ""}, {"no": "text"}, "User likes tea"]}',
        '{"memory": [{"text": "User likes tea",},],}',
        '{"memory": [{"text": "  User likes\\u0000 tea\\n"}]}',
        f"\ufeff{ONE}",
        f'An example: {{"memory": [{{"text": "x"}}]}}. The answer: {ONE}',
        f'{ONE}\nIf there were nothing I would answer {{"memory": []}}.',
    ],
)
def test_one_memory_is_read_however_it_is_wrapped(reply: str, request_with_known: Request) -> None:
    assert [fact.text for fact in read_facts(reply, request_with_known)] == ["User likes tea"]


@pytest.mark.parametrize(
    "reply", ['{"memory": []}', "[]", '```json\n{"memory": []}\n```', 'Nothing new. {"memory": []}', '{"facts": []}', "<think>x</think>[]"]
)
def test_an_explicit_empty_list_means_nothing_to_remember(reply: str, request_with_known: Request) -> None:
    assert read_facts(reply, request_with_known) == []


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "   ",
        "I cannot do that.",
        "null",
        "{}",
        "[1, 2]",
        '"User likes tea"',
        '{"memory": null}',
        '{"memory": 7}',
        '{"memory": [7, null, {"text": 5}]}',
        '{"memory":[{"text":"A"},{"text":"B"',
        '{"memory":[{"text":"A","links":["0"]},{"text":"B"},',
        '{"memory":[{"text":"A","links":[]},{"te',
        '```json\n{"memory":[{"text":"A"},{"text":"B"\n```',
        '[{"text":"A"},{"text":"B"}',
        '["A", "B',
        "<think>I would answer " + ONE,
        '{"memory":[{"text":"User likes \\ud83d"}]}',
        '{"memory":["\\ude00 tea"]}',
        '{"memory":[{"text":"bad \\u12 escape"}]}',
        "[" * 5000,
        '{"a":' * 5000,
    ],
)
def test_what_is_cut_off_or_no_answer_is_unreadable_and_keeps_the_reply(reply: str, request_with_known: Request) -> None:
    with pytest.raises(ReplyUnreadable) as caught:
        read_facts(reply, request_with_known)
    assert caught.value.reply == reply


def test_the_error_does_not_tell_the_text(request_with_known: Request) -> None:
    with pytest.raises(ReplyUnreadable) as caught:
        read_facts('{"memory":[{"text":"my passport is X123"', request_with_known)
    assert "X123" not in str(caught.value)


def test_wrong_escapes_are_read_as_they_stand(request_with_known: Request) -> None:
    (fact,) = read_facts(r'{"memory": ["User\'s share is C:\docs \d+ \"x\" \u00e9 \ud83d\ude00"]}', request_with_known)
    assert fact.text == 'User\'s share is C:\\docs \\d+ "x" é 😀'


def test_links_are_mapped_and_unknown_ones_dropped(request_with_known: Request) -> None:
    reply = json.dumps(
        {
            "memory": [
                {"text": "Poppy had a vet visit", "linked_memory_ids": ["0", "7", "not-an-id", None, True]},
                {
                    "text": "User lives in Oslo",
                    "links": [{"id": 1, "relation": "Updates"}, {"id": "0", "relation": "nonsense"}, {"id": "1"}, 9, "x"],
                },
                {"text": "No list", "links": "0"},
            ]
        }
    )
    first, second, third = read_facts(reply, request_with_known)
    assert first.links == (Link("m-poppy", Relation.RELATES),)
    assert second.links == (Link("m-bonn", Relation.UPDATES), Link("m-poppy", Relation.RELATES))
    assert third.links == ()


def test_who_said_it_and_where_are_read_only_where_they_make_sense(request_with_known: Request) -> None:
    reply = json.dumps(
        {
            "memory": [
                {"text": "a", "attributed_to": "assistant", "message": 1},
                {"text": "b", "attributed_to": "system", "message": 2},
                {"text": "c", "message": True},
                {"text": "d", "message": -1},
                {"text": "e", "message": "0"},
            ]
        }
    )
    facts = read_facts(reply, request_with_known)
    assert [(fact.attributed_to, fact.message) for fact in facts] == [
        ("assistant", 1),
        ("user", None),
        ("user", None),
        ("user", None),
        ("user", 0),
    ]


def test_identity_is_never_taken_from_a_reply(request_with_known: Request) -> None:
    reply = json.dumps(
        {"user_id": "eve", "memory": [{"text": "a", "user_id": "eve", "role": "system", "actor": "eve", "slot": "eve|live"}]}
    )
    (fact,) = read_facts(reply, request_with_known)
    assert (fact.role, fact.actor, fact.slot) == (None, None, None)


def test_a_very_long_text_is_cut_at_sentences_and_loses_nothing(request_with_known: Request) -> None:
    text = " ".join(f"This is sentence number {n}." for n in range(200))
    facts = read_facts(json.dumps({"memory": [{"text": text, "links": ["0"]}]}), request_with_known)
    assert len(facts) > 1
    assert all(len(fact.text) <= MAX_TEXT and fact.text.endswith(".") and fact.links for fact in facts)
    assert " ".join(fact.text for fact in facts) == text


@given(st.text(max_size=300))
def test_any_reply_is_read_or_refused(reply: str) -> None:
    request = Request((), said_at=None)  # type: ignore[arg-type]
    try:
        facts = read_facts(reply, request)
    except ReplyUnreadable as error:
        kept = error.reply
    else:
        kept = reply
        assert all(fact.text.strip() for fact in facts)
    assert kept == reply


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=80).filter(str.strip), max_size=6
    ),
    st.data(),
)
def test_a_whole_reply_is_read_whole_and_a_cut_one_never(texts: list[str], data: st.DataObject) -> None:
    request = Request((), said_at=None)  # type: ignore[arg-type]
    reply = json.dumps({"memory": [{"text": text} for text in texts]})
    assert [fact.text for fact in read_facts(reply, request)] == [text.strip() for text in texts]
    cut = data.draw(st.integers(0, len(reply) - 1))
    with pytest.raises(ReplyUnreadable):
        read_facts(reply[:cut], request)


@pytest.mark.parametrize("part", ['{"a":[', '"\\', "[ ", "```", "<think>", '{ "', "</think>{", '"a', "\\u", "{}", "[]"])
def test_large_nonsense_is_refused_in_linear_time(part: str) -> None:
    request = Request((), said_at=None)  # type: ignore[arg-type]
    reply = "x" + part * (200_000 // len(part))
    with pytest.raises(ReplyUnreadable):
        read_facts(reply, request)
