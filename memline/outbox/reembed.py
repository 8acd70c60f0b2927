"""Moves a ledger to another embedder: `memline index reembed`.

Every text that has a vector is embedded anew, a page a transaction, and none is open during a call; the vectors are kept beside the
ledger's own, which go on serving. Then the index of the new space is filled, and one short transaction makes the new vectors those of
the ledger. Killed anywhere, the same command goes on where it was: what is embedded is never embedded again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from memline.contracts import failpoints
from memline.contracts.clock import Clock
from memline.contracts.errors import ProviderRefused, ProviderUnavailable, ServiceUnavailable
from memline.contracts.index_object import Kind, ObjectKey
from memline.ledger.memories import index_objects
from memline.ledger.meta import Move, embedders, forget_former
from memline.ledger.next_vectors import Unembedded, begin_move, close_for_swap, look, missing, move_in, store_next, swap, without_next
from memline.ledger.session import Ledger
from memline.outbox.compare import KINDS, Difference, compare, namespaces_of
from memline.outbox.reconcile import Pass, Reconciler, refill
from memline.outbox.relay import Relay
from memline.search.index.port import Index, OfSpace, Space, SpacedIndex, Write

__all__ = ["CLOSED", "PAGE", "Embeds", "Reembedding", "finish"]

#: Texts of a page: one call, one transaction.
PAGE = 256

#: Seconds for which what would store a vector waits, while the last few are embedded: once writers were faster than that twice.
CLOSED = 30.0

#: Tries of the swap before it is given up: the embedder takes longer than `CLOSED` for what comes in meanwhile.
ROUNDS = 20

#: Tries of a call that the provider may answer later, and seconds between them: 1, 2, 4, …, or what it asks for.
TRIES = 6
_LONGEST = 60.0


class Embeds(Protocol):
    """What is needed of an embedder (`memline.language.ports.Embedder`)."""

    @property
    def model(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


@runtime_checkable
class _MadeAnew(Protocol):
    """An index that remembers that it still has to be filled."""

    def mark_rebuilt(self) -> None: ...


#: Told what is done, how far it is, and of how many (None: nobody knows).
Told = Callable[[str, int, int | None], None]


@dataclass(slots=True)
class _Fill:
    written: int = 0
    refused: int = 0


class Reembedding:
    """One run of a move to *embedder*.

    *index_of* gives the index of a space, empty or half filled; None where the index keeps no two apart, and is filled after the swap. It
    is asked once the ledger knows of the move: the tables of a space that it does not know are anybody's to remove.
    *run*: an id that was never used before. *sleep* takes seconds.
    """

    def __init__(
        self,
        ledger: Ledger,
        embedder: Embeds,
        index_of: Callable[[Space], SpacedIndex | None],
        clock: Clock,
        run: str,
        *,
        told: Told = lambda what, done, total: None,
        sleep: Callable[[float], Any] = time.sleep,
    ) -> None:
        self._ledger = ledger
        self._embedder = embedder
        self._index_of = index_of
        self._index: SpacedIndex | None = None
        self._clock = clock
        self._run = run
        self._told = told
        self._sleep = sleep
        #: Texts that this run embedded.
        self.embedded = 0
        #: Objects that the new index refused: the reconciler tries them again.
        self.refused = 0

    def run(self, *, discard: bool = False) -> bool:
        """Gathers, fills and swaps; False where the ledger has this embedder already.

        *discard*: what a half-done move to another embedder gathered is thrown away. Raises ConfigurationError where there is one
        otherwise, and where another run took this one over; what the embedder raises; ServiceUnavailable where a store does not answer.
        """
        embedder = self._embedder
        move_all_in(self._ledger, told=self._told)  # of a move before this one
        with self._ledger.write() as tx:
            before = embedders(tx).move
            move = begin_move(tx, embedder.model, embedder.dimension, run=self._run, discard=discard)
        if before is not None and (before.model, before.dimension) != (embedder.model, embedder.dimension):
            self._drop(Space(before.model, before.dimension))
        if move is None:
            return False
        self._index = self._index_of(Space(embedder.model, embedder.dimension))
        try:
            self._rounds(move)
        finally:
            if self._index is not None:
                self._index.close()
        return True

    def _rounds(self, move: Move) -> None:
        for number in range(ROUNDS):
            closed = number >= 2  # writers were faster, twice
            if closed:
                with self._ledger.write() as tx:
                    close_for_swap(tx, move, until=self._clock.now() + timedelta(seconds=CLOSED))
            with self._ledger.write() as tx:
                mark = look(tx)
            self._gather(move)
            if not closed:
                self._fill()
                failpoints.hit("reembed.filled")
            self._told("Swapping", 0, None)
            with self._ledger.write() as tx:
                done = swap(tx, move, since=mark)
                if done:
                    failpoints.hit("reembed.before_swap")
            if done:
                failpoints.hit("reembed.after_swap")
                return
        raise ServiceUnavailable(
            f"In {CLOSED:g} s the embedder {self._embedder.model} does not embed what is added meanwhile: stop the writers for a moment, "
            "and run this again. It goes on where it is."
        )

    def _drop(self, space: Space) -> None:
        if (index := self._index_of(space)) is not None:
            index.drop()
            index.close()

    def _gather(self, move: Move) -> None:
        with self._ledger.read() as connection:
            total = without_next(connection, move.model).texts
        done = 0
        for kind in KINDS:
            after = 0
            while True:
                with self._ledger.read() as connection:
                    page = missing(connection, kind, move.model, after=after, limit=PAGE)
                if not page:
                    break
                full = len(page) == PAGE  # behind another one there is only what came meanwhile: it is not run after
                vectors = self._embed(page)
                with self._ledger.write() as tx:
                    store_next(tx, move, list(zip(page, vectors, strict=True)))
                    failpoints.hit("reembed.before_commit")
                failpoints.hit("reembed.after_commit")
                after = page[-1].no
                done += len(page)
                self.embedded += len(page)
                self._told("Embedding", done, max(done, total))
                if not full:
                    break

    def _embed(self, page: Sequence[Unembedded]) -> list[bytes]:
        try:
            return self._call([each.text for each in page])
        except ProviderRefused as error:
            if len(page) > 1:
                return [vector for each in page for vector in self._embed([each])]
            raise ProviderRefused(
                f"{error} It was asked for the {page[0].kind} {page[0].id} ({len(page[0].text)} characters). What was embedded before "
                "is kept: the same command goes on there."
            ) from error

    def _call(self, texts: Sequence[str]) -> list[bytes]:
        tries = 0
        while True:
            failpoints.hit("reembed.before_call")
            try:
                found = self._embedder.embed(texts)
                break
            except ProviderUnavailable as error:
                tries += 1
                if tries == TRIES:
                    raise
                self._sleep(max(error.retry_after or 0.0, min(_LONGEST, 2.0 ** (tries - 1))))
        failpoints.hit("reembed.after_call")
        vectors = np.ascontiguousarray(found, dtype="<f4")
        if vectors.shape != (len(texts), self._embedder.dimension) or not np.isfinite(vectors).all():
            raise ProviderRefused(
                f"The embedder {self._embedder.model} returned no {len(texts)} finite vectors of {self._embedder.dimension} dimensions."
            )
        return [vector.tobytes() for vector in vectors]

    def _fill(self) -> None:
        """Makes the index of the new space what the next vectors say it should be."""
        if self._index is None:
            return
        filled = _Fill()
        for namespace in namespaces_of(self._ledger, self._index):
            for kind in KINDS:
                differing: list[ObjectKey] = []
                for step in compare(self._ledger, self._index, kind, namespace, upcoming=True):
                    if isinstance(step, Difference):
                        differing.append(step.key)
                        continue
                    self._show(kind, differing, filled)
                    differing = []
                self._show(kind, differing, filled)
        self.refused = filled.refused
        if isinstance(self._index, _MadeAnew):
            self._index.mark_rebuilt()

    def _show(self, kind: Kind, keys: Sequence[ObjectKey], filled: _Fill) -> None:
        """Writes the present state of objects. What changed while it was written is written again: nothing that was deleted stays."""
        index = self._index
        assert index is not None
        if not keys:
            return
        if index.shares_ledger:
            with self._ledger.write() as tx:
                found = index_objects(tx, keys, upcoming=True)
                answers = index.write([Write(key, found.get(key)) for key in keys], tx=tx)
            left: list[ObjectKey] = []
        else:
            with self._ledger.read() as connection:
                found = index_objects(connection, keys, upcoming=True)
            answers = index.write([Write(key, found.get(key)) for key in keys])
            with self._ledger.read() as connection:
                now = index_objects(connection, keys, whole=False, upcoming=True)
            left = [key for key in keys if _version(found, key) != _version(now, key)]
        filled.written += len(keys)
        filled.refused += sum(answer.error is not None for answer in answers)
        self._told("Filling the new index", filled.written, None)
        self._show(kind, left, filled)


def move_all_in(ledger: Ledger, *, told: Told) -> None:
    """Puts what a swap left beside the memories in its place, a page a transaction."""
    done = 0
    while True:
        with ledger.write() as tx:
            moved = move_in(tx, limit=PAGE)
        if not moved:
            return
        done += moved
        told("Moving in", done, None)


def finish(
    ledger: Ledger,
    relay: Relay,
    reconciler: Reconciler,
    index: Index,
    clock: Clock,
    index_of: Callable[[Space], SpacedIndex | None],
    *,
    told: Told = lambda what, done, total: None,
) -> Pass:
    """After the swap: puts the vectors in their place, shows the new index what changed while it was filled, and drops the index of the
    embedder before.

    An index that keeps no spaces apart is shown everything. A second time it does nothing more. Raises ServiceUnavailable.
    """
    with ledger.read() as connection:
        former = embedders(connection).former
    if former is not None and not isinstance(index, OfSpace):
        refill(ledger, clock, told=lambda number: told("Filling the index", number, None))
    move_all_in(ledger, told=told)
    told("Comparing", 0, None)
    relay.drain()
    done = reconciler.run()
    relay.drain()
    if former is not None:
        if (old := index_of(Space(*former))) is not None:
            old.drop()
            old.close()
        with ledger.write() as tx:
            forget_former(tx)
    return done


def _version(found: dict[ObjectKey, Any], key: ObjectKey) -> int:
    return found[key].version if key in found else 0
