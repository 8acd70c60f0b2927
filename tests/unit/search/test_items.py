"""The shapes that callers see."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from memline.contracts.content_hash import content_hash, text_md5
from memline.ledger.memories import MemoryRow
from memline.search.explain import score_details, why
from memline.search.items import history_item, memory_item
from memline.search.results import Hit, SignalValue
from memline.search.rows import filter_view
from memline.search.signals import SIGNALS

AT = datetime(2026, 3, 1, 9, tzinfo=UTC)


def row(**given: Any) -> MemoryRow:
    plain: dict[str, Any] = dict.fromkeys(MemoryRow.__dataclass_fields__)
    text = given.get("text", "User likes tea")
    plain |= {
        "no": 1,
        "id": "m1",
        "namespace": "default",
        "lane": "l",
        "owner_no": 1,
        "user_id": "ann",
        "job_id": "j",
        "place": 1,
        "ordinal": 0,
    }
    plain |= {"state": "live", "version": 1, "text": text, "content_hash": content_hash(text), "md5": text_md5(text), "length": 3}
    plain |= {"metadata": {}, "verbatim": False, "occurred_at": AT, "created_at": AT, "updated_at": AT, "valid_from": AT}
    return MemoryRow(**(plain | given))


def hit(**raw: float) -> Hit:
    return Hit(
        row(**({"superseded_by": "m2"} if raw.pop("gone", 0) else {})),
        0.8,
        {name: SignalValue(raw.get(name, 0.0), 2 * raw.get(name, 0.0)) for name in SIGNALS},
        ("inc-48213", "inc") if raw.get("code") else ("tea",) if raw.get("words") else (),
        ("poppy",) if raw.get("entity") else (),
        {"vector": 1},
    )


def test_a_memory_has_the_keys_of_mem0_and_its_own() -> None:
    found = memory_item(row(), score=0.5)
    assert found == {
        "id": "m1",
        "memory": "User likes tea",
        "hash": text_md5("User likes tea"),
        "metadata": None,
        "score": 0.5,
        "created_at": "2026-03-01T09:00:00+00:00",
        "updated_at": "2026-03-01T09:00:00+00:00",
        "version": 1,
        "user_id": "ann",
        "occurred_at": "2026-03-01T09:00:00+00:00",
    }


def test_what_is_set_is_shown() -> None:
    found = memory_item(
        row(
            agent_id="a",
            run_id="r",
            actor_id="Ann",
            role="user",
            attributed_to="user",
            memory_type="procedural_memory",
            expires_on=date(2026, 4, 1),
            metadata={"cat": "drinks"},
            valid_to=AT.astimezone(timezone(timedelta(hours=2))),
            superseded_by="m2",
        )
    )
    assert found["expiration_date"] == "2026-04-01" and found["metadata"] == {"cat": "drinks"}
    assert found["valid_to"] == "2026-03-01T09:00:00+00:00" and found["superseded_by"] == "m2"
    assert [found[key] for key in ("agent_id", "run_id", "actor_id", "role", "attributed_to", "memory_type")] == [
        "a",
        "r",
        "Ann",
        "user",
        "user",
        "procedural_memory",
    ]


def test_a_row_of_history_has_the_keys_of_mem0() -> None:
    found = history_item(
        {
            "memory_id": "m1",
            "version": 2,
            "event": "DELETE",
            "old_text": "x",
            "new_text": None,
            "actor_id": None,
            "role": None,
            "reason": None,
            "at": AT,
        }
    )
    assert found["is_deleted"] is True and found["old_memory"] == "x" and found["new_memory"] is None
    assert found["id"] == "m1:2" and found["created_at"] == "2026-03-01T09:00:00+00:00"


def test_a_filter_sees_metadata_flat_and_our_own_keys_over_it() -> None:
    found = filter_view(row(metadata={"cat": "drinks", "user_id": "bob", "created_at": "never"}, role="user", expires_on=date(2026, 4, 1)))
    assert found["cat"] == "drinks" and found["user_id"] == "ann" and found["created_at"] == AT
    assert found["role"] == "user" and found["expiration_date"] == date(2026, 4, 1) and found["agent_id"] is None


def test_score_details_hold_every_signal_with_its_weight() -> None:
    found = score_details(hit(meaning=0.7, words=0.4, entity=1.0), threshold=0.1)
    assert found["semantic_score"] == 0.7 and found["bm25_score"] == 0.4 and found["entity_boost"] == 0.5
    assert found["final_score"] == 0.8 and found["threshold"] == 0.1
    assert set(found["signals"]) == set(SIGNALS) and found["signals"]["meaning"] == {"raw": 0.7, "weighted": 1.4}
    assert found["matched_terms"] == ["tea"] and found["matched_entities"] == ["poppy"] and found["ranks"] == {"vector": 1}


def test_why_names_the_strongest_reason_first() -> None:
    assert why(hit(meaning=0.71, words=0.1)).startswith("means the same (0.71)")
    assert why(hit(meaning=0.4, code=1.0, coverage=1.0)).startswith("exact code inc-48213")
    assert why(hit(words=0.6, coverage=1.0, entity=0.2)).startswith("words: tea, names poppy")
    assert why(hit(meaning=0.1)) == "distantly alike (0.10)"
    assert "superseded" in why(hit(words=0.5, gone=1))
