"""Near-duplicates are told with the receipt, and decide nothing."""

from __future__ import annotations

from typing import Any

import pytest

from memline.contracts.index_object import Kind
from memline.ledger.counters import read_counters
from memline.ledger.receipts import receipt_state
from memline.ledger.schema import jobs, memories
from memline.ledger.session import Ledger
from memline.pipeline import near
from memline.pipeline.near import NEAR
from memline.search.index.port import Nominee
from tests.integration.pipeline.steps import clock
from tests.parts import LineExtractor, MemoryIndex, accept, make_parts, make_relay, make_turn, run_all, table


def test_a_fact_close_to_a_memory_is_kept_and_says_so(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn("User has a meeting on Monday", id="a"))
    accept(parts, make_turn("User grows tomatoes", id="b"))
    run_all(parts)
    make_relay(parts).drain()
    accept(parts, make_turn("User has a meeting on Monday at 9\nUser has a meeting on monday\nOslo is cold", id="c"))
    run_all(parts)
    with ledger.read() as connection:
        seen = receipt_state(connection, "c")
    assert seen is not None
    close, same, other = seen.results
    (monday,) = table(ledger, memories, memories.c.job_id == "a")
    (told,) = close["near"]
    assert told["id"] == monday.id
    assert NEAR <= told["similarity"] < 1
    assert (same["event"], "near" in same) == ("DUPLICATE", False)
    assert "near" not in other
    assert len(table(ledger, memories, memories.c.state == "live")) == 4


def test_what_the_index_does_not_show_yet_is_seen_and_another_owner_s_is_not(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn("User has a meeting on Monday", id="a"))
    accept(parts, make_turn("User has a meeting on Monday", id="b", user="eve"))
    run_all(parts)
    accept(parts, make_turn("User has a meeting on Monday at 9", id="c"))
    run_all(parts)
    (mine,) = table(ledger, memories, memories.c.job_id == "a")
    (job,) = table(ledger, jobs, jobs.c.id == "c")
    assert [memory_id for memory_id, _ in job.notes["near"]["0"]] == [mine.id]


def test_a_turn_of_many_facts_keeps_its_lease_while_the_index_is_slow(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn("User has a meeting on Monday", id="a"))
    run_all(parts)
    look = near.similar_to

    def slow(*given: Any, **named: Any) -> Any:
        clock(parts).advance(parts.times.lease / 2)
        return look(*given, **named)

    monkeypatch.setattr(near, "similar_to", slow)
    accept(
        parts, make_turn("\n".join([*(f"User owns book {number}" for number in range(300)), "User has a meeting on Monday at 9"]), id="b")
    )
    run_all(parts)
    (job,) = table(ledger, jobs, jobs.c.id == "b")
    assert (job.attempts, len(job.outcome)) == (0, 301)
    assert [memory_id for memory_id, _ in job.notes["near"]["300"]] == [row.id for row in table(ledger, memories, memories.c.job_id == "a")]


def test_verbatim_turns_are_kept_as_they_stand(ledger: Ledger) -> None:
    parts = make_parts(ledger)
    accept(parts, make_turn("User has a meeting on Monday", id="a"))
    run_all(parts)
    accept(parts, make_turn("User has a meeting on Monday at 9", id="b", infer=False))
    run_all(parts)
    assert table(ledger, jobs, jobs.c.id == "b")[0].notes is None


def test_who_extracted_is_who_gave_the_reply_and_not_who_runs_now(ledger: Ledger) -> None:
    class Renamed(LineExtractor):
        name = "lines/prompt-1"

    from memline.contracts.turn import Turn
    from memline.ledger.jobs import Stage
    from tests.integration.pipeline.steps import claimed, stage, up_to

    turn: Turn = make_turn("User likes tea", id="a")
    old = make_parts(ledger, extractor=Renamed())
    accept(old, turn)
    (lease,) = claimed(old)
    current = up_to(old, lease, Stage.PERSIST)
    new = make_parts(ledger, clock=old.clock)
    assert stage(new, current) is not None
    assert table(ledger, jobs)[0].extractor == "lines/prompt-1"


def test_an_index_that_is_away_is_asked_once_a_batch_counted_and_holds_nobody_up(ledger: Ledger) -> None:
    class Away(MemoryIndex):
        asked = 0

        def nearest(self, kind: Kind, *args: Any, **options: Any) -> list[Nominee]:
            self.asked += kind == "memory"
            return super().nearest(kind, *args, **options)

    index = Away()
    parts = make_parts(ledger, index=index)
    accept(parts, make_turn("User likes tea", id="a"), make_turn("User likes milk", id="b", user="bob"))
    run_all(parts)
    index.away, index.asked = True, 0
    accept(parts, *(make_turn(f"User likes tea {number}", id=f"t{number}") for number in range(3)))
    run_all(parts)
    assert len(table(ledger, memories, memories.c.state == "live")) == 5
    assert index.asked == 1
    with ledger.read() as connection:
        assert read_counters(connection)["near_unseen"] == 3
