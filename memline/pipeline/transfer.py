"""Imports memories, batch by batch: what becomes of each is looked up first, so that nothing is embedded that will not be stored; terms,
names and vectors are made outside a transaction; then the batch is stored in one.

A batch is whole or not there, and a memory that is here already is passed over: an import that was stopped goes on when it is run again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
from sqlalchemy.exc import IntegrityError

from memline.contracts.errors import InvalidInput, ProviderRefused, ServiceUnavailable
from memline.contracts.fact import Analysis, EntityMention
from memline.contracts.portable import PortableEvent, PortableMemory
from memline.contracts.receipt import Event
from memline.contracts.scope import Scope
from memline.ledger.entities import Named, known_names
from memline.ledger.transfer_decide import Decision, decide
from memline.ledger.transfer_write import Arriving, Stored, lock_for, store_memories
from memline.pipeline.embed import vector_bytes
from memline.pipeline.link import name_in_scope
from memline.pipeline.own_embedder import check_storing
from memline.pipeline.paid import embedded_for
from memline.pipeline.parts import Parts

__all__ = ["Imported", "Importer", "check_vector"]

#: How often a batch is made anew where others change what it was made from.
_TRIES = 10

#: How far from 1 the length of a vector may be: float32 after rounding, as `verify` asks.
_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a batch, in its order. `refused`: by index, why the embedder would not take a text; of these there is no decision."""

    decisions: Sequence[Decision | None]
    refused: Mapping[int, str] = field(default_factory=dict)
    links_dropped: int = 0
    #: Memories that were stored with the vector they brought, and those that were embedded.
    vectors_used: int = 0
    embedded: int = 0


class Importer:
    """Imports into the ledger of *parts*. *restore_deleted*: what was deleted (never what was erased) may come back.

    *dated* False: the source's times do not say whether a memory is from before an erasure.
    """

    def __init__(self, parts: Parts, *, restore_deleted: bool = False, dated: bool = True) -> None:
        self._parts = parts
        self._options = {"restore_deleted": restore_deleted, "dated": dated}

    def take(self, found: Sequence[PortableMemory]) -> Imported:
        """Stores a batch. A memory's vector must be of this ledger's embedder.

        Raises what the embedder raises where another try may help, and what the ledger raises; nothing of the batch was stored then.
        """
        now = self._parts.clock.now()
        found = [_as_of(memory, now) for memory in found]
        refused: dict[int, str] = {}
        taken: IntegrityError | None = None
        for _ in range(_TRIES):
            try:
                done = self._try(found, refused, now)
            except IntegrityError as error:  # an id that another import, of another owner, stored meanwhile
                taken = error
                continue
            if done is not None:
                return done
        raise ServiceUnavailable(f"What is imported was changed by others at each of {_TRIES} tries. Import the file again.") from taken

    def _try(self, found: Sequence[PortableMemory], refused: dict[int, str], now: datetime) -> Imported | None:
        """None where it has to be made anew."""
        parts = self._parts
        left = [index for index in range(len(found)) if index not in refused]
        with parts.ledger.read() as connection:
            decisions, _ = decide(connection, [found[index] for index in left], **self._options, now=now)
        needed = [index for index, decision in zip(left, decisions, strict=True) if decision.fate.stores]
        vectors = self._vectors(found, needed, refused)
        if any(index in refused for index in needed):
            return None  # what had counted as a duplicate of it does no more
        analyses = dict(zip(needed, parts.analyser.analyse([found[index].text for index in needed]), strict=True))
        named = self._names(found, analyses)
        others = [index for index in left if index not in analyses]
        stored = self._store(found, analyses, vectors, others, named, now)
        if stored is None:
            return None
        by_index = dict(zip([*needed, *others], stored.decisions, strict=True))
        kept = [index for index in needed if by_index[index].fate.stores]
        return Imported(
            [by_index.get(index) for index in range(len(found))],
            refused=dict(refused),
            links_dropped=stored.links_dropped,
            vectors_used=sum(found[index].vector is not None for index in kept),
            embedded=sum(found[index].vector is None for index in kept),
        )

    def _store(
        self,
        found: Sequence[PortableMemory],
        analyses: Mapping[int, Analysis],
        vectors: Mapping[int, bytes],
        others: Sequence[int],
        named: Sequence[Named],
        now: datetime,
    ) -> Stored | None:
        parts = self._parts
        mentions = {index: list(dict.fromkeys(m.normalised for m in analysis.entities)) for index, analysis in analyses.items()}
        arriving = [Arriving(found[index], Counter(analyses[index].terms), mentions[index], vectors[index]) for index in analyses]
        # what looked as if it need not be stored may be otherwise by now, and was not made for it
        passed = [Arriving(found[index], {}, (), b"") for index in others]
        with parts.ledger.write() as tx:
            lock_for(tx, [each.memory for each in (*arriving, *passed)])
            check_storing(tx, parts)
            if passed:
                again, _ = decide(tx, [each.memory for each in (*arriving, *passed)], **self._options, now=now)
                if any(decision.fate.stores for decision in again[len(arriving) :]):
                    return None
            new = {(name.lane, name.norm) for name in named}
            old = {(found[index].scope.lane, norm) for index, norms in mentions.items() for norm in norms} - new
            if old and len(known_names(tx, sorted(old))) != len(old):
                return None  # a name that was known went with the last memory that had it
            return store_memories(
                tx,
                [*arriving, *passed],
                named,
                model=parts.embedder.model,
                now=now,
                **self._options,
                keep=parts.history,
            )

    def _vectors(self, found: Sequence[PortableMemory], needed: Sequence[int], refused: dict[int, str]) -> dict[int, bytes]:
        made = {index: vector for index in needed if (vector := found[index].vector) is not None}
        missing = [index for index in needed if index not in made]
        if not missing:
            return made
        try:
            texts, namespace = [found[index].text for index in missing], found[missing[0]].scope.namespace
            return made | dict(zip(missing, self._embed(texts, namespace), strict=True))
        except ProviderRefused:
            pass
        for index in missing:  # one text that is refused keeps none of the others out
            try:
                (made[index],) = self._embed([found[index].text], found[index].scope.namespace)
            except ProviderRefused as error:
                refused[index] = str(error)
        return made

    def _embed(self, texts: Sequence[str], namespace: str) -> list[bytes]:
        return [vector_bytes(vector) for vector in embedded_for(self._parts, namespace, texts)]

    def _names(self, found: Sequence[PortableMemory], analyses: Mapping[int, Analysis]) -> list[Named]:
        """The names that are new in their scopes, each embedded once."""
        met: dict[tuple[str, str], tuple[Scope, EntityMention]] = {}
        for index, analysis in analyses.items():
            scope = found[index].scope
            for mention in analysis.entities:
                met.setdefault((scope.lane, mention.normalised), (scope, mention))
        with self._parts.ledger.read() as connection:
            known = known_names(connection, sorted(met)) if met else {}
        new = [pair for key, pair in met.items() if key not in known]
        if not new:
            return []
        written = list(dict.fromkeys(mention.name for _, mention in new))
        vectors = dict(zip(written, self._embed(written, new[0][0].namespace), strict=True))
        named: list[Named] = []
        for scope, mention in new:
            named.append(name_in_scope(self._parts, scope, mention, vectors[mention.name], named))
        return named


def check_vector(vector: bytes) -> bytes:
    """*vector* if it is of length 1, as every vector of a ledger is. Raises InvalidInput."""
    values = np.frombuffer(vector, dtype="<f4")
    if not abs(float(np.sqrt(np.dot(values, values))) - 1.0) <= _TOLERANCE:  # so written, it finds NaN
        raise InvalidInput("vector is not of length 1.")
    return vector


def _as_of(memory: PortableMemory, now: datetime) -> PortableMemory:
    """A memory whose last day is over is expired, whether its ledger had come to mark it or not: it never stands in a live one's way."""
    if memory.state != "live" or memory.expires_on is None or memory.expires_on >= now.date():
        return memory
    history = memory.history
    if history is not None:
        event = PortableEvent(memory.version + 1, Event.EXPIRE.value, now, old_text=memory.text, role=memory.role, reason="expired")
        history = (*history, event)
    return replace(memory, state="expired", version=memory.version + 1, history=history)
