"""What an outage of a provider costs a job: nothing, unless the provider answers others and fails this job alone.

A job whose call met an outage goes back to the ledger and is tried again, later each time, for as long as the outage lasts. One that makes
its server fail by itself (a 500 for this text alone) must end all the same. The two are told apart by the others: where a call of the same
kind was answered since this job's call failed before, the job is tried alone from then on, and alone each such failure costs an attempt. So
the first outage of a job never does, nor does any while nobody is answered, nor one that it met in a call together with others.
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy.engine import Connection

from memline.ledger.calls import note_outage
from memline.ledger.jobs import Job
from memline.ledger.usage import answered_since
from memline.pipeline.parts import Failure, Parts

__all__ = ["after_outage"]


def after_outage(tx: Connection, parts: Parts, job: Job, failure: Failure) -> Failure:
    """*failure* as it counts, where it is an outage; every other one as it is. In the transaction that puts the job off."""
    if failure.outage_of is None or failure.retry_in is None:
        return failure
    before = note_outage(tx, failure.outage_of, job.id, now=parts.clock.now())
    suspect = before is not None and answered_since(tx, failure.outage_of, before.last_at)
    spends = suspect and job.alone
    if spends and job.attempts + 1 >= parts.retry.max_attempts:
        return Failure(f"{failure.reason} It happened {parts.retry.max_attempts} times while other calls were answered.", None)
    waits = parts.retry.delay(0 if before is None else before.number, retry_after=failure.retry_in)
    return replace(failure, retry_in=waits, spends=spends, alone=suspect)
