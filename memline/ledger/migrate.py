"""Which schema a ledger has, and the way to the one this memline knows.

An empty database is filled at the first start. An older or a newer schema is never touched unasked: the process refuses to start
and names the command.
"""

from __future__ import annotations

from importlib import resources

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.errors import SchemaMismatch
from memline.ledger.session import Ledger

__all__ = ["HEAD", "known_revision", "open_ledger", "schema_revision", "upgrade"]

#: The newest revision under `migrations/versions/`; a test holds the two together.
HEAD = "0003"

_LOCK = 0x6D656D30


def open_ledger(ledger: Ledger) -> None:
    """Fills an empty ledger; raises SchemaMismatch for one that is not at `HEAD`."""
    revision = known_revision(ledger)
    if revision is None:
        upgrade(ledger)
    elif revision != HEAD:
        raise SchemaMismatch(
            f"The ledger at {ledger.shown_url} has schema {revision}, this memline needs {HEAD}: stop the workers, back it up, "
            "then run `memline migrate`."
        )


def known_revision(ledger: Ledger) -> str | None:
    """The revision a ledger is at, None for an empty one; raises SchemaMismatch for a newer one and for somebody else's database."""
    with ledger.read() as connection:
        # in this order: who fills it between the two looks commits its tables together with their revision
        empty, revision = not _tables(connection), schema_revision(connection)
    if revision is None and not empty:
        raise SchemaMismatch(
            f"The database at {ledger.shown_url} has tables but no memline schema: name an empty database in MEMLINE_LEDGER_URL."
        )
    if revision is not None and revision > HEAD:
        raise SchemaMismatch(
            f"The ledger at {ledger.shown_url} has schema {revision}, this memline knows up to {HEAD}: "
            "upgrade memline (`memline --version`)."
        )
    return revision


def schema_revision(connection: Connection) -> str | None:
    """The revision a ledger is at; None for a database without one."""
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def upgrade(ledger: Ledger) -> None:
    """Brings a ledger to `HEAD`; two processes that start at once do it once."""
    from alembic import command  # 0.4 s to import, and only a new or old ledger needs it
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(resources.files("memline.ledger") / "migrations"))
    with ledger.write() as connection:
        if not ledger.is_sqlite:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _tables(connection: Connection) -> list[str]:
    return sa.inspect(connection).get_table_names()
