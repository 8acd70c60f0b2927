"""What somebody should hear of: a job that failed, a part that broke, a loop that went round. Nobody hears until `use` installs a sink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from memline.contracts.errors import Closed, ConfigurationError, InvalidInput, NotFound

__all__ = ["FailedJob", "Sink", "broke", "job_failed", "round_ended", "use", "watched"]


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job that ended as failed (G13). *reason* is as the job has it: `Class` or `Class: message`, perhaps after `stage: `."""

    job: str
    stage: str
    namespace: str
    reason: str
    attempts: int

    @property
    def kind(self) -> str:
        """The class of the reason: what alerts are grouped by."""
        head = self.reason.removeprefix(f"{self.stage}: ").split(":", 1)[0].strip()
        return head if head.isidentifier() else "WorkerDied" if head.startswith("The worker died") else "Other"


class Sink(Protocol):
    """Hears of it. Thread-safe; raises nothing, and holds nobody up."""

    def job_failed(self, failed: FailedJob) -> None: ...

    def broke(self, where: str, error: BaseException) -> None: ...

    def round_ended(self, loop: str, *, every: float, seconds: float, error: BaseException | None) -> None: ...


_sink: Sink | None = None


def use(sink: Sink | None) -> None:
    """Installs who hears of this process's incidents; None: nobody."""
    global _sink
    _sink = sink


def job_failed(failed: FailedJob) -> None:
    """A job failed; called after the commit that says so."""
    if _sink is not None:
        _sink.job_failed(failed)


def broke(where: str, error: BaseException) -> None:
    """*error* was met at *where* (a loop, a call), was survived or goes on to the caller, and is nobody's input."""
    if _sink is not None:
        _sink.broke(where, error)


@contextmanager
def watched(where: str) -> Iterator[None]:
    """Tells of an error that leaves the block, unless it is what the caller gave (InvalidInput) or the settings say."""
    try:
        yield
    except (InvalidInput, ConfigurationError, NotFound, Closed):
        raise
    except Exception as error:
        broke(where, error)
        raise


def round_ended(loop: str, *, every: float, seconds: float, error: BaseException | None = None) -> None:
    """A loop that goes round every *every* seconds, or oftener, ended a round of *seconds*; with *error*, badly."""
    if _sink is not None:
        _sink.round_ended(loop, every=every, seconds=seconds, error=error)
