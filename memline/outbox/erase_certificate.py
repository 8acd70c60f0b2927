"""The certificate of an erasure, as JSON: content-free, so that it can be kept and shown."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from memline.contracts.erasing import Moment
from memline.ledger.compact import Compacted
from memline.ledger.tombstones import Tombstone
from memline.outbox.erase_proof import Proof

__all__ = ["certificate_of"]


def certificate_of(
    stone: Tombstone,
    proof: Proof,
    *,
    end: Moment,
    now: datetime,
    waited: float,
    files: Sequence[Compacted],
    key: str,
    file: str,
    physical: Sequence[Mapping[str, Any]],
    outside: Sequence[str],
) -> dict[str, Any]:
    """What was erased, what was read at the end, and what stays where. *waited*: seconds for those who worked under the old epoch."""
    counts = stone.counts
    before = counts.get("before") or {}
    after = {
        read.what.split(" ")[2]: read.found for read in proof.reads if read.what.startswith("rows of ") and " that belong" in read.what
    }
    remains: list[Mapping[str, Any]] = [
        {
            "store": "SQLite",
            "where": each.file,
            "done": {"secure_delete": each.secure_delete, "vacuum": each.vacuumed, "wal_truncated": each.log_cut},
            "remains": [],
        }
        for each in files
    ]
    return {
        "certificate": 1,
        "erasure": stone.id,
        "subject": {
            "kind": stone.kind,
            "namespace": stone.namespace,
            "hash": stone.hash,
            "hashed_by": f"HMAC-SHA-256, key {stone.key_id} in {key}",
        },
        "epoch": stone.epoch,
        "began_at": stone.started_at.isoformat(),
        "ended_at": now.isoformat(),
        "turns_cancelled_until": {"stream": end.place, "time": end.at.isoformat()},
        "waited_seconds": round(waited, 3),
        "machine": platform.node(),
        "counts": {
            "before": before,
            "turns_on_their_way_before": counts.get("turns_before") or {},
            "removed": counts.get("removed") or {},
            "after": after,
        },
        "proof": {
            "sound": proof.sound,
            "reads": [read.to_json() for read in proof.reads],
            "files_read_byte_by_byte": proof.files,
            "texts_looked_for": proof.texts,
        },
        "physical": [*remains, *physical],
        "kept": [
            {"what": "id and state of its turns", "where": "ledger, erased_turns"},
            {"what": "ids of its memories, and when they were added, changed and erased", "where": "ledger, changes"},
            {"what": "this certificate, the keyed hash, epoch, place and time", "where": f"ledger, tombstones; {file}"},
            {
                "what": "digests without a key of the subject and its scopes, by which late turns are known: who holds the ledger and "
                "guesses an id can confirm it",
                "where": "ledger, subjects, tombstones.subject, erased_numbers, marks",
            },
        ],
        "outside": [
            "spools on other machines: a turn that comes from one ends cancelled when it arrives",
            "logs, backups and standbys of the databases; a restored ledger is held against the tombstones when it is opened",
            "what models and embedders of others keep of the calls that were made to them",
            *outside,
        ],
    }
