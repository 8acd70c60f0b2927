"""The calls that read memory: search, get, get_all, count, entities, history, changes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from memline.contracts import incidents, tracing
from memline.contracts.about import about
from memline.contracts.errors import InvalidInput, UnknownOption
from memline.contracts.options import check_flag, check_handle
from memline.contracts.within import check_within
from memline.memory_handle import Handle, refuse_unknown

__all__ = ["Reads"]


class Reads(Handle):
    """What reads memory."""

    def search(
        self,
        /,
        query: str,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        threshold: float = 0.1,
        explain: bool = False,
        show_expired: bool = False,
        include_superseded: bool = False,
        as_of: datetime | None = None,
        rerank: bool = False,
        rerank_k: int | None = None,
        max_tokens: int | None = None,
        within: Mapping[str, Any] | None = None,
        **unknown: object,
    ) -> dict[str, Any]:
        """Memories for a question, best first: `{"results": [...]}` in mem0's shape.

        *filters* name at least one scope id, or *within* does: what is found lies inside both. *threshold* is one of `score`, 0 to 1,
        which means the same in every question. *as_of* (aware) asks for what was current then.

        *rerank* shows the best *rerank_k* (by default four times *top_k*, at least 40, at most 200) to the reranker, whose order it is
        then: `rerank_score` joins `score`. *max_tokens* keeps, in the order of rank, what fits by an estimate of tokens, a smaller one
        after one that is too large among them; `left_out` says how many and which did not: `{"count", "ids", "tokens": {"used",
        "limit"}}`. *explain* adds `score_details` to each, and `phases` (seconds) and `models` to the answer.

        A part that is down, slow or answers rubbish does not take the answer with it: `missing` then names it ("embedder", "index",
        "reranker") and `warnings` say why; `incomplete` says that deeper candidates were not looked at.
        Raises InvalidFilter, ScopeRequired and InvalidInput, ConfigurationError for *rerank* without a reranker, ServiceUnavailable
        where the ledger does not answer within MEMLINE_SEARCH_DEADLINE.
        """
        from memline.contracts.within import parse_within
        from memline.search.explain import score_details
        from memline.search.items import memory_item

        if "reference_date" in unknown:
            raise UnknownOption(
                "search has no reference_date: words such as 'last week' in a question are not reckoned from a date, so put the date into "
                "the question; as_of=datetime(…) asks for what was current at a time. Nothing was searched."
            )
        self._refuse_ids("search", unknown)
        self._check_open()
        check_flag("explain", explain)
        check_flag("rerank", rerank)
        check_flag("show_expired", show_expired)
        check_flag("include_superseded", include_superseded)
        with about(namespace=self.namespace), incidents.watched("search"), tracing.span("memline search", namespace=self.namespace):
            found = self._house.searcher.search(
                self.namespace,
                query,
                parse_within(filters, check_within(within)),
                top_k=top_k,
                threshold=threshold,
                explain=explain,
                show_expired=show_expired,
                include_superseded=include_superseded,
                as_of=as_of,
                rerank=rerank,
                rerank_k=rerank_k,
                max_tokens=max_tokens,
            )
            tracing.note(results=len(found.results), missing=",".join(found.missing))
        results = []
        for hit in found.results:
            item = memory_item(hit.row, score=hit.score)
            if hit.rerank_score is not None:
                item["rerank_score"] = hit.rerank_score
            if explain:
                item["score_details"] = score_details(hit, threshold=threshold)
            results.append(item)
        answer: dict[str, Any] = {"results": results}
        if found.missing:
            answer["missing"] = list(found.missing)
            answer["warnings"] = list(found.warnings)
        if found.incomplete:
            answer["incomplete"] = True
        if (left := found.left_out) is not None:
            answer["left_out"] = {"count": len(left.ids), "ids": list(left.ids), "tokens": {"used": left.used, "limit": left.limit}}
        if explain:
            answer["phases"] = dict(found.phases)
            answer["models"] = dict(found.models)
            answer["weights"] = found.weights
        return answer

    def get(self, /, memory_id: str, *, within: Mapping[str, Any] | None = None, **unknown: object) -> dict[str, Any] | None:
        """A memory by id; None where there is none in this namespace, or inside *within*. Expired and superseded ones are shown.

        `source` ({"job_id", "message", "span"}) says which turn it came from, and where in it, as far as that is known (`why` shows it).
        `sightings` ({"count", "said_at": the newest 20 times, oldest first}) is there where turns after the first have said it again.
        """
        from memline.ledger.memories import load_memory
        from memline.ledger.sightings import sightings_of
        from memline.search.items import memory_item, sightings_item, source_item

        refuse_unknown("get", unknown)
        self._check_open()
        checked, bound = check_handle("memory_id", memory_id), check_within(within)
        with self._house.ledger.read() as connection:
            row = load_memory(connection, self.namespace, checked, bound)
            if row is None:
                return None
            return memory_item(row) | source_item(row) | sightings_item(sightings_of(connection, row.no))

    def get_all(
        self,
        /,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        cursor: str | None = None,
        show_expired: bool = False,
        include_superseded: bool = False,
        within: Mapping[str, Any] | None = None,
        **unknown: object,
    ) -> dict[str, Any]:
        """Memories that *filters* match, in the order of creation, *top_k* a page: `{"results": [...], "total": n}`.

        `next_cursor` is there while there are more: give it as *cursor*, with the same filters and options, for the next page. A
        memory that is there during the whole walk comes exactly once, whatever changes meanwhile. `total` is how many match: now where
        *filters* ask for scope ids only, else when the walk began; `total_at_least` says that counting ended early (50,000 rows).
        *within* as in `search`.
        Raises InvalidFilter, ScopeRequired, InvalidCursor and InvalidInput.
        """
        from memline.contracts.within import parse_within
        from memline.search.items import memory_item
        from memline.search.listing import list_matching

        self._refuse_ids("get_all", unknown)
        self._check_open()
        page = list_matching(
            self._house.ledger,
            self.namespace,
            parse_within(filters, check_within(within)),
            top_k=top_k,
            show_expired=check_flag("show_expired", show_expired),
            show_superseded=check_flag("include_superseded", include_superseded),
            now=self._house.clock.now(),
            cursor=cursor,
        )
        answer: dict[str, Any] = {
            "results": [{key: value for key, value in memory_item(row).items() if key != "score"} for row in page.rows],
            "total": page.total,
        }
        if page.at_least:
            answer["total_at_least"] = True
        if page.next_cursor is not None:
            answer["next_cursor"] = page.next_cursor
        return answer

    def count(self, /, *, filters: Mapping[str, Any] | None = None, within: Mapping[str, Any] | None = None, **unknown: object) -> int:
        """How many memories *filters* match: those that `get_all` lists without options. Raises InvalidFilter and ScopeRequired."""
        from memline.contracts.within import parse_within
        from memline.search.listing import count_matching

        self._refuse_ids("count", unknown)
        self._check_open()
        return count_matching(self._house.ledger, self.namespace, parse_within(filters, check_within(within)), now=self._house.clock.now())

    def entities(
        self,
        /,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int = 20,
        cursor: str | None = None,
        memory_ids: int = 100,
        within: Mapping[str, Any] | None = None,
        **unknown: object,
    ) -> dict[str, Any]:
        """The names that memories inside *filters* share, *top_k* a page, in the order of the lower-cased names.

        `{"results": [{"name", "type", "count", "memory_ids"}]}`, with the user_id and agent_id (or the run_id) they belong to: `count`
        memories name it, the first *memory_ids* of them are told. `next_cursor` as in `get_all`. Deleted, expired and superseded
        memories count for nothing. Raises InvalidFilter, ScopeRequired, InvalidCursor and InvalidInput.
        """
        from memline.contracts.within import parse_within
        from memline.search.entity_listing import list_entities
        from memline.search.items import entity_item

        self._refuse_ids("entities", unknown)
        self._check_open()
        now = self._house.clock.now()
        wanted = parse_within(filters, check_within(within))
        page = list_entities(self._house.ledger, self.namespace, wanted, top_k=top_k, now=now, cursor=cursor, memory_ids=memory_ids)
        answer: dict[str, Any] = {"results": [entity_item(item) for item in page.items]}
        if page.next_cursor is not None:
            answer["next_cursor"] = page.next_cursor
        return answer

    def history(self, /, memory_id: str, *, within: Mapping[str, Any] | None = None, **unknown: object) -> list[dict[str, Any]]:
        """What happened to a memory, oldest first, in mem0's shape; empty for an unknown id, and for one outside *within*."""
        from memline.ledger.history import history_of
        from memline.search.items import history_item

        refuse_unknown("history", unknown)
        self._check_open()
        checked, bound = check_handle("memory_id", memory_id), check_within(within)
        with self._house.ledger.read() as connection:
            return [history_item(row) for row in history_of(connection, self.namespace, checked, bound)]

    def why(self, /, memory_id: str, *, within: Mapping[str, Any] | None = None, **unknown: object) -> dict[str, Any] | None:
        """Why a memory is there; None where `get` gives none (an unknown id, one that is deleted, one outside *within*).

        `{"memory", "source", "extraction", "decision", "links", "history", "costs"}`: the turn with its messages, and in which of them and
        where it was said; who extracted it, by which version of the prompt and whose instructions; what was near it when it was added and
        which turns said it again; what it supersedes and is linked to. `docs/provenance.md` has every key, and how long each is kept.
        """
        from memline.ledger.why import provenance_of
        from memline.search.why import why_item

        refuse_unknown("why", unknown)
        self._check_open()
        checked, bound = check_handle("memory_id", memory_id), check_within(within)
        with self._house.ledger.read() as connection:
            found = provenance_of(connection, self.namespace, checked, bound)
        return None if found is None else why_item(found)

    def changes(
        self, /, since: str | None = None, *, limit: int = 1000, within: Mapping[str, Any] | None = None, **unknown: object
    ) -> dict[str, Any]:
        """What happened to the memories of this namespace after *since*, in the order of commits, at most *limit* (up to 10,000).

        `{"results": [{"id", "event", "version", "at", "cursor"}], "cursor"}`: `event` is ADD, UPDATE, SUPERSEDE, EXPIRE, DELETE (by
        delete, delete_all, reset and a purge) or ERASE; no text, metadata or scope. Give `cursor` as the next *since*; the one of a
        result is right after it. None: from the first change that is kept (MEMLINE_KEEP_CHANGES days); "now": only a cursor.

        No committed change is passed over by a cursor; who stops before keeping one sees changes again. Raises
        InvalidCursor, InvalidInput for any *within*, and StaleCursor where what came after the cursor may be gone: begin anew.
        """
        from memline.search.changes import read_changes

        refuse_unknown("changes", unknown)
        self._check_open()
        if check_within(within) is not None:
            raise InvalidInput(
                "within is not for changes, which tells of a whole namespace: of an erased memory nobody knows any more whose it was. The "
                "feed is for whoever keeps the namespace."
            )
        return read_changes(self._house.ledger, self.namespace, since, limit=limit)
