"""Which namespace a tenant of a remote index is, and by which name the ledger is known there."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.ids import digest_of
from memline.ledger.schema import index_tenants, ledger_meta
from memline.ledger.session import insert

__all__ = ["ledger_name", "remember_tenant", "resolve_tenants", "tenant_of"]

_NAME = "name"


def ledger_name(tx: Connection, fresh: str) -> str:
    """What tells this ledger from every other one that shows its memories to the same index; *fresh* is taken where it has no name yet."""
    tx.execute(insert(tx, ledger_meta).values(key=_NAME, value=fresh).on_conflict_do_nothing(index_elements=["key"]))
    name: str = tx.execute(sa.select(ledger_meta.c.value).where(ledger_meta.c.key == _NAME)).scalar_one()
    return name


def tenant_of(ledger: str, namespace: str) -> str:
    """The tenant of a namespace: 8 hex digits of the ledger's name, "-", 32 of the namespace in it.

    An index takes few characters in a tenant's name, so both are hashes. Two ledgers never share a tenant, whatever their namespaces
    are called: the reconciler of one would remove what the other wrote.
    """
    return f"{digest_of('ledger', ledger, size=4)}-{digest_of('tenant', ledger, namespace)}"


def remember_tenant(tx: Connection, tenant: str, namespace: str) -> None:
    """Before the first object is written there."""
    tx.execute(insert(tx, index_tenants).values(tenant=tenant, namespace=namespace).on_conflict_do_nothing())


def resolve_tenants(connection: Connection, tenants: Sequence[str]) -> dict[str, str]:
    """The namespaces of *tenants*, as far as the ledger knows them."""
    found: dict[str, str] = {}
    for start in range(0, len(tenants), 500):
        query = sa.select(index_tenants.c.tenant, index_tenants.c.namespace).where(
            index_tenants.c.tenant.in_(list(tenants[start : start + 500]))
        )
        found |= {tenant: namespace for tenant, namespace in connection.execute(query)}
    return found
