"""What both sides know is asked of the index while no transaction of the ledger is open."""

from __future__ import annotations

from typing import cast

from sqlalchemy.pool import QueuePool

from memline.ledger.session import Ledger
from memline.outbox.compare import namespaces_of
from memline.search.index.port import Index


class OnlyNamespaces:
    """An index far away, for which a transaction would stay open as long as it does not answer."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def namespaces(self) -> list[str]:
        pool = self._ledger.engine.pool
        assert isinstance(pool, QueuePool) and pool.checkedout() == 0
        return ["there"]


def test_no_transaction_is_open_while_the_index_is_asked_for_its_namespaces(ledger: Ledger) -> None:
    assert namespaces_of(ledger, cast("Index", OnlyNamespaces(ledger))) == ["there"]
