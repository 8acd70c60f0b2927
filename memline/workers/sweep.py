"""About once a second: what stalled, was held, or was delayed goes on. This loop, not Redis, is the recovery of last resort."""

from __future__ import annotations

import logging

from memline.contracts import incidents
from memline.contracts.about import told
from memline.contracts.incidents import FailedJob
from memline.ledger.leases import dissolve_expired, send_again
from memline.ledger.seats import release_held
from memline.pipeline.parts import Parts, Send
from memline.pipeline.runner import claim_and_send

__all__ = ["SWEEP_EVERY", "sweep_once"]

_log = logging.getLogger("memline.sweep")

#: Seconds between two sweeps.
SWEEP_EVERY = 1.0


def sweep_once(parts: Parts, send: Send) -> int:
    """Seats turns whose gap did not close, takes batches from dead workers, sends lost messages again, claims what is ready.

    Returns how many things it moved.
    """
    now = parts.clock.now()
    with parts.ledger.write() as tx:
        seated = release_held(tx, now=now)
    failed: list[FailedJob] = []
    with parts.ledger.write() as tx:
        dissolved = dissolve_expired(tx, now=now, max_attempts=parts.retry.max_attempts, failed=failed)
    for job in failed:
        _log.error("job failed", extra=told(job=job.job, stage=job.stage, namespace=job.namespace, reason=job.reason, tries=job.attempts))
        incidents.job_failed(job)
    with parts.ledger.write() as tx:
        again = send_again(tx, now=now, times=parts.times)
    send(again)
    return seated + dissolved + len(again) + claim_and_send(parts, send)
