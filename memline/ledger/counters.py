"""Counts of what was survived, kept where a restart does not lose them.

Everybody counts in the same few rows, so a transaction writes them at its very end, sorted by name: whoever counted in the middle of its
work would hold up all the others, and two that count two names would wait for each other.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Mapping
from functools import partial

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.schema import counters
from memline.ledger.session import before_commit, insert

__all__ = ["COUNTERS", "count", "count_masked", "read_counters"]

#: Every counter, with what it counts.
COUNTERS = {
    "order_gaps": "turns that went on after order_wait although an earlier one of their producer had not arrived",
    "late_turns": "turns that arrived after order_wait had passed them",
    "lost_turns": "turns that were asked for after order_wait and found nowhere",
    "leases_expired": "batches whose worker died or hung; their jobs were retried alone",
    "batches_handed_back": "batches that a worker could not finish before it had to stop; others went on with them at once",
    "repeated_calls": "calls of a model made once more because their answer was lost before it was stored, by job",
    "messages_resent": "Celery messages sent again because nobody had taken them",
    "jobs_failed": "jobs that ended failed",
    "turns_cancelled": "turns that ended cancelled: their subject was erased, or their scope deleted or reset, before their commit",
    "subjects_erased": "erasures that were finished, and tombstones that were replayed",
    "links_dropped": "links of the model to memories that it was not shown",
    "near_unseen": "turns whose near-duplicates were not looked for, since the index did not answer",
    "pasted_dropped": "facts that only repeated memories which the application had pasted into the turn",
    "pasted_blanked": "blocks of memories which the application had pasted into a turn, and which no extractor was shown",
    "assistant_left_out": "facts of the assistant beyond what one turn may have",
    "units_apart": "calls for several turns that were refused or answered with nonsense; their turns were asked one by one",
    "images_unread": "images that the vision model refused; the text of their turns was kept",
    "outbox_parked": "outbox rows set aside after too many failures",
    "late_writes": "objects shown again because a relay wrote them after its lease had run out",
    "drift_missing": "objects that the index had lost",
    "drift_stale": "objects that the index had in an older version",
    "drift_changed": "objects that somebody had changed in the index",
    "drift_orphaned": "objects in the index that the ledger never had",
    "drift_resurrected": "objects in the index that the ledger had deleted",
    "drift_repaired": "objects written to the outbox again by the reconciler",
    "entries_too_new": "stream entries left for a newer worker",
    "messages_too_new": "Celery messages put back for a newer worker",
    "payloads_pruned": "finished jobs that lost what they carried, with their stage results and replies, by age",
    "messages_pruned": "messages removed by age that no memory came from",
    "jobs_pruned": "job rows removed by age that no memory names",
    "keys_pruned": "idempotency keys removed by age",
    "changes_pruned": "changes removed from the feed by age",
    "receipts_pruned": "receipts of repeated and lost turns removed by age",
    "producers_pruned": "lanes forgotten by age of producers that fell silent",
    "memories_expired": "memories that left the live set after their last day",
    "memories_purged": "expired memories deleted after their grace",
    "masked_api_key": "API keys that the write policy masked in what was accepted",
    "masked_password": "passwords that it masked",
    "masked_private_key": "private keys that it masked",
    "masked_card": "card numbers that it masked",
    "masked_email": "addresses of mail that it masked",
    "masked_phone": "telephone numbers that it masked",
    "masked_iban": "bank account numbers (IBAN) that it masked",
    "masked_ssn": "social security numbers that it masked",
}


def count(tx: Connection, name: str, by: int = 1) -> None:
    """Adds *by* to a counter of `COUNTERS`, when the transaction (of `Ledger.write`) commits."""
    if name not in COUNTERS:
        raise KeyError(name)
    if by == 0:
        return
    gathered = _gathered.get(tx)
    if gathered is None:
        gathered = Counter()
        before_commit(tx, _RANK, partial(_write, gathered))
        _gathered[tx] = gathered
    gathered[name] += by


def count_masked(tx: Connection, masked: Mapping[str, int]) -> None:
    """Counts what the write policy masked, by kind (`contracts.policy.Kind`)."""
    for kind, number in sorted(masked.items()):
        count(tx, f"masked_{kind}", number)


def read_counters(connection: Connection) -> dict[str, int]:
    """All counters, also those that are still 0; in a transaction that counts, with what it has counted."""
    found: dict[str, int] = {name: value for name, value in connection.execute(sa.select(counters.c.name, counters.c.value))}
    gathered: Mapping[str, int] = _gathered.get(connection, {})
    return {name: found.get(name, 0) + gathered.get(name, 0) for name in COUNTERS}


#: After everything else: `session.before_commit`.
_RANK = 9

#: By transaction, what it has counted and not written yet.
_gathered: weakref.WeakKeyDictionary[Connection, Counter[str]] = weakref.WeakKeyDictionary()


def _write(gathered: Counter[str], tx: Connection) -> None:
    rows = [{"name": name, "value": number} for name, number in sorted(gathered.items())]
    gathered.clear()
    statement = insert(tx, counters).values(rows)
    tx.execute(statement.on_conflict_do_update(index_elements=["name"], set_={"value": counters.c.value + statement.excluded.value}))
