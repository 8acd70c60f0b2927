"""Every metric of memline, declared once: name, help, labels with the values they may have, buckets.

A room says what happened with `METRIC.add(…)`, `METRIC.observe(…)` or `METRIC.set(…)`; nothing is kept until a process installs a sink
(`use`), so importing this costs no package. Labels never carry an id or a text. Names follow Prometheus: base units, `_total` for counts.

What the ledger counts itself (`ledger/counters.py`) is exported from there, by `ledger/exported.py`, and is not said here again.
"""

from __future__ import annotations

from memline.contracts.metric_types import Counter, Gauge, Histogram, Metric, Sink, installed, use
from memline.contracts.policy import Kind

__all__ = [
    "ACCEPTED_TURNS",
    "BATCHES",
    "BATCH_JOBS",
    "BREAKER_OPEN",
    "BUCKETS_OF_A_TURN",
    "CALLS",
    "CALL_KINDS",
    "CALL_OUTCOMES",
    "CELERY_MESSAGES",
    "COMMITTED_SECONDS",
    "COST",
    "DUPLICATES",
    "ERASURES_AGE",
    "ERASURES_UNFINISHED",
    "FAILURES",
    "HANDED_OVER",
    "JOBS_FAILED",
    "JOBS_HELD",
    "JOBS_UNFINISHED",
    "LANES",
    "LIMIT_FALLBACKS",
    "LOOPS",
    "LOOPS_BEATING",
    "LOOP_FAILURES",
    "OLDEST_TURN",
    "OUTBOX_AGE",
    "OUTBOX_ROWS",
    "REASONS",
    "REDIS_MEMORY",
    "RELAY_ROWS",
    "RETRIES",
    "SEARCHABLE_SECONDS",
    "SEARCH_INCOMPLETE",
    "SEARCH_MISSING",
    "SEARCH_PHASE_SECONDS",
    "SEARCH_SECONDS",
    "SPOOL_BYTES",
    "STAGES",
    "STAGE_SECONDS",
    "STREAM_ENTRIES",
    "TOKENS",
    "UP",
    "WRITES_REFUSED",
    "Counter",
    "Gauge",
    "Histogram",
    "Metric",
    "Sink",
    "declared",
    "installed",
    "use",
]

#: The stages (`ledger.jobs.STAGES`).
STAGES = ("extract", "embed", "dedup", "persist", "link", "save")
#: Loops of a worker, by what they do.
LOOPS = ("accept", "relay", "sweep", "prune", "expire", "reconcile", "engine")
#: What a paid or local model is asked for.
CALL_KINDS = ("extract", "embed", "search", "vision", "rerank")
#: How such a call ended; `budget`: it was not made, the budget was spent; `open`: it was not made, the breaker is open.
CALL_OUTCOMES = ("ok", "unavailable", "refused", "unreadable", "budget", "open")
#: Classes of reasons why a job waits for another try, or failed (`metric_reasons.reason_class`).
REASONS = (
    "provider_unavailable",
    "provider_refused",
    "reply_unreadable",
    "service_unavailable",
    "configuration",
    "embedder_mismatch",
    "worker_died",
    "error",
)
#: From a tenth of a second to an hour: what a turn takes on its way, in seconds.
BUCKETS_OF_A_TURN = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 900, 3600)

# Turns on their way: the freshness promise

HANDED_OVER = Counter(
    "memline_turns_handed_over_total",
    "Turns that producers handed over: to Redis (queued), to this machine's disk (spooled), or into the ledger at once (accepted).",
    {"receipt": ("queued", "spooled", "accepted")},
)
ACCEPTED_TURNS = Counter(
    "memline_turns_accepted_total",
    "Turns that the ledger took. new: a job was made. again, repeat: it was there before. conflict: its key was used for another content. "
    "cancelled: its scope was deleted meanwhile.",
    {"outcome": ("new", "again", "repeat", "conflict", "cancelled")},
)
COMMITTED_SECONDS = Histogram(
    "memline_turn_committed_seconds", "Seconds from the hand-over of a turn to its commit.", buckets=BUCKETS_OF_A_TURN
)
SEARCHABLE_SECONDS = Histogram(
    "memline_turn_searchable_seconds",
    "Seconds from the hand-over of a turn until the index has all its memories.",
    buckets=BUCKETS_OF_A_TURN,
)

WRITES_REFUSED = Counter(
    "memline_writes_refused_total",
    "Writes that the write policy refused, by the kind of what they held. What it masks the ledger counts.",
    {"kind": tuple(kind.value for kind in Kind)},
)

# Stages

STAGE_SECONDS = Histogram(
    "memline_stage_seconds",
    "Seconds that a stage took for a batch. Outcome: done; given_back: its jobs are tried again; lost: another worker has the batch.",
    {"stage": STAGES, "outcome": ("done", "given_back", "lost")},
)
BATCH_JOBS = Histogram(
    "memline_stage_batch_jobs",
    "Jobs in a batch, as a stage takes it.",
    {"stage": STAGES},
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000),
)
RETRIES = Counter("memline_job_retries_total", "Jobs that a stage put off for another try.", {"stage": STAGES, "reason": REASONS})
FAILURES = Counter("memline_job_failures_total", "Jobs that ended failed, by the kind of reason.", {"stage": STAGES, "reason": REASONS})
DUPLICATES = Counter("memline_duplicates_total", "Facts that a live memory of their scope said already; none was written.")
LOOP_FAILURES = Counter(
    "memline_loop_failures_total", "Rounds of a loop that ended in an error; the loop goes on.", {"loop": (*LOOPS, "beat")}
)
RELAY_ROWS = Counter(
    "memline_relay_rows_total",
    "Outbox rows by what became of them: taken by the index, refused by it, or kept because the index did not answer at all.",
    {"answer": ("taken", "refused", "away")},
)

# Models: calls, tokens, money

CALLS = Counter("memline_calls_total", "Calls of models, by how they ended.", {"call": CALL_KINDS, "model": (), "outcome": CALL_OUTCOMES})
TOKENS = Counter(
    "memline_tokens_total",
    "Tokens that calls were charged for. cached: the part of the input that the provider had at hand, which is not in `input` again.",
    {"call": CALL_KINDS, "model": (), "kind": ("input", "cached", "output")},
)
COST = Counter("memline_cost_dollars_total", "What calls cost, in US dollars, by the prices known.", {"call": CALL_KINDS, "model": ()})
BREAKER_OPEN = Gauge(
    "memline_provider_breaker_open", "1: a model's server was away again and again, and this process leaves it alone.", {"server": ()}
)
LIMIT_FALLBACKS = Counter(
    "memline_limit_fallbacks_total", "Calls whose shared limit Redis did not tell: the process went on with its own share."
)

# Search

SEARCH_SECONDS = Histogram(
    "memline_search_seconds",
    "Seconds that a search took. Outcome: whole; partial: a part was missing; failed: it raised.",
    {"outcome": ("whole", "partial", "failed")},
    buckets=(0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)
SEARCH_PHASE_SECONDS = Histogram(
    "memline_search_phase_seconds",
    "Seconds of a search by phase.",
    {"phase": ("analyse", "embed", "nominate", "read", "score", "rerank")},
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5),
)
SEARCH_MISSING = Counter(
    "memline_search_missing_total", "Searches that a part did not answer for.", {"part": ("embedder", "index", "reranker")}
)
SEARCH_INCOMPLETE = Counter("memline_search_incomplete_total", "Searches whose legs stopped before they had found enough.")

# States, read when they are asked for (`memline metrics`, `ledger/gauges.py`)

UP = Gauge("memline_up", "Whether a part answered this scrape in time.", {"part": ("ledger", "redis")})
STREAM_ENTRIES = Gauge(
    "memline_stream_entries",
    "Entries of the stream: all, and those that a consumer read and did not finish.",
    {"state": ("all", "pending")},
)
CELERY_MESSAGES = Gauge("memline_celery_messages", "Messages that wait in the queue of a stage.", {"stage": STAGES})
BATCHES = Gauge("memline_batches", "Batches that are out: waiting for a worker, or with one.", {"state": ("waiting", "running")})
LANES = Gauge(
    "memline_lanes",
    "Lanes with work: a batch of theirs is out (busy), they can be claimed (ready), or their next try is not due yet (delayed).",
    {"state": ("busy", "ready", "delayed")},
)
JOBS_UNFINISHED = Gauge("memline_jobs_unfinished", "Jobs that have not come to their end, by the stage they are at.", {"stage": STAGES})
JOBS_HELD = Gauge("memline_jobs_held", "Jobs that wait for an earlier turn of their producer, at most MEMLINE_ORDER_WAIT.")
JOBS_FAILED = Gauge("memline_failed_jobs", "Jobs that are failed now, and can be looked at and replayed.")
OLDEST_TURN = Gauge("memline_oldest_turn_seconds", "Seconds since the hand-over of the oldest turn without a commit; 0: there is none.")
OUTBOX_ROWS = Gauge(
    "memline_outbox_rows",
    "What the index still has to be shown (waiting), and what was set aside after too many failures (parked).",
    {"state": ("waiting", "parked")},
)
OUTBOX_AGE = Gauge("memline_outbox_oldest_seconds", "Seconds for which the oldest outbox row has waited; 0: none waits.")
ERASURES_UNFINISHED = Gauge("memline_erasures_unfinished", "Erasures that were begun and have not come to their certificate.")
ERASURES_AGE = Gauge("memline_erasures_oldest_seconds", "Seconds since the oldest erasure without its certificate began; 0: there is none.")
LOOPS_BEATING = Gauge(
    "memline_loops",
    "Loops of all processes, by their heartbeats in the ledger. stuck: the process beats and the loop does not get on; dead: it beats no "
    "more, and did not say goodbye (remembered for a quarter of an hour). One in its first round is none of these.",
    {"loop": (*LOOPS, *(f"stage.{stage}" for stage in STAGES)), "state": ("working", "stuck", "dead")},
)
REDIS_MEMORY = Gauge("memline_redis_memory_bytes", "Memory of Redis: used, and its limit (0: it has none).", {"what": ("used", "max")})
SPOOL_BYTES = Gauge("memline_spool_bytes", "Bytes of turns on this machine's disk that have not gone to Redis yet.")


def declared() -> list[Metric]:
    """All of them, by name."""
    return sorted((value for value in globals().values() if isinstance(value, Metric)), key=lambda metric: metric.name)
