"""The instructions of a namespace for what its extractions write down; a call's own `prompt` stands in their place.

A turn takes those that hold when the ledger accepts it: they go with its job, so a retry or a replay asks what the first try asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts.errors import InvalidInput, TurnTooLarge
from memline.contracts.ids import digest_of
from memline.contracts.turn import Turn, check_text
from memline.ledger.namespace_options import Option, clear_option, option_of, set_option
from memline.ledger.schema import namespace_options

__all__ = [
    "MAX_PROMPT",
    "PROMPT",
    "Instructions",
    "clear_prompt",
    "instructions_of",
    "prompt_hash",
    "prompt_of",
    "prompts_of",
    "set_prompt",
]

#: Name of the option of a namespace: a text.
PROMPT = "prompt"

#: Longest one, in bytes of UTF-8; it goes with every job.
MAX_PROMPT = 16_384


@dataclass(frozen=True, slots=True)
class Instructions:
    """What one turn's extraction is told: the text, whose it is ("call" or "namespace"), and its digest; without source nothing is told."""

    text: str | None = None
    source: str | None = None
    hash: str | None = None


def set_prompt(tx: Connection, namespace: str, text: object, *, now: datetime) -> None:
    """Of turns accepted from now on. Raises InvalidInput for a blank text, TurnTooLarge for one over `MAX_PROMPT`."""
    if not isinstance(text, str):
        raise InvalidInput(f"The prompt of a namespace is a text, not {type(text).__name__}.")
    if not check_text("prompt", text).strip():
        raise InvalidInput("The prompt is blank: `memline namespace clear prompt` takes it away.")
    size = len(text.encode("utf-8"))
    if size > MAX_PROMPT:
        raise TurnTooLarge(f"The prompt of a namespace may have {MAX_PROMPT} bytes, since it goes with every turn; this one has {size}.")
    set_option(tx, namespace, PROMPT, text, now=now)


def clear_prompt(tx: Connection, namespace: str) -> bool:
    """Turns are extracted by the plain rules again; False where nothing was set."""
    return clear_option(tx, namespace, PROMPT)


def prompt_of(connection: Connection, namespace: str) -> Option | None:
    """What *namespace* has, and since when."""
    return option_of(connection, namespace, PROMPT)


def prompts_of(connection: Connection, namespaces: Iterable[str]) -> dict[str, str]:
    """The prompts of those of *namespaces* that have one; one statement."""
    columns = namespace_options.c
    query = sa.select(columns.namespace, columns.value).where(columns.name == PROMPT, columns.namespace.in_(sorted(set(namespaces))))
    return {namespace: value for namespace, value in connection.execute(query)}


def instructions_of(turn: Turn, of_namespace: str | None) -> Instructions:
    """What *turn* is extracted by: its own prompt, else the namespace's. A blank one of its own says: none. A verbatim turn is not
    extracted; a procedural memory is no list of facts, which the namespace's instructions are about."""
    if not turn.infer or (turn.prompt is not None and not turn.prompt.strip()):
        return Instructions(turn.prompt)  # kept as it was handed over, and used by nobody
    if turn.prompt is not None:
        return Instructions(turn.prompt, "call", prompt_hash(turn.prompt))
    if of_namespace is None or turn.memory_type is not None:
        return Instructions()
    return Instructions(of_namespace, "namespace", prompt_hash(of_namespace))


def prompt_hash(text: str) -> str:
    """By which a prompt is known again when a job no longer keeps it."""
    return digest_of("prompt", text)
