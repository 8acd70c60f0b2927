"""The calls that change memory: add, update, delete, delete_all, reset, erase."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from memline.contracts import metrics, tracing
from memline.contracts.errors import IdempotencyConflict, InvalidInput
from memline.contracts.options import check_flag, check_handle, check_remark, check_timeout, check_version
from memline.contracts.receipt import ReceiptState, Status
from memline.contracts.scope import Scope
from memline.contracts.within import check_within, refuse_outside
from memline.memory_handle import refuse_unknown
from memline.memory_turns import Turns
from memline.receipt import Receipt

if TYPE_CHECKING:
    from memline.producer.policy import Screen

__all__ = ["Writes"]

#: What was not given, where None is a value.
_UNCHANGED: Final = object()


class Writes(Turns):
    """What changes memory."""

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
        within: Mapping[str, Any] | None = None,
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
        *within*: the ids given must be all of those, the same, and may be more.

        What the write policy masks (`docs/write-policy.md`) is gone before anything else sees the turn. Raises InvalidInput (PolicyRefused
        for what the policy refuses; nothing was changed), IdempotencyConflict where it is known at once, JobFailed and WaitTimeout when
        waiting.
        """
        refuse_unknown("add", unknown)
        self._check_open()
        if ack not in ("queued", "accepted"):
            raise InvalidInput(f"ack must be 'queued' or 'accepted', not {ack!r}.")
        check_flag("wait", wait)
        check_timeout(timeout)
        bound = check_within(within)
        scope = Scope.of(self.namespace, user_id, agent_id, run_id)
        refuse_outside("add", scope, bound)
        if prompt is None and infer is True and memory_type is None:
            prompt = self._instructions
        options: dict[str, Any] = {
            "metadata": metadata,
            "infer": infer,
            "memory_type": memory_type,
            "prompt": prompt,
            "expiration_date": expiration_date,
            "timestamp": timestamp,
            "idempotency_key": idempotency_key,
        }
        with tracing.span("memline add", namespace=self.namespace):
            if self._house.uses_redis:
                turn, status = self._house.producer.hand_over(scope, messages, **options)
                receipt = Receipt(ReceiptState(turn.id, status, masked=turn.masked), self._look)
            else:
                receipt = self._accept(scope, messages, options)
            tracing.note(job=receipt.id, status=receipt.seen.status.value)
        if ack == "accepted" and self._house.uses_redis:
            receipt.wait_accepted(timeout)
        return {"results": receipt.wait(timeout).results} if wait else receipt

    def _accept(self, scope: Scope, messages: object, options: dict[str, Any]) -> Receipt:
        """Without Redis a turn goes straight into the ledger."""
        from memline.ledger.accept import Outcome, accept_turns
        from memline.producer.build import build_turn

        house = self._house
        sees = house.settings.vision_model is not None
        most, policy = house.settings.max_turn, house.write_policy
        turn = build_turn(scope, messages, ids=house.ids, clock=house.clock, max_turn=most, vision=sees, policy=policy, **options)
        with house.ledger.write() as tx:
            (accepted,) = accept_turns(tx, [turn], now=house.clock.now(), order_wait=house.settings.order_wait)
        if accepted.outcome is Outcome.CONFLICT:
            raise IdempotencyConflict(
                f"The idempotency key was used before in this scope, by turn {accepted.job_id}, for another content: "
                "the first one stands. Use a new key, or send the same content."
            )
        metrics.HANDED_OVER.add(1, receipt=Status.ACCEPTED.value)
        house.engine.wake()
        return Receipt(ReceiptState(accepted.job_id, Status.ACCEPTED, masked=turn.masked), self._look)

    def _screen(self) -> Screen:
        """The write policy of this namespace, for one call."""
        from memline.producer.policy import Screen

        return Screen(self._house.write_policy.actions(self.namespace))

    def _count_masked(self, screen: Screen) -> None:
        if screen.hits:
            from memline.ledger.counters import count_masked

            with self._house.ledger.write() as tx:
                count_masked(tx, screen.report())

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
        within: Mapping[str, Any] | None = None,
        **unknown: object,
    ) -> dict[str, Any]:
        """Changes a memory; returns `{"message", "id", "version"}`, the version being the old one where nothing is different.

        *text* (or mem0's *data*) replaces its text, *metadata* is merged into its own, a None removing the key, *expiration_date* None
        takes its date away. Scope ids, speaker and the time it was said stay. A text that stays is not embedded again. *if_version*: the
        version it must have (`get` shows it). *actor* and *reason* stand in its history. A superseded memory stays superseded; an expired
        one is back when its new date allows it.

        Raises MemoryNotFound, VersionConflict (with both numbers), DuplicateMemory (with the id of the live memory of the scope that says
        the same), InvalidInput (PolicyRefused among it), and what the embedder raises; nothing was changed then.
        """
        from memline.contracts.turn import check_expiration, check_metadata
        from memline.pipeline.edit import UNCHANGED, Change, check_new_text, edit_memory

        refuse_unknown("update", unknown)
        self._check_open()
        checked, bound = check_handle("memory_id", memory_id), check_within(within)
        if text is not None and data is not None and text != data:
            raise InvalidInput("text and data are two names of one thing: give one of them.")
        given = text if text is not None else data
        if given is None and metadata is None and expiration_date is _UNCHANGED:
            raise InvalidInput("update needs something to change: text, metadata or expiration_date.")
        screen = self._screen()
        change = Change(
            text=None if given is None else screen.text("text", check_new_text(given, max_bytes=self._house.settings.max_turn)),
            metadata=None if metadata is None else screen.metadata(check_metadata(metadata)),
            expires_on=UNCHANGED if expiration_date is _UNCHANGED else check_expiration(expiration_date),
            if_version=check_version(if_version),
            actor=check_remark("actor", actor),
            reason=screen.optional("reason", check_remark("reason", reason)),
        )
        version = edit_memory(self._house.parts, self.namespace, checked, change, within=bound)
        self._count_masked(screen)
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
        within: Mapping[str, Any] | None = None,
        **unknown: object,
    ) -> dict[str, str]:
        """Deletes a memory: no read returns it from now on, and no model is shown again the messages that it came from.

        Its text stays in its history; *redact* takes it from there, too, also for a memory that is deleted already. What it had
        superseded stays superseded. *actor* and *reason* stand in its history. Raises MemoryNotFound, for one outside *within*, too.
        """
        from memline.ledger.history import HistoryMode
        from memline.ledger.retire import delete_memory

        refuse_unknown("delete", unknown)
        self._check_open()
        screen = self._screen()
        delete_memory(
            self._house.ledger,
            self.namespace,
            check_handle("memory_id", memory_id),
            now=self._house.clock.now(),
            redact=check_flag("redact", redact),
            actor=check_remark("actor", actor),
            reason=screen.optional("reason", check_remark("reason", reason)),
            keep=HistoryMode(self._house.settings.history),
            within=check_within(within),
        )
        self._count_masked(screen)
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
        within: Mapping[str, Any] | None = None,
        **unknown: object,
    ) -> dict[str, Any]:
        """Deletes the memories that have all the ids given, whatever others they have, and what was said there.

        Turns of these scopes that were handed over before it and are not committed end `cancelled`, wherever they are. Returns
        `{"message", "deleted", "cancelled"}`: how many memories, and how many turns in the ledger; those on their way to it are not
        counted. *redact* empties their history of texts, too. *within* as in `add`. Raises ScopeRequired without an id, InvalidScopeId
        for a wildcard, and ServiceUnavailable where Redis, which knows the order, does not answer; nothing was changed then.
        """
        from memline.ledger.delete_all import delete_all
        from memline.ledger.history import HistoryMode

        refuse_unknown("delete_all", unknown)
        self._check_open()
        bound = check_within(within)
        scope = Scope.of(self.namespace, user_id, agent_id, run_id)
        refuse_outside("delete_all", scope, bound)
        screen = self._screen()
        options: dict[str, Any] = {
            "redact": check_flag("redact", redact),
            "actor": check_remark("actor", actor),
            "reason": screen.optional("reason", check_remark("reason", reason)),
            "keep": HistoryMode(self._house.settings.history),
        }
        done = delete_all(self._house.ledger, scope, now=self._house.clock.now(), place=self._place(), **options)
        self._count_masked(screen)
        self._wake()
        return {"message": "Memories deleted successfully!", "deleted": done.deleted, "cancelled": done.cancelled}

    def reset(self, /, confirm: object = None, *, within: Mapping[str, Any] | None = None, **unknown: object) -> dict[str, Any]:
        """Deletes everything in this namespace, the texts of its history too; *confirm* is the namespace's name. No other is touched.

        Turns end cancelled as with `delete_all`. What remains is content-free: ids and times of history, receipts' states,
        idempotency keys, and the namespace's options. Raises InvalidInput without the right *confirm*, and for any *within*.
        """
        from memline.ledger.delete_all import reset_namespace

        refuse_unknown("reset", unknown)
        self._check_open()
        if check_within(within) is not None:
            raise InvalidInput("within is not for reset, which deletes a whole namespace: delete_all removes a scope. Nothing was changed.")
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
        within: Mapping[str, Any] | None = None,
        **unknown: object,
    ) -> dict[str, Any]:
        """Erases one subject, whatever other ids its memories have, from every store, and returns the certificate.

        Exactly one id. Its turns that were handed over before the end of it end `cancelled`, wherever they are; what is added afterwards
        is new. Waits until whoever works for the subject has ended, at most MEMLINE_LEASE and the deadline of a call. Killed, or where a
        store does not answer, the subject stays shut and the same call goes on. *physical* also has databases write their files anew
        (PostgreSQL locks each table meanwhile). `docs/erasure.md` has the certificate. *within* may only name the subject itself.

        Raises InvalidInput for none or several ids, InvalidScopeId, ConfigurationError for a key that can't be read, ServiceUnavailable.
        """
        from memline.contracts.scope import Subject, SubjectKind

        refuse_unknown("erase", unknown)
        self._check_open()
        given: dict[SubjectKind, str | None] = {"user": user_id, "agent": agent_id, "run": run_id}
        check_flag("physical", physical)
        bound = check_within(within)
        scope = Scope.of(self.namespace, user_id, agent_id, run_id)
        if len(scope.ids()) != 1:
            raise InvalidInput("erase takes one subject: exactly one of user_id, agent_id and run_id. Nothing was erased.")
        refuse_outside("erase", scope, bound)
        (kind,) = [kind for kind, value in given.items() if value is not None]
        (value,) = scope.ids().values()
        return self._house.eraser.erase(Subject(self.namespace, kind, value), physical=physical)
