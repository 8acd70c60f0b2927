"""One reranking: what was found, in the reranker's order, or in its own and with what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from memline.contracts.errors import MemlineError, ProviderUnavailable, ServiceUnavailable
from memline.search.guard import Guard
from memline.search.rerank.port import MOST_CHARACTERS, Reranker, checked_scores
from memline.search.results import Hit

__all__ = ["after_successors", "reranked"]

#: Seconds under which nobody is asked any more.
_TOO_LATE = 0.01


def reranked(
    reranker: Reranker, guard: Guard, query: str, hits: Sequence[Hit], *, most: int, seconds: float, is_past: Callable[[Hit], bool]
) -> tuple[list[Hit], str | None]:
    """*hits* with the first *most* in the reranker's order, and None; or as they are, and why.

    Those that it does not name keep their order behind those that it does, then come those after *most*. What was superseded (*is_past*)
    stays behind what superseded it, whatever the reranker thinks of the two: the ledger knows which one is current.
    """
    if not hits:
        return [], None
    documents = [hit.row.text[:MOST_CHARACTERS] for hit in hits[:most]]
    try:
        if seconds < _TOO_LATE:
            raise ServiceUnavailable("No time was left for the reranker.")

        def ask() -> dict[int, float]:
            # its own timeout ends first, so that a call that hangs is given up by both sides
            return checked_scores(reranker.rerank(query[:MOST_CHARACTERS], documents, timeout=0.95 * seconds), len(documents))

        found = guard.call(ask, seconds, rests_on=ProviderUnavailable)
    except MemlineError as error:
        return list(hits), str(error)
    except Exception as error:  # noqa: BLE001 - one of the application's own may raise anything, and the answer is there without it
        return list(hits), f"The reranker raised {type(error).__name__}."
    named = sorted(found, key=lambda place: (-found[place], place))
    order = [replace(hits[place], rerank_score=found[place]) for place in named]
    order += [hit for place, hit in enumerate(hits) if place not in found]
    return after_successors(order, {hit.row.id for hit in order if is_past(hit)}), None


def after_successors(hits: Sequence[Hit], past: Collection[str]) -> list[Hit]:
    """*hits* in their order, but each of *past* (ids) directly behind what superseded it, where that one would come later."""
    there = {hit.row.id for hit in hits}
    waiting: dict[str, list[Hit]] = {}
    order: dict[str, Hit] = {}

    def place(hit: Hit) -> None:
        ready = [hit]
        while ready:
            first = ready.pop(0)
            order[first.row.id] = first
            ready = waiting.pop(first.row.id, []) + ready

    for hit in hits:
        newer = hit.row.superseded_by if hit.row.id in past else None
        if newer is not None and newer in there and newer not in order:
            waiting.setdefault(newer, []).append(hit)
        else:
            place(hit)
    return [*order.values(), *(hit for each in waiting.values() for hit in each)]  # the latter would be a circle, which no ledger holds
