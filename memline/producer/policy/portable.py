"""The policy on a memory that an import brings: its text, its metadata, and what its history says of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memline.contracts.portable import PortableEvent, PortableMemory
from memline.producer.policy.apply import Screen

__all__ = ["screened"]


def screened(screen: Screen, memory: PortableMemory) -> PortableMemory:
    """*memory* as it may be stored. A vector that was made from the text as it was is left out. Raises PolicyRefused."""
    text = screen.text("text", memory.text)
    metadata = screen.metadata(memory.metadata)
    history = memory.history
    if history is not None:
        history = tuple(_event(screen, f"history[{index}]", event) for index, event in enumerate(history))
    vector = memory.vector if text == memory.text else None
    actor = screen.optional("actor_id", memory.actor_id)
    slot = screen.optional("slot", memory.slot)
    return replace(memory, text=text, metadata=metadata, history=history, vector=vector, actor_id=actor, slot=slot)


def _event(screen: Screen, path: str, event: PortableEvent) -> PortableEvent:
    return replace(
        event,
        old_text=screen.optional(f"{path}.old_text", event.old_text),
        new_text=screen.optional(f"{path}.new_text", event.new_text),
        reason=screen.optional(f"{path}.reason", event.reason),
        actor_id=screen.optional(f"{path}.actor_id", event.actor_id),
        changes=_changes(screen, f"{path}.changes", event.changes),
    )


def _changes(screen: Screen, path: str, changes: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """{"metadata": {key: {"old": …, "new": …}}, …}: each side under the key that it had."""
    if changes is None or not isinstance(told := changes.get("metadata"), Mapping):
        return changes
    sides: dict[str, dict[str, Any]] = {}
    for key, change in told.items():
        if not isinstance(change, Mapping):
            return changes
        for side, value in change.items():
            for name, kept in screen.metadata({key: value}, f"{path}.metadata").items():
                sides.setdefault(name, {})[side] = kept
    return {**changes, "metadata": sides}
