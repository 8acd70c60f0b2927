"""Reads of Weaviate: what its errors mean, and the most results that it brings at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from memline.contracts.errors import ServiceUnavailable
from memline.search.index.port import Nominee
from memline.search.index.weaviate_link import Link, Refused
from memline.search.index.weaviate_messages import by_ids, in_the_graph, page_after, ranked
from memline.search.index.weaviate_schema import PARTS

__all__ = ["CollectionGone", "Reads", "is_gone"]

#: Objects of one call, at most.
_MOST = 1000

_CAP = re.compile(r"QUERY_MAXIMUM_RESULTS '(\d+)'")

#: What the server says where the collection is not there. One that makes collections by itself says it of its own, without tenants.
_GONE = ("could not find class", "multi-tenancy disabled", "class not found", "not found in schema")


class CollectionGone(Exception):
    """The collection was there when it was looked at, and is no more."""


class _OverCap(Exception):
    """More was asked for than the server brings at a time; how much that is is known now."""


def is_gone(reason: str) -> bool:
    """Whether *reason* says that the collection is not there."""
    return any(sign in reason for sign in _GONE)


class Reads:
    """Questions to one server, over *link*. Every method raises CollectionGone and ServiceUnavailable; a missing tenant holds nothing.

    A timeout is in seconds. Vectors have *dimension* dimensions.
    """

    def __init__(self, link: Link, dimension: int) -> None:
        self._link = link
        self._dimension = dimension
        #: QUERY_MAXIMUM_RESULTS, once the server has told it.
        self.cap: int | None = None

    def each(self, requests: Callable[[int], list[Any]], deep: int, *, timeout: float) -> list[Nominee]:
        """Nominees of several requests of one depth, which is *deep* or what the server brings; they are on their way at once."""
        while True:
            try:
                return self._nominees(requests(min(deep, self.cap or deep)), timeout)
            except _OverCap:
                continue

    def best(self, request: Callable[[int, int | None], Any], deep: int, *, timeout: float) -> list[Nominee]:
        """At least the *deep* best of a ranking, in no order.

        Beyond the server's cap each part of the tenant is asked for as many as there may be: 16 times as deep as the cap is the end.
        """
        if self.cap is None or deep <= self.cap:
            try:
                return self._nominees([request(deep, None)], timeout)
            except _OverCap:
                pass
        return self.each(lambda most: [request(most, part) for part in range(PARTS)], deep, timeout=timeout)

    def page(self, collection: str, tenant: str, after: str, size: int, *, vectors: bool, timeout: float) -> tuple[list[Any], bool]:
        """The objects behind the id *after*, in the order of ids, and whether there may be more."""
        while True:
            most = min(size, self.cap or size, _MOST)
            try:
                found = self._results(page_after(collection, tenant, after, most, vectors=vectors), timeout)
            except _OverCap:
                continue
            return found, len(found) == most

    def by_ids(self, collection: str, tenant: str, ids: Sequence[str], *, vectors: bool, timeout: float) -> list[Any]:
        """Those of *ids* that are there."""
        return self._in_chunks(ids, lambda some: by_ids(collection, tenant, some, vectors=vectors), timeout)

    def in_the_graph(self, collection: str, tenant: str, ids: Sequence[str], *, timeout: float) -> set[str]:
        """Those of *ids* that a search by vector can find.

        A server that was killed may have an object and not its place in the graph, and then never notices: the object lies there as it
        should, a search does not find it, and writing it again changes nothing.
        """
        found = self._in_chunks(ids, lambda some: in_the_graph(collection, tenant, some, self._dimension), timeout)
        return {result.metadata.id for result in found}

    def unforeseen(self, error: Refused) -> ServiceUnavailable:
        return ServiceUnavailable(f"Weaviate at {self._link.place.shown} answered with an error ({error}).")

    def _in_chunks(self, ids: Sequence[str], request: Callable[[Sequence[str]], Any], timeout: float) -> list[Any]:
        found: list[Any] = []
        start = 0
        while start < len(ids):
            some = ids[start : start + min(self.cap or _MOST, _MOST)]
            try:
                found += self._results(request(some), timeout)
            except _OverCap:
                continue
            start += len(some)
        return found

    def _nominees(self, requests: list[Any], timeout: float) -> list[Nominee]:
        try:
            replies = self._link.call_all("Search", requests, timeout=timeout)
        except Refused as error:
            if self._is_nothing(error):
                return []
            raise self.unforeseen(error) from None
        return [nominee for reply in replies for nominee in ranked(reply)]

    def _results(self, request: Any, timeout: float) -> list[Any]:
        try:
            return list(self._link.call("Search", request, timeout=timeout).results)
        except Refused as error:
            if self._is_nothing(error):
                return []
            raise self.unforeseen(error) from None

    def _is_nothing(self, error: Refused) -> bool:
        """The answer is that there is nothing. Raises CollectionGone and _OverCap for what is asked again otherwise."""
        if is_gone(error.reason):
            raise CollectionGone
        cap = _CAP.search(error.reason)
        if cap is not None and 0 < int(cap.group(1)) < (self.cap or 1 << 62):
            self.cap = int(cap.group(1))
            raise _OverCap
        return "tenant not found" in error.reason
