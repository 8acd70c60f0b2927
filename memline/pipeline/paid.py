"""Calls that cost: noted before they are made, and settled in the transaction that stores their answer (G10, costs)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy.engine import Connection

from memline.contracts import metrics
from memline.contracts.errors import ProviderError, ProviderUnavailable
from memline.language.checked import checked_vectors
from memline.language.ports import Vectors
from memline.language.prices import Prices
from memline.language.usage import Use, embedded, metered, total
from memline.ledger.calls import begin_calls, drop_calls
from memline.ledger.counters import count
from memline.ledger.jobs import Job
from memline.ledger.results import hold_jobs
from memline.ledger.usage import Used, add_usage, keep_usage_of_jobs
from memline.pipeline.parts import Parts

__all__ = ["Paid", "embedded_for", "paid_call", "settle_uses", "tell_metrics"]


@dataclass(slots=True)
class Paid:
    """A call made for some jobs. `settle` it in the transaction that stores its answer."""

    parts: Parts
    call: str
    jobs: Sequence[Job]
    uses: list[Use] = field(default_factory=list)
    #: Calls of these jobs whose answer had been lost.
    repeated: int = 0
    paid: bool = True

    def settle(self, tx: Connection, *, lost: Collection[str] = (), failed: Collection[str] = ()) -> None:
        """Writes what the call used, to its jobs in equal parts and to the day of their namespaces, and that it has ended.

        To be called last in a transaction that begins with `hold_jobs`, where there are several. *lost*: ids of jobs whose answer may be
        lost, so that a next call of theirs is a repetition; *failed*: of those that got no answer, whose earlier outages are remembered.
        Nothing where nothing was noted.
        """
        if not self.jobs or not self.paid:
            return
        now = self.parts.clock.now()
        ended = [job.id for job in self.jobs if job.id not in lost]
        answered = [job.id for job in self.jobs if job.id not in failed] if any(use.calls for use in self.uses) else []
        drop_calls(tx, self.call, ended, answered=answered)
        # those that were noted before are counted already
        count(tx, "repeated_calls", sum(use.repeated for use in self.uses) - self.repeated)
        of_jobs: dict[str, list[Used]] = {job.id: [] for job in self.jobs}
        for use in total(self.uses):
            for number, job in enumerate(self.jobs):
                share = _part(use, number, len(self.jobs))
                if share != Use(use.model, 0):
                    of_jobs[job.id].append(_used(self.parts.prices, job.scope.namespace, self.call, share))
        keep_usage_of_jobs(tx, of_jobs, now=now)
        add_usage(tx, _summed([used for some in of_jobs.values() for used in some]), now=now)


@contextmanager
def paid_call(
    parts: Parts,
    call: str,
    jobs: Sequence[Job],
    *,
    model: str | None = None,
    paid: bool = True,
) -> Iterator[Paid]:
    """The block in which *call* (`metrics.CALL_KINDS`) is made for *jobs*, whose stored answers are settled after it.

    *model*: what is counted as one call where the part does not tell what it used; *paid* False: it costs nothing, and nothing is noted.
    No transaction is open inside. Raises what the block raises; a ProviderError then says which call it was, and is settled here.
    """
    found = Paid(parts, call, jobs, paid=paid)
    if not paid or not jobs:
        yield found
        return
    ids = [job.id for job in jobs]
    with parts.ledger.write() as tx:
        found.repeated = begin_calls(tx, call, ids, now=parts.clock.now())
    try:
        with metered() as uses:
            yield found
    except ProviderError as error:
        error.call = call
        found.uses = [*uses, *_made_again(found, model)]
        tell_metrics(parts.prices, call, found.uses)
        away = error if isinstance(error, ProviderUnavailable) else None
        lost = ids if away is not None and away.answer_lost else []
        with parts.ledger.write() as tx:
            hold_jobs(tx, ids)
            found.settle(tx, lost=lost, failed=[] if away is None else ids)  # also where an earlier try was answered, with nothing of use
        raise
    found.uses = [*(uses or ([] if model is None else [Use(model)])), *_made_again(found, model)]
    tell_metrics(parts.prices, call, found.uses)


def embedded_for(parts: Parts, namespace: str, texts: Sequence[str]) -> Vectors:
    """Vectors of texts that are no job's (of an update, of an import); what they cost is written to the namespace's day, at once.

    Raises what the embedder raises, and ProviderRefused for vectors that are none.
    """
    with metered() as uses:
        try:
            return checked_vectors(parts.embedder, embedded(parts.embedder, texts), len(texts))
        finally:  # also of a call that failed: its server may have charged for it
            if parts.embedder.paid and uses:
                with parts.ledger.write() as tx:
                    settle_uses(tx, parts, "embed", namespace, uses)


def settle_uses(tx: Connection, parts: Parts, call: str, namespace: str, uses: Sequence[Use]) -> None:
    """Writes what a call used that was made for no job (an update, an import), to its namespace's day."""
    add_usage(tx, [_used(parts.prices, namespace, call, use) for use in total(uses)], now=parts.clock.now())
    tell_metrics(parts.prices, call, uses)


def tell_metrics(prices: Prices, call: str, uses: Sequence[Use]) -> None:
    """Tokens and money, for the metrics of this process."""
    for use in uses:
        for kind, number in (
            ("input", use.tokens_in - use.tokens_cached),
            ("cached", use.tokens_cached),
            ("output", use.tokens_out),
        ):
            metrics.TOKENS.add(number, call=call, model=use.model, kind=kind)
        if cost := prices.nanodollars(use):
            metrics.COST.add(cost / 1e9, call=call, model=use.model)


def _made_again(found: Paid, model: str | None) -> list[Use]:
    """That this call repeats calls whose answers were lost, also where it fails in its turn."""
    return [Use(model or found.parts.embedder.model, calls=0, repeated=found.repeated)] if found.repeated else []


def _part(use: Use, number: int, of: int) -> Use:
    """The share of a call that the job of this number bears; all shares together are the call. The first job has the call itself."""

    def share(whole: int) -> int:
        return whole * (number + 1) // of - whole * number // of

    first = number == 0
    return Use(
        use.model,
        use.calls if first else 0,
        share(use.tokens_in),
        share(use.tokens_cached),
        share(use.tokens_out),
        use.repeated if first else 0,
    )


def _used(prices: Prices, namespace: str, call: str, use: Use) -> Used:
    cost = prices.nanodollars(use)
    return Used(
        namespace,
        call,
        use.model,
        use.calls,
        use.repeated,
        use.tokens_in,
        use.tokens_cached,
        use.tokens_out,
        cost or 0,
        use.calls if cost is None else 0,
        priced=cost is not None or not (use.calls or use.tokens_in or use.tokens_out),
    )


def _summed(found: Sequence[Used]) -> list[Used]:
    """One a namespace, kind of call and model."""
    by_key: dict[tuple[str, str, str], list[Used]] = {}
    for used in found:
        by_key.setdefault((used.namespace, used.call, used.model), []).append(used)
    sums = ("calls", "repeated", "tokens_in", "tokens_cached", "tokens_out", "nanodollars", "unpriced")
    return [Used(*key, *(sum(getattr(each, name) for each in some) for name in sums)) for key, some in by_key.items()]
