"""How long memories last that were added without an expiration date: per namespace, else by the settings, else for ever."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.errors import InvalidInput
from memline.ledger.namespace_options import clear_option, option_of, set_option
from memline.ledger.schema import namespace_options

__all__ = [
    "LIFETIME",
    "MAX_LIFETIME",
    "NEVER",
    "Lifetime",
    "check_lifetime",
    "clear_lifetime",
    "last_day",
    "lifetime_of",
    "lifetimes_of",
    "set_lifetime",
]

#: Name of the option of a namespace: a number of days, or `NEVER`.
LIFETIME = "default_lifetime_days"

#: Written where memories of a namespace last for ever, whatever the settings say.
NEVER = "never"

#: Longest lifetime, in days: a century.
MAX_LIFETIME = 36_500

#: Days; None: for ever.
Lifetime = int | None


def check_lifetime(value: object) -> Lifetime:
    """*value* as a number of days, 1 to 36500, or None; raises InvalidInput."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"A default lifetime is a whole number of days, not {type(value).__name__}.")
    if not 1 <= value <= MAX_LIFETIME:
        raise InvalidInput(f"A default lifetime must lie between 1 and {MAX_LIFETIME} days.")
    return value


def set_lifetime(tx: Connection, namespace: str, days: object, *, now: datetime) -> None:
    """Of memories added from now on; None: for ever. Those that are there keep what they have."""
    checked = check_lifetime(days)
    set_option(tx, namespace, LIFETIME, NEVER if checked is None else checked, now=now)


def clear_lifetime(tx: Connection, namespace: str) -> bool:
    """The settings decide again; False where nothing was set."""
    return clear_option(tx, namespace, LIFETIME)


def lifetime_of(connection: Connection, namespace: str, default: Lifetime) -> tuple[Lifetime, datetime | None]:
    """What holds in *namespace*, and when it was set there; no time where it is the *default* of the settings."""
    option = option_of(connection, namespace, LIFETIME)
    return (default, None) if option is None else (_days(option.value), option.set_at)


def lifetimes_of(connection: Connection, namespaces: Iterable[str], default: Lifetime) -> dict[str, Lifetime]:
    """What holds in each of *namespaces*; one statement."""
    wanted = sorted(set(namespaces))
    columns = namespace_options.c
    rows = connection.execute(sa.select(columns.namespace, columns.value).where(columns.name == LIFETIME, columns.namespace.in_(wanted)))
    return dict.fromkeys(wanted, default) | {namespace: _days(value) for namespace, value in rows}


def last_day(now: datetime, lifetime: Lifetime) -> date | None:
    """The last day (UTC) of a memory that is made *now*; None where it has none, also where that day has no date."""
    if lifetime is None:
        return None
    try:
        return now.date() + timedelta(days=lifetime)
    except OverflowError:  # after the year 9999
        return None


def _days(value: object) -> Lifetime:
    return None if value == NEVER else check_lifetime(value)
