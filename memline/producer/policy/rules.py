"""What is kept, masked or refused, by namespace and kind: read from a setting.

`api_key=mask,card=refuse` (or the same as a JSON object) holds for every namespace. A JSON object of objects has one for each namespace,
and one under "*" for all of them: `{"*": {"card": "refuse"}, "clinic": {"email": "mask"}}`. What is not named stays as memline has it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from memline.contracts.errors import ConfigurationError, InvalidInput
from memline.contracts.policy import DEFAULT_ACTIONS, Action, Kind
from memline.contracts.scope import check_namespace

__all__ = ["WritePolicy", "read_policy"]

#: Every namespace.
_ALL = "*"


@dataclass(frozen=True, slots=True)
class WritePolicy:
    """The actions of each kind: for every namespace, and for those that have their own."""

    everywhere: Mapping[Kind, Action] = field(default_factory=lambda: DEFAULT_ACTIONS)
    by_namespace: Mapping[str, Mapping[Kind, Action]] = field(default_factory=dict)

    def actions(self, namespace: str) -> Mapping[Kind, Action]:
        """What is done in *namespace*, for each kind."""
        return self.by_namespace.get(namespace, self.everywhere)


def read_policy(given: object) -> WritePolicy:
    """The policy that a setting (a string) or an argument (a string, a mapping, a WritePolicy) says; None: memline's own.

    Raises ConfigurationError that names what is wrong.
    """
    if given is None:
        return WritePolicy()
    if isinstance(given, WritePolicy):
        return given
    raw = _parsed(given) if isinstance(given, str) else given
    if not isinstance(raw, Mapping):
        raise ConfigurationError(f"MEMLINE_WRITE_POLICY must be a string or a mapping, not {type(raw).__name__}: {_HOW}")
    nested = {name: value for name, value in raw.items() if isinstance(value, Mapping)}
    if not nested:
        return WritePolicy(_actions(raw, DEFAULT_ACTIONS, "MEMLINE_WRITE_POLICY"))
    if len(nested) != len(raw):
        raise ConfigurationError(f"MEMLINE_WRITE_POLICY has kinds beside namespaces: put what holds for all of them under {_ALL!r}.")
    everywhere = _actions(nested.pop(_ALL, {}), DEFAULT_ACTIONS, f"MEMLINE_WRITE_POLICY, {_ALL!r}")
    found = {}
    for name, own in nested.items():
        try:
            found[check_namespace(name)] = _actions(own, everywhere, f"MEMLINE_WRITE_POLICY, namespace {name!r}")
        except InvalidInput as error:
            raise ConfigurationError(f"MEMLINE_WRITE_POLICY: {error}") from None
    return WritePolicy(everywhere, MappingProxyType(found))


_HOW = "write api_key=mask,card=refuse, or a JSON object by namespace. docs/write-policy.md has the kinds."


def _parsed(text: str) -> object:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError as error:
            raise ConfigurationError(f"MEMLINE_WRITE_POLICY is no JSON ({type(error).__name__}): {_HOW}") from None
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, sign, action = part.partition("=")
        if not sign:
            raise ConfigurationError(f"MEMLINE_WRITE_POLICY has a part without '=': {_HOW}")
        found[name.strip()] = action.strip()
    return found


def _actions(given: Mapping[object, object], base: Mapping[Kind, Action], where: str) -> Mapping[Kind, Action]:
    found = dict(base)
    for name, action in given.items():
        if name not in set(Kind):
            raise ConfigurationError(f"{where} names a kind that is not known ({str(name)[:40]!r}): {', '.join(Kind)} are.")
        if action not in set(Action):
            raise ConfigurationError(f"{where} says {str(action)[:40]!r} of {name}: keep, mask or refuse.")
        found[Kind(str(name))] = Action(str(action))
    return MappingProxyType(found)
