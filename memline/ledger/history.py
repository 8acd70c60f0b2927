"""What happened to each memory, one row a version, written in the transaction that did it.

`changes` tells what an update changed beside the text: {"metadata": {key: {"old": …, "new": …}}, "expiration_date": {"old": …, "new": …}};
a key that was not there has no "old", one that was removed no "new". Where texts are not to be kept (MEMLINE_HISTORY=hashes) a text and a
metadata value become their MD5 and length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.content_hash import text_md5
from memline.contracts.filters import ScopeIds
from memline.ledger.bounds import bounded
from memline.ledger.changes import write_changes
from memline.ledger.schema import history, memories

__all__ = ["HistoryMode", "changes_between", "history_of", "redact_history", "write_history"]

_MISSING = object()


class HistoryMode(StrEnum):
    """What history keeps of texts and of metadata values."""

    FULL = "full"
    #: Their MD5 and length only.
    HASHES = "hashes"


def write_history(tx: Connection, rows: Sequence[Mapping[str, Any]], *, keep: HistoryMode = HistoryMode.FULL, new: bool = True) -> None:
    """Adds rows; (memory, version) is unique, so one change has one row. *new*: they happen now, and the feed of changes tells them."""
    if rows:
        tx.execute(sa.insert(history), [_kept(row, keep) for row in rows])
        if new:
            write_changes(tx, rows)


def changes_between(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The keys whose values differ, each with what it was and what it is."""
    found: dict[str, dict[str, Any]] = {}
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key, _MISSING), new.get(key, _MISSING)
        if before is _MISSING or after is _MISSING or json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True):
            found[key] = {name: value for name, value in (("old", before), ("new", after)) if value is not _MISSING}
    return found


def history_of(connection: Connection, namespace: str, memory_id: str, within: ScopeIds | None = None) -> list[dict[str, Any]]:
    """The rows of a memory, oldest first; empty for an unknown id, and for one outside *within*. A deleted memory still has its ids."""
    query = sa.select(history).where(history.c.memory_id == memory_id, history.c.namespace == namespace).order_by(history.c.version)
    if within is not None:
        query = query.where(sa.exists().where(memories.c.id == history.c.memory_id, *bounded(memories, within)))
    return [dict(row._mapping) for row in connection.execute(query)]


def redact_history(tx: Connection, memory_ids: sa.Select[Any] | Sequence[str]) -> None:
    """Empties the history of memories: who, when, which event and why remain; no text, no hash of one, no value."""
    emptied = dict.fromkeys(("old_text", "new_text", "old_hash", "new_hash", "old_length", "new_length"))
    tx.execute(sa.update(history).where(history.c.memory_id.in_(memory_ids)).values(**emptied, changes=sa.null()))


def _kept(row: Mapping[str, Any], keep: HistoryMode) -> dict[str, Any]:
    kept = {"old_hash": None, "new_hash": None, "old_length": None, "new_length": None, "changes": None} | dict(row)
    if keep is HistoryMode.FULL:
        return kept
    for side in ("old", "new"):
        text = kept[f"{side}_text"]
        if text is not None:
            kept |= {f"{side}_text": None, f"{side}_hash": text_md5(text), f"{side}_length": len(text)}
    if kept["changes"] and "metadata" in kept["changes"]:
        metadata = kept["changes"]["metadata"]
        hashed = {key: {side: _hashed(value) for side, value in change.items()} for key, change in metadata.items()}
        kept["changes"] = {**kept["changes"], "metadata": hashed}
    return kept


def _hashed(value: Any) -> dict[str, Any]:
    written = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return {"hash": text_md5(written), "length": len(written)}
