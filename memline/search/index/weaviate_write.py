"""Writes to Weaviate: batches whose every object is answered for, and deletions that end when nothing is left to delete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from memline.contracts.errors import ServiceUnavailable
from memline.contracts.index_object import IndexObject
from memline.search.index.weaviate_link import Link, Refused, first_line
from memline.search.index.weaviate_messages import delete_by_ids, object_bytes, objects
from memline.search.index.weaviate_reads import CollectionGone, Reads, is_gone

__all__ = ["put", "remove"]

#: Objects, and bytes, of one batch: far below what the server takes (104 MB), and answered well within the timeout.
_MOST_OBJECTS, _MOST_BYTES = 500, 16 * 1024 * 1024

#: Ids of one deletion.
_MOST_IDS = 500

#: What the server says of an object while it is the server that can't: no fault of the object's.
_SERVER_CANT = (
    "read-only",
    "readonly",
    "deadline exceeded",
    "context canceled",
    "not enough memory",
    "memory pressure",
    "shutting down",
    "leader not found",
    "no space left",
)


def put(link: Link, reads: Reads, collection: str, tenant: str, found: Sequence[IndexObject], *, timeout: float) -> dict[str, str]:
    """Puts every object in place of what has its id; the errors by id. Raises CollectionGone, ServiceUnavailable.

    What was taken is what a search finds, and what a server that is killed right afterwards still has. Two things are done for that
    (seen with Weaviate 1.40, which writes the vector graph's log out before it has put a batch into the graph):
    an object that lies there already, and that the graph has lost, is not put there by writing it again, so it is removed first;
    and one object is written a second time, which changes nothing, and has the server write out its log.
    """
    errors: dict[str, str] = {}
    for batch in _batches(found):
        errors |= _put_batch(link, collection, tenant, batch, timeout)
        taken = {each.key.id: each for each in batch if each.key.id not in errors}
        lost = _not_found(reads, collection, tenant, list(taken), timeout)
        if lost:
            errors |= remove(link, collection, tenant, lost, timeout=timeout)
            errors |= _put_batch(link, collection, tenant, [taken[object_id] for object_id in lost], timeout)
            left = _not_found(reads, collection, tenant, [object_id for object_id in lost if object_id not in errors], timeout)
            errors |= dict.fromkeys(left, "it is stored, and a search by vector does not find it: does Weaviate run with ASYNC_INDEXING?")
        if taken:
            errors |= _put_batch(link, collection, tenant, [next(iter(taken.values()))], timeout)
    return errors


def _put_batch(link: Link, collection: str, tenant: str, batch: Sequence[IndexObject], timeout: float) -> dict[str, str]:
    reply = _asked(link, "BatchObjects", objects(collection, tenant, batch), timeout)
    errors: dict[str, str] = {}
    for each in reply.errors:
        _check(link, each.error)
        one = batch[each.index]
        errors[one.key.id] = _without_terms(each.error, one)
    return errors


def _not_found(reads: Reads, collection: str, tenant: str, ids: Sequence[str], timeout: float) -> list[str]:
    there = reads.in_the_graph(collection, tenant, ids, timeout=timeout)
    return [object_id for object_id in ids if object_id not in there]


def remove(link: Link, collection: str, tenant: str, ids: Sequence[str], *, timeout: float) -> dict[str, str]:
    """Removes *ids*, those that are not there too; the errors by id. Raises CollectionGone, ServiceUnavailable."""
    errors: dict[str, str] = {}
    for start in range(0, len(ids), _MOST_IDS):
        left = dict.fromkeys(ids[start : start + _MOST_IDS])
        # A call removes no more than QUERY_MAXIMUM_RESULTS objects: it is asked until it finds none, or only such as it can't remove.
        while left:
            try:
                reply = _asked(link, "BatchDelete", delete_by_ids(collection, tenant, list(left)), timeout)
            except Refused as error:
                if "tenant not found" in error.reason:  # nothing was ever written there
                    return {}
                raise
            for each in reply.objects:
                if not each.successful:
                    _check(link, each.error)
                    errors[str(UUID(bytes=each.uuid))] = first_line(each.error)
                left.pop(str(UUID(bytes=each.uuid)), None)
            if reply.matches == 0:
                break
            if not reply.objects:  # nobody says which of them are gone
                errors |= dict.fromkeys(left, f"Weaviate found {reply.matches} objects to remove, and does not say what became of them")
                break
    return errors


def _batches(found: Sequence[IndexObject]) -> Iterator[list[IndexObject]]:
    batch: list[IndexObject] = []
    size = 0
    for each in found:
        more = object_bytes(each)
        if batch and (len(batch) == _MOST_OBJECTS or size + more > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += more
    if batch:
        yield batch


def _asked(link: Link, method: str, request: Any, timeout: float) -> Any:
    try:
        return link.call(method, request, timeout=timeout)
    except Refused as error:
        _check(link, error.reason)
        raise


def _check(link: Link, reason: str) -> None:
    if is_gone(reason):
        raise CollectionGone
    if any(sign in reason.lower() for sign in _SERVER_CANT):
        raise ServiceUnavailable(f"Weaviate at {link.place.shown} takes no writes now ({first_line(reason)}).")


def _without_terms(reason: str, found: IndexObject) -> str:
    terms = " ".join(found.terms)
    return first_line(reason.replace(terms, "…") if terms else reason)
