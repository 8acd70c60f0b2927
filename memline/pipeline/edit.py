"""Update: a memory is read, what a new text needs is made outside a transaction, and the change is written if the memory is still the same.

Where somebody else changed it meanwhile, it is read again, unless the caller named the version that it must have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from sqlalchemy.engine import Connection

from memline.contracts import failpoints
from memline.contracts.errors import InvalidInput, MemoryNotFound, TurnTooLarge, VersionConflict
from memline.contracts.fact import Analysis
from memline.contracts.filters import ScopeIds
from memline.contracts.scope import Scope
from memline.contracts.turn import check_metadata, check_text
from memline.ledger.entities import Named, known_names
from memline.ledger.memories import MemoryRow, load_memory
from memline.ledger.update import Edit, NewText, lock_memory, update_memory
from memline.pipeline.embed import vector_bytes
from memline.pipeline.extractors.slots import slot_of
from memline.pipeline.link import name_in_scope
from memline.pipeline.own_embedder import check_storing
from memline.pipeline.paid import embedded_for
from memline.pipeline.parts import Parts

__all__ = ["UNCHANGED", "Change", "Unchanged", "check_new_text", "edit_memory"]

#: How often a memory that others change all the time is read anew.
_TRIES = 20


class Unchanged:
    """What stays as it is: None is a value for an expiration date."""


UNCHANGED: Final = Unchanged()


@dataclass(frozen=True, slots=True)
class Change:
    """What is asked for. *metadata*: what is merged into the memory's, a None removing its key."""

    text: str | None = None
    metadata: Mapping[str, Any] | None = None
    expires_on: date | Unchanged | None = UNCHANGED
    if_version: int | None = None
    actor: str | None = None
    reason: str | None = None


def check_new_text(text: object, *, max_bytes: int) -> str:
    """*text* as the text of a memory; the rules of a message. Raises InvalidInput, InvalidMessage or TurnTooLarge."""
    if not isinstance(text, str):
        raise InvalidInput(f"text must be a string, not {type(text).__name__}.")
    if not check_text("text", text).strip():
        raise InvalidInput("text is blank: to remove a memory, delete it.")
    size = len(text.encode("utf-8"))
    if size > max_bytes:
        raise TurnTooLarge(f"The text has {size} bytes, MEMLINE_MAX_TURN allows {max_bytes}: shorten it.")
    return text


def edit_memory(parts: Parts, namespace: str, memory_id: str, change: Change, *, within: ScopeIds | None = None) -> int:
    """Applies *change*; returns the memory's version then, which is the old one where nothing is different.

    Raises MemoryNotFound (for one outside *within*, too), VersionConflict, DuplicateMemory, InvalidInput for metadata that grew too
    large, and what the embedder raises; nothing was changed then.
    """
    found = 0
    for _ in range(_TRIES):
        with parts.ledger.read() as connection:
            row = load_memory(connection, namespace, memory_id, within)
        if row is None:
            raise MemoryNotFound(memory_id)
        found = row.version
        if change.if_version is not None and change.if_version != found:
            raise _conflict(memory_id, change.if_version, found)
        edit = _edit(parts, row, change)
        if (edit.text, dict(edit.metadata), edit.expires_on) == (row.text, row.metadata, row.expires_on):
            return found
        with parts.ledger.write() as tx:
            current = lock_memory(tx, row, within)
            found = current.version
            version = None
            if found == row.version and _names_are_there(tx, row, edit):
                if edit.new is not None:
                    check_storing(tx, parts)
                version = update_memory(tx, current, edit, model=parts.embedder.model, now=parts.clock.now(), keep=parts.history)
                failpoints.hit("update.before_commit")
        if version is not None:
            failpoints.hit("update.after_commit")
            return version
    raise _conflict(memory_id, change.if_version, found)


def _conflict(memory_id: str, expected: int | None, found: int) -> VersionConflict:
    if expected is None:
        message = f"Memory {memory_id} was changed by others at each of {_TRIES} tries: nothing was written. Try again."
    else:
        message = (
            f"Memory {memory_id} is at version {found}, and version {expected} was expected: somebody changed it. Nothing was written; "
            "read it again, then decide."
        )
    return VersionConflict(message, memory_id=memory_id, expected=expected or 0, found=found)


def _edit(parts: Parts, row: MemoryRow, change: Change) -> Edit:
    metadata = row.metadata if change.metadata is None else _merged(row.metadata, change.metadata)
    expires_on = row.expires_on if isinstance(change.expires_on, Unchanged) else change.expires_on
    text = row.text if change.text is None else change.text
    terms = None
    new = None
    if text != row.text or row.state == "expired":
        (analysis,) = parts.analyser.analyse([text])
        terms = Counter(analysis.terms)
        new = _new_text(parts, row, text, analysis) if text != row.text else None
    return Edit(text, metadata, expires_on, terms, new, change.actor, change.reason)


def _names_are_there(tx: Connection, row: MemoryRow, edit: Edit) -> bool:
    """No name that was known when the edit was made has gone since, with the last memory that had it."""
    if edit.new is None or not edit.new.mentions:
        return True
    new = {name.norm for name in edit.new.new_names}
    old = [(row.lane, norm) for norm in edit.new.mentions if norm not in new]
    return len(known_names(tx, old)) == len(old)


def _merged(old: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = {key: value for key, value in {**old, **given}.items() if not (key in given and value is None)}
    return check_metadata(merged)  # each was small enough, together they may not be


def _new_text(parts: Parts, row: MemoryRow, text: str, analysis: Analysis) -> NewText:
    mentions = {mention.normalised: mention for mention in analysis.entities}
    with parts.ledger.read() as connection:
        known = known_names(connection, [(row.lane, norm) for norm in mentions]) if mentions else {}
    new = [mention for norm, mention in mentions.items() if (row.lane, norm) not in known]
    texts = [text, *(mention.name for mention in new)]
    vectors = [vector_bytes(vector) for vector in embedded_for(parts, row.namespace, texts)]
    scope = Scope(row.namespace, row.user_id, row.agent_id, row.run_id)
    named: list[Named] = []
    for mention, vector in zip(new, vectors[1:], strict=True):
        named.append(name_in_scope(parts, scope, mention, vector, named))
    return NewText(vectors[0], None if row.verbatim else slot_of(text), list(mentions), named)
