"""Where a memory came from: its job, message and span, kept as long as a memory names them and no longer; on both databases."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memline.contracts.errors import MemoryNotFound
from memline.contracts.filters import ScopeIds
from memline.ledger.erase_census import holders_of
from memline.ledger.jobs import Stage
from memline.ledger.messages import window_before
from memline.ledger.prune import Retention, visit_jobs
from memline.ledger.retire import delete_memory
from memline.ledger.schema import jobs, memories, messages, stage_results
from memline.ledger.session import Ledger
from memline.ledger.why import Provenance, provenance_of
from memline.outbox.verify import verify
from memline.pipeline.extractors.rules import RuleExtractor
from memline.pipeline.parts import Parts
from memline.pipeline.runner import run_through
from tests.integration.pipeline.steps import claimed, up_to
from tests.parts import START, accept, make_parts, make_relay, make_turn, table, tell

BOTH = "My passport number is X123. My dog is called Rex."


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    """With an extractor that names the message and the span of each fact."""
    return make_parts(ledger, extractor=RuleExtractor())


def why(parts: Parts, memory_id: str, namespace: str = "default", within: ScopeIds | None = None) -> Provenance | None:
    with parts.ledger.read() as connection:
        return provenance_of(connection, namespace, memory_id, within)


def known(parts: Parts, memory_id: str) -> Provenance:
    found = why(parts, memory_id)
    assert found is not None
    return found


def delete(parts: Parts, memory_id: str, **options: Any) -> None:
    delete_memory(parts.ledger, "default", memory_id, now=START, **options)


def shown_to_a_model(parts: Parts) -> list[str]:
    lane = table(parts.ledger, memories)[0].lane
    with parts.ledger.read() as connection:
        return [message.text for message in window_before(connection, lane, 1_000, size=100)]


def kept(parts: Parts) -> list[str]:
    return [row.text for row in table(parts.ledger, messages)]


def prune_all(parts: Parts) -> None:
    """Everything is over age."""
    none = timedelta(0)
    keep = Retention(payloads=none, failed=none, keys=none, jobs=none, producers=none, changes=none, window=1)
    for _ in range(2):
        with parts.ledger.write() as tx:
            visit_jobs(tx, 0, keep=keep, now=START + timedelta(days=400), limit=1000)


def sound(parts: Parts) -> None:
    make_relay(parts).drain()
    report = verify(parts.ledger, parts.index, deep=True)
    assert report.sound, report.to_json()


def test_a_memory_names_its_job_its_message_and_the_span_there(parts: Parts) -> None:
    home, passport, dog = tell(parts, "Hello! I live in Porto.", BOTH, id="a")
    for memory_id, message, said in (
        (home, 0, "I live in Porto."),
        (passport, 1, "My passport number is X123."),
        (dog, 1, "My dog is called Rex."),
    ):
        found = known(parts, memory_id)
        assert (found.memory.job_id, found.memory.message) == ("a", message)
        assert found.span is not None
        (source,) = [each for each in found.messages if each.source]
        assert source.text[found.span[0] : found.span[1]] == said
        assert [each.number for each in found.messages] == [0, 1]
        assert found.job is not None and found.job["extractor"] == "rules-5"
        assert [row["event"] for row in found.history] == ["ADD"]


def test_of_two_memories_of_one_message_the_first_that_goes_leaves_the_other_its_source(parts: Parts) -> None:
    passport, dog = tell(parts, BOTH, id="a")
    delete(parts, passport)
    assert shown_to_a_model(parts) == []
    assert [each.text for each in known(parts, dog).messages] == [BOTH]
    assert why(parts, passport) is None
    sound(parts)
    delete(parts, dog)
    assert kept(parts) == []
    sound(parts)


def test_a_hidden_message_is_told_only_of_a_memory_that_came_from_it(parts: Parts) -> None:
    passport, dog, home = tell(parts, BOTH, "I live in Porto.", id="a")
    assert [said.number for said in known(parts, home).messages] == [0, 1]
    delete(parts, passport)
    assert [said.text for said in known(parts, home).messages] == ["I live in Porto."]
    assert [said.text for said in known(parts, dog).messages] == [BOTH, "I live in Porto."]


def test_a_redacted_memory_takes_the_message_from_the_others_that_name_it(parts: Parts) -> None:
    passport, dog = tell(parts, BOTH, id="a")
    delete(parts, passport, redact=True)
    assert kept(parts) == []
    assert known(parts, dog).messages == []
    sound(parts)


def test_what_is_redacted_later_takes_what_was_only_hidden(parts: Parts) -> None:
    passport, dog = tell(parts, BOTH, "I live in Porto.", id="a")[:2]
    delete(parts, passport)
    assert BOTH in kept(parts)
    delete(parts, passport, redact=True)
    assert kept(parts) == ["I live in Porto."]
    with parts.ledger.read() as connection:
        assert holders_of(connection, "X123") == []
    assert known(parts, dog).memory.text == "User's dog is called Rex"
    sound(parts)


@pytest.mark.parametrize("redact", [False, True])
def test_a_turn_that_is_not_saved_yet_hides_or_leaves_out_when_it_is(parts: Parts, redact: bool) -> None:
    accept(parts, make_turn([BOTH], id="a"))
    (lease,) = claimed(parts)
    here = up_to(parts, lease, Stage.SAVE)
    passport, dog = (row.id for row in table(parts.ledger, memories))
    assert [each.text for each in known(parts, dog).messages] == [BOTH]  # the job still carries it
    delete(parts, passport, redact=redact)
    run_through(parts, here, worker="w", send=lambda _: None, stopped=lambda: False)
    assert shown_to_a_model(parts) == []
    assert kept(parts) == ([] if redact else [BOTH])
    sound(parts)


def test_whatever_is_pruned_the_source_of_a_memory_stays_and_goes_with_it(parts: Parts) -> None:
    (home,) = tell(parts, "I live in Porto.", id="a")
    tell(parts, "Hello!", id="b")
    tell(parts, "Thanks!", id="c")
    prune_all(parts)
    assert table(parts.ledger, stage_results) == []
    found = known(parts, home)
    assert [each.text for each in found.messages] == ["I live in Porto."]
    assert found.span == (0, 16)
    assert found.job is not None and found.job["extractor"] == "rules-5"
    assert table(parts.ledger, jobs)[0].id == "a"
    delete(parts, home)
    prune_all(parts)
    assert "I live in Porto." not in kept(parts)
    (row,) = table(parts.ledger, memories)
    assert (row.span_start, row.span_end) == (None, None)


def test_what_said_it_again_and_what_closed_it_are_told(parts: Parts) -> None:
    (porto,) = tell(parts, "I live in Porto.", id="a")
    tell(parts, "I live in Porto.", id="b")
    (berlin,) = tell(parts, "I live in Berlin.", id="c")
    found = known(parts, porto)
    assert [job_id for job_id, _ in found.repeated] == ["b"]
    assert found.memory.superseded_by == berlin
    assert known(parts, berlin).supersedes == [porto]
    assert [row["event"] for row in found.history] == ["ADD", "SUPERSEDE"]


def test_a_foreign_or_unknown_id_is_told_nothing_of(parts: Parts) -> None:
    (home,) = tell(parts, "I live in Porto.", id="a")
    assert why(parts, "nothing") is None
    assert why(parts, home, namespace="other") is None
    assert why(parts, home, within=ScopeIds("somebody else", None, None)) is None
    assert why(parts, home, within=ScopeIds(known(parts, home).memory.user_id, None, None)) is not None
    delete(parts, home)
    assert why(parts, home) is None
    with pytest.raises(MemoryNotFound):
        delete(parts, home)
