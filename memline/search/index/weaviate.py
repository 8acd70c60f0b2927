"""The index in Weaviate: a tenant a namespace in two collections, one of memories and one of entities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from memline.contracts.errors import EmbedderMismatch, MemlineError, ServiceUnavailable
from memline.contracts.filters import ScopeIds
from memline.contracts.ids import IdSource, TimeOrderedIds
from memline.contracts.index_object import Kind, ObjectKey
from memline.language.lazy import ForkLock
from memline.ledger.reconciling import make_turn_due
from memline.ledger.session import Ledger
from memline.ledger.tenants import ledger_name, remember_tenant, resolve_tenants, tenant_of
from memline.search.index import weaviate_schema as schema
from memline.search.index.port import Answer, IndexState, Nominee, Space, Write
from memline.search.index.weaviate_link import EmbeddedServer, Link, Refused, client_version
from memline.search.index.weaviate_messages import FIRST, is_id, keywords, nearest_to, state_of
from memline.search.index.weaviate_place import Place
from memline.search.index.weaviate_reads import CollectionGone, Reads, is_gone
from memline.search.index.weaviate_write import put, remove

__all__ = ["WeaviateIndex"]

T = TypeVar("T")

#: A ranking whose last place is shared with what comes behind it is asked for so many times as deep, at most.
_DEEPER = 4


class WeaviateIndex:
    """The index port (`memline.search.index.port.Index`) on a server.

    *ledger* must be open: it keeps which tenant is which namespace. *timeout*: seconds of a write, of a page of a walk and of a look at
    the schema; *read_timeout*: of a search. Nothing is connected before the first call.
    """

    shares_ledger = False
    remote = True

    def __init__(
        self,
        server: Place | EmbeddedServer,
        ledger: Ledger,
        space: Space,
        *,
        prefix: str = "Memline",
        timeout: float = 30.0,
        read_timeout: float = 2.0,
        ids: IdSource | None = None,
    ) -> None:
        self._server = server if isinstance(server, EmbeddedServer) else None
        self._link = Link(server.place if isinstance(server, EmbeddedServer) else server, timeout=timeout)
        self._reads = Reads(self._link, space.dimension)
        self._ledger = ledger
        self._space = space
        self._prefix = schema.check_prefix(prefix)
        self._timeout = timeout
        self._read_timeout = read_timeout
        self._ids: IdSource = ids or TimeOrderedIds()
        self._lock = ForkLock()
        self._ledger_name: str | None = None
        #: The server's version, as it last said.
        self._version: str | None = None
        #: The schema was looked at, and the server answered ever since.
        self._checked = False
        self._known_tenants: set[str] = set()

    @property
    def name(self) -> str:
        """The backend with its versions; the server's is known after the first call."""
        return f"weaviate (server {self._version or 'not asked yet'}, client {client_version()})"

    @property
    def space(self) -> Space:
        return self._space

    @property
    def shown(self) -> str:
        """Where it is and under which prefix, without secrets."""
        return f"{self._link.place.shown}, prefix {self._prefix}"

    def check(self) -> None:
        """Looks at the server and its schema now. Raises ServiceUnavailable, ConfigurationError."""
        self._checked = False
        self._ready()

    def drop(self) -> None:
        """Removes everything of this space; the object is of no use afterwards. Raises ServiceUnavailable."""
        self._start()
        self._checked = False
        try:
            schema.drop(self._link, self._prefix, self._space)
        except Refused as error:
            raise self._reads.unforeseen(error) from None

    def forget(self, namespace: str) -> None:
        """Removes the tenant of a namespace that nobody will use again. Raises ServiceUnavailable."""
        tenant = tenant_of(self._own_name(), namespace)
        try:
            self._asked(lambda: schema.drop_tenant(self._link, self._prefix, self._space, tenant))
        except Refused as error:
            raise self._reads.unforeseen(error) from None
        self._known_tenants.discard(tenant)

    def write(self, writes: Sequence[Write], *, tx: Connection | None = None) -> list[Answer]:
        """See the port. *tx* is of no use here."""
        last = {write.key: write for write in writes}  # one object twice in a batch: the later one is how it is
        errors = {key: error for key, write in last.items() if (error := self._refusal(write))}
        groups: dict[tuple[Kind, str], list[Write]] = {}
        for key, write in last.items():
            if key not in errors and is_id(key.id):
                groups.setdefault((key.kind, key.namespace), []).append(write)
        for (kind, namespace), group in groups.items():
            found = self._asked(partial(self._write, kind, namespace, group))
            errors |= {ObjectKey(kind, namespace, object_id): error for object_id, error in found.items()}
        return [Answer(write.key, errors.get(write.key)) for write in writes]

    def nearest(
        self, kind: Kind, namespace: str, scopes: Sequence[ScopeIds], vector: NDArray[np.float32], *, limit: int, offset: int = 0
    ) -> list[Nominee]:
        """See the port. Raises EmbedderMismatch where *vector* has another dimension than this space."""
        query = self._vector(vector)
        return self._rank(scopes, limit, offset, lambda deep, part: nearest_to(*self._at(kind, namespace), scopes, query, deep, part))

    def nearest_any(
        self, kind: Kind, namespace: str, scopes: Sequence[ScopeIds], vectors: Sequence[NDArray[np.float32]], *, limit: int
    ) -> list[Nominee]:
        """See the port: one call a vector, all of them on their way at once."""
        queries = [self._vector(vector) for vector in vectors]
        if limit <= 0 or not scopes or not queries:
            return []

        def ask() -> list[Nominee]:
            place = self._at(kind, namespace)
            return self._reads.each(
                lambda deep: [nearest_to(*place, scopes, query, deep) for query in queries], limit, timeout=self._read_timeout
            )

        best: dict[str, float] = {}
        for nominee in self._asked(ask):
            best[nominee.id] = max(nominee.value, best.get(nominee.id, -2.0))
        return [Nominee(object_id, value) for object_id, value in sorted(best.items(), key=lambda item: (-item[1], item[0]))]

    def matching(self, namespace: str, scopes: Sequence[ScopeIds], terms: Sequence[str], *, limit: int, offset: int = 0) -> list[Nominee]:
        """See the port."""
        if not any(term.strip() for term in terms):
            return []
        return self._rank(scopes, limit, offset, lambda deep, part: keywords(*self._at("memory", namespace), scopes, terms, deep, part))

    def walk(self, kind: Kind, namespace: str, *, after: str = "", limit: int = 1000, vectors: bool = False) -> Iterator[IndexState]:
        """See the port. Weaviate walks in the order of the UUIDs' bytes, which is the order of their texts.

        What a search by vector would not find has version 0: older than what the ledger has, so it is written again.
        """
        after, more = after or FIRST, True
        while more:
            states, after, more = self._asked(partial(self._page, kind, namespace, after, limit, vectors))
            yield from states

    def look(self, keys: Sequence[ObjectKey], *, vectors: bool = False) -> dict[ObjectKey, IndexState]:
        """See the port, and `walk`."""
        groups: dict[tuple[Kind, str], list[str]] = {}
        for key in dict.fromkeys(keys):
            if is_id(key.id):
                groups.setdefault((key.kind, key.namespace), []).append(key.id)
        found: dict[ObjectKey, IndexState] = {}
        for (kind, namespace), ids in groups.items():
            states = self._asked(partial(self._some, kind, namespace, ids, vectors))
            found |= {state.key: state for state in states}
        return found

    def namespaces(self) -> list[str]:
        """See the port: the tenants that this ledger made, also those that are empty by now."""
        tenants = self._asked(self._tenants)
        with self._ledger.read() as connection:
            known = resolve_tenants(connection, sorted(tenants))
        # A ledger that was put back from a backup may not know them; what lies there says where it belongs.
        for tenant in sorted(tenants - known.keys()):
            namespace = self._asked(partial(self._claimed, tenant))
            if namespace is not None and tenant_of(self._own_name(), namespace) == tenant:
                known[tenant] = namespace
        return sorted(known.values())

    def close(self) -> None:
        """Ends the line; an `EmbeddedServer` is its owner's to end."""
        self._link.close()

    # one call, each: the schema was looked at before

    def _write(self, kind: Kind, namespace: str, group: Sequence[Write]) -> dict[str, str]:
        collection, tenant = self._at(kind, namespace)
        found = [write.object for write in group if write.object is not None]
        gone = [write.key.id for write in group if write.object is None]
        if found and tenant not in self._known_tenants:
            with self._ledger.write() as tx:
                remember_tenant(tx, tenant, namespace)
            self._known_tenants.add(tenant)
        try:
            errors = put(self._link, self._reads, collection, tenant, found, timeout=self._timeout)
            return errors | remove(self._link, collection, tenant, gone, timeout=self._timeout)
        except Refused as error:
            # no outage: some object's own fault, so each of them is to be tried alone
            raise MemlineError(f"Weaviate at {self._link.place.shown} refused a write ({error}).") from None

    def _rank(self, scopes: Sequence[ScopeIds], limit: int, offset: int, request: Callable[[int, int | None], Any]) -> list[Nominee]:
        """Places *offset* to *offset* + *limit* of a ranking by value, then by id, whichever page of it is asked for.

        Of equals the server brings some first, others for another depth: so it is always asked from the beginning, and deeper where the
        last place is shared.
        """
        if limit <= 0 or not scopes:
            return []
        deep, ask = limit + offset, limit + offset + 1
        while True:
            found = self._asked(partial(self._reads.best, request, ask, timeout=self._read_timeout))
            found.sort(key=lambda nominee: (-nominee.value, nominee.id))
            whole = len(found) < ask or len(found) <= deep
            if whole or found[deep - 1].value > found[-1].value or ask > _DEEPER * deep:
                return found[offset:deep]
            ask *= _DEEPER

    def _page(self, kind: Kind, namespace: str, after: str, size: int, vectors: bool) -> tuple[list[IndexState], str, bool]:
        results, more = self._reads.page(*self._at(kind, namespace), after, size, vectors=vectors, timeout=self._timeout)
        return self._states(kind, namespace, results, vectors), results[-1].metadata.id if results else after, more

    def _some(self, kind: Kind, namespace: str, ids: Sequence[str], vectors: bool) -> list[IndexState]:
        results = self._reads.by_ids(*self._at(kind, namespace), ids, vectors=vectors, timeout=self._timeout)
        return self._states(kind, namespace, results, vectors)

    def _states(self, kind: Kind, namespace: str, results: Sequence[Any], vectors: bool) -> list[IndexState]:
        ids = [result.metadata.id for result in results]
        there = self._reads.in_the_graph(*self._at(kind, namespace), ids, timeout=self._timeout)
        return [state_of(kind, namespace, result, vectors=vectors, found_by_vector=result.metadata.id in there) for result in results]

    def _tenants(self) -> set[str]:
        from weaviate.proto.v1 import tenants_pb2

        mine = tenant_of(self._own_name(), "").partition("-")[0] + "-"
        found: set[str] = set()
        for kind in ("memory", "entity"):
            request = tenants_pb2.TenantsGetRequest(collection=self._collection(kind))
            try:
                reply = self._link.call("TenantsGet", request, timeout=self._timeout)
            except Refused as error:
                if is_gone(error.reason):
                    raise CollectionGone from None
                raise self._reads.unforeseen(error) from None
            found |= {tenant.name for tenant in reply.tenants if tenant.name.startswith(mine)}
        return found

    def _claimed(self, tenant: str) -> str | None:
        """The namespace that an object in *tenant* says it is in; None where there is no object."""
        for kind in ("memory", "entity"):
            results, _ = self._reads.page(self._collection(kind), tenant, FIRST, 1, vectors=False, timeout=self._timeout)
            for result in results:
                fields = result.properties.non_ref_props.fields
                return str(fields["namespace"].text_value) if "namespace" in fields else None
        return None

    # what stands before and behind every call

    def _asked(self, call: Callable[[], T]) -> T:
        """*call*'s answer. Where the collections have vanished, they are made again, empty, and asked once more."""
        try:
            self._ready()
            try:
                return call()
            except CollectionGone:
                self._checked = False
                self._ready()
                return call()
        except CollectionGone:
            self._checked = False
            raise ServiceUnavailable(
                f"The collections of Weaviate at {self._link.place.shown} vanish while they are in use: is another process removing them?"
            ) from None
        except ServiceUnavailable:
            self._checked = False  # what answers next may be another server, or an empty one
            raise

    def _ready(self) -> None:
        with self._lock:
            if self._checked:
                return
            self._start()
            self._own_name()
            try:
                self._version, made = schema.ensure(self._link, self._prefix, self._space)
            except Refused as error:
                raise self._reads.unforeseen(error) from None
            if made:
                with self._ledger.write() as tx:  # what the ledger holds is not there: no need to wait a quarter of an hour for it
                    make_turn_due(tx)
            self._checked = True

    def _start(self) -> None:
        if self._server is not None:
            self._server.start()

    def _own_name(self) -> str:
        found = self._ledger_name
        if found is None:
            with self._ledger.write() as tx:
                found = self._ledger_name = ledger_name(tx, self._ids.new())
        return found

    def _collection(self, kind: Any) -> str:
        return schema.collection_name(self._prefix, kind, self._space)

    def _at(self, kind: Kind, namespace: str) -> tuple[str, str]:
        return self._collection(kind), tenant_of(self._own_name(), namespace)

    def _vector(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        query = np.ascontiguousarray(vector, dtype=np.float32).reshape(-1)
        if len(query) != self._space.dimension:
            raise EmbedderMismatch(
                f"The index holds vectors of {self._space.dimension} dimensions, the embedder gave one of {len(query)}: set the embedder "
                "that this ledger was filled with."
            )
        return query

    def _refusal(self, write: Write) -> str | None:
        if write.object is None:
            return None
        if not is_id(write.key.id):
            return "the id is no UUID in lower case, which Weaviate needs"
        if len(write.object.vector) != 4 * self._space.dimension:
            return (
                f"the vector has {len(write.object.vector)} bytes, the vectors of this index have {self._space.dimension} dimensions of "
                "4 bytes"
            )
        if not np.isfinite(np.frombuffer(write.object.vector, "<f4")).all():
            return "the vector holds what is no finite number"
        return None
