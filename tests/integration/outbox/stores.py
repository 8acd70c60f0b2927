"""Small filled stores for tests that damage them: a ledger, and an embedded index in a file of its own beside it."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from memline.contracts.index_object import ObjectKey
from memline.ledger.memories import index_objects
from memline.ledger.meta import check_embedder
from memline.ledger.migrate import open_ledger
from memline.ledger.retire import delete_memory
from memline.ledger.schema import entities, memories, outbox
from memline.ledger.session import Ledger
from memline.outbox.reconcile import Reconciler
from memline.outbox.relay import Relay
from memline.pipeline.parts import Parts
from memline.search.index.embedded import EmbeddedIndex
from tests.parts import HandClock, accept, make_parts, make_relay, make_turn, run_all, table

__all__ = ["Stores", "by_hand", "copied_object", "copy_file", "equal", "fill", "in_index", "open_stores"]


@dataclass
class Stores:
    """A ledger and its index, with what works on them."""

    parts: Parts
    index_file: Path

    @property
    def ledger(self) -> Ledger:
        return self.parts.ledger

    @property
    def index(self) -> EmbeddedIndex:
        assert isinstance(self.parts.index, EmbeddedIndex)
        return self.parts.index

    @property
    def clock(self) -> HandClock:
        assert isinstance(self.parts.clock, HandClock)
        return self.parts.clock

    @property
    def relay(self) -> Relay:
        return make_relay(self.parts)

    @property
    def reconciler(self) -> Reconciler:
        return Reconciler(self.ledger, self.index, self.clock)

    def say(self, *texts: str, user: str = "ann", namespace: str = "default") -> None:
        """One turn a text, run to its end and shown to the index."""
        accept(self.parts, *(make_turn(text, user=user, namespace=namespace) for text in texts))
        run_all(self.parts)
        self.relay.drain()

    def id_of(self, text: str) -> str:
        (row,) = table(self.ledger, memories, memories.c.text == text)
        return str(row.id)

    def delete(self, text: str) -> str:
        """Deletes a memory in the ledger; the index is not told yet."""
        memory_id = self.id_of(text)
        delete_memory(self.ledger, "default", memory_id, now=self.clock.now())
        return memory_id


@contextmanager
def open_stores(ledger_url: str, index_file: Path) -> Iterator[Stores]:
    """The stores behind a URL and a file, which may be there already."""
    with closing(Ledger(ledger_url)) as ledger:
        open_ledger(ledger)
        index = EmbeddedIndex(Ledger(f"sqlite:///{index_file}"), ledger)
        parts = make_parts(ledger, index=index)
        with ledger.write() as tx:
            check_embedder(tx, parts.embedder.model, parts.embedder.dimension)
        try:
            yield Stores(parts, index_file)
        finally:
            index.close()


def fill(stores: Stores) -> None:
    """Facts of two users: entities, one superseded memory, one deleted, a turn of two messages, all shown to the index."""
    parts = stores.parts
    home = [make_turn(f"[home] ann lives in {city}", id=f"home-{city}") for city in ("Porto", "Kyoto")]
    accept(parts, make_turn("one", id="a"), make_turn("two Anna", id="b"), *home, make_turn(["three\nfour", "hello"], id="c"))
    accept(parts, make_turn("five", id="d"), make_turn("six Anna", id="e", user="bob"), make_turn("hello", id="f"))
    run_all(parts)
    stores.delete("five")
    stores.relay.drain()
    assert table(stores.ledger, outbox) == []


def equal(stores: Stores) -> bool:
    """Whether the index holds what the ledger says, to the byte, and nothing else; looked at without the code under test."""
    with stores.ledger.read() as connection:
        keys = [ObjectKey("memory", row.namespace, row.id) for row in connection.execute(sa.select(memories.c.id, memories.c.namespace))]
        keys += [ObjectKey("entity", row.namespace, row.id) for row in connection.execute(sa.select(entities.c.id, entities.c.namespace))]
        wanted = index_objects(connection, keys)
    with closing(sqlite3.connect(stores.index_file)) as connection:
        columns = "kind, namespace, id, user_id, agent_id, run_id, version, terms, vector"
        there = sorted(connection.execute(f"SELECT {columns} FROM index_objects"))
    return there == sorted(
        (k.kind, k.namespace, k.id, o.user_id, o.agent_id, o.run_id, o.version, " ".join(o.terms), o.vector) for k, o in wanted.items()
    )


def by_hand(ledger: Ledger, *statements: str) -> None:
    """What somebody does with a database's own shell: no foreign key is in the way."""
    if ledger.path is not None:
        with closing(sqlite3.connect(ledger.path)) as connection:
            for statement in statements:
                connection.execute(statement.replace("{zeros}", "zeroblob(256)"))
            connection.commit()
        return
    with ledger.write() as tx:
        tx.exec_driver_sql("SET LOCAL session_replication_role = replica")
        for statement in statements:
            tx.exec_driver_sql(statement.replace("{zeros}", "decode(repeat('00', 256), 'hex')"))


def copy_file(source: Path, target: Path) -> None:
    """A SQLite file as it is on disk, its write-ahead log taken in."""
    with closing(sqlite3.connect(source)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(source, target)


def in_index(stores: Stores, *statements: str) -> None:
    """What somebody does to the index by hand."""
    with closing(sqlite3.connect(stores.index_file)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def copied_object(source: str, *, id: str, namespace: str = "default") -> str:
    """The statement that adds a foreign object, made like *source*."""
    return (
        "INSERT INTO index_objects (kind, id, namespace, user_id, version, terms, vector) "
        f"SELECT kind, '{id}', '{namespace}', user_id, version, terms, vector FROM index_objects WHERE id = '{source}'"
    )
