"""The tables. What must never be broken stands there as a constraint, not only in code.

Names: `no` is a ledger's own number (order of arrival, joins), `id` is what callers see. A job has a `place`, its seat in the
conversation of its lane, and a `position`, its turn in the lane's queue: they differ only after a replay.
"""

from __future__ import annotations

from memline.ledger.schema_base import metadata
from memline.ledger.schema_changes import changes
from memline.ledger.schema_erase import erased_numbers, erased_turns, erasure_objects, tombstones
from memline.ledger.schema_jobs import (
    counters,
    idempotency_keys,
    jobs,
    lane_numbers,
    lane_producers,
    lanes,
    leases,
    ledger_meta,
    lost_turns,
    marks,
    owners,
    repeats,
    stage_results,
    subjects,
)
from memline.ledger.schema_memories import (
    entities,
    entity_links,
    entity_names,
    history,
    memories,
    memory_links,
    messages,
    outbox,
    postings,
    sightings,
    vectors,
)
from memline.ledger.schema_running import heartbeats
from memline.ledger.schema_search import index_tenants, namespace_options, next_entity_vectors, next_vectors
from memline.ledger.schema_usage import usage

__all__ = [
    "changes",
    "counters",
    "entities",
    "entity_links",
    "entity_names",
    "erased_numbers",
    "erased_turns",
    "erasure_objects",
    "heartbeats",
    "history",
    "idempotency_keys",
    "index_tenants",
    "jobs",
    "lane_numbers",
    "lane_producers",
    "lanes",
    "leases",
    "ledger_meta",
    "lost_turns",
    "marks",
    "memories",
    "memory_links",
    "messages",
    "metadata",
    "namespace_options",
    "next_entity_vectors",
    "next_vectors",
    "outbox",
    "owners",
    "postings",
    "repeats",
    "sightings",
    "stage_results",
    "subjects",
    "tombstones",
    "usage",
    "vectors",
]
