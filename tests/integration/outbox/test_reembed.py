"""A ledger moves to another embedder while others read and write: the old vectors serve until the swap, and nothing is of two models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from memline.contracts.errors import (
    ConfigurationError,
    EmbedderMismatch,
    ProviderRefused,
    ProviderUnavailable,
    ServiceUnavailable,
)
from memline.ledger.meta import check_embedder, check_own_embedder, embedders
from memline.ledger.next_vectors import Amount, begin_move, close_for_swap, without_next
from memline.ledger.schema import jobs, memories, next_vectors, vectors
from memline.ledger.session import Ledger
from memline.outbox import reembed
from memline.outbox.verify import verify
from memline.pipeline.edit import Change, edit_memory
from memline.pipeline.runner import claim_and_send, run_stage, run_through
from memline.search.nearest import nearest_to
from memline.search.nominate import scan_vectors
from tests.integration.outbox.moving import Letters, Town, WideLetters, dump
from tests.parts import MemoryIndex, ScriptedExtractor, TrigramEmbedder, accept, job_of, make_turn, run_all, table


@pytest.fixture
def town(ledger: Ledger, tmp_path: Path) -> Town:
    return Town(ledger, tmp_path)


def filled(town: Town, number: int = 6) -> None:
    town.old.say(*(f"User likes tea {n} with Poppy" for n in range(number)))
    town.old.say("[home] User lives in Porto", "[home] User lives in Kyoto")
    town.old.say("forget this one")
    town.delete("forget this one")
    town.old.relay.drain()


@pytest.mark.parametrize("embedder", [Letters, WideLetters], ids=["of equal dimension", "of another dimension"])
def test_every_text_gets_a_vector_of_the_new_model_and_the_old_index_goes(town: Town, embedder: type[Letters]) -> None:
    filled(town)
    new = town.side(embedder())
    assert len(town.spaces()) == 2
    assert new.move()
    assert town.own == (embedder.model, embedder.dimension)
    assert town.models() == {(embedder.model, embedder.dimension)}
    assert town.gathered() == 0
    assert town.spaces() == {f"index_objects_{new.space.key}"}
    town.check(new)
    assert new.found("User likes tea 3 with Poppy")[0] == "User likes tea 3 with Poppy"
    assert not new.search("tea").missing
    new.say("User likes coffee")
    town.check(new)


def test_what_is_superseded_or_expired_is_embedded_too_and_what_is_deleted_is_not(town: Town) -> None:
    filled(town)
    with town.ledger.write() as tx:
        tx.execute(sa.update(memories).where(memories.c.text == "User likes tea 0 with Poppy").values(state="expired"))
    embedder = Letters()
    assert town.side(embedder).move()
    assert {"User lives in Porto", "User likes tea 0 with Poppy"} <= set(embedder.texts)
    assert "forget this one" not in embedder.texts and "" not in embedder.texts
    assert town.models() == {("letters", 64)}


def test_the_old_vectors_serve_until_the_swap_and_what_is_added_and_deleted_meanwhile_is_right_after_it(town: Town) -> None:
    filled(town)
    before = town.old.found("tea with Poppy")
    seen: list[str] = []

    def meanwhile(what: str, done: int, total: int | None) -> None:
        if what in seen:
            return
        seen.append(what)
        assert town.own == ("trigrams", 64)
        assert town.models() == {("trigrams", 64)}
        town.old.say(f"User added one with Anna while {what}")
        town.delete(
            {"Embedding": "User likes tea 1 with Poppy", "Filling the new index": "User likes tea 2 with Poppy"}.get(what, before[0])
        )
        town.old.relay.drain()
        assert town.old.found("User likes tea 4 with Poppy")[0] == "User likes tea 4 with Poppy"
        assert not town.old.search("tea").missing

    before.remove("User likes tea 4 with Poppy")
    before = [text for text in before if text not in ("User likes tea 1 with Poppy", "User likes tea 2 with Poppy")]
    new = town.side(Letters())
    assert new.move(told=meanwhile)
    assert seen[:3] == ["Embedding", "Filling the new index", "Swapping"]
    assert town.own == ("letters", 64)
    town.check(new)
    texts = new.found("User added one with Anna")
    assert {f"User added one with Anna while {what}" for what in seen} <= set(texts)
    assert not {"User likes tea 1 with Poppy", "User likes tea 2 with Poppy", before[0]} & set(texts)


def test_a_second_run_and_one_on_an_empty_ledger_have_little_to_do(town: Town) -> None:
    new = town.side(Letters())
    assert new.move()
    town.check(new)
    before = dump(town.ledger)
    again = town.side(Letters())
    assert not again.move()
    assert again.embedder.texts == []
    before.pop("ledger_meta")  # the reconciler says when it was there last
    assert {name: rows for name, rows in dump(town.ledger).items() if name != "ledger_meta"} == before


def test_a_stopped_run_goes_on_where_it_was_and_embeds_nothing_twice(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reembed, "PAGE", 3)
    filled(town)

    def away(texts: Sequence[str]) -> None:
        if len(first.texts) >= 6:
            raise ProviderUnavailable("It is away.")

    first = Letters(during=away)
    waits: list[float] = []
    with pytest.raises(ProviderUnavailable):
        town.side(first).moving(sleep=waits.append).run()
    assert waits == [1, 2, 4, 8, 16]
    assert town.gathered() == 6 and town.own == ("trigrams", 64)
    assert town.old.found("tea 3")  # it still serves
    second = Letters()
    new = town.side(second)
    assert new.move()
    assert not set(first.texts[:6]) & set(second.texts)
    assert len(set(first.texts) | set(second.texts)) == len(first.texts) + len(second.texts)
    town.check(new)


def test_a_provider_that_asks_for_time_gets_it(town: Town) -> None:
    filled(town, 1)
    asked: list[Sequence[str]] = []

    def busy(texts: Sequence[str]) -> None:
        asked.append(texts)
        if len(asked) == 1:
            raise ProviderUnavailable("Come back later.", retry_after=7.5)

    waits: list[float] = []
    assert town.side(Letters(during=busy)).moving(sleep=waits.append).run()
    assert waits == [7.5]


def test_a_text_that_is_refused_is_named_and_the_others_are_kept(town: Town) -> None:
    filled(town)

    def refuse(texts: Sequence[str]) -> None:
        if any("tea 5" in text for text in texts):
            raise ProviderRefused("It is too long.")

    with pytest.raises(ProviderRefused) as raised:
        town.side(Letters(during=refuse)).moving().run()
    (row,) = table(town.ledger, memories, memories.c.text == "User likes tea 5 with Poppy")
    assert row.id in str(raised.value) and "tea 5" not in str(raised.value)
    assert town.own == ("trigrams", 64)


def test_vectors_of_another_shape_or_not_finite_are_refused(town: Town) -> None:
    filled(town, 1)

    class Liar(Letters):
        def embed(self, texts: Sequence[str]) -> Any:
            return np.full((len(texts), self.dimension), np.nan, np.float32)

    class Short(Letters):
        def embed(self, texts: Sequence[str]) -> Any:
            return super().embed(texts)[:, :8]

    for embedder in (Liar(), Short()):
        with pytest.raises(ProviderRefused, match="no 1 finite vectors of 64"):
            town.side(embedder).moving().run()
    assert town.gathered() == 0


def test_a_half_done_move_to_another_model_is_refused_or_thrown_away(town: Town) -> None:
    filled(town)
    with town.ledger.write() as tx:
        begin_move(tx, "another", 8, run="x")
        (row, *_) = table(town.ledger, vectors)
        tx.execute(sa.insert(next_vectors).values(memory_no=row.memory_no, source="s", model="another", vector=b"1234"))
    with pytest.raises(ConfigurationError, match=r"another \(8 dimensions\) is half done.*--discard"):
        town.side(Letters()).moving().run()
    new = town.side(Letters())
    assert new.moving().run(discard=True)
    new.finish()
    town.check(new)


def test_who_discards_a_half_done_move_to_stay_where_the_ledger_is_changes_nothing_else(town: Town) -> None:
    filled(town)
    with town.ledger.write() as tx:
        begin_move(tx, "another", 8, run="x")
    assert not town.old.moving().run(discard=True)
    with town.ledger.read() as connection:
        assert embedders(connection).move is None
    town.check(town.old)


def test_a_run_that_another_one_took_over_stores_nothing_more(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reembed, "PAGE", 3)
    filled(town)
    new = town.side(Letters())

    def taken_over(texts: Sequence[str]) -> None:
        if len(slow.texts) == 3:
            assert town.side(Letters()).move()

    slow = Letters(during=taken_over)
    with pytest.raises(ConfigurationError, match="took this one over"):
        town.side(slow).moving().run()
    town.check(new)


def test_writers_that_are_faster_than_the_embedder_wait_for_a_moment_and_lose_nothing(town: Town) -> None:
    filled(town, 2)
    numbers = iter(range(100))
    waited: list[str] = []
    reasons: list[str | None] = []

    def add(texts: Sequence[str]) -> None:
        turn = make_turn(f"User counts to {next(numbers)}")
        accept(town.old.parts, turn)
        run_all(town.old.parts)
        if (job := job_of(town.ledger, turn.id)).state == "accepted":
            assert job.attempts == 0
            waited.append(turn.id)
            reasons.append(job.reason)

    new = town.side(Letters(during=add))
    assert new.moving().run()
    assert town.own == ("letters", 64)
    assert reasons[0] is not None and "about to change over" in reasons[0]  # those behind it in the lane wait for it
    new.embedder.during = None
    town.clock.advance(5)
    run_all(new.parts)
    new.finish()
    assert {job_of(town.ledger, turn_id).state for turn_id in waited} == {"searchable"}
    town.check(new)


def test_a_deleted_memory_leaves_nothing_in_the_next_vectors(town: Town) -> None:
    filled(town, 2)
    town.old.say("Bob has a dog called Rex", user="ann")

    class Stop(Exception):
        pass

    def stop(what: str, done: int, total: int | None) -> None:
        if what != "Embedding":
            raise Stop

    with pytest.raises(Stop):
        town.side(Letters()).moving(told=stop).run()
    assert town.gathered() > 0
    for (text,) in [(row.text,) for row in table(town.ledger, memories) if row.text]:
        town.delete(text)
    assert town.gathered() == 0


def test_what_is_deleted_between_the_call_and_its_page_gets_no_vector(town: Town) -> None:
    filled(town, 2)
    new = town.side(
        Letters(during=lambda texts: town.delete("User likes tea 1 with Poppy") if "User likes tea 1 with Poppy" in texts else None)
    )
    assert new.move()
    town.check(new)


def test_a_new_text_of_a_memory_is_embedded_again(town: Town) -> None:
    """Its digest says what was embedded: a version alone may rise for other reasons, and costs nothing then."""
    filled(town, 2)
    with town.ledger.write() as tx:
        begin_move(tx, "letters", 64, run="x")
        (row, *_) = table(town.ledger, memories, memories.c.text == "User likes tea 1 with Poppy")
        tx.execute(sa.insert(next_vectors).values(memory_no=row.no, source="of an older text", model="letters", vector=b"\0" * 256))
    new = town.side(Letters())
    assert new.move()
    assert "User likes tea 1 with Poppy" in new.embedder.texts
    town.check(new)


def test_an_index_that_keeps_no_two_spaces_is_shown_everything_after_the_swap(town: Town) -> None:
    index = MemoryIndex()
    index.look = lambda keys, vectors=False: {  # type: ignore[attr-defined]
        key: state
        for kind in ("memory", "entity")
        for state in index.walk(kind, "default", vectors=vectors)
        for key in keys
        if state.key == key
    }
    index.namespaces = lambda: ["default"]  # type: ignore[attr-defined]
    old = town.side(TrigramEmbedder(), index=index)
    old.say("User likes tea with Poppy", "User likes cake")
    new = town.side(Letters(), index=index)
    assert new.move()
    town.check(new)
    assert {len(each.vector) for each in index.objects.values()} == {256}


# Processes that hold the former embedder


def test_a_worker_with_the_former_embedder_commits_nothing_and_its_jobs_wait_for_another(town: Town) -> None:
    filled(town, 2)
    at: list[Any] = []
    for stage in ("persist", "link"):
        turn = make_turn(f"User met Anna in {stage}", user=f"user-{stage}")
        accept(town.old.parts, turn)
        claim_and_send(town.old.parts, at.extend)
        lease = at.pop()
        while lease.stage != stage:
            lease = run_stage(town.old.parts, lease.id, lease.epoch, lease.stage, worker="w", send=at.extend)
        at.append(lease)
        town.clock.advance(1)
    new = town.side(Letters())
    assert new.move()
    for lease in at:
        assert run_stage(town.old.parts, lease.id, lease.epoch, lease.stage, worker="w", send=list) is None
    for job in table(town.ledger, jobs, jobs.c.finished_at.is_(None)):
        assert (job.attempts, job.alone) == (0, False)
        assert "restart it with the new settings" in job.reason
    with pytest.raises(EmbedderMismatch, match="restart it with the new settings"):
        claim_and_send(town.old.parts, list)
    town.clock.advance(5)
    run_all(new.parts)
    new.relay.drain()
    assert table(town.ledger, jobs, jobs.c.finished_at.is_(None)) == []
    town.check(new)


def test_a_swap_while_a_stage_works_is_seen_in_its_transaction(town: Town) -> None:
    filled(town, 2)
    new = town.side(Letters())

    class Late(TrigramEmbedder):
        """Its answer comes after the swap."""

        def embed(self, texts: Sequence[str]) -> Any:
            found = super().embed(texts)
            if town.own == ("trigrams", 64):
                assert new.move()
            return found

    old = town.side(Late())
    turn = make_turn("User has a dog called Rex")
    accept(old.parts, turn)
    waiting: list[Any] = []
    claim_and_send(old.parts, waiting.extend)
    run_through(old.parts, waiting.pop(), worker="w", send=waiting.extend, stopped=lambda: False)
    job = job_of(town.ledger, turn.id)
    assert (job.state, job.attempts) == ("accepted", 0)
    assert town.models() == {("letters", 64)}
    town.clock.advance(5)
    run_all(new.parts)
    new.relay.drain()
    town.check(new)


def test_what_a_paid_model_embedded_for_a_job_is_not_used_by_another_model_and_no_reply_is_bought_again(town: Town) -> None:
    extractor = ScriptedExtractor()
    old = town.side(TrigramEmbedder(paid=True), extractor=extractor)
    turn = make_turn("User has a dog called Rex")
    accept(old.parts, turn)
    at: list[Any] = []
    claim_and_send(old.parts, at.extend)
    lease = at.pop()
    while lease.stage != "persist":
        lease = run_stage(old.parts, lease.id, lease.epoch, lease.stage, worker="w", send=at.extend)
    new = town.side(Letters(paid=True), extractor=extractor)
    assert new.move()
    run_through(new.parts, lease, worker="w", send=at.extend, stopped=lambda: False)
    new.relay.drain()
    assert job_of(town.ledger, turn.id).state == "searchable"
    assert extractor.calls == ["User has a dog called Rex"]
    assert sorted(new.embedder.texts) == ["Rex", "User has a dog called Rex"]  # once each, also for the link stage
    town.check(new)


def test_a_searcher_with_the_former_embedder_finds_by_words_and_says_why(town: Town) -> None:
    filled(town)
    new = town.side(Letters())
    assert new.move()
    found = town.old.search("User likes tea 3 with Poppy")
    assert found.missing == ("embedder",)
    assert any("restart it with the new settings" in line for line in found.warnings)
    assert found.results[0].row.text == "User likes tea 3 with Poppy"
    assert all("vector" not in hit.ranks for hit in found.results)


def test_vectors_of_another_model_are_not_compared_even_of_equal_dimension(town: Town) -> None:
    """A search that began before the swap may read after it."""
    filled(town)
    assert town.side(Letters()).move()
    query = town.old.embedder.embed(["User likes tea 3 with Poppy"])
    scope = make_turn("x").scope
    with town.ledger.read() as connection:
        assert scan_vectors(connection, "default", [scope.owner], query[0], model="trigrams", limit=5) == ([], True)  # type: ignore[list-item]
    rows = nearest_to(town.ledger, MemoryIndex(), scope, query, model="letters", today=town.clock.now().date())
    assert rows == []


def test_a_relay_and_a_reconciler_of_the_former_embedder_touch_nothing(town: Town) -> None:
    filled(town, 2)
    new = town.side(Letters())
    assert new.moving().run()
    accept(new.parts, make_turn("User likes coffee"))
    run_all(new.parts)
    with pytest.raises(EmbedderMismatch):
        town.old.relay.run_once()
    with pytest.raises(EmbedderMismatch):
        town.old.reconciler.run()
    new.finish()
    town.check(new)


def test_a_process_with_another_embedder_is_refused_with_the_way_on(town: Town) -> None:
    with pytest.raises(EmbedderMismatch, match=r"trigrams \(64 .*letters.*`memline index reembed`"), town.ledger.write() as tx:
        check_embedder(tx, "letters", 64)


def test_while_a_swap_is_near_what_stores_a_vector_waits_and_not_for_ever(town: Town) -> None:
    with town.ledger.write() as tx:
        move = begin_move(tx, "letters", 64, run="x")
        assert move is not None
        close_for_swap(tx, move, until=town.clock.advance(30))
    now = town.clock.advance(-1)
    with town.ledger.write() as tx:
        check_own_embedder(tx, "trigrams", 64)
        with pytest.raises(ServiceUnavailable):
            check_own_embedder(tx, "trigrams", 64, storing_at=now)
        check_own_embedder(tx, "trigrams", 64, storing_at=town.clock.advance(1))


# Counting


def test_what_is_left_is_counted_in_texts_characters_and_bytes(town: Town) -> None:
    town.old.say("abc", "我爱喝茶", "User met Anna")
    with town.ledger.read() as connection:
        assert without_next(connection, "letters") == Amount(3, 1, 3 + 4 + 13 + 4, 3 + 12 + 13 + 4)


def test_tokens_are_about_four_letters_or_one_chinese_character() -> None:
    assert Amount(1, 0, 400, 400).tokens == 100
    assert Amount(1, 0, 50, 150).tokens == 50
    assert Amount(0, 0, 0, 0).tokens == 0


# After the swap, before the vectors are in their place


def test_right_after_the_swap_everything_reads_the_new_vectors_from_where_they_are(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reembed, "PAGE", 2)
    filled(town)
    new = town.side(Letters())
    assert new.moving().run()
    assert town.models() == {("trigrams", 64)} and town.gathered() > 0  # nothing was copied: a swap takes as long for a million
    report = verify(town.ledger, new.index, deep=True)
    assert report.sound
    assert not new.search("tea").missing
    scope = make_turn("x").scope
    query = new.embedder.embed(["User likes tea 3 with Poppy"])
    with town.ledger.read() as connection:
        (first, *_), _ = scan_vectors(connection, "default", [scope.owner], query[0], model="letters", limit=1)  # type: ignore[list-item]
    assert first.value == pytest.approx(1.0, abs=1e-5)
    (row, *_) = nearest_to(town.ledger, new.index, scope, query, model="letters", today=town.clock.now().date())
    assert row.text == "User likes tea 3 with Poppy"
    new.say("User likes coffee")
    town.delete("User likes tea 1 with Poppy")
    new.relay.drain()
    new.finish()
    assert town.gathered() == 0
    town.check(new)


def test_a_text_that_changes_right_after_the_swap_keeps_its_new_vector(town: Town) -> None:
    filled(town)
    new = town.side(Letters())
    assert new.moving().run()
    (row,) = table(town.ledger, memories, memories.c.text == "User likes tea 3 with Poppy")
    edit_memory(new.parts, "default", row.id, Change(text="User likes cocoa"))
    new.relay.drain()
    new.finish()
    town.check(new)


def test_the_next_move_finishes_the_one_before(town: Town) -> None:
    filled(town)
    assert town.side(Letters()).moving().run()
    widest = town.side(WideLetters())
    assert widest.move()
    town.check(widest)
    assert town.spaces() == {f"index_objects_{widest.space.key}"}


def test_a_move_that_begins_between_another_ones_swap_and_its_moving_in_is_refused(town: Town) -> None:
    filled(town)
    new = town.side(Letters())
    assert new.moving().run()
    assert town.gathered() > 0
    with town.ledger.write() as tx, pytest.raises(ConfigurationError, match="run this again"):
        begin_move(tx, "another", 8, run="x")
    new.relay.drain()
    new.finish()
    town.check(new)
