"""Who speaks in the memories of an owner: the names by which a question may mean one of them."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.language.lazy import ForkLock
from memline.ledger.lists import table_of, tuples, with_table
from memline.ledger.schema import memories

__all__ = ["ActorNames", "named_in"]

#: Owners whose names are remembered.
_MOST = 1_000


@dataclass(slots=True)
class _Known:
    last_no: int = 0
    names: set[str] = field(default_factory=set)


class ActorNames:
    """The names (`actor_id`) that speak in the memories of owners. Remembers them: each read looks at what is new only.

    A name stays known when its last memory goes; no memory is its then, so that it changes no result.
    """

    def __init__(self) -> None:
        self._lock = ForkLock()
        self._known: OrderedDict[int, _Known] = OrderedDict()

    def of(self, connection: Connection, owner_nos: Sequence[int]) -> frozenset[str]:
        """The names in the memories of *owner_nos*, in one statement."""
        with self._lock:
            seen = {no: self._known.setdefault(no, _Known()).last_no for no in owner_nos}
        newest = self._read(connection, seen)
        with self._lock:
            for owner_no, last_no, names in newest:
                known = self._known.setdefault(owner_no, _Known())
                known.names |= names
                known.last_no = max(known.last_no, last_no)
            found: set[str] = set()
            for no in owner_nos:
                if no in self._known:
                    self._known.move_to_end(no)
                    found |= self._known[no].names
            while len(self._known) > max(_MOST, len(owner_nos)):
                self._known.popitem(last=False)
        return frozenset(found)

    def _read(self, connection: Connection, seen: Mapping[int, int]) -> list[tuple[int, int, set[str]]]:
        """(owner, last number, names) of what came after the numbers in *seen*."""
        if not seen:
            return []
        dialect = connection.dialect.name
        given = with_table(dialect, "seen", ("owner_no", "last_no"), list(seen.items()))
        found: dict[int, tuple[int, set[str]]] = {}
        for owner_no, name, last_no in tuples(connection.execute(_after(dialect), given)):
            before = found.get(owner_no, (0, set()))
            found[owner_no] = (max(before[0], last_no), before[1] | ({name} if name else set()))
        return [(owner_no, last_no, names) for owner_no, (last_no, names) in found.items()]


@cache
def _after(dialect: str) -> sa.Select[Any]:
    seen, (owner_no, last_no) = table_of(dialect, "seen", owner_no=sa.BigInteger(), last_no=sa.BigInteger())
    columns = (memories.c.owner_no, memories.c.actor_id, sa.func.max(memories.c.no).label("last_no"))
    new = sa.and_(memories.c.owner_no == owner_no, memories.c.no > last_no)
    grouped = (memories.c.owner_no, memories.c.actor_id)
    if dialect == "sqlite":
        return sa.select(*columns).select_from(seen.join(memories, new)).group_by(*grouped)
    # Mostly there is nothing new: the next entry of the index is another owner's. Asked in the order of that index, since a planner
    # that thinks of every owner as one of equals would rather walk the newest memories of all until one is this owner's.
    place = sa.tuple_(memories.c.owner_no, memories.c.no)
    following = sa.select(memories.c.owner_no).where(place > sa.tuple_(owner_no, last_no)).order_by(memories.c.owner_no, memories.c.no)
    found = sa.select(*columns).where(new).group_by(*grouped).lateral("found")
    return sa.select(*found.c).select_from(seen.join(found, sa.true())).where(following.limit(1).scalar_subquery() == owner_no)


def named_in(question: str, actors: Iterable[str]) -> frozenset[str]:
    """Those of *actors* whose name, or the first word of a name of several, stands in *question* as words of their own.

    Of a name of one letter or of digits alone nobody is reminded.
    """
    text = question.casefold()
    return frozenset(actor for actor in actors if any(_stands_in(text, name) for name in (actor, *actor.split()[:1])))


def _stands_in(text: str, name: str) -> bool:
    name = name.casefold()
    if len(name) < 2 or name.isdigit() or name not in text:
        return False
    left = r"(?<![^\W_])" if name[0].isascii() else ""
    right = r"(?![^\W_])" if name[-1].isascii() else ""
    return re.search(left + re.escape(name) + right, text) is not None
