"""What a stage works with: the parts that the composition root built from the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from memline.contracts.clock import Clock
from memline.contracts.errors import MemlineError, ProviderRefused, ProviderUnavailable, ReplyUnreadable
from memline.contracts.ids import IdSource
from memline.contracts.message import Image
from memline.language.ports import Analyser, Embedder
from memline.language.prices import Prices
from memline.ledger.claim import ClaimLimits
from memline.ledger.history import HistoryMode
from memline.ledger.jobs import Job
from memline.ledger.leases import Lease, LeaseTimes
from memline.ledger.session import Ledger
from memline.pipeline.extractors.port import Extractor
from memline.search.index.port import Index

__all__ = ["Batch", "Failure", "Parts", "Prepared", "RetryPolicy", "Send", "Vision", "failure_of", "reason_of"]

#: Sends claimed batches to whoever runs their next stage.
Send = Callable[[Sequence[Lease]], None]

#: Seconds: the longest that a provider's wish to wait is followed.
_LONGEST_ASKED = 86_400.0


class Vision(Protocol):
    """Describes images (`pipeline.images.ImageReader`)."""

    @property
    def model(self) -> str: ...

    def describe(self, image: Image, said: str) -> str:
        """What is on *image*, sent with the text *said*; one line. Raises what a chat model raises."""
        ...


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a job is tried, and how long it waits between (seconds)."""

    max_attempts: int = 6
    first_delay: float = 1.0
    longest_delay: float = 300.0
    #: Asks for a readable reply before the job fails.
    asks: int = 3

    #: Numbers from 0 to 1: each wait is up to a quarter longer, so that jobs which failed together do not come again together.
    jitter: Callable[[], float] = lambda: 0.0

    def delay(self, failures: int, *, retry_after: float | None = None) -> float:
        """The wait before the next try, after *failures* earlier ones; never shorter than the provider asked for, up to a day."""
        # a model of the application's own may ask for anything, also for what is no number
        asked = min(retry_after, _LONGEST_ASKED) if retry_after is not None and retry_after > 0 else 0.0
        # 2.0 ** 1024 is no number
        own = min(self.longest_delay, self.first_delay * 2.0 ** min(failures, 64))
        return max(asked, own * (1 + 0.25 * self.jitter()))


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one process. Everything in it is safe for threads."""

    ledger: Ledger
    index: Index
    analyser: Analyser
    embedder: Embedder
    extractor: Extractor
    clock: Clock
    ids: IdSource
    times: LeaseTimes = field(default_factory=LeaseTimes)
    limits: ClaimLimits = field(default_factory=ClaimLimits)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    #: Seconds that a turn waits for an earlier one of its producer.
    order_wait: float = 30.0
    #: Seconds after a deletion up to which a spooled turn counts as handed over before it.
    clock_margin: float = 60.0
    #: What history keeps of texts.
    history: HistoryMode = HistoryMode.FULL
    #: Calls to a paid extractor at a time, in one batch.
    parallel_asks: int = 16
    #: Days that a memory without an expiration date lasts, where its namespace says nothing; None: for ever.
    default_lifetime: int | None = None
    #: Describes images; None: turns with images are refused at the front door.
    vision: Vision | None = None
    #: What tokens cost.
    prices: Prices = field(default_factory=Prices)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job does not advance. `retry_in`: seconds until the next try; None: never."""

    reason: str
    retry_in: float | None
    #: It costs an attempt.
    spends: bool = True
    #: It is tried alone from now on, also where it stands behind another of its lane.
    alone: bool = False
    #: The kind of a call (`metrics.CALL_KINDS`) that met an outage; whether that costs an attempt `outages` decides.
    outage_of: str | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a stage worked out before its transaction: a value a job, or why there is none."""

    values: Mapping[str, Any] = field(default_factory=dict)
    failures: Mapping[str, Failure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batch:
    """Jobs at one stage, with what a stage may ask for while it works outside a transaction."""

    lease: Lease
    jobs: Sequence[Job]
    #: Keeps the lease; raises LeaseLost.
    keep: Callable[[], None]
    #: Commits these jobs (whole lanes) and sends them on as a batch of their own; the rest stays.
    hand_on: Callable[[Sequence[Job], Prepared], None]


def failure_of(error: MemlineError, job: Job, retry: RetryPolicy) -> Failure:
    """What an error of an outside call means for a job.

    A provider that asks for patience, or is away, is not the job's failure.
    """
    retry_after = error.retry_after if isinstance(error, ProviderUnavailable) else None
    if isinstance(error, ProviderUnavailable) and error.cause in ("limit", "held"):
        return Failure(reason_of(error), retry.delay(0, retry_after=retry_after), spends=False)
    if isinstance(error, ProviderUnavailable) and error.cause == "outage" and error.call is not None:
        return Failure(reason_of(error), retry.delay(0, retry_after=retry_after), spends=False, outage_of=error.call)
    if isinstance(error, (ProviderRefused, ReplyUnreadable)) or job.attempts + 1 >= retry.max_attempts:
        return Failure(reason_of(error), None)
    return Failure(reason_of(error), retry.delay(job.attempts, retry_after=retry_after))


def reason_of(error: BaseException) -> str:
    """An error as a reason that can be shown: its class, and its words only where memline wrote them."""
    return f"{type(error).__name__}: {error}" if isinstance(error, MemlineError) else type(error).__name__
