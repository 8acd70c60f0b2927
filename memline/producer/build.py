"""From what a caller gave to a checked turn."""

from __future__ import annotations

from collections.abc import Mapping

from memline.contracts import tracing
from memline.contracts.clock import Clock
from memline.contracts.errors import InvalidInput, TurnTooLarge
from memline.contracts.ids import IdSource
from memline.contracts.options import check_flag
from memline.contracts.scope import Scope
from memline.contracts.turn import (
    Turn,
    check_expiration,
    check_idempotency_key,
    check_memory_type,
    check_messages,
    check_metadata,
    check_text,
    check_timestamp,
)
from memline.producer.policy import Screen, WritePolicy

__all__ = ["DEFAULT_MAX_TURN", "build_turn"]

_OWN = WritePolicy()

#: Most bytes of text in one turn (`MEMLINE_MAX_TURN`): 1 MiB.
DEFAULT_MAX_TURN = 1024 * 1024


def build_turn(
    scope: Scope,
    messages: object,
    *,
    ids: IdSource,
    clock: Clock,
    metadata: object = None,
    infer: object = True,
    prompt: object = None,
    expiration_date: object = None,
    timestamp: object = None,
    idempotency_key: object = None,
    memory_type: object = None,
    vision: bool = False,
    max_turn: int = DEFAULT_MAX_TURN,
    policy: WritePolicy | None = None,
    masked: Mapping[str, int] | None = None,
) -> Turn:
    """A turn of *scope* with a new id and the present time; it has no producer and no number yet.

    *messages* is a string, a message or a list of messages in OpenAI's shape, *vision* whether images in them will be described,
    *max_turn* a number of bytes. *policy* (memline's own, where None is given) masks what is not to be stored: nothing that comes after
    this sees it; *masked*: what was masked before it was given. Every check is made before an id is drawn. Raises InvalidInput or one
    of its kinds (InvalidMessage, PolicyRefused, TurnTooLarge, InvalidDate, InvalidScopeId for an id inside metadata, ScopeRequired for a
    procedural memory without an agent); nothing was changed then.
    """
    kind = check_memory_type(memory_type, scope)
    checked = check_messages(messages, max_bytes=max_turn, vision=vision)
    kept = check_metadata(metadata)
    inferred = check_flag("infer", infer)
    instruction = _check_prompt(prompt, max_turn)
    expires_on = check_expiration(expiration_date)
    occurred_at = check_timestamp(timestamp)
    key = check_idempotency_key(idempotency_key)
    screen = Screen((policy or _OWN).actions(scope.namespace))
    checked, kept = screen.messages(checked), screen.metadata(kept)
    instruction = screen.optional("prompt", instruction)
    return Turn(
        id=ids.new(),
        scope=scope,
        messages=checked,
        handed_at=clock.now(),
        metadata=kept,
        infer=inferred,
        prompt=instruction,
        expires_on=expires_on,
        occurred_at=occurred_at,
        idempotency_key=key,
        memory_type=kind,
        trace=tracing.current(),
        masked=screen.report(masked or {}),
    )


def _check_prompt(prompt: object, max_bytes: int) -> str | None:
    if prompt is None:
        return None
    if not isinstance(prompt, str):
        raise InvalidInput(f"prompt must be a string, not {type(prompt).__name__}.")
    size = len(check_text("prompt", prompt).encode("utf-8"))
    if size > max_bytes:
        raise TurnTooLarge(f"The prompt has {size} bytes, MEMLINE_MAX_TURN allows {max_bytes}: shorten it.")
    return prompt
