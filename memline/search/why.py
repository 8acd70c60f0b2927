"""Why a memory is there, as callers see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from memline.ledger.transfer_jobs import IMPORTED
from memline.ledger.why import Provenance
from memline.search.items import history_item, memory_item

__all__ = ["why_item"]

#: Between the model and the version of the prompt in the name of an extractor.
_PROMPT = "/prompt-"


def why_item(found: Provenance) -> dict[str, Any]:
    """`memory` (as `get` shows it) with its `state`, then `source`, `extraction`, `decision`, `links`, `history` and `costs`.

    Times are ISO-8601. `source`: {"job_id", "said_at", "handed_at", "committed_at", "messages": [{"number", "role", "text", "source"}],
    "message", "span", "masked"}: `source` marks the message that the extractor named, `span` is [start, end) in its characters.
    """
    row, job = found.memory, found.job or {}
    memory = {key: value for key, value in memory_item(row).items() if key != "score"}
    return {
        "memory": memory | {"state": row.state},
        "source": _source(found, job),
        "extraction": _extraction(job, verbatim=row.verbatim),
        "decision": {
            "event": "IMPORT" if job.get("reason") == IMPORTED else "ADD",
            "near": [{"id": near.id, "similarity": near.similarity, "memory": near.text} for near in found.near],
            "repeated_by": [{"job_id": job_id, "said_at": _time(said_at)} for job_id, said_at in found.repeated],
        },
        "links": {
            "supersedes": list(found.supersedes),
            "superseded_by": row.superseded_by,
            "to": [{"id": memory_id, "relation": relation} for memory_id, relation in found.links_to],
            "from": [{"id": memory_id, "relation": relation} for memory_id, relation in found.links_from],
        },
        "history": [history_item(event) for event in found.history],
        "costs": [dict(used) for used in found.usage],
    }


def _source(found: Provenance, job: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "job_id": found.memory.job_id,
        "said_at": _time(found.memory.occurred_at),
        "handed_at": _time(job.get("handed_at")),
        "committed_at": _time(job.get("committed_at")),
        "message": found.memory.message,
        "span": None if found.span is None else list(found.span),
        "messages": _messages(found),
        "masked": dict(job.get("masked") or {}),
    }


def _messages(found: Provenance) -> Sequence[dict[str, Any]]:
    said = []
    for message in found.messages:
        item: dict[str, Any] = {"number": message.number, "role": message.role, "text": message.text, "source": message.source}
        said.append(item if message.name is None else item | {"name": message.name})
    return said


def _extraction(job: Mapping[str, Any], *, verbatim: bool) -> dict[str, Any]:
    """Who extracted it, by which version of the prompt, and whose instructions it had; verbatim: nobody."""
    extractor = job.get("extractor")
    model, sign, version = (extractor or "").rpartition(_PROMPT)
    return {
        "verbatim": verbatim,
        "extractor": extractor,
        "model": model if sign else None,
        "prompt_version": version if sign else None,
        "instructions_from": job.get("prompt_source"),
        "instructions_hash": job.get("prompt_hash"),
        "instructions": job.get("prompt"),
    }


def _time(value: datetime | None) -> str | None:
    return None if value is None else value.astimezone(UTC).isoformat()
