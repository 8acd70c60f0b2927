"""Whose memory it is: namespace, scope, owner, subject.

A scope id comes from the caller's arguments only (guarantee G11), so its rules stand here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memline.contracts.errors import InvalidScopeId, ScopeRequired
from memline.contracts.ids import digest_of

__all__ = ["ID_KEYS", "MAX_ID_LENGTH", "Owner", "Scope", "Subject", "SubjectKind", "check_namespace", "check_scope_id"]

SubjectKind = Literal["namespace", "user", "agent", "run"]

#: The names of the three scope ids, in the order in which they are written everywhere.
ID_KEYS = ("user_id", "agent_id", "run_id")

#: Longest scope id or namespace, in characters.
MAX_ID_LENGTH = 256


def check_scope_id(name: str, value: object) -> str:
    """*value* as a scope id.

    Raises InvalidScopeId for anything that is not a plain name: blank, white space inside, `*`, control characters,
    lone surrogates, more than 256 characters, or a type other than str and int. *name* may be a path (`filters.OR[1].user_id`).
    """
    kind = name.rpartition(".")[2].removesuffix("_id")
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InvalidScopeId(f"{name} must be a string, not {type(value).__name__}: write str({name}) if that is the id you mean.")
    if isinstance(value, int) and value.bit_length() > 1024:  # beyond MAX_ID_LENGTH digits, and Python may refuse to write it out
        raise InvalidScopeId(f"Invalid {name}: a number of {value.bit_length()} bits, the longest id has {MAX_ID_LENGTH} characters.")
    text = str.strip(value) if isinstance(value, str) else str(value)
    if not text:
        raise InvalidScopeId(f"Invalid {name}: cannot be empty or whitespace-only. Leave it out, or give the id of one {kind}.")
    if "*" in text:
        raise InvalidScopeId(f"Invalid {name}: wildcards are not ids. Name one {kind}, a memory belongs to somebody.")
    if len(text) > MAX_ID_LENGTH:
        raise InvalidScopeId(f"Invalid {name}: {len(text)} characters, the longest id has {MAX_ID_LENGTH}.")
    if any(c.isspace() or not c.isprintable() for c in text):
        raise InvalidScopeId(f"Invalid {name}: cannot contain whitespace, control characters or lone surrogates.")
    return text


def check_namespace(value: object) -> str:
    """*value* as the name of a namespace; the rules of `check_scope_id`."""
    return check_scope_id("namespace", value)


@dataclass(frozen=True, slots=True)
class Subject:
    """One id of one kind in a namespace: what `erase` speaks of."""

    namespace: str
    kind: SubjectKind
    value: str

    @property
    def key(self) -> str:
        """32 hex digits that stand for this subject in locks and epochs."""
        return digest_of("subject", self.namespace, self.kind, self.value)


@dataclass(frozen=True, slots=True)
class Owner:
    """A scope without its run (or the run, where it has nothing else): facts are linked and superseded within it."""

    namespace: str
    user_id: str | None
    agent_id: str | None
    run_id: str | None

    @property
    def key(self) -> str:
        """32 hex digits, the same for the same owner everywhere."""
        return digest_of("owner", self.namespace, self.user_id, self.agent_id, self.run_id)


@dataclass(frozen=True, slots=True)
class Scope:
    """The identity of a write. The jobs of one scope are a lane."""

    namespace: str
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    @classmethod
    def of(cls, namespace: object, user_id: object = None, agent_id: object = None, run_id: object = None) -> Scope:
        """A checked scope; raises ScopeRequired where no id is given, InvalidScopeId where one is no id."""
        given = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id}
        ids = {name: check_scope_id(name, value) for name, value in given.items() if value is not None}
        if not ids:
            raise ScopeRequired()
        return cls(check_namespace(namespace), **ids)

    @property
    def lane(self) -> str:
        """32 hex digits: the key of this scope's lane."""
        return digest_of("lane", self.namespace, self.user_id, self.agent_id, self.run_id)

    @property
    def owner(self) -> Owner:
        only_a_run = self.user_id is None and self.agent_id is None
        return Owner(self.namespace, self.user_id, self.agent_id, self.run_id if only_a_run else None)

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Everything `erase` could name that this scope belongs to."""
        named: list[tuple[SubjectKind, str | None]] = [("user", self.user_id), ("agent", self.agent_id), ("run", self.run_id)]
        found = [Subject(self.namespace, "namespace", self.namespace)]
        found += [Subject(self.namespace, kind, value) for kind, value in named if value is not None]
        return tuple(found)

    def ids(self) -> dict[str, str]:
        """The ids that are set, under mem0's names."""
        return {name: value for name in ID_KEYS if (value := getattr(self, name)) is not None}
