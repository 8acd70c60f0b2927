"""The front door: `Memory`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

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
from memline.contracts.options import check_flag, check_handle, check_remark, check_timeout, check_version
from memline.contracts.receipt import ReceiptState, Status
from memline.contracts.scope import ID_KEYS, Scope, check_namespace
from memline.lifetime import Lifetime
from memline.receipt import Receipt
from memline.settings import Settings, load_settings

if TYPE_CHECKING:
    from memline.language.ports import ChatModel, Embedder
    from memline.pipeline.extractors.port import Extractor
    from memline.search.index.port import Index
    from memline.search.rerank.port import Reranker

__all__ = ["Memory"]

#: What was not given, where None is a value.
_UNCHANGED: Final = object()


class Memory:
    """The memory of one namespace.

    Settings come from `MEMLINE_*` (and a `.env` file); with nothing set, everything runs here: a SQLite ledger in the user's data
    folder, an engine thread, a local embedder, an extractor by rules. Safe for threads. Close it, or use it in a `with` block.

    *embedder*, *chat_model*, *extractor*, *index* and *reranker* take an object in place of what the settings name.
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
        reranker: Reranker | None = None,
        **unknown: object,
    ) -> None:
        _refuse_unknown("Memory", unknown)
        if settings is not None and not isinstance(settings, Settings):
            raise InvalidInput(f"settings must be a memline.Settings, not {type(settings).__name__}.")
        loaded = settings or load_settings()
        self.namespace = check_namespace(loaded.namespace if namespace is None else namespace)
        self._house = House(loaded, embedder=embedder, chat_model=chat_model, extractor=extractor, index=index, reranker=reranker)
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
        memory_type: str | None = None,
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

        *messages*: a string, a message, or a list of messages in OpenAI's shape; images in them are described where MEMLINE_VISION_MODEL
        names a model. *infer* False keeps each message verbatim; what is there already is a duplicate of it, and adds its time to the
        `sightings` that `get` shows. *memory_type* "procedural_memory" (with *agent_id*) makes one memory of the steps in the messages, by
        the model; without a model, or with *infer* False, of the messages themselves. *prompt*: instructions for what to write down, in
        place of the namespace's; "" for none.
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
            "memory_type": memory_type,
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
        sees = house.settings.vision_model is not None
        turn = build_turn(scope, messages, ids=house.ids, clock=house.clock, max_turn=house.settings.max_turn, vision=sees, **options)
        with house.ledger.write() as tx:
            (accepted,) = accept_turns(tx, [turn], now=house.clock.now(), order_wait=house.settings.order_wait)
        if accepted.outcome is Outcome.CONFLICT:
            raise IdempotencyConflict(
                f"The idempotency key was used before in this scope, by turn {accepted.job_id}, for another content: "
                "the first one stands. Use a new key, or send the same content."
            )
        house.engine.wake()
        return Receipt(ReceiptState(accepted.job_id, Status.ACCEPTED), self._look)

    def update(
        self,
        /,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: object = _UNCHANGED,
        data: str | None = None,
        *,
        if_version: int | None = None,
        actor: str | None = None,
        reason: str | None = None,
        **unknown: object,
    ) -> dict[str, Any]:
        """Changes a memory; returns `{"message", "id", "version"}`, the version being the old one where nothing is different.

        *text* (or mem0's *data*) replaces its text, *metadata* is merged into its own, a None removing the key, *expiration_date* None
        takes its date away. Scope ids, speaker and the time it was said stay. A text that stays is not embedded again. *if_version*: the
        version it must have (`get` shows it). *actor* and *reason* stand in its history. A superseded memory stays superseded; an expired
        one is back when its new date allows it.

        Raises MemoryNotFound, VersionConflict (with both numbers), DuplicateMemory (with the id of the live memory of the scope that says
        the same), InvalidInput, and what the embedder raises; nothing was changed then.
        """
        from memline.contracts.turn import check_expiration, check_metadata
        from memline.pipeline.edit import UNCHANGED, Change, check_new_text, edit_memory

        _refuse_unknown("update", unknown)
        self._check_open()
        checked = check_handle("memory_id", memory_id)
        if text is not None and data is not None and text != data:
            raise InvalidInput("text and data are two names of one thing: give one of them.")
        given = text if text is not None else data
        if given is None and metadata is None and expiration_date is _UNCHANGED:
            raise InvalidInput("update needs something to change: text, metadata or expiration_date.")
        change = Change(
            text=None if given is None else check_new_text(given, max_bytes=self._house.settings.max_turn),
            metadata=None if metadata is None else check_metadata(metadata),
            expires_on=UNCHANGED if expiration_date is _UNCHANGED else check_expiration(expiration_date),
            if_version=check_version(if_version),
            actor=check_remark("actor", actor),
            reason=check_remark("reason", reason),
        )
        version = edit_memory(self._house.parts, self.namespace, checked, change)
        self._wake()
        return {"message": "Memory updated successfully!", "id": checked, "version": version}

    def delete(
        self,
        /,
        memory_id: str,
        *,
        redact: bool = False,
        actor: str | None = None,
        reason: str | None = None,
        **unknown: object,
    ) -> dict[str, str]:
        """Deletes a memory: no read returns it from now on, and no model is shown again the messages that it came from.

        Its text stays in its history; *redact* takes it from there, too, also for a memory that is deleted already. What it had
        superseded stays superseded. *actor* and *reason* stand in its history. Raises MemoryNotFound.
        """
        from memline.ledger.history import HistoryMode
        from memline.ledger.retire import delete_memory

        _refuse_unknown("delete", unknown)
        self._check_open()
        delete_memory(
            self._house.ledger,
            self.namespace,
            check_handle("memory_id", memory_id),
            now=self._house.clock.now(),
            redact=check_flag("redact", redact),
            actor=check_remark("actor", actor),
            reason=check_remark("reason", reason),
            keep=HistoryMode(self._house.settings.history),
        )
        self._wake()
        return {"message": "Memory deleted successfully!"}

    def delete_all(
        self,
        /,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        *,
        redact: bool = False,
        actor: str | None = None,
        reason: str | None = None,
        **unknown: object,
    ) -> dict[str, Any]:
        """Deletes the memories that have all the ids given, whatever others they have, and what was said there.

        Turns of these scopes that were handed over before it and are not committed end `cancelled`, wherever they are. Returns
        `{"message", "deleted", "cancelled"}`: how many memories, and how many turns in the ledger; those on their way to it are not
        counted. *redact* empties their history of texts, too. Raises ScopeRequired without an id, InvalidScopeId for a wildcard, and
        ServiceUnavailable where Redis, which knows the order, does not answer; nothing was changed then.
        """
        from memline.ledger.delete_all import delete_all
        from memline.ledger.history import HistoryMode

        _refuse_unknown("delete_all", unknown)
        self._check_open()
        scope = Scope.of(self.namespace, user_id, agent_id, run_id)
        options: dict[str, Any] = {
            "redact": check_flag("redact", redact),
            "actor": check_remark("actor", actor),
            "reason": check_remark("reason", reason),
            "keep": HistoryMode(self._house.settings.history),
        }
        done = delete_all(self._house.ledger, scope, now=self._house.clock.now(), place=self._place(), **options)
        self._wake()
        return {"message": "Memories deleted successfully!", "deleted": done.deleted, "cancelled": done.cancelled}

    def reset(self, /, confirm: object = None, **unknown: object) -> dict[str, Any]:
        """Deletes everything in this namespace, the texts of its history too; *confirm* is the namespace's name. No other is touched.

        Turns end cancelled as with `delete_all`. What remains is content-free: ids and times of history, receipts' states,
        idempotency keys, and the namespace's options. Raises InvalidInput without the right *confirm*.
        """
        from memline.ledger.delete_all import reset_namespace

        _refuse_unknown("reset", unknown)
        self._check_open()
        if confirm != self.namespace:
            raise InvalidInput(
                f"reset deletes everything in the namespace {self.namespace}: call reset(confirm={self.namespace!r}) if that is meant."
            )
        done = reset_namespace(self._house.ledger, self.namespace, now=self._house.clock.now(), place=self._place())
        self._wake()
        return {"message": "Namespace reset successfully!", "deleted": done.deleted, "cancelled": done.cancelled}

    def erase(
        self,
        /,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        *,
        physical: bool = False,
        **unknown: object,
    ) -> dict[str, Any]:
        """Erases one subject, whatever other ids its memories have, from every store, and returns the certificate.

        Exactly one id. Its turns that were handed over before the end of it end `cancelled`, wherever they are; what is added afterwards
        is new. Waits until whoever works for the subject has ended, at most MEMLINE_LEASE and the deadline of a call. Killed, or where a
        store does not answer, the subject stays shut and the same call goes on. *physical* also has databases write their files anew
        (PostgreSQL locks each table meanwhile). `docs/erasure.md` has the certificate.

        Raises InvalidInput for none or several ids, InvalidScopeId, ConfigurationError for a key that can't be read, ServiceUnavailable.
        """
        from memline.contracts.scope import Subject, SubjectKind

        _refuse_unknown("erase", unknown)
        self._check_open()
        given: dict[SubjectKind, str | None] = {"user": user_id, "agent": agent_id, "run": run_id}
        check_flag("physical", physical)
        scope = Scope.of(self.namespace, user_id, agent_id, run_id)
        if len(scope.ids()) != 1:
            raise InvalidInput("erase takes one subject: exactly one of user_id, agent_id and run_id. Nothing was erased.")
        (kind,) = [kind for kind, value in given.items() if value is not None]
        (value,) = scope.ids().values()
        return self._house.eraser.erase(Subject(self.namespace, kind, value), physical=physical)

    def _place(self) -> str | None:
        """Where in the stream this moment is; None where turns go straight into the ledger."""
        from memline.contracts import failpoints
        from memline.ledger.marks import place_of

        place = place_of(self._house.stream.draw_place()) if self._house.uses_redis else None
        failpoints.hit("delete_all.placed")
        return place

    def _wake(self) -> None:
        if not self._house.uses_redis:
            self._house.engine.wake()

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
        rerank: bool = False,
        rerank_k: int | None = None,
        max_tokens: int | None = None,
        **unknown: object,
    ) -> dict[str, Any]:
        """Memories for a question, best first: `{"results": [...]}` in mem0's shape.

        *filters* name at least one scope id. *threshold* is one of `score`, 0 to 1, which means the same in every question. *as_of*
        (aware) asks for what was current then.

        *rerank* shows the best *rerank_k* (by default four times *top_k*, at least 40, at most 200) to the reranker, whose order it is
        then: `rerank_score` joins `score`. *max_tokens* keeps, in the order of rank, what fits by an estimate of tokens, a smaller one
        after one that is too large among them; `left_out` says how many and which did not: `{"count", "ids", "tokens": {"used",
        "limit"}}`. *explain* adds `score_details` to each, and `phases` (seconds) and `models` to the answer.

        A part that is down, slow or answers rubbish does not take the answer with it: `missing` then names it ("embedder", "index",
        "reranker") and `warnings` say why; `incomplete` says that deeper candidates were not looked at.
        Raises InvalidFilter, ScopeRequired and InvalidInput, ConfigurationError for *rerank* without a reranker, ServiceUnavailable
        where the ledger does not answer within MEMLINE_SEARCH_DEADLINE.
        """
        from memline.contracts.filters import parse
        from memline.search.explain import score_details
        from memline.search.items import memory_item

        if "reference_date" in unknown:
            raise UnknownOption(
                "search has no reference_date: words such as 'last week' in a question are not reckoned from a date, so put the date into "
                "the question; as_of=datetime(…) asks for what was current at a time. Nothing was searched."
            )
        self._refuse_ids("search", unknown)
        self._check_open()
        check_flag("explain", explain)
        check_flag("rerank", rerank)
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
            rerank=rerank,
            rerank_k=rerank_k,
            max_tokens=max_tokens,
        )
        results = []
        for hit in found.results:
            item = memory_item(hit.row, score=hit.score)
            if hit.rerank_score is not None:
                item["rerank_score"] = hit.rerank_score
            if explain:
                item["score_details"] = score_details(hit, threshold=threshold)
            results.append(item)
        answer: dict[str, Any] = {"results": results}
        if found.missing:
            answer["missing"] = list(found.missing)
            answer["warnings"] = list(found.warnings)
        if found.incomplete:
            answer["incomplete"] = True
        if (left := found.left_out) is not None:
            answer["left_out"] = {"count": len(left.ids), "ids": list(left.ids), "tokens": {"used": left.used, "limit": left.limit}}
        if explain:
            answer["phases"] = dict(found.phases)
            answer["models"] = dict(found.models)
            answer["weights"] = found.weights
        return answer

    def get(self, /, memory_id: str, **unknown: object) -> dict[str, Any] | None:
        """A memory by id; None where there is none in this namespace. Expired and superseded ones are shown.

        `sightings` ({"count", "said_at": the newest 20 times, oldest first}) is there where turns after the first have said it again.
        """
        from memline.ledger.memories import load_memory
        from memline.ledger.sightings import sightings_of
        from memline.search.items import memory_item, sightings_item

        _refuse_unknown("get", unknown)
        self._check_open()
        checked = check_handle("memory_id", memory_id)
        with self._house.ledger.read() as connection:
            row = load_memory(connection, self.namespace, checked)
            if row is None:
                return None
            return memory_item(row) | sightings_item(sightings_of(connection, row.no))

    def get_all(
        self,
        /,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        cursor: str | None = None,
        show_expired: bool = False,
        include_superseded: bool = False,
        **unknown: object,
    ) -> dict[str, Any]:
        """Memories that *filters* match, in the order of creation, *top_k* a page: `{"results": [...], "total": n}`.

        `next_cursor` is there while there are more: give it as *cursor*, with the same filters and options, for the next page. A
        memory that is there during the whole walk comes exactly once, whatever changes meanwhile. `total` is how many match: now where
        *filters* ask for scope ids only, else when the walk began; `total_at_least` says that counting ended early (50,000 rows).
        Raises InvalidFilter, ScopeRequired, InvalidCursor and InvalidInput.
        """
        from memline.contracts.filters import parse
        from memline.search.items import memory_item
        from memline.search.listing import list_matching

        self._refuse_ids("get_all", unknown)
        self._check_open()
        page = list_matching(
            self._house.ledger,
            self.namespace,
            parse(filters),
            top_k=top_k,
            show_expired=check_flag("show_expired", show_expired),
            show_superseded=check_flag("include_superseded", include_superseded),
            now=self._house.clock.now(),
            cursor=cursor,
        )
        answer: dict[str, Any] = {
            "results": [{key: value for key, value in memory_item(row).items() if key != "score"} for row in page.rows],
            "total": page.total,
        }
        if page.at_least:
            answer["total_at_least"] = True
        if page.next_cursor is not None:
            answer["next_cursor"] = page.next_cursor
        return answer

    def count(self, /, *, filters: Mapping[str, Any] | None = None, **unknown: object) -> int:
        """How many memories *filters* match: those that `get_all` lists without options. Raises InvalidFilter and ScopeRequired."""
        from memline.contracts.filters import parse
        from memline.search.listing import count_matching

        self._refuse_ids("count", unknown)
        self._check_open()
        return count_matching(self._house.ledger, self.namespace, parse(filters), now=self._house.clock.now())

    def entities(
        self,
        /,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        cursor: str | None = None,
        memory_ids: int = 100,
        **unknown: object,
    ) -> dict[str, Any]:
        """The names that memories inside *filters* share, *top_k* a page, in the order of the lower-cased names.

        `{"results": [{"name", "type", "count", "memory_ids"}]}`, with the user_id and agent_id (or the run_id) they belong to: `count`
        memories name it, the first *memory_ids* of them are told. `next_cursor` as in `get_all`. Deleted, expired and superseded
        memories count for nothing. Raises InvalidFilter, ScopeRequired, InvalidCursor and InvalidInput.
        """
        from memline.contracts.filters import parse
        from memline.search.entity_listing import list_entities
        from memline.search.items import entity_item

        self._refuse_ids("entities", unknown)
        self._check_open()
        now = self._house.clock.now()
        page = list_entities(
            self._house.ledger, self.namespace, parse(filters), top_k=top_k, now=now, cursor=cursor, memory_ids=memory_ids
        )
        answer: dict[str, Any] = {"results": [entity_item(item) for item in page.items]}
        if page.next_cursor is not None:
            answer["next_cursor"] = page.next_cursor
        return answer

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


def _refuse_unknown(call: str, unknown: Mapping[str, object]) -> None:
    if not unknown:
        return
    where = "memline.Memory" if call == "Memory" else f"memline.Memory.{call}"
    raise UnknownOption(f"{call} has no option {', '.join(sorted(unknown))}; nothing was changed. See help({where}).")
