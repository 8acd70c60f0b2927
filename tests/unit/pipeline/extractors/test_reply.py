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
from memline.pipeline.extractors.reply import MAX_TEXT, divide_reply, read_facts

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
        f'If there were nothing I would answer {{"memory": []}}. Here it is: {ONE}',
        f"{ONE}\nOnce more, in a block:\n```json\n{ONE}\n```",
        f'I looked at ["food", "travel"]. {ONE}',
        '{"memory": [], "memories": [{"text": "User likes tea"}]}',
        '{"memory": [{"text": "User likes tea"}], "memory": []}',
        '{"thought": "{\\"memory\\": []}", "facts": ["User likes tea"]}',
        f"<think>Tea, then. No closing tag here.\n{ONE}",
        "{“memory”: [{“text”: “User likes tea”}]}",
        "{'memory': [{'text': 'User likes tea', 'message': None, 'links': []}]}",
        "['User likes tea',]",
        '{"memory": [{"text": "User likes tea", "message": None}]}',
        '{"items": [{"statement": "User likes tea"}]}',
        '{"data": [{"content": "User likes tea"}]}',
        '{"function": "save", "arguments": "{\\"memory\\": [{\\"text\\": \\"User likes tea\\"}]}"}',
        '{"memory": [\n{"text": "User likes tea"},\n]\n}\n\n',
    ],
)
def test_one_memory_is_read_however_it_is_wrapped(reply: str, request_with_known: Request) -> None:
    assert [fact.text for fact in read_facts(reply, request_with_known)] == ["User likes tea"]


@pytest.mark.parametrize(
    "reply",
    [
        '{"memory": []}',
        "[]",
        '```json\n{"memory": []}\n```',
        'Nothing new. {"memory": []}',
        '{"facts": []}',
        "<think>x</think>[]",
        f'<think>a</think><think>{ONE}</think>{{"memory": []}}',
    ],
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
        f'An example: {{"memory": [{{"text": "x"}}]}}. The answer: {ONE}',
        f'An example: {ONE}. There was nothing to remember: {{"memory": []}}',
        f'{ONE}\nand also\n{{"memory": [{{"text": "User is in Rome"}}]}}',
        'I cannot do that. Topics: ["food"]',
        f"I would say {ONE}, but no.</think>\nThere is nothing to remember.",
        '{"role": "assistant", "content": "There is nothing to remember."}',
        '{"content": "I am sorry, I can not do that."}',
        '[{"index": 0, "role": "user", "text": "hello"}]',
        '{"memory": "none"}',
        '{"memory": ["None"]}',
        '{"memory":[{"text":"bad \\u12 escape"}]}',
        "[" * 5000,
        '{"a":' * 5000,
    ],
)
def test_what_is_cut_off_or_no_answer_is_unreadable_and_keeps_the_reply(reply: str, request_with_known: Request) -> None:
    with pytest.raises(ReplyUnreadable) as caught:
        read_facts(reply, request_with_known)
    assert caught.value.reply == reply


@pytest.mark.parametrize("wrap", ["{}", "```\n{}\n```", "```jsonl\n{}\n```", "<think>two</think>\n{}\n", "{},"])
def test_one_object_a_line_is_a_list(request_with_known: Request, wrap: str) -> None:
    lines = '{"text": "User likes tea", "links": ["0"]}\n{"text": "User is in Rome"}'
    assert [(fact.text, len(fact.links)) for fact in read_facts(wrap.replace("{}", lines), request_with_known)] == [
        ("User likes tea", 1),
        ("User is in Rome", 0),
    ]


@pytest.mark.parametrize("between", ["\n", ",\n", "\n```\n```json\n"])
def test_an_answer_in_pieces_with_nothing_between_is_one(request_with_known: Request, between: str) -> None:
    reply = f'{ONE}{between}{{"memory": [{{"text": "User is in Rome"}}]}}'
    if "`" in between:
        reply = f"```json\n{reply}\n```"
    assert [fact.text for fact in read_facts(reply, request_with_known)] == ["User likes tea", "User is in Rome"]


def test_the_tag_of_thoughts_may_stand_in_a_text(request_with_known: Request) -> None:
    reply = 'Here: {"memory": [{"text": "User asks about </think>", "linked_memory_ids": ["0", "1"]}]}'
    (fact,) = read_facts(reply, request_with_known)
    assert (fact.text, len(fact.links)) == ("User asks about </think>", 2)


@pytest.mark.parametrize("turn", [-1, -1.0, 2, 2.0, True, "x", None])
def test_a_reply_to_several_turns_is_divided_by_the_turns_that_there_are(turn: object) -> None:
    with pytest.raises(ReplyUnreadable, match="name its turn"):
        divide_reply(json.dumps({"memory": [{"text": "a", "turn": 0}, {"text": "b", "turn": turn}]}), 2)


@pytest.mark.parametrize(
    ("reply", "why", "cut"),
    [
        ("", "it is empty", False),
        ("Sorry.", "it holds no complete JSON with a list of memories", False),
        ('{"memory": [{"text": "A"}, {"te', "it breaks off before its end", True),
        ("<think>I wonder", "it breaks off before its end", True),
        (f'{ONE} or {{"memory": ["User is in Rome"]}}', "it holds several answers that differ", False),
        ('{"memory": [7]}', "none of its 1 items is a memory", False),
        ('{"text": "A"}\n{"text": "B', "it breaks off before its end", True),
        (f"{ONE}\n{ONE[:-4]}", "it breaks off before its end", True),
    ],
)
def test_the_error_says_what_is_wrong_in_words_for_the_model(request_with_known: Request, reply: str, why: str, cut: bool) -> None:
    with pytest.raises(ReplyUnreadable) as caught:
        read_facts(reply, request_with_known)
    assert (caught.value.why, caught.value.cut) == (why, cut)


def test_links_that_were_dropped_are_counted(request_with_known: Request) -> None:
    reply = json.dumps({"memory": [{"text": "a", "links": ["0", "7", "8"]}, {"text": "b", "links": [{"id": "9"}]}]})
    assert read_facts(reply, request_with_known).links_dropped == 3


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
                {"text": "f", "message": -1.0},
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
        ("user", None),
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


_SAYS_NOTHING = ("", "none", "null", "n/a", "[]", "{}")
_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=60).filter(
    lambda text: text.strip().casefold() not in _SAYS_NOTHING
)


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
    st.lists(_TEXT, max_size=6),
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


_CHATTER = st.sampled_from(["", "Sure!", "Here it is:", "Note: nothing else.", "I used {braces} and [brackets]. ", "\n\n", "“Done.”"])
_SIGNS = ['"', "{", "}", "[", "]", ",", ":", "\\", "'", "“", "\n", "x", "```", "<think>", "</think>", "\ud83d"]


@given(st.lists(_TEXT, min_size=1, max_size=5), st.sampled_from(range(8)), _CHATTER, _CHATTER, st.booleans())
def test_a_reply_in_any_wrapping_says_the_same(texts: list[str], form: int, before: str, after: str, thinks: bool) -> None:
    request = Request((), said_at=None)  # type: ignore[arg-type]
    items = [{"text": text} for text in texts]
    whole = json.dumps({"memory": items}, ensure_ascii=False)
    body = [
        whole,
        f"```json\n{json.dumps({'memory': items})}\n```",
        json.dumps({"memory": texts}),
        json.dumps(items),
        json.dumps({"facts": items}, indent=2),
        whole[:-2] + ",]}",
        json.dumps({"name": "save", "arguments": {"memories": items}}),
        "\n".join(json.dumps(item) for item in items),
    ][form]
    alone = form in (2, 3) or (form == 7 and len(items) == 1)  # strings in a bare list are looked for where nothing stands beside
    wrapped = body if alone or form == 7 else f"{before}\n{body}\n{after}"
    if thinks:
        wrapped = f"<think>Let me see.</think>\n{wrapped}"
    assert [fact.text for fact in read_facts(wrapped, request)] == [text.strip() for text in texts]


@given(st.lists(_TEXT, min_size=1, max_size=4), st.data())
def test_a_damaged_reply_is_read_or_refused_and_never_nothing(texts: list[str], data: st.DataObject) -> None:
    request = Request((), said_at=None)  # type: ignore[arg-type]
    reply = json.dumps({"memory": [{"text": text, "attributed_to": "user", "links": ["0"], "message": 0} for text in texts]})
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(reply)))
        kind = data.draw(st.sampled_from(["drop", "put", "swap", "repeat"]))
        sign = data.draw(st.sampled_from(_SIGNS))
        if kind == "drop":
            reply = reply[:place] + reply[place + 1 :]
        elif kind == "put":
            reply = reply[:place] + sign + reply[place:]
        elif kind == "swap":
            reply = reply[:place] + sign + reply[place + 1 :]
        else:
            reply = reply + reply[place:]
    try:
        facts = read_facts(reply, request)
    except ReplyUnreadable:
        return
    assert facts
    assert all(fact.text.strip() and not any("\ud800" <= c <= "\udfff" for c in fact.text) for fact in facts)
