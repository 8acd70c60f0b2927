"""Named points before and after every commit and every outside call, at which tests make real faults happen.

Off, a point is a test of a module constant. On, through the environment, in the form ``point=action[@n]`` separated by ``;``:

    MEMLINE_FAILPOINTS="persist.before_commit=kill;relay.after_write=drop@3"

`raise` raises, `kill` is SIGKILL to this process, `sleep:SECONDS` holds the thread, `drop` says that the answer was lost although the
effect is there (at a point named after_…). `@n` waits for the n-th time. A point acts once: across processes too, where
`MEMLINE_FAILPOINTS_DIR` names a folder for the marks.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from memline.contracts.errors import ConfigurationError, ServiceUnavailable

__all__ = ["POINTS", "Fault", "hit", "parse_failpoints"]

_STAGES = ("extract", "embed", "dedup", "persist", "link", "save")

#: Every point, with the moment it stands for.
POINTS: dict[str, str] = {
    "hand_over.before_xadd": "the turn has its id and number; Redis was not asked yet",
    "hand_over.after_xadd": "Redis has the turn; the caller was not told yet",
    "hand_over.before_spool": "Redis is away; the spool file was not written yet",
    "hand_over.after_spool": "the spool file holds the turn; the caller was not told yet",
    "accept.before_commit": "the job rows are written and the heads claimed, not committed",
    "accept.after_commit": "the jobs are committed; the entries are not acknowledged",
    "accept.after_done": "the entries are acknowledged and deleted; the batches are not sent",
    "dispatch.before_send": "a claimed batch is committed; Celery does not have it",
    "dispatch.after_send": "Celery has the batch; the sender was not told",
    **{
        f"{stage}.{point}": told
        for stage in _STAGES
        for point, told in {
            "taken": "the lease is taken; nothing was worked out",
            "before_commit": "result and advance are written, not committed",
            "after_commit": "result and advance are committed; the next stage was not sent",
        }.items()
    },
    "extract.before_ask": "the extractor was not asked yet",
    "extract.after_ask": "the extractor answered; the reply is not stored",
    "extract.after_store": "the reply is stored; nothing was made of it",
    "embed.before_call": "the embedder was not called yet",
    "embed.after_call": "the embedder answered; the vectors are not stored",
    "update.before_commit": "the new version of a memory is written, not committed",
    "update.after_commit": "it is committed; the caller was not told",
    "delete.before_commit": "a memory is deleted, not committed",
    "delete.after_commit": "it is committed; the caller was not told",
    "delete_all.placed": "its place in the stream is drawn; nothing is deleted",
    "delete_all.before_commit": "the scope is deleted and its turns are cancelled, not committed",
    "delete_all.after_commit": "it is committed; the caller was not told",
    "reset.before_commit": "the namespace is deleted and its turns are cancelled, not committed",
    "reset.after_commit": "it is committed; the caller was not told",
    "erase.placed": "its place in the stream is drawn; the ledger was not told",
    "erase.marked": "the epoch is raised, the tombstone stands, the subject's turns in the ledger are cancelled; nothing is removed",
    "erase.filed": "the tombstone stands outside the ledger, too",
    "erase.before_commit": "a page of rows is removed, not committed",
    "erase.after_commit": "the page is committed",
    "erase.removed": "the ledger holds no row of the subject; stream, spools and index may",
    "erase.collected": "stream and spools hold none either",
    "erase.indexed": "the index was told once",
    "erase.waited": "whoever worked under the old epoch has ended; the index was not told again",
    "erase.proved": "every store was read; the certificate is not written",
    "erase.before_finish": "the certificate is written, not committed",
    "erase.finished": "the erasure is finished; the caller was not told",
    "reembed.before_call": "a page of texts is read; the next embedder was not called yet",
    "reembed.after_call": "it answered; its vectors are not stored",
    "reembed.before_commit": "a page of next vectors is written, not committed",
    "reembed.after_commit": "the page is committed",
    "reembed.filled": "the next index is filled; the ledger still has the former embedder",
    "reembed.before_swap": "the next embedder is the ledger's own, not committed",
    "reembed.after_swap": "the swap is committed; the former index is still there",
    "relay.claimed": "outbox rows are under the relay's lease; the index was not told",
    "relay.before_write": "the current state is read; the index was not told",
    "relay.after_write": "the index applied the write; the answer is not recorded",
    "relay.before_settle": "the answers are written, not committed",
    "relay.after_settle": "the answers are committed",
    "reconcile.before_walk": "a page of the ledger is read; the index was not asked for its own",
    "reconcile.before_look": "something looks different; the index was not asked for it a second time",
    "reconcile.before_repair": "what differs is written to the outbox, not committed",
    "reconcile.after_repair": "it is committed; the next page was not read",
}


class Fault(RuntimeError):
    """What `raise` raises."""


@dataclass(slots=True)
class _Armed:
    action: str
    seconds: float
    countdown: int


def parse_failpoints(text: str) -> dict[str, _Armed]:
    """The points that *text* arms; raises ConfigurationError for a name or an action that does not exist."""
    armed: dict[str, _Armed] = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        point, _, action = part.partition("=")
        action, _, nth = action.partition("@")
        action, _, seconds = action.partition(":")
        if point not in POINTS or action not in ("raise", "kill", "sleep", "drop"):
            raise ConfigurationError(f"MEMLINE_FAILPOINTS: {part!r} names no point or no action of memline.contracts.failpoints.")
        armed[point] = _Armed(action, float(seconds or 0), int(nth or 1))
    return armed


_armed = parse_failpoints(os.environ.get("MEMLINE_FAILPOINTS", ""))
_marks = os.environ.get("MEMLINE_FAILPOINTS_DIR")
_guard = threading.Lock()


def hit(point: str) -> None:
    """Does what is armed for *point*; nothing where nothing is."""
    if not _armed or point not in _armed:
        return
    armed = _armed[point]
    with _guard:
        armed.countdown -= 1
        if armed.countdown != 0 or not _first(point):
            return
    if armed.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif armed.action == "sleep":
        time.sleep(armed.seconds)
    elif armed.action == "drop":
        raise ServiceUnavailable(f"The answer at {point} was lost (failpoint).")
    else:
        raise Fault(f"failpoint {point}")


def _first(point: str) -> bool:
    """Whether no other process has acted at *point*."""
    if _marks is None:
        return True
    try:
        (Path(_marks) / point).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
