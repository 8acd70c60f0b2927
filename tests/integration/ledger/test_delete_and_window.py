"""What a deletion leaves to be told again: source messages, history, payloads; on both databases."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import sqlalchemy as sa

from memline.contracts.errors import MemoryNotFound
from memline.contracts.turn import Message
from memline.ledger.history import history_of
from memline.ledger.jobs import Stage
from memline.ledger.messages import window_before
from memline.ledger.retire import delete_memory
from memline.ledger.schema import memories, messages, stage_results
from memline.ledger.session import Ledger
from memline.outbox.verify import verify
from memline.pipeline.edit import Change, edit_memory
from memline.pipeline.extractors.rules import RuleExtractor
from memline.pipeline.parts import Parts
from memline.pipeline.runner import run_through
from tests.integration.pipeline.steps import claimed, up_to
from tests.parts import START, accept, job_of, make_parts, make_relay, make_turn, run_all, table, tell


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    """With an extractor that names the message of each fact."""
    return make_parts(ledger, extractor=RuleExtractor())


def delete(parts: Parts, memory_id: str, **options: Any) -> None:
    delete_memory(parts.ledger, "default", memory_id, now=START, **options)


def said(parts: Parts) -> list[str]:
    lane = table(parts.ledger, memories)[0].lane
    with parts.ledger.read() as connection:
        return [message.text for message in window_before(connection, lane, 1_000, size=100)]


def sound(parts: Parts) -> None:
    make_relay(parts).drain()
    report = verify(parts.ledger, parts.index, deep=True)
    assert report.sound, report.to_json()


def test_the_message_that_a_deleted_memory_came_from_leaves_the_window_and_the_rest_of_the_turn_stays(parts: Parts) -> None:
    passport, _ = tell(parts, "My passport number is X123.", "I live in Porto.", id="a")
    tell(parts, "I have a dog.", id="b")
    delete(parts, passport)
    assert said(parts) == ["I live in Porto.", "I have a dog."]
    assert job_of(parts.ledger, "a").messages is None and job_of(parts.ledger, "b").messages is not None
    assert "X123" not in str(table(parts.ledger, stage_results))
    sound(parts)


def test_messages_that_repeated_it_leave_the_window_too(parts: Parts) -> None:
    (passport,) = tell(parts, "My passport number is X123.")
    tell(parts, "I have a dog.", "My passport number is X123.")
    delete(parts, passport)
    assert said(parts) == ["I have a dog."]
    sound(parts)


def test_where_nobody_knows_which_message_it_was_all_that_may_be_it_go(ledger: Ledger) -> None:
    parts = make_parts(ledger)  # its extractor names no message
    turn = make_turn("User has passport X123\nUser has a dog", id="a")
    asked = (Message("system", "be brief"), *turn.messages, Message("tool", "looked up"), Message("assistant", "Noted X123."))
    from dataclasses import replace

    accept(parts, replace(turn, messages=asked))
    run_all(parts)
    passport = table(ledger, memories)[0].id
    delete(parts, passport)
    assert said(parts) == ["looked up"]
    # the dog may come from any of them, too: they are kept for who asks why, until it goes
    assert [row.text for row in table(ledger, messages) if row.withheld] == ["User has passport X123\nUser has a dog", "Noted X123."]
    sound(parts)
    delete(parts, table(ledger, memories)[1].id)
    assert [row.text for row in table(ledger, messages)] == ["looked up"]
    sound(parts)


@pytest.mark.parametrize("stage", [Stage.LINK, Stage.SAVE])
@pytest.mark.parametrize("repeated", [False, True])
def test_a_turn_that_is_not_saved_yet_leaves_them_out_when_it_is(parts: Parts, stage: Stage, repeated: bool) -> None:
    if repeated:
        tell(parts, "My passport number is X123.")
    accept(parts, make_turn(["My passport number is X123.", "I live in Porto."], id="a"))
    (lease,) = claimed(parts)
    here = up_to(parts, lease, stage)
    delete(parts, table(parts.ledger, memories)[0].id)
    run_through(parts, here, worker="w", send=lambda _: None, stopped=lambda: False)
    assert said(parts) == ["I live in Porto."]
    assert (job_of(parts.ledger, "a").stage, job_of(parts.ledger, "a").messages) == ("done", None)
    sound(parts)


def test_a_redacted_memory_leaves_no_text_and_no_hash_of_it_anywhere(parts: Parts) -> None:
    (passport,) = tell(parts, "My passport number is X123.", metadata={"copy": "X123"})
    edit_memory(parts, "default", passport, Change(text="User's passport number is X1234", metadata={"copy": "X1234"}))
    hashes = {value for row in table(parts.ledger, memories) for value in (row.md5, row.content_hash, row.digest)}
    delete(parts, passport, redact=True, actor="support", reason="asked for")
    with parts.ledger.read() as connection:
        rows = history_of(connection, "default", passport)
        everything = str([connection.execute(sa.select(source)).all() for source in memories.metadata.sorted_tables])
    assert [row["event"] for row in rows] == ["ADD", "UPDATE", "DELETE"]
    assert (rows[2]["actor_id"], rows[2]["reason"]) == ("support", "asked for")
    assert {row[name] for row in rows for name in ("old_text", "new_text", "old_hash", "new_hash", "changes")} == {None}
    assert "x123" not in everything.lower()
    assert not any(value in everything for value in hashes)
    sound(parts)


def test_a_deleted_memory_may_be_redacted_later_and_is_not_deleted_twice(parts: Parts) -> None:
    (passport,) = tell(parts, "My passport number is X123.")
    delete(parts, passport)
    with pytest.raises(MemoryNotFound):
        delete(parts, passport)
    with parts.ledger.read() as connection:
        assert "X123" in str(history_of(connection, "default", passport))
    for _ in range(2):
        delete(parts, passport, redact=True)
    with parts.ledger.read() as connection:
        rows = history_of(connection, "default", passport)
    assert len(rows) == 2 and "X123" not in str(rows)
    with pytest.raises(MemoryNotFound):
        delete_memory(parts.ledger, "other", passport, now=START, redact=True)
    sound(parts)


def test_deletions_beside_the_last_stage_leave_no_source_message(parts: Parts) -> None:
    """Either the deletion finds the messages, or the stage finds the memory deleted."""
    for number in range(6):
        accept(parts, make_turn(f"My passport number is X12{number}.", id=f"t{number}", run=f"r{number}"))
    waiting = [up_to(parts, lease, Stage.SAVE) for lease in claimed(parts)]
    ids = [row.id for row in table(parts.ledger, memories)]
    gate = threading.Barrier(2)

    def save() -> None:
        gate.wait()
        for lease in waiting:
            run_through(parts, lease, worker="w", send=lambda _: None, stopped=lambda: False)

    saver = threading.Thread(target=save)
    saver.start()
    gate.wait()
    for memory_id in ids:
        delete(parts, memory_id)
    saver.join()
    run_all(parts)
    assert table(parts.ledger, messages) == []
    sound(parts)
