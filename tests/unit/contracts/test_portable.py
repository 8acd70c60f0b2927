"""A line of an export: what is written is read again, and what is wrong is named by its field, never by what it holds."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.contracts.errors import InvalidInput
from memline.contracts.fact import Relation
from memline.contracts.portable import ExportHeader, PortableEvent, PortableLink, PortableMemory
from memline.contracts.portable_read import is_header, read_header, read_memory
from memline.contracts.scope import Scope

AT = datetime(2026, 3, 1, 9, tzinfo=UTC)
ID, OTHER = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
HEADER = ExportHeader("0.1.0", "shop", {"user_id": "ann"}, 1, ("tiny", 2), vectors=True, history=True, exported_at=AT)
SECRET = "the secret text"
MEMORY = PortableMemory(
    ID,
    Scope("shop", "ann", run_id="r1"),
    SECRET,
    "superseded",
    AT,
    AT + timedelta(days=1),
    AT,
    AT,
    valid_to=AT + timedelta(days=1),
    superseded_by=OTHER,
    expires_on=date(2027, 1, 1),
    version=2,
    metadata={"n": 1.5, "deep": [{"x": None}]},
    attributed_to="user",
    slot="user|live in",
    turn="turn-1",
    links=(PortableLink(OTHER, Relation.EXTENDS),),
    history=(
        PortableEvent(1, "ADD", AT, new_text=SECRET, job_id="turn-1"),
        PortableEvent(2, "SUPERSEDE", AT, old_text=SECRET, new_text=SECRET, reason=f"superseded by {OTHER}", changes={"metadata": {}}),
    ),
    vector=b"\x00\x00\x80\x3f\x00\x00\x00\x00",
)


def read(**changed: Any) -> PortableMemory:
    """MEMORY's line with other values; ... takes a field away."""
    line = json.loads(json.dumps(MEMORY.to_json())) | changed
    return read_memory({name: value for name, value in line.items() if value is not ...}, "shop", HEADER)


def test_what_is_written_is_read_again() -> None:
    assert read() == MEMORY
    line = json.loads(json.dumps(HEADER.to_json()))
    assert is_header(line) and read_header(line) == HEADER


@given(
    text=st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1).filter(lambda text: bool(text.strip())),
    at=st.datetimes(timezones=st.just(UTC)),
    metadata=st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=9), st.integers() | st.none(), max_size=3
    ),
)
def test_any_text_time_and_metadata_comes_through(text: str, at: datetime, metadata: dict[str, Any]) -> None:
    metadata = {name: value for name, value in metadata.items() if not name.endswith("_id")}
    memory = PortableMemory(ID, Scope("shop", "ann"), text, "live", at, at, at, at, metadata=metadata, turn=ID)
    assert read_memory(json.loads(json.dumps(memory.to_json())), "shop", HEADER) == memory


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"id": "7"}, "id must be a UUID"),
        ({"id": ...}, "id must be a UUID, and it is missing"),
        ({"text": " "}, "text is blank"),
        ({"text": 7}, "text must be a string, not int"),
        ({"text": f"{SECRET}\x00", "hash": ...}, "text contains a NUL"),
        ({"hash": "0" * 32}, "hash is not that of the text"),
        ({"state": "deleted"}, "state must be one of live, superseded, expired"),
        ({"state": "live"}, "superseded_by belongs"),
        ({"superseded_by": ID}, "superseded_by is its own id"),
        ({"version": 0}, "version must be a whole number from 1 on"),
        ({"version": 2**40}, "version must be"),
        ({"created_at": "2026-03-01T09:00:00"}, "created_at must be an ISO-8601 time with its offset"),
        ({"valid_to": "soon"}, "valid_to must be"),
        ({"expires_on": "never"}, "expires_on must be a date"),
        ({"user_id": "*"}, "user_id"),
        ({"user_id": ..., "run_id": ...}, "At least one of user_id"),
        ({"metadata": {"user_id": "bob"}}, "metadata must not contain user_id"),
        ({"verbatim": "no"}, "verbatim must be true or false"),
        ({"role": "x" * 2000}, "role has 2000 characters"),
        ({"links": [{"to": ID, "relation": "likes"}]}, r"links\[0\].relation must be one of"),
        ({"links": [7]}, r"links\[0\] must be an object"),
        ({"history": []}, "history must have one event a version, from 1 to 2"),
        ({"history": [{"version": 1, "event": "DUPLICATE", "at": AT.isoformat()}]}, r"history\[0\].event must be one of"),
        ({"history": [{"version": 1, "event": "ADD"}]}, r"history\[0\].at must be"),
        ({"vector": "??"}, "vector is not base64"),
        ({"vector": "AAAA"}, "vector has 3 bytes, the header's dimension needs 8"),
        ({"txet": "x"}, "unknown field txet"),
    ],
)
def test_what_is_wrong_is_named_by_its_field_and_never_quoted(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=field) as found:
        read(**changed)
    assert SECRET not in str(found.value)


def test_a_history_must_tell_the_memory_as_it_is() -> None:
    history = [event.to_json() for event in MEMORY.history or ()]
    with pytest.raises(InvalidInput, match=r"history\[1\] does not tell") as found:
        read(history=[history[0], history[1] | {"new_text": "another"}])
    assert SECRET not in str(found.value)
    hashed = history[1] | {"new_text": None, "new_hash": MEMORY.md5, "new_length": len(SECRET)}
    assert read(history=[history[0], hashed]).version == 2


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(InvalidInput, match="upgrade"):
        read_header(HEADER.to_json() | {"version": 2})


def test_under_new_ids_everything_that_names_a_memory_follows() -> None:
    renamed = MEMORY.with_ids(lambda old: {ID: OTHER, OTHER: ID}[old])
    assert (renamed.id, renamed.superseded_by, renamed.links[0].to) == (OTHER, ID, ID)
    assert renamed.history is not None and renamed.history[1].reason == f"superseded by {ID}"
    assert replace(renamed.with_ids(lambda old: {ID: OTHER, OTHER: ID}[old])) == MEMORY
