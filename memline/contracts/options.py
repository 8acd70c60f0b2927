"""Checks of plain options that several calls share."""

from __future__ import annotations

import math

from memline.contracts.errors import InvalidInput
from memline.contracts.turn import check_text

__all__ = ["MAX_HANDLE", "MAX_REMARK", "check_flag", "check_handle", "check_remark", "check_timeout", "check_version"]

#: Longest id of a memory or a turn, in characters; memline's own have 36.
MAX_HANDLE = 256

#: Longest actor or reason of a change, in characters.
MAX_REMARK = 256


def check_flag(name: str, value: object) -> bool:
    """*value* if it is True or False; raises InvalidInput: "no" and 0 would else be taken for an answer."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{name} must be True or False, not {type(value).__name__}.")
    return value


def check_timeout(value: object) -> float:
    """*value* as a number of seconds; raises InvalidInput for another type and NaN. 0 and less look once."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"timeout must be a number of seconds, not {type(value).__name__}.")
    if math.isnan(value):
        raise InvalidInput("timeout must be a number of seconds, not NaN.")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_handle(name: str, value: object) -> str:
    """*value* as the id of a memory or a turn; raises InvalidInput for what can't be one."""
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be a string, not {type(value).__name__}.")
    if not value.strip():
        raise InvalidInput(f"{name} must be a non-empty string.")
    if len(value) > MAX_HANDLE:
        raise InvalidInput(f"{name} has {len(value)} characters, and no id is longer than {MAX_HANDLE}.")
    return check_text(name, value)


def check_remark(name: str, value: object) -> str | None:
    """*value* as who made a change, or why: a short text that stands in the history; None for nothing. Raises InvalidInput."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidInput(f"{name} must be a string, not {type(value).__name__}.")
    if not value.strip() or len(value) > MAX_REMARK:
        raise InvalidInput(f"{name} must have 1 to {MAX_REMARK} characters, and not be blank; it has {len(value)}.")
    return check_text(name, value)


def check_version(value: object) -> int | None:
    """*value* as the version that a memory must have; None for any. Raises InvalidInput."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"if_version must be a number, not {type(value).__name__}: the version that get() shows.")
    if value < 1:
        raise InvalidInput("if_version must be 1 or more: the version that get() shows.")
    return value
