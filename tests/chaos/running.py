"""Runs a case of the crash matrix on servers of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from memline.ledger.migrate import open_ledger
from memline.ledger.session import Ledger
from tests.chaos.provider import ProviderRun
from tests.chaos.remote import RemoteRun
from tests.chaos.remote_index import remote_index
from tests.chaos.scenario import Case, Outcome, Run, Servers
from tests.services import PostgresServer, RedisServer

__all__ = ["run_case", "servers"]

_KINDS = {"weaviate": RemoteRun, "provider": ProviderRun}


@contextmanager
def servers(index: str = "embedded") -> Iterator[Servers]:
    """Servers of the matrix's own; with *index* `weaviate` one of these, too (RuntimeError where there is no binary)."""
    with ExitStack() as stack:
        redis, postgres = stack.enter_context(RedisServer()), stack.enter_context(PostgresServer())
        remote = stack.enter_context(remote_index()) if index == "weaviate" else None
        yield Servers(redis, postgres, _migrated(postgres), remote)


def _migrated(postgres: PostgresServer) -> str:
    """The name of a database with the newest schema."""
    name = postgres.create_database()
    ledger = Ledger(postgres.url(name))
    open_ledger(ledger)
    ledger.close()
    return name


def run_case(found: Servers, case: Case) -> Outcome:
    """Runs one case and says what held."""
    folder = Path(tempfile.mkdtemp(prefix="memline-chaos-"))
    database = found.postgres.create_database(found.template)
    run = _KINDS.get(case.index, Run)(found, case, folder, found.postgres.url(database), f"chaos-{database}")
    try:
        return run.go()
    finally:
        run.stop()
        found.postgres.drop_database(database)
        shutil.rmtree(folder, ignore_errors=True)
