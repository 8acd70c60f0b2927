"""What databases physically keep of rows that are gone, until when, and what can be forced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from memline.contracts.errors import MemlineError
from memline.ledger.session import Ledger

__all__ = ["force_postgres", "postgres_remains", "redis_remains", "weaviate_remains"]

_ASKED = {
    "wal_position": "SELECT pg_current_wal_lsn()::text",
    "archive_mode": "SHOW archive_mode",
    "checkpoint_timeout": "SHOW checkpoint_timeout",
    "max_wal_size": "SHOW max_wal_size",
    "replication_slots": "SELECT count(*) FROM pg_replication_slots",
}


def postgres_remains(ledger: Ledger, tables: Sequence[str]) -> dict[str, Any]:
    """What PostgreSQL says of *tables* and its log."""
    told: dict[str, Any] = {}
    for name, statement in _ASKED.items():
        told[name] = _asked(ledger, statement)
    dead = sa.text("SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables WHERE relname = ANY(:names)")
    try:
        with ledger.read() as connection:
            told["dead_rows"] = int(connection.execute(dead, {"names": list(tables)}).scalar_one())
    except (DBAPIError, MemlineError):
        told["dead_rows"] = None
    return {
        "store": "PostgreSQL",
        "where": ledger.shown_url,
        "told": told,
        "remains": [
            {
                "what": "removed rows in the pages of the tables and their indexes",
                "until": "VACUUM has passed (autovacuum does) and the space is used again; VACUUM FULL writes the tables anew",
            },
            {
                "what": f"the changes in write-ahead segments up to {told['wal_position']}",
                "until": "a checkpoint lets the segments be recycled; archived segments, standbys, replication slots and base "
                "backups keep them as long as they are kept",
            },
        ],
    }


def force_postgres(ledger: Ledger, tables: Sequence[str]) -> dict[str, str]:
    """VACUUM FULL of *tables* (each is locked meanwhile), then a new log segment and a checkpoint; what was done, or why not."""
    done: dict[str, str] = {}
    with ledger.no_fork(), ledger.engine.connect() as connection:
        alone = connection.execution_options(isolation_level="AUTOCOMMIT")
        for name in tables:
            done[f"VACUUM FULL {name}"] = _did(alone, f'VACUUM (FULL) "{name}"')
        done["pg_switch_wal"] = _did(alone, "SELECT pg_switch_wal()")
        done["CHECKPOINT"] = _did(alone, "CHECKPOINT")
    return done


def redis_remains(told: dict[str, Any], place: str, *, forced: dict[str, str] | None) -> dict[str, Any]:
    """What Redis keeps; *told*: what it says of its files."""
    return {
        "store": "Redis",
        "where": place,
        "told": told,
        "forced": forced,
        "remains": [
            {
                "what": "an entry that was removed, in the memory of its node of the stream",
                "until": "the last entry of that node (at most stream-node-max-entries, by default 100) is done",
            },
            {
                "what": "the commands that appended turns, in the append-only file",
                "until": "it was rewritten"
                if forced and forced.get("aof") == "rewritten"
                else "it is rewritten (BGREWRITEAOF, or by itself)",
            }
            if told.get("aof_enabled")
            else {"what": "nothing in an append-only file: it is off", "until": None},
            {
                "what": "a snapshot (RDB) that was written before, and copies of it",
                "until": "the next one replaces it; copies elsewhere are not reached from here",
            },
        ],
    }


def weaviate_remains(name: str) -> dict[str, Any]:
    """What Weaviate keeps."""
    return {
        "store": "Weaviate",
        "where": name,
        "remains": [
            {
                "what": "removed objects, with terms and vector, in the segments and logs of their shard",
                "until": "Weaviate compacts these segments, by itself: no call forces it; backups are not reached from here",
            }
        ],
    }


def _asked(ledger: Ledger, statement: str) -> Any:
    try:
        with ledger.read() as connection:
            return connection.execute(sa.text(statement)).scalar_one()
    except (DBAPIError, MemlineError):
        return None  # not permitted, or another version's name: the certificate shows that it is not known


def _did(connection: sa.Connection, statement: str) -> str:
    try:
        connection.execute(sa.text(statement))
        return "done"
    except DBAPIError as error:
        return f"refused ({getattr(error.orig, 'sqlstate', None) or type(error.orig).__name__})"
