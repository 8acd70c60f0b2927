"""Turns longer than a model takes at once: read in windows to their end, merged, paid once."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from memline.contracts.message import Message
from memline.ledger.counters import read_counters
from memline.ledger.receipts import receipt_state
from memline.ledger.results import load_replies
from memline.ledger.schema import memories, stage_results
from memline.ledger.session import Ledger
from memline.pipeline.extractors.rules import RuleExtractor
from tests.integration.pipeline.steps import clock, live, state
from tests.integration.pipeline.test_units import Chat, facts, in_unit, parts_with
from tests.parts import accept, job_of, make_parts, make_turn, run_all, table

MARKS = ["Bergen-417", "Kyoto-932", "Lima-205"]


def long_text(size: int) -> str:
    """Prose of *size* characters with a fact at its start, in its middle and at its end."""
    filler = "The weather was discussed at length and nothing came of it. "
    half = filler * (size // 2 // len(filler))
    return f"My locker code is {MARKS[0]}. {half}My badge code is {MARKS[1]}. {half}My garage code is {MARKS[2]}."


def code_facts(document: dict[str, Any]) -> str:
    """One fact for each code that stands in a new message of the document."""
    found = [
        {"text": f"User has the code {mark}", "attributed_to": message["role"], "message": message["index"], "links": []}
        for message in document["messages"]
        for mark in MARKS
        if mark in message["text"]
    ]
    return facts(*found)


def test_200_000_characters_are_read_to_the_end(ledger: Ledger) -> None:
    chat = Chat(code_facts)
    parts = parts_with(ledger, chat)
    text = long_text(200_000)
    accept(parts, replace(make_turn(id="long"), messages=(Message("user", "Look at this:"), Message("user", text))))
    began = time.process_time()
    run_all(parts)
    assert time.process_time() - began < 60
    assert live(ledger) == [f"User has the code {mark}" for mark in MARKS]
    assert [row.message for row in table(ledger, memories)] == [1, 1, 1]
    assert "".join(message["text"] for document in chat.documents for message in document["messages"]) == "Look at this:" + text
    with ledger.read() as connection:
        seen = receipt_state(connection, "long")
    assert seen is not None
    assert seen.notes == {"windows": len(chat.documents)}


def test_the_rules_read_200_000_characters_too(ledger: Ledger) -> None:
    parts = make_parts(ledger, extractor=RuleExtractor())
    accept(parts, make_turn(long_text(200_000), id="long"))
    run_all(parts)
    assert all(any(mark in text for text in live(ledger)) for mark in MARKS)


def test_what_windows_say_twice_is_one_memory_and_the_last_answer_to_a_question_stands(ledger: Ledger) -> None:
    answers = iter(["User lives in Bonn", "User lives in Oslo", "User lives in Oslo"])

    def answer(document: dict[str, Any]) -> str:
        return facts({"text": "User collects stamps", "message": 0}, {"text": next(answers, "User lives in Oslo"), "message": 0})

    parts = parts_with(ledger, Chat(answer), window=500)
    accept(parts, make_turn("A sentence about the work. " * 200, id="long"))
    run_all(parts)
    assert sorted(live(ledger)) == ["User collects stamps", "User lives in Oslo"]
    with ledger.read() as connection:
        seen = receipt_state(connection, "long")
    assert seen is not None
    assert [result["event"] for result in seen.results] == ["ADD", "ADD"]


def test_a_reply_that_breaks_off_is_asked_for_with_half_as_much_text(ledger: Ledger) -> None:
    def answer(document: dict[str, Any]) -> str:
        whole = code_facts(document)
        return whole[:-3] if sum(len(message["text"]) for message in document["messages"]) > 6000 else whole

    chat = Chat(answer)
    parts = parts_with(ledger, chat)
    text = long_text(12_000)
    accept(parts, make_turn(text, id="long"))
    run_all(parts)
    assert live(ledger) == [f"User has the code {mark}" for mark in MARKS]
    sizes = [sum(len(message["text"]) for message in document["messages"]) for document in chat.documents]
    assert sizes[0] == len(text)
    assert sizes[0] > sizes[1]


def test_a_window_that_stays_unreadable_fails_visibly_keeps_the_replies_and_a_retry_buys_only_what_is_missing(ledger: Ledger) -> None:
    fine = False

    def answer(document: dict[str, Any]) -> str:
        if MARKS[1] in json.dumps(document["messages"]) and not fine:
            return "no"
        return code_facts(document)

    chat = Chat(answer)
    parts = parts_with(ledger, chat, window=1000)
    accept(parts, make_turn(long_text(10_000), id="long"))
    run_all(parts)
    assert state(ledger, "long")[0] == "failed"
    assert "ReplyUnreadable" in job_of(ledger, "long").reason
    bought = len(chat.documents)
    with ledger.read() as connection:
        assert len(load_replies(connection, "extract", ["long"])["long"]) == bought
    fine = True
    from memline.ledger.jobs import retry_job

    with ledger.write() as tx:
        assert retry_job(tx, "long", now=clock(parts).now())
    run_all(parts)
    assert live(ledger) == [f"User has the code {mark}" for mark in MARKS]
    texts = [document["messages"][0]["text"] for document in chat.documents]
    assert all(text not in texts[:bought] for text in texts[bought + 1 :])  # the first of these is the one that failed


def test_replies_of_a_former_version_are_still_read(ledger: Ledger) -> None:
    chat = Chat()
    parts = parts_with(ledger, chat)
    accept(parts, make_turn("I like tea", id="t"))
    body = json.dumps({"reply": facts({"text": "User likes tea"}), "known": []})
    with ledger.write() as tx:
        tx.execute(stage_results.insert().values(job_id="t", stage="extract", ask=0, body=body, stored_at=clock(parts).now()))
    run_all(parts)
    assert live(ledger) == ["User likes tea"]
    assert chat.documents == []


def test_the_model_is_told_what_was_wrong_and_nothing_of_the_turn_again(ledger: Ledger) -> None:
    asked: list[Sequence[Any]] = []

    class Telling(Chat):
        def complete(self, messages: Sequence[Any], *, schema: Any = None) -> Any:
            asked.append(messages)
            return super().complete(messages, schema=schema)

    replies = iter(["Sorry, no JSON, my passport is X123", facts({"text": "User likes tea"})])
    parts = parts_with(ledger, Telling(lambda document: next(replies)))
    accept(parts, make_turn("I like tea", id="t"))
    run_all(parts)
    assert live(ledger) == ["User likes tea"]
    first, second = asked
    assert second[1:] == first[1:]
    assert second[0]["content"].startswith(first[0]["content"])
    correction = second[0]["content"].removeprefix(first[0]["content"])
    assert "holds no complete JSON" in correction
    assert "tea" not in correction
    assert "X123" not in correction


def test_the_assistant_has_a_budget_and_the_receipt_says_what_was_left_out(ledger: Ledger) -> None:
    own = [{"text": f"Assistant wrote line {number}", "attributed_to": "assistant", "message": 1} for number in range(50)]
    people = [{"text": f"User owns book {number}", "attributed_to": "user", "message": 0} for number in range(30)]
    parts = parts_with(ledger, Chat(lambda document: facts(*own, *people)))
    accept(parts, replace(make_turn(id="t"), messages=(Message("user", "my books"), Message("assistant", "a page"))))
    run_all(parts)
    assert sum(text.startswith("User owns") for text in live(ledger)) == 30
    assert sum(text.startswith("Assistant") for text in live(ledger)) == 20
    with ledger.read() as connection:
        seen = receipt_state(connection, "t")
    assert seen is not None
    assert seen.notes == {"left_out": 30}


def test_memories_that_the_application_pasted_in_are_not_learned_again(ledger: Ledger) -> None:
    def answer(document: dict[str, Any]) -> str:
        if in_unit(document):
            return "asked of both at once"
        said = json.dumps(document["messages"])
        return facts({"text": "User likes tea"}, *([{"text": "User is in Rome"}] if "Rome" in said else []))

    chat = Chat(answer)
    parts = parts_with(ledger, chat)
    accept(parts, make_turn("I like tea", id="t0"))
    run_all(parts)
    accept(parts, make_turn("Relevant memories:\n- User likes tea\n- User has a dog\n\nI am in Rome now.", id="t1"))
    accept(parts, make_turn("Context\n- User likes tea\nWhere shall we go in Rome?", id="t2"))
    run_all(parts)
    assert live(ledger) == ["User likes tea", "User is in Rome"]
    with ledger.read() as connection:
        notes = [receipt_state(connection, turn).notes for turn in ("t1", "t2")]  # type: ignore[union-attr]
        counted = read_counters(connection)
    assert notes == [{"pasted": 1, "blanked": 1}, {"pasted": 1}]
    assert (counted["pasted_blanked"], counted["pasted_dropped"]) == (1, 2)
    shown = chat.documents[1]["turns"][0]["messages"][0]["text"]
    assert "dog" not in shown
    assert shown.endswith("\n\nI am in Rome now.")


@pytest.mark.parametrize("reply", ["", "I can't help with that.", '{"memory": [{"text": "A"}, {"te', '{"memory": null}'])
def test_a_parse_error_is_never_done_with_nothing(ledger: Ledger, reply: str) -> None:
    parts = parts_with(ledger, Chat(lambda document: reply))
    accept(parts, make_turn("I like tea", id="t"))
    run_all(parts)
    assert state(ledger, "t")[0] == "failed"
    with ledger.read() as connection:
        kept = load_replies(connection, "extract", ["t"])["t"]
    assert [json.loads(body)["reply"] for body in kept] == [reply] * 3


def test_a_long_task_is_summarised_in_windows_as_one_memory(ledger: Ledger) -> None:
    def answer(document: dict[str, Any]) -> str:
        said = json.dumps(document["messages"])
        return json.dumps({"memory": "Went on." + "".join(f" Saw {mark}." for mark in MARKS if mark in said)})

    chat = Chat(answer)
    parts = parts_with(ledger, chat)
    accept(parts, make_turn(long_text(100_000), id="task", agent="a", memory_type="procedural_memory"))
    run_all(parts)
    (text,) = live(ledger)
    assert len(chat.documents) > 2
    assert [text.index(mark) for mark in MARKS] == sorted(text.index(mark) for mark in MARKS)
