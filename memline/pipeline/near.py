"""Near-duplicates: live memories of the owner that a new fact is close to in meaning. They are told in the receipt and decide nothing.

Cosine similarity can't tell a paraphrase from another fact of the same form: with the default embedder ten pairs of paraphrases lie between
0.83 and 0.95, and "a meeting on Monday" and "a meeting on Tuesday" at 0.97. So nothing is merged by it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from memline.ledger.jobs import Job
from memline.ledger.memories import MemoryRow
from memline.pipeline.parts import Parts
from memline.search.nearest import similar_to

__all__ = ["NEAR", "near_duplicates"]

#: From which similarity on a memory is told of: nine of the ten pairs above.
NEAR = 0.85

#: At most so many a fact.
_MOST = 3

#: Facts that are looked at between two looks at the lease.
_CHUNK = 64


def near_duplicates(
    parts: Parts, job: Job, hashes: Sequence[str], made: Sequence[Mapping[str, Any]], keep: Callable[[], None]
) -> dict[str, list[list[Any]]]:
    """By the number of the fact in its job, [[memory id, similarity]], nearest first, without the memory that has the same text.

    *made*: what embed left of each fact; *keep* keeps the lease. Nothing for verbatim turns, which are kept as they stand. Raises
    ServiceUnavailable where the index does not answer.
    """
    if not made or not job.infer:
        return {}
    vectors = np.stack([np.frombuffer(base64.b64decode(one["vector"]), np.dtype("<f4")) for one in made])
    today = parts.clock.now().date()
    model = parts.embedder.model
    found: list[list[tuple[MemoryRow, float]]] = []
    for start in range(0, len(vectors), _CHUNK):
        keep()
        some = vectors[start : start + _CHUNK]
        found += similar_to(parts.ledger, parts.index, job.scope, some, model=model, at_least=NEAR, k=_MOST + 1, today=today)
    told = {
        str(ordinal): [[row.id, round(similarity, 4)] for row, similarity in rows if row.content_hash != hashes[ordinal]][:_MOST]
        for ordinal, rows in enumerate(found)
    }
    return {ordinal: near for ordinal, near in told.items() if near}
