"""Erasing a subject: every store, in an order in which nothing comes back, and a certificate that says what was read at the end.

1. a place in the stream, then in one transaction the tombstone, the new epoch and the end of the subject's turns in the ledger;
2. the tombstone outside the ledger;
3. the rows;
4. turns on their way, in Redis and in the spools of this machine;
5. the index, and what it still has of memories and names that went before (`erase_gone`);
6. whoever worked under the old epoch is waited for, relays too, and 3 to 5 are done once more: a late write has nothing left to write with;
7. SQLite files are written anew;
8. every store is read, and the certificate written.

Killed anywhere, the same call goes on: every step may be done again. Until the end every turn of the subject ends cancelled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from memline.contracts import failpoints
from memline.contracts.clock import Clock
from memline.contracts.erasing import MarkedTurn, Moment, Sought, TurnStore
from memline.contracts.errors import ServiceUnavailable
from memline.contracts.ids import IdSource
from memline.contracts.index_object import ObjectKey
from memline.contracts.scope import Subject
from memline.ledger.compact import compact
from memline.ledger.erase import (
    AlreadyFinished,
    begin,
    change,
    check_running,
    finish,
    lock_subject,
    objects_of,
    remove_rows,
    still_held,
    value_of,
)
from memline.ledger.erase_census import census, rows_by_id
from memline.ledger.erase_needles import needles_of
from memline.ledger.erase_rows import Whose
from memline.ledger.marks import place_at, place_of
from memline.ledger.session import Ledger
from memline.ledger.tenants import ledger_name
from memline.ledger.tombstones import Tombstone, end_erased, keyed_hash, load_tombstone, running_tombstone, unfinished
from memline.outbox.erase_certificate import certificate_of
from memline.outbox.erase_gone import forget_gone
from memline.outbox.erase_proof import Proof, read_bytes
from memline.outbox.tombstone_file import EraseKey, FiledStone, TombstoneFile
from memline.search.index.port import Index, Write

__all__ = ["Eraser", "RedisFiles", "Stores"]

#: Seconds between two looks at who is still at work.
_LOOK = 0.1


class RedisFiles(Protocol):
    """Redis beyond its turns."""

    def draw_place(self) -> str: ...

    def persistence(self) -> dict[str, Any]: ...

    def rewrite_files(self) -> dict[str, str]: ...


@dataclass(frozen=True, slots=True)
class Stores:
    """Everything that may hold something of a subject, beside the ledger."""

    #: The index, and that of a move to another embedder.
    indexes: Sequence[Index]
    #: Where turns wait: the stream, the spool of this machine.
    turns: Sequence[TurnStore] = ()
    #: SQLite files: the ledger's, the index's.
    sqlite: Sequence[Ledger] = ()
    #: Folders whose files are memline's own.
    folders: Sequence[Path] = ()
    redis: RedisFiles | None = None
    #: What is known to lie elsewhere.
    outside: Sequence[str] = field(default_factory=tuple)


class Eraser:
    """Erases subjects of one ledger. *grace*: seconds that a call to a model, an embedder or the index may take, at most."""

    def __init__(
        self,
        ledger: Ledger,
        stores: Stores,
        clock: Clock,
        ids: IdSource,
        key: EraseKey,
        file: TombstoneFile,
        *,
        grace: float = 60.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._ledger = ledger
        self._stores = stores
        self._clock = clock
        self._ids = ids
        self._key = key
        self._file = file
        self._grace = grace
        self._sleep = sleep

    def erase(self, subject: Subject, *, physical: bool = False, told: Callable[[str], None] = lambda what: None) -> dict[str, Any]:
        """Erases *subject*, or goes on with an erasure of it that did not come to its end; the certificate.

        *physical*: what databases can be made to write anew is written anew. *told* is called with what is done next.
        Raises ServiceUnavailable where a store does not answer; what is done stays done, and the subject stays shut.
        """
        whose = Whose(subject.namespace, subject.kind, subject.value)
        with self._ledger.read() as connection:
            running = running_tombstone(connection, subject)
            needles = needles_of(connection, whose)
            before = None if running is not None else census(connection, whose, "")
        sought = Sought(subject.key, subject.namespace, subject.kind, subject.value)
        if running is None:
            on_the_way = {store.name: store.count(sought) for store in self._stores.turns}
            place = self._place()
            failpoints.hit("erase.placed")
            stone = begin(
                self._ledger,
                subject,
                id=self._ids.new(),
                hash=keyed_hash(self._key.secret, subject.key),
                key_id=self._key.id,
                place=place,
                now=self._clock.now(),
            )
            if "before" not in stone.counts:
                stone = self._note(stone, counts={**stone.counts, "before": before, "turns_before": on_the_way})
        else:
            stone = running
        failpoints.hit("erase.marked")
        return self._run(stone, sought, needles, physical=physical, told=told)

    def resume(self, namespace: str, *, physical: bool = False, told: Callable[[str], None] = lambda what: None) -> list[dict[str, Any]]:
        """Goes on with every erasure of *namespace* that did not come to its end; their certificates."""
        done = []
        with self._ledger.read() as connection:
            stones = unfinished(connection, namespace)
        for stone in stones:
            kind: Any = stone.kind
            with self._ledger.read() as connection:
                value = value_of(connection, stone.namespace, kind, stone.subject)
                needles = [] if value is None else needles_of(connection, Whose(stone.namespace, kind, value))
            done.append(self._run(stone, Sought(stone.subject, stone.namespace, kind, value), needles, physical=physical, told=told))
        return done

    def _run(
        self, stone: Tombstone, sought: Sought, needles: Sequence[str], *, physical: bool, told: Callable[[str], None]
    ) -> dict[str, Any]:
        try:
            return self._steps(stone, sought, needles, physical=physical, told=told)
        except AlreadyFinished:
            return dict(self._reload(stone).certificate or {})

    def _steps(
        self, stone: Tombstone, sought: Sought, needles: Sequence[str], *, physical: bool, told: Callable[[str], None]
    ) -> dict[str, Any]:
        told("the tombstone")
        self._file_stone(stone)
        failpoints.hit("erase.filed")
        told("rows, turns on their way, index")
        self._sweep(stone, sought)
        stone = self._note(stone, phase="indexed")
        failpoints.hit("erase.indexed")
        told("who still works for the subject")
        waited = self._wait(stone)
        failpoints.hit("erase.waited")
        self._sweep(stone, sought)
        stone = self._note(stone, phase="swept")
        told("writing files anew")
        files = [compact(store, sleep=self._sleep) for store in self._stores.sqlite]
        told("the proof")
        end = Moment(self._place(), self._clock.now())
        self._take_turns(stone, sought)
        proof = self._prove(stone, sought, needles, end)
        failpoints.hit("erase.proved")
        if self._reload(stone).finished_at is not None:
            raise AlreadyFinished
        if not proof.sound:
            raise ServiceUnavailable(
                f"Erasure {stone.id} is not at its end: {proof.told()} still holds something of the subject. The subject stays shut; "
                "`memline erase --resume` goes on."
            )
        stone = self._reload(stone)
        certificate = certificate_of(
            stone,
            proof,
            end=end,
            now=self._clock.now(),
            waited=waited,
            files=files,
            key=self._key.where,
            file=str(self._file.path),
            physical=self._physical(physical),
            outside=self._stores.outside,
        )
        finish(self._ledger, stone, place=end.place, certificate=certificate, now=end.at)
        failpoints.hit("erase.finished")
        self._file_stone(self._reload(stone))
        return certificate

    def _sweep(self, stone: Tombstone, sought: Sought) -> None:
        """Rows, turns on their way and index objects go; what is gone already costs one look."""
        if sought.value is not None:
            whose = Whose(sought.namespace, sought.kind, sought.value)
            remove_rows(self._ledger, stone, whose, now=self._clock.now())
        failpoints.hit("erase.removed")
        self._take_turns(stone, sought)
        failpoints.hit("erase.collected")
        for index in self._stores.indexes:
            for keys in self._objects(stone):
                answers = index.write([Write(key, None) for key in keys])
                if refused := [answer for answer in answers if answer.error is not None]:
                    raise ServiceUnavailable(
                        f"The index ({index.name}) did not remove {len(refused)} objects ({refused[0].error}): erase again when it does."
                    )
        forget_gone(
            self._ledger,
            self._stores.indexes,
            namespace=sought.namespace,
            erasure=stone.id,
            clock=self._clock,
            ids=self._ids,
            lease=2 * self._grace,
            sleep=self._sleep,
        )

    def _take_turns(self, stone: Tombstone, sought: Sought) -> int:
        def record(turns: Sequence[MarkedTurn]) -> None:
            with self._ledger.write() as tx:
                lock_subject(tx, stone, None)
                check_running(tx, stone)
                end_erased(tx, turns, now=self._clock.now())

        return sum(store.erase(sought, record) for store in self._stores.turns)

    def _objects(self, stone: Tombstone) -> Sequence[list[ObjectKey]]:
        pages: list[list[ObjectKey]] = []
        after = ("", "")
        while True:
            with self._ledger.read() as connection:
                rows = objects_of(connection, stone.id, after=after)
            if not rows:
                return pages
            pages.append(
                [ObjectKey("memory" if kind == "memory" else "entity", namespace, object_id) for kind, object_id, namespace in rows]
            )
            after = rows[-1][:2]

    def _wait(self, stone: Tombstone) -> float:
        """Until every lease of the old epoch has ended; seconds that it took."""
        began = self._clock.now()
        seen: dict[str, float] = {}
        while True:
            with self._ledger.read() as connection:
                stone = load_tombstone(connection, stone.id)
                held = still_held(connection, stone, now=self._clock.now(), grace=self._grace, seen=seen)
            if not held:
                return (self._clock.now() - began).total_seconds()
            self._sleep(_LOOK)

    def _prove(self, stone: Tombstone, sought: Sought, needles: Sequence[str], end: Moment) -> Proof:
        proof = Proof()
        if sought.value is not None:
            whose = Whose(sought.namespace, sought.kind, sought.value)
            with self._ledger.read() as connection:
                for name, number in census(connection, whose, "").items():
                    proof.add("ledger", f"rows of {name} that belong to the subject", number)
                by_id = rows_by_id(connection, whose)
            proof.add("ledger", f"rows of any table with its id in {whose.column} ({len(by_id)} tables)", sum(by_id.values()))
        else:
            with self._ledger.read() as connection:
                kind: Any = stone.kind
                found = value_of(connection, stone.namespace, kind, stone.subject)
            proof.add("ledger", "scopes and memories whose id has the subject's digest", int(found is not None))
        for index in self._stores.indexes:
            there = [key for keys in self._objects(stone) for key in index.look(keys)]
            proof.add(f"index ({index.name})", "objects of the subject, by id", len(there))
        for store in self._stores.turns:
            proof.add(store.name, "turns of the subject, and remains of such", store.count(sought, end))
        read_bytes(proof, self._stores.sqlite, self._stores.folders, needles)
        return proof

    def _physical(self, asked: bool) -> list[dict[str, Any]]:
        from memline.outbox.erase_physical import force_postgres, postgres_remains, redis_remains, weaviate_remains

        told: list[dict[str, Any]] = []
        if not self._ledger.is_sqlite:
            forced = force_postgres(self._ledger, POSTGRES_TABLES) if asked else None
            told.append({**postgres_remains(self._ledger, POSTGRES_TABLES), "forced": forced})
        if self._stores.redis is not None:
            done = self._stores.redis.rewrite_files() if asked else None
            told.append(redis_remains(self._stores.redis.persistence(), self._stores.turns[0].name, forced=done))
        told += [weaviate_remains(index.name) for index in self._stores.indexes if index.remote]
        return told

    def _place(self) -> str:
        """Where in the stream this moment is; by the clock where there is none."""
        redis = self._stores.redis
        return place_at(self._clock.now()) if redis is None else place_of(redis.draw_place())

    def _file_stone(self, stone: Tombstone) -> None:
        with self._ledger.write() as tx:
            name = ledger_name(tx, self._ids.new())
        line = FiledStone.of(stone, name, self._key)
        if self._file.read().get(stone.id) != line:
            self._file.append(line)

    def _note(self, stone: Tombstone, **values: Any) -> Tombstone:
        change(self._ledger, stone.id, **values)
        return self._reload(stone)

    def _reload(self, stone: Tombstone) -> Tombstone:
        with self._ledger.read() as connection:
            return load_tombstone(connection, stone.id)


#: Tables from which an erasure removes rows.
POSTGRES_TABLES = (
    "memories", "history", "vectors", "next_vectors", "postings", "memory_links", "sightings", "messages", "entities", "entity_names",
    "entity_links", "next_entity_vectors", "jobs", "stage_results", "idempotency_keys", "repeats", "lane_producers", "lane_numbers",
    "lanes", "owners", "outbox",
)  # fmt: skip
