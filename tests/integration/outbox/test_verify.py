"""`verify`: each kind of damage in each store is found, and nothing is where nothing is wrong; on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memline.ledger.audit import CHECKS
from memline.ledger.schema import memories, outbox
from memline.outbox.verify import Report, verify
from tests.integration.outbox.stores import Stores, by_hand, copied_object, copy_file, fill, in_index, open_stores
from tests.parts import accept, make_turn, run_all, table

ONE = "(SELECT no FROM memories WHERE text = 'one')"
ONE_ID = "(SELECT id FROM memories WHERE text = 'one')"
BOBS = "(SELECT no FROM memories WHERE text = 'six Anna')"
DELETED = "(SELECT no FROM memories WHERE state = 'deleted')"
ANNA = "(SELECT no FROM entities WHERE norm = 'anna' AND lane = (SELECT lane FROM jobs WHERE id = 'a'))"
BOBS_LANE = "(SELECT lane FROM jobs WHERE id = 'e')"
NOW = "'2026-03-01T09:00:00.000000+00:00'"
IN_OUTBOX = "INSERT INTO outbox (kind, object_id, namespace, version, queued_at, next_at, attempts, parked) "

#: (store, problem) -> what somebody does to the ledger.
DAMAGE: dict[tuple[str, str], tuple[str, ...]] = {
    ("memories", "two live memories of a scope have one content hash"): (
        "DROP INDEX uq_memories_live_hash",
        "UPDATE memories SET content_hash = (SELECT content_hash FROM memories WHERE text = 'one') WHERE text = 'three'",
    ),
    ("memories", "its job is not in the ledger"): ("DELETE FROM jobs WHERE id = 'a'",),
    ("memories", "its job is not committed"): ("UPDATE jobs SET state = 'failed' WHERE id = 'a'",),
    ("memories", "its job is of another scope"): (
        f"UPDATE jobs SET position = NULL, lane = {BOBS_LANE} WHERE id = 'a'",
    ),
    ("memories", "its scope is not in the ledger"): ("UPDATE memories SET lane = 'nowhere' WHERE text = 'one'",),
    ("memories", "its ids are not those of its scope"): ("UPDATE memories SET user_id = 'bob' WHERE text = 'one'",),
    ("memories", "superseded by a memory that is not in the ledger"): (
        "UPDATE memories SET superseded_by = 'nobody' WHERE state = 'superseded'",
    ),
    ("memories", "deleted, and its text is still there"): ("UPDATE memories SET text = 'five' WHERE state = 'deleted'",),
    ("memories", "it links memories that are not in the ledger"): (f"INSERT INTO memory_links VALUES ({ONE}, 999999, 'relates')",),
    ("memories", "it links to a memory of another owner"): (f"INSERT INTO memory_links VALUES ({ONE}, {BOBS}, 'relates')",),
    ("memories", "its text is not the one that was hashed"): ("UPDATE memories SET text = 'another' WHERE text = 'one'",),
    ("memories", "its digest is not that of its text"): ("UPDATE memories SET digest = 'x' WHERE text = 'one'",),
    ("memories", "its span is no place in its message"): (
        "UPDATE memories SET message = 0, span_start = 0, span_end = 4 WHERE text = 'one'",
    ),
    ("history", "of a memory that is not in the ledger"): (
        f"INSERT INTO history (memory_id, namespace, version, event, at) VALUES ('nobody', 'default', 1, 'ADD', {NOW})",
    ),
    ("history", "versions are missing"): (
        "DELETE FROM history WHERE version = 1 AND memory_id = (SELECT id FROM memories WHERE state = 'superseded')",
    ),
    ("history", "missing"): (f"DELETE FROM history WHERE memory_id = {ONE_ID}",),
    ("history", "its newest row does not tell what the memory is"): (f"UPDATE history SET new_text = 'x' WHERE memory_id = {ONE_ID}",),
    ("history", "in another namespace than the memory"): (f"UPDATE history SET namespace = 'other' WHERE memory_id = {ONE_ID}",),
    ("vectors", "of a memory that is not in the ledger"): (
        f"INSERT INTO vectors SELECT 999999, model, dimension, vector FROM vectors WHERE memory_no = {ONE}",
    ),
    ("vectors", "still there although the memory is deleted"): (
        f"INSERT INTO vectors SELECT {DELETED}, model, dimension, vector FROM vectors WHERE memory_no = {ONE}",
    ),
    ("changes", "of a memory that is not in the ledger"): (
        f"INSERT INTO changes (memory_id, namespace, version, event, at, xid) VALUES ('nobody', 'default', 1, 'ADD', {NOW}, 0)",
    ),
    ("changes", "the newest one is not of the version that the memory has"): (
        "DELETE FROM changes WHERE version = 2 AND memory_id = (SELECT id FROM memories WHERE state = 'superseded')",
    ),
    ("vectors", "of another model than the ledger's embedder"): (f"UPDATE vectors SET model = 'other' WHERE memory_no = {ONE}",),
    ("vectors", "missing"): (f"DELETE FROM vectors WHERE memory_no = {ONE}",),
    ("vectors", "its vector is not of length 1"): (f"UPDATE vectors SET vector = {{zeros}} WHERE memory_no = {ONE}",),
    ("next vectors", "of a memory that is not in the ledger"): ("INSERT INTO next_vectors VALUES (999999, 'x', 'next', {zeros})",),
    ("next vectors", "still there although the memory is deleted"): (
        f"INSERT INTO next_vectors VALUES ({DELETED}, 'x', 'next', {{zeros}})",
    ),
    ("next vectors", "there although nothing moves to another embedder"): (
        f"INSERT INTO next_vectors VALUES ({ONE}, 'x', 'next', {{zeros}})",
    ),
    ("next vectors", "of an entity that is not in the ledger"): ("INSERT INTO next_entity_vectors VALUES (999999, '1', 'next', {zeros})",),
    ("postings", "of a memory that is not in the ledger"): (
        f"INSERT INTO postings SELECT owner_no, term, 999999, tf, length, live FROM postings WHERE memory_no = {ONE}",
    ),
    ("postings", "still there although the memory is gone"): (
        f"INSERT INTO postings SELECT owner_no, term, {DELETED}, tf, length, live FROM postings WHERE memory_no = {ONE}",
    ),
    ("postings", "under another owner than the memory's"): (
        f"UPDATE postings SET owner_no = (SELECT owner_no FROM memories WHERE text = 'six Anna') WHERE memory_no = {ONE}",
    ),
    ("postings", "term counts do not add up to the length"): (f"UPDATE postings SET tf = tf + 1 WHERE memory_no = {ONE}",),
    ("postings", "live although the memory is not, or the other way round"): (
        f"UPDATE postings SET live = NOT live WHERE memory_no = {ONE}",
    ),
    ("postings", "missing"): (f"DELETE FROM postings WHERE memory_no = {ONE}",),
    ("owners", "its counts differ from its memories"): ("UPDATE owners SET length = length + 1 WHERE user_id = 'ann'",),
    ("entities", "a memory is linked to one that is not in the ledger"): (f"INSERT INTO entity_links VALUES (999999, {ONE})",),
    ("entities", "linked to a memory that is not in the ledger"): (f"INSERT INTO entity_links VALUES ({ANNA}, 999999)",),
    ("entities", "linked to a deleted memory"): (f"INSERT INTO entity_links VALUES ({ANNA}, {DELETED})",),
    ("entities", "linked to a memory of another scope"): (f"INSERT INTO entity_links VALUES ({ANNA}, {BOBS})",),
    ("entities", "nothing names it"): (f"DELETE FROM entity_links WHERE entity_no = {ANNA}",),
    ("entities", "its own name does not lead to it"): (f"DELETE FROM entity_names WHERE entity_no = {ANNA}",),
    ("entities", "its scope is not in the ledger"): (f"UPDATE entities SET lane = 'nowhere' WHERE no = {ANNA}",),
    ("entities", "its ids are not those of its scope"): (f"UPDATE entities SET namespace = 'other' WHERE no = {ANNA}",),
    ("entities", "its vector is of another model than the ledger's embedder"): (f"UPDATE entities SET model = 'other' WHERE no = {ANNA}",),
    ("entities", "a name leads to no entity of its scope"): (f"UPDATE entity_names SET entity_no = 999999 WHERE entity_no = {ANNA}",),
    ("entities", "its vector is not of length 1"): (f"UPDATE entities SET vector = {{zeros}} WHERE no = {ANNA}",),
    ("outbox", "set aside after too many failures"): (f"{IN_OUTBOX} VALUES ('memory', {ONE_ID}, 'default', 1, {NOW}, {NOW}, 20, TRUE)",),
    ("outbox", "in another namespace than the memory"): (f"{IN_OUTBOX} VALUES ('memory', {ONE_ID}, 'other', 1, {NOW}, {NOW}, 0, FALSE)",),
    ("outbox", "it waits for a version that the memory does not have"): (
        f"{IN_OUTBOX} VALUES ('memory', {ONE_ID}, 'default', 9, {NOW}, {NOW}, 0, FALSE)",
    ),
    ("messages", "its job is not in the ledger"): ("UPDATE messages SET job_id = 'nobody' WHERE job_id = 'a'",),
    ("messages", "not at the place of its turn"): ("UPDATE messages SET place = place + 100 WHERE job_id = 'a'",),
    ("messages", "hidden, and no memory names it"): ("UPDATE messages SET withheld = TRUE WHERE job_id = 'f'",),
    ("messages", "a finished turn was not saved"): ("DELETE FROM messages WHERE job_id = 'c' AND ordinal = 1",),
    ("jobs", "finished in no end state"): ("UPDATE jobs SET state = 'accepted' WHERE id = 'f'",),
    ("jobs", "under a lease that is gone"): ("UPDATE jobs SET lease_id = 'gone' WHERE id = 'a'",),
    ("jobs", "not searchable although nothing of it waits for the index"): ("UPDATE jobs SET state = 'committed' WHERE id = 'a'",),
    ("jobs", "unfinished, and its lane has passed it"): ("UPDATE jobs SET finished_at = NULL WHERE id = 'a'",),
    ("jobs", "it returned the id of a memory that is not in the ledger"): (
        """UPDATE jobs SET outcome = '[["nobody", "ADD"]]' WHERE id = 'a'""",
    ),
    ("jobs", "its outcome leaves out a memory of its own"): ("UPDATE jobs SET outcome = '[]' WHERE id = 'c'",),
    ("lanes", "leased although none of its jobs runs"): (f"UPDATE lanes SET lease_id = 'gone' WHERE key = {BOBS_LANE}",),
}  # fmt: skip

#: Those that are computed from rows and stand in no `Check`.
RECOMPUTED = {
    ("memories", "its text is not the one that was hashed"),
    ("memories", "its digest is not that of its text"),
    ("vectors", "its vector is not of length 1"),
    ("entities", "its vector is not of length 1"),
    ("messages", "a finished turn was not saved"),
    ("jobs", "it returned the id of a memory that is not in the ledger"),
    ("jobs", "its outcome leaves out a memory of its own"),
}


@pytest.fixture(scope="module")
def sqlite_original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a filled ledger, and its index."""
    folder = tmp_path_factory.mktemp("sqlite")
    with open_stores(f"sqlite:///{folder / 'ledger.db'}", folder / "index.db") as filled:
        fill(filled)
    return folder


@pytest.fixture(scope="module")
def postgres_original(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The same in PostgreSQL: the folder of the index, and the database's name."""
    server = request.getfixturevalue("postgres_server")
    folder, database = tmp_path_factory.mktemp("postgres"), server.create_database()
    with open_stores(server.url(database), folder / "index.db") as filled:
        fill(filled)
    return folder, database


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    """A copy of the filled stores, to be damaged."""
    if request.param == "sqlite":
        original = request.getfixturevalue("sqlite_original")
        copy_file(original / "ledger.db", tmp_path / "ledger.db")
        copy_file(original / "index.db", tmp_path / "index.db")
        with open_stores(f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "index.db") as copied:
            yield copied
        return
    server = request.getfixturevalue("postgres_server")
    folder, template = request.getfixturevalue("postgres_original")
    copy_file(folder / "index.db", tmp_path / "index.db")
    database = server.create_database(template)
    with open_stores(server.url(database), tmp_path / "index.db") as copied:
        yield copied
    server.drop_database(database)


def found_in(stores: Stores, **options: object) -> Report:
    return verify(stores.ledger, stores.index, **options)  # type: ignore[arg-type]


def test_there_is_damage_for_every_check() -> None:
    told = {(check.store, problem) for check in CHECKS for problem in check.problems}
    assert told | RECOMPUTED == set(DAMAGE)


def test_nothing_is_found_where_nothing_is_wrong(stores: Stores) -> None:
    report = found_in(stores, deep=True)
    assert report.to_json() == {"sound": True, "findings": [], "lag": 0}


@pytest.mark.parametrize("what", list(DAMAGE), ids=lambda what: f"{what[0]}-{what[1]}".replace(" ", "_"))
def test_damage_in_the_ledger_is_found(stores: Stores, what: tuple[str, str]) -> None:
    by_hand(stores.ledger, *DAMAGE[what])
    report = found_in(stores, deep=True)
    assert what in report.counts
    assert not report.sound
    assert report.examples[what]


def test_only_deep_reads_vectors(stores: Stores) -> None:
    what = ("vectors", "its vector is not of length 1")
    by_hand(stores.ledger, *DAMAGE[what])
    assert found_in(stores).sound
    assert set(found_in(stores, deep=True).counts) == {what, ("index (memory)", "changed")}


def test_an_index_object_that_differs_is_found_by_its_kind(stores: Stores) -> None:
    one, two, three = (stores.id_of(text) for text in ("one", "two Anna", "three"))
    (gone,) = (row.id for row in table(stores.ledger, memories, memories.c.state == "deleted"))
    in_index(
        stores,
        f"DELETE FROM index_objects WHERE id = '{one}'",
        f"UPDATE index_objects SET version = 0 WHERE id = '{two}'",
        f"UPDATE index_objects SET terms = 'x' WHERE id = '{three}'",
        f"UPDATE index_objects SET vector = zeroblob(256) WHERE id = '{stores.id_of('four')}'",
        copied_object(three, id="foreign"),
        copied_object(three, id=gone),
        copied_object(three, id="of-nobody", namespace="unheard-of"),
        "DELETE FROM index_objects WHERE kind = 'entity' AND user_id = 'bob'",
    )
    report = found_in(stores)
    assert report.counts == {
        ("index (memory)", "missing"): 1,
        ("index (memory)", "stale"): 1,
        ("index (memory)", "changed"): 1,
        ("index (memory)", "orphaned"): 2,
        ("index (memory)", "resurrected"): 1,
        ("index (entity)", "missing"): 1,
    }
    assert report.examples["index (memory)", "resurrected"] == [gone]
    assert found_in(stores, deep=True).counts["index (memory)", "changed"] == 2
    assert found_in(stores, namespaces=["unheard-of"]).counts == {("index (memory)", "orphaned"): 1}


def test_a_memory_in_the_namespace_of_another_is_found_in_both(stores: Stores) -> None:
    in_index(stores, f"UPDATE index_objects SET namespace = 'other' WHERE id = '{stores.id_of('one')}'")
    assert found_in(stores).counts == {("index (memory)", "missing"): 1, ("index (memory)", "orphaned"): 1}


def test_what_waits_in_the_outbox_is_lag(stores: Stores) -> None:
    accept(stores.parts, make_turn("seven Anna", id="g"))
    run_all(stores.parts)
    stores.delete("one")
    report = found_in(stores, deep=True)
    assert (report.sound, report.lag) == (True, 2)
    stores.relay.drain()
    assert (found_in(stores).lag, table(stores.ledger, outbox)) == (0, [])


def test_a_check_stops_at_its_limit(stores: Stores) -> None:
    by_hand(stores.ledger, "UPDATE memories SET digest = 'x'")
    assert found_in(stores, limit=3).counts["memories", "its digest is not that of its text"] == 3


def test_a_report_shows_the_first_ids(stores: Stores) -> None:
    stores.say(*(f"number {n}" for n in range(12)))
    by_hand(stores.ledger, "UPDATE memories SET digest = 'x'")
    (finding,) = found_in(stores).to_json()["findings"]
    assert (finding["store"], finding["count"], len(finding["examples"])) == ("memories", 19, 10)
