"""Memories that leave one ledger and enter another: nothing is lost, doubled, overwritten or brought back; `verify` agrees throughout."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from memline.contracts.errors import InvalidInput, ProviderRefused, ServiceUnavailable
from memline.contracts.fact import Relation
from memline.contracts.portable import PortableLink, PortableMemory
from memline.contracts.scope import Scope
from memline.ledger.delete_all import delete_all
from memline.ledger.history import HistoryMode, history_of
from memline.ledger.jobs import list_jobs
from memline.ledger.meta import check_embedder
from memline.ledger.migrate import open_ledger
from memline.ledger.retire import delete_memory
from memline.ledger.schema import (
    entities,
    history,
    jobs,
    lanes,
    memories,
    memory_links,
    metadata,
    outbox,
    owners,
    postings,
    tombstones,
    vectors,
)
from memline.ledger.session import Ledger
from memline.ledger.transfer_decide import Fate
from memline.ledger.transfer_read import Wanted, count_wanted, read_memories, snapshot
from memline.outbox.verify import verify
from memline.pipeline.edit import Change, edit_memory
from memline.pipeline.parts import Parts
from memline.pipeline.transfer import Imported, Importer, check_vector
from tests.parts import START, TrigramEmbedder, accept, make_parts, make_relay, make_turn, run_all, table

EVERYTHING = Wanted("default", {}, history=True, vectors_of="trigrams")
DAY = timedelta(days=1)


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    """An empty ledger to import into."""
    return _parts(ledger)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Parts]:
    """A ledger with everything that a memory can have."""
    with closing(Ledger(f"sqlite:///{tmp_path / 'source.db'}")) as ledger:
        open_ledger(ledger)
        found = _parts(ledger)
        accept(found, *(make_turn(f"[home] ann lives in {city}", run=run) for city, run in (("Porto", "r1"), ("Kyoto", "r2"))))
        accept(found, make_turn(["tea with Anna\nsalt for Anna", "box B-12"], metadata={"kind": "note", "n": 1.5}))
        accept(found, make_turn("gone tomorrow", expires_on=date(2026, 3, 2)), make_turn("Bob knows Anna", user="bob", agent="a1"))
        accept(found, make_turn("verbatim Words", infer=False), make_turn("secret", id="secret"))
        accept(found, make_turn("verbatim Words", infer=False, id="again", at=START + DAY))
        run_all(found)
        delete_memory(ledger, "default", _id_of(found, "secret"), now=found.clock.now())
        edit_memory(
            found, "default", _id_of(found, "box B-12"), Change(text="box B-13", metadata={"kind": None}, actor="ann", reason="moved")
        )
        make_relay(found).drain()
        yield found


def _parts(ledger: Ledger, **given: object) -> Parts:
    parts = make_parts(ledger, **given)
    with ledger.write() as tx:
        check_embedder(tx, parts.embedder.model, parts.embedder.dimension)
    return parts


def _id_of(parts: Parts, text: str) -> str:
    (row,) = table(parts.ledger, memories, memories.c.text == text)
    return str(row.id)


def exported(parts: Parts, wanted: Wanted = EVERYTHING) -> list[PortableMemory]:
    with snapshot(parts.ledger) as connection:
        found = list(read_memories(connection, wanted, page=3))
        assert count_wanted(connection, wanted) == len(found)
    return found


def take(parts: Parts, found: Sequence[PortableMemory], *, size: int = 100, restore_deleted: bool = False) -> list[Fate]:
    importer = Importer(parts, restore_deleted=restore_deleted)
    fates: list[Fate] = []
    for start in range(0, len(found), size):
        fates += [decision.fate for decision in importer.take(found[start : start + size]).decisions if decision is not None]
        assert_sound(parts)
    return fates


def assert_sound(parts: Parts) -> None:
    """The ledger and, when it was shown everything, the index are what was committed."""
    make_relay(parts).drain()
    assert verify(parts.ledger, parts.index, deep=True).to_json() == {"sound": True, "findings": [], "lag": 0}


def everything(ledger: Ledger) -> dict[str, list[tuple[object, ...]]]:
    with ledger.read() as connection:
        return {each.name: sorted(map(tuple, connection.execute(sa.select(each))), key=repr) for each in metadata.sorted_tables}


def one(text: str = "tea", *, number: int = 1, scope: Scope | None = None, **given: object) -> PortableMemory:
    plain = {"state": "live", "created_at": START, "updated_at": START, "occurred_at": START, "valid_from": START}
    found = PortableMemory(f"00000000-0000-4000-8000-{number:012}", scope or Scope("default", "ann"), text, **(plain | given))  # type: ignore[arg-type]
    return found if found.turn else replace(found, turn=found.id)


def without_turns(found: Sequence[PortableMemory]) -> list[PortableMemory]:
    return [replace(memory, turn="") for memory in found]


@pytest.mark.parametrize("size", [100, 1])
def test_what_was_exported_is_the_same_after_an_import_whatever_the_size_of_a_batch(source: Parts, parts: Parts, size: int) -> None:
    found = exported(source)
    assert {memory.state for memory in found} == {"live", "superseded"} and "secret" not in {memory.text for memory in found}
    assert [seen.at for memory in found for seen in memory.sightings] == [START + DAY]
    assert set(take(parts, found, size=size)) == {Fate.NEW}
    assert without_turns(exported(parts)) == without_turns(found)
    for name in (entities, postings):
        columns = [column for column in name.c if column.name in ("norm", "name", "lane", "term", "tf", "length", "live")]
        with source.ledger.read() as one_side, parts.ledger.read() as other:
            rows = [sorted(map(tuple, side.execute(sa.select(*columns))), key=repr) for side in (one_side, other)]
        gone = {tuple(row) for row in rows[0]} - {tuple(row) for row in rows[1]}
        assert rows[0] == rows[1], gone
    assert source.embedder.calls and not any("lives" in text for call in parts.embedder.calls for text in call)  # type: ignore[attr-defined]


def test_importing_twice_changes_nothing(source: Parts, parts: Parts) -> None:
    found = exported(source)
    take(parts, found)
    before = everything(parts.ledger)
    assert set(take(parts, found)) == {Fate.KNOWN}
    assert everything(parts.ledger) == before


def test_memories_of_one_turn_lie_beside_each_other_and_have_one_finished_job(source: Parts, parts: Parts) -> None:
    take(parts, exported(source), size=2)
    rows = table(parts.ledger, memories, memories.c.text.in_(("tea with Anna", "salt for Anna", "box B-13")))
    assert len({(row.job_id, row.place) for row in rows}) == 1
    assert sorted(row.ordinal for row in rows) == [0, 1, 2]
    with parts.ledger.read() as connection:
        assert {(job["state"], job["stage"], job["reason"]) for job in list_jobs(connection, "default")} == {
            ("searchable", "done", "imported")
        }
    accept(parts, make_turn("afterwards"))  # the lane goes on behind them
    run_all(parts)
    (after,) = table(parts.ledger, memories, memories.c.text == "afterwards")
    assert after.place > max(row.place for row in rows)
    assert_sound(parts)


def test_an_id_with_another_content_is_a_conflict_and_nothing_is_overwritten(parts: Parts) -> None:
    take(parts, [one("tea")])
    before = everything(parts.ledger)
    changed = [
        one("salt"),
        one("tea", metadata={"n": 1}),
        one("tea", expires_on=date(2027, 1, 1)),
        one("tea", scope=Scope("default", "bob")),
    ]
    for memory in changed:
        (decision,) = Importer(parts).take([memory]).decisions
        assert decision is not None and decision.fate is Fate.CONFLICT and "stays" in decision.reason and "salt" not in decision.reason
    assert everything(parts.ledger) == before


def test_an_id_of_another_namespace_is_a_conflict_and_new_ids_are_the_way(parts: Parts) -> None:
    take(parts, [one("tea")])
    (decision,) = Importer(parts).take([one("tea", scope=Scope("shop", "ann"))]).decisions
    assert decision is not None and decision.fate is Fate.CONFLICT and "--new-ids" in decision.reason
    assert take(parts, [one("tea", scope=Scope("shop", "ann"), number=2)]) == [Fate.NEW]


def test_a_text_that_is_live_in_the_scope_already_is_a_duplicate(parts: Parts) -> None:
    take(parts, [one("User likes tea")])
    found = [one("user  likes TEA".replace("TEA", "tea"), number=2), one("User likes tea", number=3, scope=Scope("default", "bob"))]
    assert take(parts, found) == [Fate.DUPLICATE, Fate.NEW]
    (decision,) = Importer(parts).take([found[0]]).decisions
    assert decision is not None and decision.other == one().id
    assert take(parts, [one("x", number=4), one("x", number=5)]) == [Fate.NEW, Fate.DUPLICATE]


def test_what_was_deleted_here_does_not_come_back_unless_that_is_asked_for(parts: Parts) -> None:
    found = [one("tea"), one("old", number=2, state="superseded", superseded_by=one().id, valid_to=START + DAY)]
    take(parts, found)
    delete_all(parts.ledger, Scope("default", "ann"), now=parts.clock.now())
    assert take(parts, found) == [Fate.DELETED, Fate.DELETED]
    assert {row.text for row in table(parts.ledger, memories)} == {""}
    assert take(parts, found, restore_deleted=True) == [Fate.RESTORED, Fate.RESTORED]
    assert [(memory.id, memory.text, memory.state) for memory in exported(parts)] == [(m.id, m.text, m.state) for m in found]
    with parts.ledger.read() as connection:
        assert [row["event"] for row in history_of(connection, "default", one().id)] == ["ADD", "DELETE", "ADD"]
    assert take(parts, found, restore_deleted=True) == [Fate.KNOWN, Fate.KNOWN]


@pytest.mark.parametrize("dated", [True, False])
def test_memories_of_an_erased_subject_do_not_come_back_whatever_is_asked_for(parts: Parts, dated: bool) -> None:
    subject = Scope("default", "ann").subjects[1]
    stone = {"id": "e1", "subject": subject.key, "namespace": "default", "kind": "user", "hash": "h", "key_id": "k", "epoch": 1}
    stone |= {"place": "0", "at": START, "phase": "done", "started_at": START, "waits": {}, "counts": {}}

    def take_both(restore: bool = False) -> list[Fate]:
        younger = one("younger", number=2, created_at=START + DAY)
        done = Importer(parts, restore_deleted=restore, dated=dated).take([one("older"), younger])
        return [decision.fate for decision in done.decisions if decision is not None]

    with parts.ledger.write() as tx:
        tx.execute(sa.insert(tombstones).values(**stone, finished_at=None))
    assert take_both() == [Fate.DELETED, Fate.DELETED]  # while it runs
    assert take_both(restore=True) == [Fate.DELETED, Fate.DELETED]
    with parts.ledger.write() as tx:
        tx.execute(sa.update(tombstones).values(finished_at=START))
    assert take_both() == [Fate.DELETED, Fate.NEW if dated else Fate.DELETED]
    assert take(parts, [one("another", number=3, scope=Scope("default", "bob"))]) == [Fate.NEW]
    assert take_both(restore=True) == [Fate.DELETED, Fate.KNOWN if dated else Fate.DELETED]
    assert_sound(parts)


def test_a_superseded_memory_waits_soundly_for_the_one_that_superseded_it(parts: Parts) -> None:
    newer = one("Kyoto", number=2, scope=Scope("default", "ann", run_id="r2"))
    older = one("Porto", state="superseded", superseded_by=newer.id, valid_to=START + DAY)
    assert take(parts, [older, newer], size=1) == [Fate.NEW, Fate.NEW]
    assert {row.id: row.superseded_by for row in table(parts.ledger, memories)} == {older.id: newer.id, newer.id: None}
    assert [row.event for row in table(parts.ledger, history, history.c.memory_id == newer.id)] == ["ADD"]


def test_what_superseded_it_may_never_come_or_turn_out_to_be_known_here_by_another_id(parts: Parts) -> None:
    older = one("Porto", state="superseded", superseded_by=one(number=2).id, valid_to=START + DAY)
    assert take(parts, [older]) == [Fate.NEW]
    assert [memory.id for memory in exported(parts)] == [older.id]
    take(parts, [one("Kyoto", number=3)])
    assert take(parts, [one("Kyoto", number=2)]) == [Fate.DUPLICATE]
    (row,) = table(parts.ledger, memories, memories.c.id == older.id)
    assert row.superseded_by == one(number=3).id
    again = one("Rome", number=4, state="superseded", superseded_by=one(number=5).id)
    assert take(parts, [again, one("Kyoto", number=5)]) == [Fate.NEW, Fate.DUPLICATE]
    (row,) = table(parts.ledger, memories, memories.c.id == again.id)
    assert row.superseded_by == one(number=3).id


def test_what_superseded_it_is_never_another_owners(parts: Parts) -> None:
    foreign = one("Kyoto", number=2, scope=Scope("default", "bob"))
    older = one("Porto", state="superseded", superseded_by=foreign.id)
    assert take(parts, [foreign, older]) == [Fate.NEW, Fate.NEW]
    later = one("Rome", number=3, state="superseded", superseded_by=one(number=4).id)
    assert take(parts, [later, one("Oslo", number=4, scope=Scope("default", "bob"))], size=1) == [Fate.NEW, Fate.CONFLICT]


def test_a_memory_past_its_day_is_expired_and_stands_in_nobodys_way(parts: Parts) -> None:
    over = one("tea", expires_on=START.date() - DAY, version=1, history=None)
    assert take(parts, [over, one("tea", number=2, expires_on=START.date() - DAY), one("tea", number=3)]) == [Fate.NEW] * 3
    states = {row.id: row.state for row in table(parts.ledger, memories)}
    assert [states[one(number=number).id] for number in (1, 2, 3)] == ["expired", "expired", "live"]
    parts.clock.advance(0)  # type: ignore[attr-defined]
    take(parts, [one("salt", number=4, expires_on=START.date())])
    parts.clock.advance(2 * 86400)  # type: ignore[attr-defined]
    assert take(parts, [one("salt", number=5)]) == [Fate.NEW]  # its twin is live by its row, and past its day
    (row,) = table(parts.ledger, memories, memories.c.id == one(number=4).id)
    assert row.state == "expired"


def test_links_to_what_is_not_here_are_dropped_and_counted(parts: Parts) -> None:
    missing = PortableLink(one(number=9).id, Relation.UPDATES)
    found = [one("tea"), one("salt", number=2, links=(PortableLink(one().id, Relation.EXTENDS), missing))]
    assert Importer(parts).take(found).links_dropped == 1
    assert [row.relation for row in table(parts.ledger, memory_links)] == ["extends"]
    assert_sound(parts)


def test_without_its_history_a_memory_tells_how_it_came(source: Parts, parts: Parts) -> None:
    found = exported(source, Wanted("default", {}, history=False))
    take(parts, found)
    shown = {row.memory_id: (row.version, row.event, row.reason) for row in table(parts.ledger, history)}
    (past,) = [memory for memory in found if memory.state == "superseded"]
    assert shown[past.id] == (2, "SUPERSEDE", f"superseded by {past.superseded_by}")
    assert {row.version for row in table(parts.ledger, memories)} == {1, 2}


def test_a_ledger_that_keeps_no_texts_in_its_history_keeps_none_of_an_import(source: Parts, ledger: Ledger) -> None:
    parts = _parts(ledger, history=HistoryMode.HASHES)
    take(parts, exported(source))
    rows = table(ledger, history)
    assert {row.old_text for row in rows} == {row.new_text for row in rows} == {None} and any(row.new_hash for row in rows)


def test_texts_are_embedded_anew_where_no_vector_comes_along(source: Parts, parts: Parts) -> None:
    done = Importer(parts).take(exported(source, replace(EVERYTHING, vectors_of=None)))
    assert (done.embedded, done.vectors_used) == (len(done.decisions), 0)
    assert_sound(parts)
    assert without_turns(exported(parts)) == without_turns(exported(source))


def test_one_text_that_the_embedder_refuses_keeps_none_of_the_others_out(ledger: Ledger) -> None:
    def refuse(texts: Sequence[str]) -> None:
        if any("long" in text for text in texts):
            raise ProviderRefused("too long")

    parts = _parts(ledger, embedder=TrigramEmbedder(fail=refuse))
    found = [one("tea"), one("long", number=2), one("long", number=3), one("salt", number=4)]
    done: Imported = Importer(parts).take(found)
    assert [None if decision is None else decision.fate for decision in done.decisions] == [Fate.NEW, None, None, Fate.NEW]
    assert done.refused == {1: "too long", 2: "too long"}
    assert_sound(parts)


def test_a_batch_that_fails_leaves_nothing_and_goes_on_the_next_time(ledger: Ledger) -> None:
    away = [True]

    def fail(_texts: Sequence[str]) -> None:
        if away[0]:
            raise ServiceUnavailable("away")

    parts = _parts(ledger, embedder=TrigramEmbedder(fail=fail))
    with pytest.raises(ServiceUnavailable):
        Importer(parts).take([one("tea")])
    assert table(ledger, memories) == table(ledger, jobs) == table(ledger, lanes) == []
    away[0] = False
    assert take(parts, [one("tea")]) == [Fate.NEW]


def test_four_imports_of_one_file_at_once_store_it_once(source: Parts, parts: Parts) -> None:
    found = exported(source)
    fates: list[Fate] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            for start in range(0, len(found), 2):
                fates.extend(d.fate for d in Importer(parts).take(found[start : start + 2]).decisions if d is not None)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert fates.count(Fate.NEW) == len(found) and fates.count(Fate.KNOWN) == 3 * len(found)
    assert_sound(parts)
    assert table(parts.ledger, outbox) == [] and len(table(parts.ledger, vectors)) == len(found)
    assert sum(row.live for row in table(parts.ledger, owners)) == sum(memory.state == "live" for memory in found)


def test_an_export_is_one_moment_whatever_is_written_meanwhile(parts: Parts) -> None:
    take(parts, [one(f"tea {number}", number=number) for number in range(1, 8)])
    with snapshot(parts.ledger) as connection:
        number = count_wanted(connection, EVERYTHING)
        walk = read_memories(connection, EVERYTHING, page=2)
        found = [next(walk)]
        delete_memory(parts.ledger, "default", one(number=5).id, now=parts.clock.now())
        take(parts, [one("later", number=9)])
        found += walk
    assert [memory.text for memory in found] == [f"tea {number}" for number in range(1, 8)] and number == 7


def test_an_export_of_one_scope_has_nothing_of_another(source: Parts) -> None:
    found = exported(source, Wanted("default", {"user_id": "bob"}))
    assert {memory.scope for memory in found} == {Scope("default", "bob", "a1")}
    assert exported(source, Wanted("shop", {})) == []
    assert {memory.scope.run_id for memory in exported(source, Wanted("default", {"run_id": "r1"}))} == {"r1"}


def test_a_vector_that_is_not_of_length_1_is_refused() -> None:
    for wrong in (bytes(8), b"\x00\x00\xc0\x7f" * 2):
        with pytest.raises(InvalidInput, match="length 1"):
            check_vector(wrong)
