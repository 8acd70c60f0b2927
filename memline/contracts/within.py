"""For whom a call acts: `within={"user_id": …}` holds it to the memories and turns that have all the ids named.

Whoever serves several users from one namespace gives it to every call. What lies outside is answered like what is not there; the ids are
compared in the statement that reads the row, so that there is no other read, and none less, for a foreign id than for an unknown one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from memline.contracts.errors import InvalidInput, InvalidScopeId, ScopeRequired
from memline.contracts.filter_tree import All, ScopeIs
from memline.contracts.filters import Filter, ScopeIds, parse
from memline.contracts.scope import ID_KEYS, Scope, check_scope_id

__all__ = ["check_within", "line_within", "parse_within", "refuse_outside"]


def check_within(value: object) -> ScopeIds | None:
    """*value* as the ids that a call is held to; None for no bound but the namespace.

    A mapping of at least one of user_id, agent_id and run_id, each a plain id. Raises InvalidInput for another type or key, ScopeRequired
    for an empty one, InvalidScopeId for what is no id, None and wildcards among them.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InvalidInput(f"within must be a dict of scope ids, such as {{'user_id': …}}, not {type(value).__name__}.")
    given = dict(value)
    if not given:
        raise ScopeRequired(f"within is empty: name at least one of {', '.join(ID_KEYS)}, or leave it out.")
    if any(name not in ID_KEYS for name in given):
        raise InvalidInput(f"within has a key that is none of {', '.join(ID_KEYS)}: other conditions belong in filters.")
    return ScopeIds(**{name: check_scope_id(f"within.{name}", each) for name, each in given.items()})


def parse_within(filters: object, within: ScopeIds | None) -> Filter:
    """*filters* and *within*, both: a filter that asks for somebody else's matches nothing. *within* is scope enough.

    Raises what `filters.parse` does.
    """
    wanted = parse(filters, need_scope=within is None)
    if within is None:
        return wanted
    bounds = tuple(ScopeIs(name, value) for name, value in within.ids().items())
    scopes = dict.fromkeys(both for scope in wanted.scopes if (both := scope.both(within)) is not None)
    kept = tuple(scope for scope in scopes if not any(wider in scopes for wider in scope.wider()))
    return Filter(All((*bounds, wanted.tree)), kept, wanted.narrows_only_by_scope)


def refuse_outside(call: str, scope: Scope, within: ScopeIds | None) -> None:
    """A call that names a scope must name one inside *within*: every id of *within*, with the same value.

    Raises ScopeRequired for an id that is missing, since the call would reach further, and InvalidScopeId for another one.
    """
    if within is None:
        return
    given = scope.ids()
    for name, value in within.ids().items():
        if name not in given:
            raise ScopeRequired(f"{call} would act outside within, which names {name}: give {call} the same {name}. Nothing was changed.")
        if given[name] != value:
            raise InvalidScopeId(f"{call} was given another {name} than within names, and acts inside within only. Nothing was changed.")


def line_within(line: str | bytes, namespace: str, within: ScopeIds | None) -> bool:
    """Whether a turn on its way (`Turn.to_wire`, of any version) is of *namespace* and has the ids of *within*."""
    try:
        raw = json.loads(line)
        wanted = {"namespace": namespace} | ({} if within is None else within.ids())
        return all(raw.get(name) == value for name, value in wanted.items())
    except (ValueError, AttributeError):  # a damaged line belongs to nobody
        return False
