"""Counting what a ledger holds of a subject, store by store: before an erasure, and as the proof at its end."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.ledger.erase_rows import Whose
from memline.ledger.schema import (
    entities,
    entity_links,
    entity_names,
    erasure_objects,
    history,
    idempotency_keys,
    jobs,
    lane_numbers,
    lane_producers,
    lanes,
    memories,
    memory_links,
    messages,
    next_entity_vectors,
    next_vectors,
    outbox,
    owners,
    postings,
    repeats,
    sightings,
    stage_results,
    vectors,
)

__all__ = ["census", "holders_of", "rows_by_id"]


def census(connection: Connection, whose: Whose, erasure: str) -> dict[str, int]:
    """Rows of the subject by table, found by its id and by what hangs on what has it; what the outbox has of this erasure, too."""
    of_lanes = whose.lane_keys
    nos = sa.select(memories.c.no).where(whose.of(memories))
    ids = sa.select(memories.c.id).where(whose.of(memories))
    job_ids = sa.select(jobs.c.id).where(jobs.c.lane.in_(of_lanes))
    of_entities = sa.select(entities.c.no).where(entities.c.lane.in_(of_lanes))
    known = sa.exists().where(
        erasure_objects.c.erasure == erasure, erasure_objects.c.kind == outbox.c.kind, erasure_objects.c.object_id == outbox.c.object_id
    )
    entity_ids = sa.select(entities.c.id).where(entities.c.lane.in_(of_lanes))
    shown = sa.or_(
        known,
        sa.and_(outbox.c.kind == "memory", outbox.c.object_id.in_(ids)),
        sa.and_(outbox.c.kind == "entity", outbox.c.object_id.in_(entity_ids)),
    )
    which: dict[sa.Table, sa.ColumnElement[bool]] = {
        memories: whose.of(memories),
        history: history.c.memory_id.in_(ids),
        vectors: vectors.c.memory_no.in_(nos),
        next_vectors: next_vectors.c.memory_no.in_(nos),
        postings: postings.c.memory_no.in_(nos),
        sightings: sightings.c.memory_no.in_(nos),
        memory_links: sa.or_(memory_links.c.memory_no.in_(nos), memory_links.c.to_no.in_(nos)),
        messages: messages.c.lane.in_(of_lanes),
        entities: entities.c.lane.in_(of_lanes),
        entity_names: entity_names.c.lane.in_(of_lanes),
        entity_links: entity_links.c.memory_no.in_(nos),
        next_entity_vectors: next_entity_vectors.c.entity_no.in_(of_entities),
        jobs: jobs.c.lane.in_(of_lanes),
        stage_results: stage_results.c.job_id.in_(job_ids),
        idempotency_keys: idempotency_keys.c.lane.in_(of_lanes),
        repeats: repeats.c.job_id.in_(job_ids),
        lane_producers: lane_producers.c.lane.in_(of_lanes),
        lane_numbers: lane_numbers.c.lane.in_(of_lanes),
        lanes: whose.of(lanes),
        owners: whose.of(owners),
        outbox: shown,
    }
    return {
        table.name: connection.execute(sa.select(sa.func.count()).select_from(table).where(condition)).scalar_one()
        for table, condition in which.items()
    }


def rows_by_id(connection: Connection, whose: Whose) -> dict[str, int]:
    """By table, rows with the id of the subject, of whatever table this database has with such a column: those of an index in it, too."""
    found: dict[str, int] = {}
    inspector = sa.inspect(connection)
    for name in sorted(inspector.get_table_names()):
        columns = {column["name"] for column in inspector.get_columns(name)}
        if not {"namespace", whose.column} <= columns:
            continue
        table = sa.table(name, sa.column("namespace"), sa.column(whose.column))
        mine = sa.and_(table.c.namespace == whose.namespace, table.c[whose.column] == whose.value)
        found[name] = connection.execute(sa.select(sa.func.count()).select_from(table).where(mine)).scalar_one()
    return found


def holders_of(connection: Connection, text: str) -> list[str]:
    """The columns (table.column) in which *text* stands, whoever's it is; of every table of this database."""
    found = []
    inspector = sa.inspect(connection)
    for name in sorted(inspector.get_table_names()):
        for column in inspector.get_columns(name):
            if not isinstance(column["type"], (sa.types.String, sa.types.JSON)):
                continue
            table = sa.table(name, sa.column(column["name"]))
            as_text = sa.cast(table.c[column["name"]], sa.Text)
            position = sa.func.instr(as_text, text) if connection.dialect.name == "sqlite" else sa.func.strpos(as_text, text)
            if connection.execute(sa.select(sa.literal(1)).select_from(table).where(position > 0).limit(1)).one_or_none() is not None:
                found.append(f"{name}.{column['name']}")
    return found
