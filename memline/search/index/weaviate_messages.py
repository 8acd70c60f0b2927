"""The messages of Weaviate's gRPC protocol: built from what the port is asked, read into what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from memline.contracts.filters import ScopeIds
from memline.contracts.index_object import IndexObject, Kind, ObjectKey
from memline.contracts.scope import ID_KEYS
from memline.search.index.port import IndexState, Nominee
from memline.search.index.weaviate_schema import PARTS

__all__ = [
    "FIRST",
    "by_ids",
    "delete_by_ids",
    "in_the_graph",
    "is_id",
    "keywords",
    "nearest_to",
    "object_bytes",
    "objects",
    "page_after",
    "ranked",
    "state_of",
]

#: The id before every other.
FIRST = str(UUID(int=0))

_STORED = ("namespace", *ID_KEYS, "terms", "version")


def is_id(text: str) -> bool:
    """Whether *text* is a UUID as Weaviate writes it; only such an id comes back as it was."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def objects(collection: str, tenant: str, found: Sequence[IndexObject]) -> Any:
    """A batch that puts *found* whole, each in place of what has its id."""
    from weaviate.proto.v1 import batch_pb2

    return batch_pb2.BatchObjectsRequest(objects=[_object(collection, tenant, each) for each in found])


def object_bytes(found: IndexObject) -> int:
    """About what an object takes in a message."""
    return 600 + len(found.vector) + sum(len(term) for term in found.terms) * 3


def _object(collection: str, tenant: str, found: IndexObject) -> Any:
    from weaviate.proto.v1 import batch_pb2

    message = batch_pb2.BatchObject(collection=collection, tenant=tenant, uuid=found.key.id, vector_bytes=found.vector)
    fields = message.properties.non_ref_properties.fields
    fields["namespace"].string_value = found.key.namespace
    for name in ID_KEYS:
        value = getattr(found, name)
        if value is not None:
            fields[name].string_value = value
    fields["terms"].string_value = " ".join(found.terms)
    fields["version"].number_value = found.version
    fields["digest"].string_value = found.digest
    fields["part"].number_value = int(found.key.id[0], 16) % PARTS
    return message


def delete_by_ids(collection: str, tenant: str, ids: Sequence[str]) -> Any:
    """Removes those of *ids* that are there, as far as the server's cap goes; the reply names each that failed."""
    from weaviate.proto.v1 import batch_delete_pb2

    return batch_delete_pb2.BatchDeleteRequest(collection=collection, tenant=tenant, filters=_any_of("_id", ids), verbose=True)


def nearest_to(
    collection: str, tenant: str, scopes: Sequence[ScopeIds], vector: NDArray[np.float32], limit: int, part: int | None = None
) -> Any:
    """Ids and distances of the nearest objects in one of *scopes* (and, with *part*, in that part of the tenant)."""
    from weaviate.proto.v1 import base_pb2, base_search_pb2, search_get_pb2

    raw = np.ascontiguousarray(vector, dtype="<f4").tobytes()
    return search_get_pb2.SearchRequest(
        **_common(collection, tenant, scopes, limit, part),
        metadata=search_get_pb2.MetadataRequest(uuid=True, distance=True),
        near_vector=base_search_pb2.NearVector(vectors=[base_pb2.Vectors(vector_bytes=raw, type=base_pb2.Vectors.VECTOR_TYPE_SINGLE_FP32)]),
    )


def in_the_graph(collection: str, tenant: str, ids: Sequence[str], dimension: int) -> Any:
    """Those of *ids* that a search by vector can find."""
    from weaviate.proto.v1 import base_pb2, base_search_pb2, search_get_pb2

    raw = np.full(dimension, 1.0, dtype="<f4").tobytes()
    return search_get_pb2.SearchRequest(
        collection=collection,
        tenant=tenant,
        limit=len(ids),
        filters=_any_of("_id", ids),
        metadata=search_get_pb2.MetadataRequest(uuid=True),
        near_vector=base_search_pb2.NearVector(vectors=[base_pb2.Vectors(vector_bytes=raw, type=base_pb2.Vectors.VECTOR_TYPE_SINGLE_FP32)]),
        **_VERSIONS,
    )


def keywords(collection: str, tenant: str, scopes: Sequence[ScopeIds], terms: Sequence[str], limit: int, part: int | None = None) -> Any:
    """Ids and BM25 scores of the objects in one of *scopes* that hold any of *terms*."""
    from weaviate.proto.v1 import base_search_pb2, search_get_pb2

    return search_get_pb2.SearchRequest(
        **_common(collection, tenant, scopes, limit, part),
        metadata=search_get_pb2.MetadataRequest(uuid=True, score=True),
        bm25_search=base_search_pb2.BM25(query=" ".join(dict.fromkeys(terms)), properties=["terms"]),
    )


def page_after(collection: str, tenant: str, after: str, limit: int, *, vectors: bool) -> Any:
    """The *limit* objects behind the id *after*, in the order of ids."""
    from weaviate.proto.v1 import search_get_pb2

    return search_get_pb2.SearchRequest(collection=collection, tenant=tenant, limit=limit, after=after, **_all_of_it(vectors))


def by_ids(collection: str, tenant: str, ids: Sequence[str], *, vectors: bool) -> Any:
    """Those of *ids* that are there."""
    from weaviate.proto.v1 import search_get_pb2

    return search_get_pb2.SearchRequest(
        collection=collection, tenant=tenant, limit=len(ids), filters=_any_of("_id", ids), **_all_of_it(vectors)
    )


def ranked(reply: Any) -> list[Nominee]:
    """Nominees in the reply to `nearest_to` (cosines) or `keywords` (BM25)."""
    found = []
    for result in reply.results:
        told = result.metadata
        found.append(Nominee(told.id, 1.0 - told.distance if told.distance_present else told.score))
    return found


def state_of(kind: Kind, namespace: str, result: Any, *, vectors: bool, found_by_vector: bool) -> IndexState:
    """An object as it is stored, wherever it claims to belong: digests are made of what came back.

    One that no search by vector finds is there in no version (0): it has to be written again, or removed where it should not be.
    """
    fields = result.properties.non_ref_props.fields

    def text(name: str) -> str | None:
        # asking a map of messages for a key puts it there
        return fields[name].text_value if name in fields and fields[name].WhichOneof("kind") == "text_value" else None

    version = fields["version"].int_value if "version" in fields else 0
    key = ObjectKey(kind, text("namespace") or "", result.metadata.id)
    found = IndexObject(
        key, version, text("user_id"), text("agent_id"), text("run_id"), (text("terms") or "",), result.metadata.vector_bytes
    )
    there = ObjectKey(kind, namespace, result.metadata.id)
    return IndexState(there, version if found_by_vector else 0, found.digest, found.vector_digest if vectors else None)


def _common(collection: str, tenant: str, scopes: Sequence[ScopeIds], limit: int, part: int | None) -> dict[str, Any]:
    filters = _within(scopes, part)
    given: dict[str, Any] = {"collection": collection, "tenant": tenant, "limit": limit, **_VERSIONS}
    return given if filters is None else {**given, "filters": filters}


#: The form of the reply that is read here.
_VERSIONS: dict[str, Any] = {"uses_123_api": True, "uses_125_api": True, "uses_127_api": True}


def _all_of_it(vectors: bool) -> dict[str, Any]:
    from weaviate.proto.v1 import search_get_pb2

    return {
        "properties": search_get_pb2.PropertiesRequest(non_ref_properties=_STORED),
        "metadata": search_get_pb2.MetadataRequest(uuid=True, vector=vectors),
        **_VERSIONS,
    }


def _within(scopes: Sequence[ScopeIds], part: int | None) -> Any:
    """In one of *scopes*, each of whose ids is equal; None where everything is."""
    from weaviate.proto.v1 import base_pb2

    alternatives = [_join(base_pb2.Filters.OPERATOR_AND, [_equal(name, value) for name, value in scope.ids().items()]) for scope in scopes]
    # a scope without ids holds everything
    found = None if None in alternatives else _join(base_pb2.Filters.OPERATOR_OR, alternatives)
    if part is None:
        return found
    only = base_pb2.Filters(operator=base_pb2.Filters.OPERATOR_EQUAL, value_int=part)
    only.target.property = "part"
    return only if found is None else _join(base_pb2.Filters.OPERATOR_AND, [found, only])


def _join(operator: Any, filters: Sequence[Any]) -> Any:
    from weaviate.proto.v1 import base_pb2

    if len(filters) < 2:
        return filters[0] if filters else None
    return base_pb2.Filters(operator=operator, filters=filters)


def _equal(name: str, value: str) -> Any:
    from weaviate.proto.v1 import base_pb2

    found = base_pb2.Filters(operator=base_pb2.Filters.OPERATOR_EQUAL, value_text=value)
    found.target.property = name
    return found


def _any_of(name: str, values: Sequence[str]) -> Any:
    from weaviate.proto.v1 import base_pb2

    found = base_pb2.Filters(operator=base_pb2.Filters.OPERATOR_CONTAINS_ANY, value_text_array=base_pb2.TextArray(values=values))
    found.target.property = name
    return found
