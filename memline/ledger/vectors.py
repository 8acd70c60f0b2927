"""The vector that a memory or an entity has now.

It stands with the row, or, right after a move to another embedder, still beside it: the swap changes one row of the ledger (which embedder
is its own), and what the former one made is overwritten page by page afterwards. Everything that reads vectors reads them by this join,
and names the model that it compares with; in a ledger that does not move it is a probe of an empty table.
"""

from __future__ import annotations

import sqlalchemy as sa

from memline.ledger.schema import entities, ledger_meta, next_entity_vectors, next_vectors, vectors

__all__ = [
    "arrived",
    "current_entity_model",
    "current_entity_vector",
    "current_model",
    "current_vector",
    "current_vectors",
    "entities_with_vectors",
    "entity_arrived",
    "own_embedder",
]

#: What the ledger says its embedder is, as `model|dimension`.
own_embedder = sa.select(ledger_meta.c.value).where(ledger_meta.c.key == "embedder").scalar_subquery()


def _told(model: sa.ColumnElement[str], vector: sa.ColumnElement[bytes]) -> sa.ColumnElement[str]:
    return model + "|" + sa.cast(sa.func.length(vector) // 4, sa.Text)


#: The next vector of a memory is its own now, and the one in its row is the former embedder's.
arrived = sa.and_(
    next_vectors.c.memory_no == vectors.c.memory_no,
    _told(next_vectors.c.model, next_vectors.c.vector) == own_embedder,
    _told(vectors.c.model, vectors.c.vector) != own_embedder,
)
current_vectors = vectors.outerjoin(next_vectors, arrived)
current_vector = sa.func.coalesce(next_vectors.c.vector, vectors.c.vector, type_=sa.LargeBinary).label("vector")
current_model = sa.func.coalesce(next_vectors.c.model, vectors.c.model, type_=sa.Text).label("model")

#: The same of an entity.
entity_arrived = sa.and_(
    next_entity_vectors.c.entity_no == entities.c.no,
    _told(next_entity_vectors.c.model, next_entity_vectors.c.vector) == own_embedder,
    _told(entities.c.model, entities.c.vector) != own_embedder,
)
entities_with_vectors = entities.outerjoin(next_entity_vectors, entity_arrived)
current_entity_vector = sa.func.coalesce(next_entity_vectors.c.vector, entities.c.vector, type_=sa.LargeBinary).label("vector")
current_entity_model = sa.func.coalesce(next_entity_vectors.c.model, entities.c.model, type_=sa.Text).label("model")
