"""What a text may hold that should not be stored, and what is done about it: the words of the write policy."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

__all__ = ["DEFAULT_ACTIONS", "Action", "Kind"]


class Kind(StrEnum):
    """A kind of text that the write policy looks for."""

    API_KEY = "api_key"
    PASSWORD = "password"
    PRIVATE_KEY = "private_key"
    CARD = "card"
    EMAIL = "email"
    PHONE = "phone"
    IBAN = "iban"
    SSN = "ssn"

    @property
    def label(self) -> str:
        """As it stands in a masked text."""
        return _LABELS[self]


class Action(StrEnum):
    """What is done where it is found."""

    #: It is not looked for.
    KEEP = "keep"
    #: A typed placeholder takes its place.
    MASK = "mask"
    #: The call is refused; nothing is changed.
    REFUSE = "refuse"


_LABELS = {
    Kind.API_KEY: "api key",
    Kind.PASSWORD: "password",
    Kind.PRIVATE_KEY: "private key",
    Kind.CARD: "card number",
    Kind.EMAIL: "email",
    Kind.PHONE: "phone number",
    Kind.IBAN: "iban",
    Kind.SSN: "social security number",
}

#: What is done where nobody says anything: secrets are masked, what a person may well want remembered is kept.
DEFAULT_ACTIONS: Mapping[Kind, Action] = MappingProxyType(
    {kind: Action.MASK if kind in (Kind.API_KEY, Kind.PASSWORD, Kind.PRIVATE_KEY, Kind.CARD) else Action.KEEP for kind in Kind}
)
