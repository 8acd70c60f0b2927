"""Turns of one lane that wait together are asked of a model in one call, and each is a turn of its own afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from memline.cli.simulator.replies import extraction_reply
from memline.contracts import failpoints
from memline.contracts.errors import ProviderRefused, ProviderUnavailable
from memline.contracts.turn import Message
from memline.language.ports import ChatReply
from memline.ledger.cancel import cancel_jobs
from memline.ledger.claim import ClaimLimits
from memline.ledger.counters import read_counters
from memline.ledger.leases import dissolve_expired
from memline.ledger.receipts import receipt_state
from memline.ledger.schema import jobs, memories, stage_results
from memline.ledger.session import Ledger
from memline.ledger.usage import usage_by
from memline.pipeline.extractors.model import ModelExtractor
from memline.pipeline.parts import Parts
from tests.integration.pipeline.steps import claimed, clock, live, nothing_is_left_over, stage, state
from tests.parts import START, ScriptedExtractor, TrigramEmbedder, accept, job_of, make_parts, make_turn, run_all, table

Answer = Callable[[dict[str, Any]], str | Exception | None]


class Chat:
    """Answers as the simulator does, but where *answer* says otherwise; remembers the documents it was asked of."""

    model = "sim"

    def __init__(self, answer: Answer = lambda document: None) -> None:
        self.answer = answer
        self.documents: list[dict[str, Any]] = []

    def complete(self, messages: Sequence[Mapping[str, Any]], *, schema: Mapping[str, Any] | None = None) -> ChatReply:
        self.documents.append(json.loads(messages[1]["content"]))
        given = self.answer(self.documents[-1])
        if isinstance(given, Exception):
            raise given
        return ChatReply(extraction_reply({"messages": [dict(message) for message in messages]}) if given is None else given)


def parts_with(ledger: Ledger, chat: Chat, *, coalesce: int = 8, window: int = 8000) -> Parts:
    limits = ClaimLimits(paid_unit=coalesce, unit_size=4 * window)
    return make_parts(ledger, extractor=ModelExtractor(chat, window_tokens=window), limits=limits)


def in_unit(document: dict[str, Any]) -> bool:
    return "turns" in document


def facts(*items: dict[str, Any]) -> str:
    return json.dumps({"memory": list(items)})


def test_waiting_turns_of_a_lane_are_asked_in_one_call_and_each_has_its_own(ledger: Ledger) -> None:
    chat = Chat()
    parts = parts_with(ledger, chat)
    for number in range(5):
        accept(parts, make_turn(f"I bought lamp {number}", id=f"t{number}", occurred_at=START + timedelta(days=number)))
    run_all(parts)
    (document,) = chat.documents
    assert [turn["turn"] for turn in document["turns"]] == [0, 1, 2, 3, 4]
    assert [turn["said_at"][:10] for turn in document["turns"]] == ["2026-03-01", "2026-03-02", "2026-03-03", "2026-03-04", "2026-03-05"]
    for number in range(5):
        (row,) = table(ledger, memories, memories.c.job_id == f"t{number}")
        assert row.text == f"User bought lamp {number}"
        assert row.message == 0
        with ledger.read() as connection:
            seen = receipt_state(connection, f"t{number}")
        assert seen is not None
        assert [result["id"] for result in seen.results] == [row.id]
        assert job_of(ledger, f"t{number}").extractor == "sim/prompt-3"
    nothing_is_left_over(ledger)


def test_lanes_are_never_mixed(ledger: Ledger) -> None:
    chat = Chat()
    parts = parts_with(ledger, chat)
    for number in range(6):
        accept(parts, make_turn(f"I bought lamp {number}", id=f"t{number}", user=f"u{number % 2}"))
    run_all(parts)
    told = [sorted(message["text"][-1] for turn in document["turns"] for message in turn["messages"]) for document in chat.documents]
    assert sorted(told) == [["0", "2", "4"], ["1", "3", "5"]]


@pytest.mark.parametrize("coalesce", [1, 3])
def test_no_more_than_the_setting_go_together(ledger: Ledger, coalesce: int) -> None:
    chat = Chat()
    parts = parts_with(ledger, chat, coalesce=coalesce)
    for number in range(6):
        accept(parts, make_turn(f"I bought lamp {number}", id=f"t{number}"))
    run_all(parts)
    assert len(chat.documents) == 6 // coalesce
    assert len(live(ledger)) == 6


def test_no_more_than_the_window_go_together_and_the_next_call_sees_what_these_left(ledger: Ledger) -> None:
    chat = Chat()
    parts = parts_with(ledger, chat, window=600)
    for number in range(4):
        accept(parts, make_turn(f"I bought lamp {number}. " + "It is very bright. " * 40, id=f"t{number}"))
    run_all(parts)
    sizes = [len(document.get("turns", [0])) for document in chat.documents]
    assert sum(sizes) == 4
    assert len(sizes) > 1
    assert [len(document["window"]) for document in chat.documents] == [sum(sizes[:number]) for number in range(len(sizes))]
    assert chat.documents[-1]["known"]
    assert [state(ledger, f"t{number}")[2] for number in range(4)] == [0] * 4


def test_what_is_asked_apart_never_joins(ledger: Ledger) -> None:
    chat = Chat()
    parts = parts_with(ledger, chat)
    accept(parts, make_turn("I bought lamp 0", id="t0"))
    accept(parts, make_turn("I bought lamp 1", id="t1", prompt="Only lamps."))
    accept(parts, make_turn("I bought lamp 2", id="t2"))
    accept(parts, make_turn("as it stands", id="t3", infer=False))
    accept(parts, make_turn("I bought lamp 4", id="t4"))
    run_all(parts)
    assert not any(in_unit(document) for document in chat.documents)
    assert len(live(ledger)) == 5


@pytest.mark.parametrize(
    "reply",
    [
        facts({"text": "User bought lamps"}),
        facts({"text": "a", "turn": 0}, {"text": "b", "turn": 2}),
        facts({"text": "a", "turn": -1}),
        facts({"text": "a", "turn": 0}, {"text": "b", "turn": None}),
        "I cannot do that.",
        '{"memory": [{"turn": 0, "text": "a"},',
        ProviderRefused("HTTP 400"),
    ],
)
def test_a_unit_that_can_t_be_divided_is_asked_turn_by_turn(ledger: Ledger, reply: str | Exception) -> None:
    chat = Chat(lambda document: reply if in_unit(document) else None)
    parts = parts_with(ledger, chat)
    accept(parts, make_turn("I bought lamp 0", id="t0"))
    accept(parts, make_turn("I bought lamp 1", id="t1"))
    run_all(parts)
    assert [in_unit(document) for document in chat.documents] == [True, False, False]
    assert live(ledger) == ["User bought lamp 0", "User bought lamp 1"]
    assert [message["text"] for message in chat.documents[2]["window"]] == ["I bought lamp 0"]
    assert [job_of(ledger, job).attempts for job in ("t0", "t1")] == [0, 0]
    with ledger.read() as connection:
        assert read_counters(connection)["units_apart"] == 1
    assert table(ledger, stage_results, stage_results.c.stage == "extract:unit") == []


def test_a_provider_that_is_away_costs_nothing_and_is_asked_of_all_again(ledger: Ledger) -> None:
    problems: list[Exception | None] = [ProviderUnavailable("away", cause="outage"), None]
    chat = Chat(lambda document: problems.pop(0) if problems else None)
    parts = parts_with(ledger, chat)
    accept(parts, make_turn("I bought lamp 0", id="t0"))
    accept(parts, make_turn("I bought lamp 1", id="t1"))
    run_all(parts)
    clock(parts).advance(60)
    run_all(parts)
    assert [job_of(ledger, job).attempts for job in ("t0", "t1")] == [0, 0]
    assert [in_unit(document) for document in chat.documents] == [True, True]
    assert live(ledger) == ["User bought lamp 0", "User bought lamp 1"]


def test_a_turn_that_spoils_the_answer_to_all_fails_alone(ledger: Ledger) -> None:
    spoilt = ProviderUnavailable("no answer", cause="answer")
    chat = Chat(lambda document: spoilt if "lamp 1" in json.dumps(document.get("turns", document.get("messages"))) else None)
    parts = parts_with(ledger, chat)
    for number in range(3):
        accept(parts, make_turn(f"I bought lamp {number}", id=f"t{number}"))
    for _ in range(8):
        run_all(parts)
        clock(parts).advance(600)
    assert [state(ledger, f"t{number}")[0] for number in range(3)] == ["committed", "failed", "committed"]
    assert [in_unit(document) for document in chat.documents] == [True] + [False] * 8
    assert live(ledger) == ["User bought lamp 0", "User bought lamp 2"]


def test_a_reply_that_can_t_be_divided_stays_under_nobodys_name(ledger: Ledger) -> None:
    spoilt = facts({"text": "User bought lamp 1"})
    chat = Chat(lambda document: spoilt if in_unit(document) else "no" if "lamp 0" in json.dumps(document["messages"]) else None)
    parts = parts_with(ledger, chat)
    accept(parts, make_turn("I bought lamp 0", id="t0"))
    accept(parts, make_turn("I bought lamp 1", id="t1"))
    run_all(parts)
    assert [state(ledger, job)[0] for job in ("t0", "t1")] == ["failed", "committed"]
    assert not any("lamp 1" in row.body for row in table(ledger, stage_results, stage_results.c.job_id == "t0"))


def test_what_a_unit_is_shown_is_paid_for_in_the_books(ledger: Ledger) -> None:
    chat = Chat()
    embedder = TrigramEmbedder(paid=True)
    parts = replace(parts_with(ledger, chat), embedder=embedder)
    accept(parts, make_turn("I bought a desk", id="t"))
    run_all(parts)
    accept(parts, make_turn("I bought lamp 0", id="t0"))
    accept(parts, replace(make_turn(id="t1"), messages=(Message("tool", "nothing is said"),)))
    before = len(embedder.calls)
    run_all(parts)
    assert in_unit(chat.documents[-1])
    assert len(embedder.calls) > before
    with ledger.read() as connection:
        (row,) = usage_by(connection, ["call", "model"])[:1]
    assert (row["call"], row["calls"]) == ("embed", len(embedder.calls))


@pytest.mark.parametrize("point", ["extract.after_store", "extract.before_commit"])
def test_a_unit_whose_worker_died_is_not_bought_again(ledger: Ledger, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Died(BaseException):
        pass

    def die(hit: str) -> None:
        if hit == point:
            raise Died

    chat = Chat()
    parts = parts_with(ledger, chat)
    for number in range(3):
        accept(parts, make_turn(f"I bought lamp {number}", id=f"t{number}"))
    (lease,) = claimed(parts)
    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "hit", die)
        with pytest.raises(Died):
            stage(parts, lease)
    clock(parts).advance(parts.times.lease + 1)
    with ledger.write() as tx:
        assert dissolve_expired(tx, now=parts.clock.now(), max_attempts=6) == 1
    run_all(parts)
    assert live(ledger) == [f"User bought lamp {number}" for number in range(3)]
    assert len(chat.documents) == 1
    assert table(ledger, stage_results, stage_results.c.stage == "extract:unit") == []


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_turn_that_is_cancelled_before_the_division_leaves_nothing_in_the_replies_of_the_others(
    ledger: Ledger, gone: int, dies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        pass

    def cancel(hit: str) -> None:
        if hit != "extract.after_store" or job_of(ledger, f"t{gone}").state == "cancelled":
            return
        with ledger.write() as tx:
            assert cancel_jobs(tx, [job_of(ledger, f"t{gone}").no], reason="deleted", now=parts.clock.now()) == 1
        if dies:
            raise Died

    chat = Chat()
    parts = parts_with(ledger, chat)
    for number in range(3):
        accept(parts, make_turn(f"I bought lamp {number}", id=f"t{number}"))
    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "hit", cancel)
        if dies:
            (lease,) = claimed(parts)
            with pytest.raises(Died):
                stage(parts, lease)
        else:
            run_all(parts)
    clock(parts).advance(parts.times.lease + 1)
    with ledger.write() as tx:
        assert dissolve_expired(tx, now=parts.clock.now(), max_attempts=6) == int(dies)
    run_all(parts)
    assert live(ledger) == [f"User bought lamp {number}" for number in range(3) if number != gone]
    assert not any(f"lamp {gone}" in row.body for row in table(ledger, stage_results))
    # the reply to all went with the turn that it lay under
    assert len(chat.documents) == (3 if dies and gone == 0 else 1)
    nothing_is_left_over(ledger)


def test_an_extractor_that_takes_one_turn_is_given_one_at_a_time(ledger: Ledger) -> None:
    extractor = ScriptedExtractor()
    parts = make_parts(ledger, extractor=extractor)
    for number in range(3):
        accept(parts, make_turn(f"line {number}", id=f"t{number}"))
    run_all(parts)
    assert extractor.calls == ["line 0", "line 1", "line 2"]


def test_a_share_keeps_links_roles_and_places(ledger: Ledger) -> None:
    def answer(document: dict[str, Any]) -> str | None:
        if not in_unit(document):
            return None
        (known,) = document["known"]
        return facts(
            {"turn": 1, "text": "Assistant booked a table", "attributed_to": "user", "message": 1, "links": []},
            {"turn": 0, "text": "User lives in Oslo now", "message": 0, "links": [{"id": known["id"], "relation": "updates"}, "77"]},
        )

    chat = Chat(answer)
    parts = parts_with(ledger, chat)
    accept(parts, make_turn("I live in Bonn, my flat is there", id="t"))
    run_all(parts)
    accept(parts, make_turn("I live in Oslo now, my flat is there", id="t0"))
    booking = (Message("user", "A table, please"), Message("assistant", "Done.", "Concierge"))
    accept(parts, replace(make_turn(id="t1"), messages=booking))
    run_all(parts)
    (moved,) = table(ledger, memories, memories.c.job_id == "t0")
    (booked,) = table(ledger, memories, memories.c.job_id == "t1")
    (before,) = table(ledger, memories, memories.c.job_id == "t")
    assert (before.state, before.superseded_by) == ("superseded", moved.id)
    assert (booked.attributed_to, booked.actor_id, booked.message) == ("assistant", "Concierge", 1)
    with ledger.read() as connection:
        assert read_counters(connection)["links_dropped"] == 1


def test_said_at_of_each_turn_is_its_own(ledger: Ledger) -> None:
    parts = parts_with(ledger, Chat())
    accept(parts, make_turn("I ran 10 km yesterday", id="t0", occurred_at=datetime(2023, 5, 24, tzinfo=START.tzinfo)))
    accept(parts, make_turn("I ran 5 km yesterday", id="t1"))
    run_all(parts)
    assert [row.said_at.year for row in table(ledger, jobs)] == [2023, 2026]
    assert [row.valid_from.year for row in table(ledger, memories)] == [2023, 2026]


def test_a_later_turn_of_a_call_closes_what_an_earlier_one_says(ledger: Ledger) -> None:
    def answer(document: dict[str, Any]) -> str | None:
        return facts(
            {"turn": 0, "text": "User has a dog", "message": 0},
            {"turn": 0, "text": "User plans to go to Rome", "message": 0},
            {
                "turn": 1,
                "text": "User goes to Oslo, not to Rome, as the flight is cheaper",
                "message": 0,
                "links": [{"id": "n1", "relation": "updates"}, {"id": "n2", "relation": "updates"}, {"id": "n9", "relation": "updates"}],
            },
        )

    parts = parts_with(ledger, Chat(answer))
    accept(parts, make_turn("I have a dog and plan to go to Rome", id="t0"))
    accept(parts, make_turn("No, Oslo: the flight is cheaper", id="t1"))
    run_all(parts)
    dog, rome = table(ledger, memories, memories.c.job_id == "t0")
    (oslo,) = table(ledger, memories, memories.c.job_id == "t1")
    assert [row.state for row in (dog, rome, oslo)] == ["live", "superseded", "live"]
    assert rome.superseded_by == oslo.id
    with ledger.read() as connection:
        assert read_counters(connection)["links_dropped"] == 2


def test_a_link_to_a_fact_of_the_call_that_was_there_before_falls_away(ledger: Ledger) -> None:
    def answer(document: dict[str, Any]) -> str | None:
        if not in_unit(document):
            return None
        return facts(
            {"turn": 0, "text": "User has a dog"},
            {"turn": 1, "text": "User's dog is called Poppy", "links": [{"id": "n0", "relation": "extends"}]},
        )

    parts = parts_with(ledger, Chat(answer))
    accept(parts, make_turn("User has a dog", id="t"))
    run_all(parts)
    accept(parts, make_turn("I have a dog", id="t0"))
    accept(parts, make_turn("It is called Poppy", id="t1"))
    run_all(parts)
    assert live(ledger) == ["User has a dog", "User's dog is called Poppy"]
