"""What an `add` may ask for beside facts: verbatim again, procedures, instructions, names, images, tools; on both databases."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from memline.contracts.errors import InvalidInput, ProviderRefused, ProviderUnavailable, TurnTooLarge
from memline.contracts.message import CONTEXT_LIMIT, Image, Message
from memline.contracts.turn import PROCEDURAL, Turn
from memline.language.ports import ChatReply
from memline.ledger.claim import ClaimLimits
from memline.ledger.counters import read_counters
from memline.ledger.history import history_of
from memline.ledger.jobs import retry_job
from memline.ledger.memories import load_memory
from memline.ledger.messages import window_before
from memline.ledger.namespace_prompt import MAX_PROMPT, clear_prompt, prompt_hash, set_prompt
from memline.ledger.retire import delete_memory
from memline.ledger.schema import jobs, memories, messages, sightings, stage_results
from memline.ledger.session import Ledger
from memline.ledger.sightings import SHOWN, sightings_of
from memline.pipeline.extractors.model import ModelExtractor
from memline.pipeline.extractors.procedure import procedure_version
from memline.pipeline.images import ImageReader
from memline.pipeline.parts import Parts, RetryPolicy
from tests.integration.pipeline.steps import clock, live
from tests.parts import ScriptedExtractor, TrigramEmbedder, accept, job_of, make_parts, make_turn, run_all, table

DOG = Image("https://pictures.example/dog.png", "low")


class Chat:
    """Answers each call by the next step, the last one stands for all that follow; keeps what it was asked."""

    model = "scripted"

    def __init__(self, *steps: str | BaseException) -> None:
        self.steps = list(steps)
        self.asked: list[tuple[list[Mapping[str, Any]], Mapping[str, Any] | None]] = []

    def complete(self, messages: Sequence[Mapping[str, Any]], *, schema: Mapping[str, Any] | None = None) -> ChatReply:
        self.asked.append((list(messages), schema))
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, BaseException):
            raise step
        return ChatReply(step)


def turn_of(*said: Message, **options: Any) -> Turn:
    return replace(make_turn("x", **options), messages=said)


def row_of(ledger: Ledger, text: str) -> Any:
    (row,) = (row for row in table(ledger, memories) if row.text == text)
    return row


# --- verbatim, and what is said again ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("infer", [True, False])
def test_what_is_said_again_returns_the_first_id_and_leaves_its_own_time(ledger: Ledger, infer: bool) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn("Ann likes tea", id="a", infer=infer))
    run_all(parts)
    later = clock(parts).now() - timedelta(days=2)
    accept(parts, make_turn("ann  likes tea", id="b", infer=infer, occurred_at=later))
    run_all(parts)
    first = row_of(ledger, "Ann likes tea")
    job = job_of(ledger, "b")
    assert (job.outcome, job.reason) == ([[first.id, "DUPLICATE"]], f"duplicate of {first.id}")
    with ledger.read() as connection:
        found = sightings_of(connection, first.no)
        window = [message.text for message in window_before(connection, first.lane, 3, size=10)]
        assert [row["event"] for row in history_of(connection, "default", first.id)] == ["ADD"]
    assert (found.number, found.said_at) == (1, (later,))
    assert window == ["Ann likes tea", "ann  likes tea"]
    assert live(ledger) == ["Ann likes tea"]


def test_what_a_turn_says_twice_is_said_once_and_two_turns_of_one_batch_are_two(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn(["Ann likes tea", "Ann likes tea"], id="a", infer=False), make_turn("Ann likes tea", id="b", infer=False))
    run_all(parts)
    (seen,) = table(ledger, sightings)
    assert (seen.job_id, seen.memory_no) == ("b", row_of(ledger, "Ann likes tea").no)


def test_a_read_tells_how_often_and_the_newest_times(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    start = clock(parts).now()
    accept(parts, *(make_turn("Yes", infer=False, occurred_at=start + timedelta(days=day)) for day in range(SHOWN + 3)))
    run_all(parts)
    with ledger.read() as connection:
        found = sightings_of(connection, row_of(ledger, "Yes").no)
    assert found.number == SHOWN + 2
    assert found.said_at == tuple(start + timedelta(days=day) for day in range(3, SHOWN + 3))


def test_sightings_go_with_their_memory(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    for name in "ab":
        accept(parts, make_turn("Ann likes tea", id=name, infer=False))
        run_all(parts)
    delete_memory(ledger, "default", row_of(ledger, "Ann likes tea").id, now=clock(parts).now())
    assert table(ledger, sightings) == []


# --- who says it --------------------------------------------------------------------------------------------------------------------


def test_the_name_in_a_message_becomes_the_actor_of_a_fact(ledger: Ledger) -> None:
    chat = Chat(
        json.dumps(
            {
                "memory": [
                    {"text": "Ann paints", "attributed_to": "user", "links": [], "message": 0},
                    {"text": "Bo sings", "attributed_to": "user", "links": [], "message": 1},
                    {"text": "Robin booked it", "attributed_to": "assistant", "links": [], "message": None},
                    {"text": "Somebody dances", "attributed_to": "user", "links": [], "message": None},
                ]
            }
        )
    )
    parts = make_parts(ledger, extractor=ModelExtractor(chat))
    said = (Message("user", "I paint", "Ann"), Message("user", "I sing", "Bo"), Message("assistant", "booked", "Robin"))
    accept(parts, turn_of(*said))
    run_all(parts)
    actors = {row.text: row.actor_id for row in table(ledger, memories)}
    assert actors == {"Ann paints": "Ann", "Bo sings": "Bo", "Robin booked it": "Robin", "Somebody dances": None}


def test_a_tool_is_context_and_never_a_source_of_facts(ledger: Ledger) -> None:
    stolen = {"text": "The page says buy now", "attributed_to": "assistant", "links": [], "message": 1}
    kept = {"text": "User asked for rain", "attributed_to": "user", "links": [], "message": 0}
    chat = Chat(json.dumps({"memory": [stolen, kept]}))
    parts = make_parts(ledger, extractor=ModelExtractor(chat))
    page = "buy now " * 1000
    accept(parts, turn_of(Message("user", "Will it rain?"), Message("tool", page), Message("assistant", ""), Message("system", "secret")))
    run_all(parts)
    assert live(ledger) == ["User asked for rain"]
    assert "secret" not in json.dumps(chat.asked[0][0])
    saved = [(row.role, len(row.text)) for row in table(ledger, messages)]
    assert saved == [("user", 13), ("tool", CONTEXT_LIMIT)]  # a message that only calls tools takes no place of the window


# --- instructions -------------------------------------------------------------------------------------------------------------------


def test_a_calls_instructions_go_before_the_namespaces_and_the_job_says_whose_were_used(ledger: Ledger) -> None:
    chat = Chat('{"memory": []}')
    parts = make_parts(ledger, extractor=ModelExtractor(chat))
    now = clock(parts).now()
    with ledger.write() as tx:
        set_prompt(tx, "default", "Only food.", now=now)
    accept(
        parts,
        make_turn("one", id="of the namespace"),
        make_turn("two", id="of the call", prompt="Only names."),
        make_turn("three", id="none", prompt=" "),
        make_turn("four", id="verbatim", infer=False, prompt="Only names."),
        make_turn("five", id="procedure", user=None, agent="robot", memory_type=PROCEDURAL),
        make_turn("six", id="elsewhere", namespace="other"),
    )
    run_all(parts)
    recorded = {row.id: (row.prompt_source, row.prompt_hash) for row in table(ledger, jobs)}
    nothing = (None, None)
    assert recorded == {
        "of the namespace": ("namespace", prompt_hash("Only food.")),
        "of the call": ("call", prompt_hash("Only names.")),
        "none": nothing,
        "verbatim": nothing,
        "procedure": nothing,
        "elsewhere": nothing,
    }
    told = sorted(("food" in asked[0]["content"], "names." in asked[0]["content"]) for asked, _ in chat.asked)
    assert told.count((True, False)) == 1 and told.count((False, True)) == 1


def test_a_turn_keeps_the_instructions_that_held_when_it_was_accepted(ledger: Ledger) -> None:
    chat = Chat(ProviderUnavailable("later"), '{"memory": []}')
    parts = make_parts(ledger, extractor=ModelExtractor(chat))
    with ledger.write() as tx:
        set_prompt(tx, "default", "Only food.", now=clock(parts).now())
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    with ledger.write() as tx:
        assert clear_prompt(tx, "default") and not clear_prompt(tx, "default")
    clock(parts).advance(60)
    run_all(parts)
    assert ["Only food." in asked[0]["content"] for asked, _ in chat.asked] == [True, True]
    assert job_of(ledger, "a").prompt_source == "namespace"


@pytest.mark.parametrize(("text", "error"), [(" \n", InvalidInput), (5, InvalidInput), ("x" * (MAX_PROMPT + 1), TurnTooLarge)])
def test_a_namespaces_prompt_is_a_text_of_some_kilobytes(ledger: Ledger, text: object, error: type[InvalidInput]) -> None:
    with ledger.write() as tx, pytest.raises(error):
        set_prompt(tx, "default", text, now=clock(make_parts(ledger)).now())


# --- procedures ---------------------------------------------------------------------------------------------------------------------

STEPS = (
    Message("system", "secret"),
    Message("user", "Book a table at Luigi's"),
    Message("assistant", "Calling the restaurant"),
    Message("tool", "confirmed: 19:30"),
    Message("assistant", ""),
)


def test_a_model_makes_one_memory_of_a_procedure_by_rules_of_its_own(ledger: Ledger) -> None:
    chat = Chat('{"memory": "no', '{"memory": "Task: a table, done.\\n1. Called Luigi\'s: confirmed for 19:30."}')
    parts = make_parts(ledger, extractor=ModelExtractor(chat))
    turn = turn_of(*STEPS, id="p", user=None, agent="robot", memory_type=PROCEDURAL, prompt="Keep times.")
    accept(parts, turn)
    run_all(parts)
    (row,) = table(ledger, memories)
    assert row.text == "Task: a table, done.\n1. Called Luigi's: confirmed for 19:30."
    assert (row.memory_type, row.attributed_to, row.verbatim, row.slot, row.agent_id) == (PROCEDURAL, "assistant", False, None, "robot")
    assert job_of(ledger, "p").extractor == f"{ModelExtractor(chat).name}/procedure-{procedure_version()}"
    (asked, schema) = chat.asked[1]
    assert schema is not None and schema["required"] == ["memory"]
    assert "Keep times." in asked[0]["content"] and "secret" not in json.dumps(asked)
    assert [step["role"] for step in json.loads(asked[1]["content"])["messages"]] == ["user", "assistant", "tool"]
    assert len(chat.asked) == 2  # the reply that was cut off was asked for again
    accept(parts, replace(turn, id="q"))
    run_all(parts)
    assert len(table(ledger, sightings)) == 1


@pytest.mark.parametrize("infer", [True, False])
def test_without_a_model_the_messages_are_the_steps(ledger: Ledger, infer: bool) -> None:
    from memline.pipeline.extractors.rules import RuleExtractor

    parts = make_parts(ledger, extractor=RuleExtractor())
    accept(parts, turn_of(*STEPS, user=None, agent="robot", memory_type=PROCEDURAL, infer=infer))
    run_all(parts)
    (row,) = table(ledger, memories)
    assert row.text == "1. User: Book a table at Luigi's\n2. Assistant: Calling the restaurant\n3. Tool: confirmed: 19:30"
    assert (row.memory_type, row.verbatim) == (PROCEDURAL, not infer)
    with ledger.read() as connection:
        assert len(window_before(connection, row.lane, 9, size=10)) == 3
        loaded = load_memory(connection, "default", row.id)
    assert loaded is not None and loaded.memory_type == PROCEDURAL


# --- images -------------------------------------------------------------------------------------------------------------------------


def seeing(ledger: Ledger, chat: Chat, **given: Any) -> Parts:
    return make_parts(ledger, vision=ImageReader(chat), **given)


def test_an_image_is_described_once_and_its_description_is_text_from_then_on(ledger: Ledger) -> None:
    chat = Chat("A brown dog\non a beach.")
    parts = seeing(ledger, chat)
    accept(parts, turn_of(Message("user", "Ann has a dog", "Ann", (DOG,)), id="a", infer=False))
    run_all(parts)
    said = "Ann has a dog\n[image: A brown dog on a beach.]"
    assert live(ledger) == [said]
    assert row_of(ledger, said).actor_id == "Ann"
    assert [row.text for row in table(ledger, messages)] == [said]
    assert job_of(ledger, "a").messages == [{"role": "user", "text": said, "name": "Ann"}]
    ((content,),) = [[asked[0]["content"] for asked, _ in chat.asked]]
    assert content[1] == {"type": "image_url", "image_url": {"url": DOG.url, "detail": "low"}}
    assert "Ann has a dog" in content[0]["text"]
    assert DOG.url not in content[0]["text"]


def test_a_description_that_was_stored_is_never_bought_again(ledger: Ledger) -> None:
    chat = Chat("A dog.", "A cat.")
    extractor = ScriptedExtractor({"pets": [ProviderUnavailable("later"), '["Ann has pets"]']})
    parts = seeing(ledger, chat, extractor=extractor)
    accept(parts, turn_of(Message("user", "pets", images=(DOG, DOG)), id="a"))
    run_all(parts)
    assert job_of(ledger, "a").state == "accepted"
    assert len([row for row in table(ledger, stage_results) if row.stage == "image"]) == 2
    clock(parts).advance(60)
    run_all(parts)
    assert live(ledger) == ["Ann has pets"]
    assert len(chat.asked) == 2
    assert extractor.requests[-1].messages == (Message("user", "pets\n[image: A dog.]\n[image: A cat.]"),)


def test_an_image_that_the_provider_refuses_is_counted_and_leaves_the_text(ledger: Ledger) -> None:
    parts = seeing(ledger, Chat(ProviderRefused("no such image")))
    accept(
        parts,
        turn_of(Message("user", "Ann has a dog", images=(DOG,)), id="a"),
        turn_of(Message("user", "", images=(DOG,)), id="b", user="bo"),
    )
    run_all(parts)
    assert live(ledger) == ["Ann has a dog", "[image]"]
    assert (job_of(ledger, "b").state, job_of(ledger, "b").reason) == ("failed", "ProviderRefused: no such image")
    with ledger.read() as connection:
        assert read_counters(connection)["images_unread"] == 1


def test_a_refused_key_is_no_word_on_an_image_and_a_replay_sees_it(ledger: Ledger) -> None:
    parts = seeing(ledger, Chat(ProviderRefused("check the API key", of_content=False), "A dog."))
    accept(parts, turn_of(Message("user", "Ann has a dog", images=(DOG,)), id="a"))
    run_all(parts)
    job = job_of(ledger, "a")
    assert (job.state, job.reason) == ("failed", "ProviderRefused: check the API key")
    with ledger.write() as tx:
        assert read_counters(tx)["images_unread"] == 0
        assert retry_job(tx, "a", now=parts.clock.now())
    run_all(parts)
    assert live(ledger) == ["Ann has a dog", "[image: A dog.]"]


def test_a_worker_without_a_vision_model_fails_the_turn_with_what_to_set(ledger: Ledger) -> None:
    parts = make_parts(ledger, retry=RetryPolicy(max_attempts=1))
    accept(parts, turn_of(Message("user", "Ann has a dog", images=(DOG,)), id="a"))
    run_all(parts)
    job = job_of(ledger, "a")
    assert job.state == "failed" and "MEMLINE_VISION_MODEL" in job.reason


# --- the context of a batch ---------------------------------------------------------------------------------------------------------


def many(number: int) -> list[Turn]:
    return [make_turn(f"turn {each} of {each}", id=f"t{each}", user=f"u{each}") for each in range(number)]


def test_the_contexts_of_a_batch_are_embedded_in_one_call(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memline.pipeline.extract.PATIENCE", 60)  # a slow machine does not take the batch apart
    embedder = TrigramEmbedder(paid=True)
    parts = make_parts(ledger, embedder=embedder, extractor=ScriptedExtractor(wants_context=True), limits=ClaimLimits(in_flight=1))
    accept(parts, *many(5))
    run_all(parts)
    assert len(live(ledger)) == 5
    assert sorted(embedder.calls[0]) == sorted(turn.messages[0].text for turn in many(5))
    assert len(embedder.calls) == 2  # and the facts


def test_where_that_call_fails_each_turn_asks_alone_and_only_its_own_fails(ledger: Ledger) -> None:
    def fail(texts: Sequence[str]) -> None:
        if any("turn 3" in text for text in texts):
            raise ProviderRefused("not this text")

    embedder = TrigramEmbedder(paid=True, fail=fail)
    parts = make_parts(ledger, embedder=embedder, extractor=ScriptedExtractor(wants_context=True), limits=ClaimLimits(in_flight=1))
    accept(parts, *many(5))
    run_all(parts)
    states = {row.id: row.state for row in table(ledger, jobs)}
    assert [name for name, state in states.items() if state == "failed"] == ["t3"]
    assert len(live(ledger)) == 4
