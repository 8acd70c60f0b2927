"""What rows a read may return: a filter checked once, then asked of each row.

The caller writes mem0's shape: `{"user_id": "ann", "prio": {"gte": 5, "lte": 7}, "OR": [{"cat": "work"}, {"NOT": [{"done": true}]}]}`.
Keys of one dict and operators of one key are joined by AND; a plain value means `eq`, a plain list `in`; AND, OR and NOT nest
freely (32 deep). A scope id is asked for by plain equality only, and every OR branch, or the level above it, names one. There are
no wildcards. What a missing key means, and how values of each type compare, stands in `filter_tree`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memline.contracts.errors import ScopeRequired
from memline.contracts.filter_parse import ScopeIds, parse_tree
from memline.contracts.filter_tree import Node

__all__ = ["Filter", "ScopeIds", "parse"]


@dataclass(frozen=True, slots=True)
class Filter:
    """A checked filter; `parse` makes it."""

    #: What is asked, without the namespace, which is the reader's own.
    tree: Node
    #: A row that matches lies within at least one of them: what index and SQL are narrowed by. None lies within another.
    #: Empty: no row can match. One `ScopeIds()` without ids (only where no scope was needed): every row may.
    scopes: tuple[ScopeIds, ...]
    #: There is nothing but scope ids: every row within `scopes` matches.
    narrows_only_by_scope: bool

    def matches(self, row: Mapping[str, Any]) -> bool:
        """Whether *row* passes.

        *row* is flat: the memory's metadata keys and, laid over them, user_id, agent_id, run_id, created_at, updated_at, occurred_at
        (datetimes or ISO-8601 strings), expiration_date, role, actor_id, attributed_to, memory_type.
        """
        return self.tree.matches(row)


def parse(filters: object, *, need_scope: bool = True) -> Filter:
    """*filters* as a caller gave them, checked.

    Raises InvalidFilter and InvalidScopeId with the path of what is wrong (`filters.AND[1].prio`; never a value), and ScopeRequired
    where *need_scope* is set and a branch names no scope id. Without *need_scope* None and {} match every row.
    """
    parsed = parse_tree(filters)
    if need_scope and parsed.unscoped:
        raise ScopeRequired(
            f"{parsed.unscoped} names no scope id: add user_id, agent_id or run_id at the top level, or to every branch of its OR."
        )
    return Filter(parsed.node, parsed.scopes, parsed.only_scope)
