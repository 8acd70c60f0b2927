"""The front door: `Memory`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from memline.compose import House
from memline.contracts.errors import (
    Closed,
    IdempotencyConflict,
    InvalidInput,
    NotSupportedYet,
    ServiceUnavailable,
    UnknownOption,
    UnknownReceipt,
    WaitTimeout,
)
from memline.contracts.ids import handed_over_at
from memline.contracts.options import check_flag, check_handle, check_timeout
from memline.contracts.receipt import ReceiptState, Status
from memline.contracts.scope import ID_KEYS, Scope, check_namespace
from memline.lifetime import Lifetime
from memline.receipt import Receipt
from memline.settings import Settings, load_settings

if TYPE_CHECKING:
    from memline.language.ports import ChatModel, Embedder
    from memline.pipeline.extractors.port import Extractor
    from memline.search.index.port import Index

__all__ = ["Memory"]


class Memory:
    """The memory of one namespace.

    Settings come from `MEMLINE_*` (and a `.env` file); with nothing set, everything runs here: a SQLite ledger in the user's data
    folder, an engine thread, a local embedder, an extractor by rules. Safe for threads. Close it, or use it in a `with` block.

    *embedder*, *chat_model*, *extractor* and *index* take an object in place of what the settings name.
    """

    def __init__(
        self,
        namespace: str | None = None,
        *,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
        chat_model: ChatModel | None = None,
        extractor: Extractor | None = None,
        index: Index | None = None,
        **unknown: object,
    ) -> None:
        _refuse_unknown("Memory", unknown)
        if settings is not None and not isinstance(settings, Settings):
            raise InvalidInput(f"settings must be a memline.Settings, not {type(settings).__name__}.")
        loaded = settings or load_settings()
        self.namespace = check_namespace(loaded.namespace if namespace is None else namespace)
        self._house = House(loaded, embedder=embedder, chat_model=chat_model, extractor=extractor, index=index)
        self._open = Lifetime(self._house)
        if self._house.uses_redis:
            _ = self._house.producer  # a Redis that evicts is refused here, not at the first turn it loses

    def in_namespace(self, name: str) -> Memory:
        """A light handle on another namespace, on the same connections; closing one closes both."""
        if self._open.closed:
            raise Closed()
        handle = object.__new__(Memory)
        handle.namespace = check_namespace(name)
        handle._house, handle._open = self._house, self._open
        return handle

    @property
    def settings(self) -> Settings:
        return self._house.settings

    @property
    def models(self) -> tuple[str, str]:
        """What extracts and what embeds, by name."""
        return self._house.extractor.name, self._house.embedder.model

    # Writing

    def add(
        self,
        /,
        messages: object,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        infer: bool = True,
        prompt: str | None = None,
        expiration_date: object = None,
        timestamp: object = None,
        idempotency_key: str | None = None,
        ack: Literal["queued", "accepted"] = "queued",
        wait: bool = False,
        timeout: float = 30,
        **unknown: object,
    ) -> Any:
        """Hands a turn over and returns its `Receipt` at once.

        *messages*: a string, a message, or a list of messages in OpenAI's shape. *infer* False keeps each message verbatim.
        *timestamp*: when it was said, if that was not now. *ack* "accepted" waits until the ledger has the turn. *wait* True waits
        until its memories are searchable, at most *timeout* seconds, and returns `{"results": [{"id", "memory", "event"}]}`.

        Raises InvalidInput (nothing was changed), IdempotencyConflict where it is known at once, JobFailed and WaitTimeout when
        waiting.
        """
        _refuse_unknown("add", unknown)
        self._check_open()
        if ack not in ("queued", "accepted"):
            raise InvalidInput(f"ack must be 'queued' or 'accepted', not {ack!r}.")
        check_flag("wait", wait)
        check_timeout(timeout)
        scope = Scope.of(self.namespace, user_id, agent_id, run_id)
        options: dict[str, Any] = {
            "metadata": metadata,
            "infer": infer,
            "prompt": prompt,
            "expiration_date": expiration_date,
            "timestamp": timestamp,
            "idempotency_key": idempotency_key,
        }
        if self._house.uses_redis:
            turn, status = self._house.producer.hand_over(scope, messages, **options)
            receipt = Receipt(ReceiptState(turn.id, status), self._look)
            if ack == "accepted":
                receipt.wait_accepted(timeout)
        else:
            receipt = self._accept(scope, messages, options)
        return {"results": receipt.wait(timeout).results} if wait else receipt

    def _accept(self, scope: Scope, messages: object, options: dict[str, Any]) -> Receipt:
        """Without Redis a turn goes straight into the ledger."""
        from memline.ledger.accept import Outcome, accept_turns
        from memline.producer.build import build_turn

        house = self._house
        turn = build_turn(scope, messages, ids=house.ids, clock=house.clock, max_turn=house.settings.max_turn, **options)
        with house.ledger.write() as tx:
            (accepted,) = accept_turns(tx, [turn], now=house.clock.now(), order_wait=house.settings.order_wait)
        if accepted.outcome is Outcome.CONFLICT:
            raise IdempotencyConflict(
                f"The idempotency key was used before in this scope, by turn {accepted.job_id}, for another content: "
                "the first one stands. Use a new key, or send the same content."
            )
        house.engine.wake()
        return Receipt(ReceiptState(accepted.job_id, Status.ACCEPTED), self._look)

    def delete(self, /, memory_id: str, **unknown: object) -> dict[str, str]:
        """Deletes a memory: no read returns it from now on. Its text stays in its history. Raises MemoryNotFound."""
        from memline.ledger.retire import delete_memory

        _refuse_unknown("delete", unknown)
        self._check_open()
        delete_memory(self._house.ledger, self.namespace, check_handle("memory_id", memory_id), now=self._house.clock.now())
        if not self._house.uses_redis:
            self._house.engine.wake()
        return {"message": "Memory deleted successfully!"}

    # Reading

    def search(
        self,
        /,
        query: str,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        threshold: float = 0.1,
        explain: bool = False,
        show_expired: bool = False,
        include_superseded: bool = False,
        as_of: datetime | None = None,
        **unknown: object,
    ) -> dict[str, Any]:
        """Memories for a question, best first: `{"results": [...]}` in mem0's shape.

        *filters* name at least one scope id. A part that is down does not take the answer with it: `missing` then names it, and
        `incomplete` says that deeper candidates were not looked at. Raises InvalidFilter, ScopeRequired and InvalidInput.
        """
        from memline.contracts.filters import parse
        from memline.search.explain import score_details
        from memline.search.items import memory_item

        self._refuse_ids("search", unknown)
        self._check_open()
        check_flag("explain", explain)
        check_flag("show_expired", show_expired)
        check_flag("include_superseded", include_superseded)
        found = self._house.searcher.search(
            self.namespace,
            query,
            parse(filters),
            top_k=top_k,
            threshold=threshold,
            explain=explain,
            show_expired=show_expired,
            include_superseded=include_superseded,
            as_of=as_of,
        )
        results = []
        for hit in found.results:
            item = memory_item(hit.row, score=hit.score)
            if explain:
                item["score_details"] = score_details(hit, threshold=threshold)
            results.append(item)
        answer: dict[str, Any] = {"results": results}
        if found.missing:
            answer["missing"] = list(found.missing)
        if found.incomplete:
            answer["incomplete"] = True
        if explain:
            answer["phases"] = dict(found.phases)
        return answer

    def get(self, /, memory_id: str, **unknown: object) -> dict[str, Any] | None:
        """A memory by id; None where there is none in this namespace. Expired and superseded ones are shown."""
        from memline.ledger.memories import load_memory
        from memline.search.items import memory_item

        _refuse_unknown("get", unknown)
        self._check_open()
        checked = check_handle("memory_id", memory_id)
        with self._house.ledger.read() as connection:
            row = load_memory(connection, self.namespace, checked)
        return None if row is None else memory_item(row)

    def get_all(
        self, /, *, filters: Mapping[str, Any] | None = None, top_k: int = 20, show_expired: bool = False, **unknown: object
    ) -> dict[str, Any]:
        """The first *top_k* memories that *filters* match, in order of creation: `{"results": [...]}`."""
        from memline.contracts.filters import parse
        from memline.search.items import memory_item
        from memline.search.listing import list_matching

        self._refuse_ids("get_all", unknown)
        self._check_open()
        check_flag("show_expired", show_expired)
        rows = list_matching(
            self._house.ledger, self.namespace, parse(filters), top_k=top_k, show_expired=show_expired, now=self._house.clock.now()
        )
        return {"results": [{key: value for key, value in memory_item(row).items() if key != "score"} for row in rows]}

    def history(self, /, memory_id: str, **unknown: object) -> list[dict[str, Any]]:
        """What happened to a memory, oldest first, in mem0's shape; empty for an unknown id."""
        from memline.ledger.history import history_of
        from memline.search.items import history_item

        _refuse_unknown("history", unknown)
        self._check_open()
        checked = check_handle("memory_id", memory_id)
        with self._house.ledger.read() as connection:
            return [history_item(row) for row in history_of(connection, self.namespace, checked)]

    # Turns on their way

    def receipt(self, turn_id: str) -> Receipt:
        """The receipt of a turn, from any process: looks in this machine's spool, the stream, then the ledger.

        Raises UnknownReceipt for an id that no turn of this namespace has.
        """
        self._check_open()
        return Receipt(self._look(check_handle("turn_id", turn_id)), self._look)

    def _look(self, turn_id: str) -> ReceiptState:
        from memline.ledger.receipts import note_lost, receipt_state

        house = self._house
        if house.uses_redis:
            # A turn only moves from spool to stream to ledger, so looking in this order misses none.
            away: ServiceUnavailable | None = None
            try:
                status = house.producer.locate(turn_id)
            except ServiceUnavailable as error:
                status, away = None, error  # the ledger may know it all the same
            if status is Status.QUEUED:
                return ReceiptState(turn_id, status)
        with house.ledger.read() as connection:
            state = receipt_state(connection, turn_id, namespace=self.namespace)
        if state is not None:
            return state
        if house.uses_redis and status is not None:
            return ReceiptState(turn_id, status)
        if house.uses_redis and away is not None:
            raise away
        handed_at = handed_over_at(turn_id)
        if handed_at is None or not house.uses_redis:
            raise UnknownReceipt(
                f"No turn {turn_id} was handed over in namespace {self.namespace}. Is it the id of a memory, or another namespace's?"
            )
        now = house.clock.now()
        if now - handed_at >= timedelta(days=house.settings.keep_jobs):
            raise UnknownReceipt(
                f"Turn {turn_id} was handed over more than {house.settings.keep_jobs:g} days ago (MEMLINE_KEEP_JOBS), and no memory came "
                "from it: what became of it is no longer kept."
            )
        if now - handed_at <= timedelta(seconds=house.settings.order_wait):
            return ReceiptState(turn_id, Status.QUEUED)
        with house.ledger.write() as tx:
            note_lost(tx, turn_id, now=now)
        return ReceiptState(turn_id, Status.LOST, reason="it was queued in Redis and is nowhere now", finished=True)

    def flush(self, timeout: float = 30) -> None:
        """Waits until everything handed over in this namespace has ended and the index shows it; WaitTimeout after *timeout* seconds."""
        from memline.ledger.pending import pending_work

        self._check_open()
        house = self._house
        deadline = time.monotonic() + check_timeout(timeout)
        pause = 0.002
        while True:
            on_the_way = self._unaccepted()
            with house.ledger.read() as connection:
                jobs, outbox = pending_work(connection, self.namespace)
            if not (on_the_way or jobs or outbox):
                return
            if not house.uses_redis:
                house.engine.wake()
            if time.monotonic() >= deadline:
                raise WaitTimeout(f"After {timeout:g} s {on_the_way} turns, {jobs} jobs and {outbox} index writes are still on their way.")
            time.sleep(pause)
            pause = min(0.1, pause * 1.5)

    def _unaccepted(self) -> int:
        if not self._house.uses_redis:
            return 0
        producer = self._house.producer
        return producer.spool.pending() + producer.stream.length()

    # Closing

    def close(self) -> None:
        """Ends the engine after what it has accepted, for at most MEMLINE_EXIT_DRAIN seconds, and closes every connection."""
        self._open.close()

    def __enter__(self) -> Memory:
        self._check_open()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Memory(namespace={self.namespace!r})"

    # What is not there yet

    @classmethod
    def from_config(cls, /, *_args: object, **_options: object) -> NoReturn:
        """mem0's way to settings: not taken here."""
        raise NotSupportedYet("Memory.from_config is not built: settings come from MEMLINE_* or Memory(settings=memline.Settings(…)).")

    def chat(self, /, *_args: object, **_options: object) -> NoReturn:
        """mem0 does not have it either."""
        raise NotSupportedYet("Memory.chat is not built: search, ask your model with what was found, and add the turn.")

    def update(self, /, *_args: object, **_options: object) -> NoReturn:
        """Not built yet."""
        raise NotSupportedYet("Memory.update is not built yet: delete the memory and add the new text.")

    def delete_all(self, /, *_args: object, **_options: object) -> NoReturn:
        """Not built yet."""
        raise NotSupportedYet("Memory.delete_all is not built yet: delete what get_all lists, one by one.")

    def reset(self, /, *_args: object, **_options: object) -> NoReturn:
        """Not built yet."""
        raise NotSupportedYet("Memory.reset is not built yet: use another namespace.")

    def erase(self, /, *_args: object, **_options: object) -> NoReturn:
        """Not built yet."""
        raise NotSupportedYet("Memory.erase is not built yet.")

    def _check_open(self) -> None:
        if self._open.closed:
            raise Closed()
        if not self._house.uses_redis:
            _ = self._house.engine  # what an earlier process could not finish goes on now

    def _refuse_ids(self, call: str, unknown: Mapping[str, object]) -> None:
        for name in ID_KEYS:
            if name in unknown:
                raise UnknownOption(f"{call} takes scope ids in filters: filters={{{name!r}: ...}}.")
        _refuse_unknown(call, unknown)


#: Options of mem0 that memline will have.
_LATER = frozenset({"rerank", "reference_date", "memory_type"})


def _refuse_unknown(call: str, unknown: Mapping[str, object]) -> None:
    if not unknown:
        return
    if later := sorted(_LATER & unknown.keys()):
        raise NotSupportedYet(f"{call}({', '.join(later)}=…) is not built yet; nothing was changed. Leave it out.")
    where = "memline.Memory" if call == "Memory" else f"memline.Memory.{call}"
    raise UnknownOption(f"{call} has no option {', '.join(sorted(unknown))}; nothing was changed. See help({where}).")
