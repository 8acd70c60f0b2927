"""One scripted behaviour of the simulator: a reply, an error, or something that a server should not do."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from memline.contracts.errors import InvalidInput, UnknownOption

__all__ = ["CHAT_ONLY", "EMBEDDINGS_ONLY", "Step", "read_script"]

#: Fields that only one endpoint takes.
CHAT_ONLY = ("reply", "finish", "refusal", "reasoning", "usage")
EMBEDDINGS_ONLY = ("dimension", "count", "numbers")


@dataclass(frozen=True, slots=True)
class Step:
    """One scripted behaviour; each call of an endpoint uses up the next one of its queue. Without any it answers as always."""

    #: Text of the chat reply (chat only).
    reply: str | None = None
    #: "stop", "length", "content_filter" (chat only).
    finish: str = "stop"
    #: The model refuses, in these words; the reply is null (chat only).
    refusal: str | None = None
    #: What a thinking model thought, as a field of its own (chat only).
    reasoning: str | None = None
    #: In place of the counted usage; null: none is told (chat only).
    usage: Any = "counted"
    #: Answer with this status and an error in OpenAI's shape; 400 to 599.
    status: int | None = None
    #: Seconds, as the Retry-After header of that answer.
    retry_after: float | None = None
    #: Answer with this JSON, as it stands; with `status`, which may be any then.
    body: Any = None
    #: Answer with this text, which need be no JSON.
    raw: str | None = None
    #: Further headers of the answer.
    headers: Mapping[str, str] | None = None
    #: Close the connection without an answer.
    drop: bool = False
    #: Close the connection in the middle of the answer's body.
    cut: bool = False
    #: Say nothing until the client gives up, or the simulator is closed.
    hang: bool = False
    #: Seconds to wait first, on top of the simulator's latency.
    delay: float = 0.0
    #: Vectors of this dimension, whatever was asked for; so many of them; "nan" or "zero" in the first one (embeddings only).
    dimension: int | None = None
    count: int | None = None
    numbers: str | None = None

    def __post_init__(self) -> None:
        for name in ("reply", "refusal", "reasoning", "raw"):
            if not isinstance(getattr(self, name), (str, type(None))):
                raise InvalidInput(f"A step's {name} must be a string, not {type(getattr(self, name)).__name__}.")
        if not isinstance(self.finish, str):
            raise InvalidInput(f"A step's finish must be a string, not {type(self.finish).__name__}.")
        written = self.body is not None or self.raw is not None
        least = 200 if written else 400
        if self.status is not None and (not _is_number(self.status) or self.status != int(self.status) or not least <= self.status <= 599):
            raise InvalidInput("A step's status must be a whole number from 400 to 599 (from 200 with body or raw): give others as reply.")
        for name in ("retry_after", "delay"):
            value = getattr(self, name)
            if value is not None and (not _is_number(value) or value < 0):
                raise InvalidInput(f"A step's {name} must be a number of seconds, 0 or more.")
        for name in ("drop", "cut", "hang"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInput(f"A step's {name} must be true or false, not {type(getattr(self, name)).__name__}.")
        self._check_embeddings()
        if self.headers is not None and not (all(isinstance(part, str) for pair in self.headers.items() for part in pair)):
            raise InvalidInput("A step's headers must be an object of strings.")
        if self.retry_after is not None and self.status is None:
            raise InvalidInput("A step's retry_after needs a status, such as 429.")
        alone = (self.reply is not None, self.status is not None or written, self.drop, self.hang, self.refusal is not None)
        if sum(alone) > 1 or (self.body is not None and self.raw is not None):
            raise InvalidInput("A step is one of reply, refusal, status (with body or raw), drop and hang; give each its own step.")

    def _check_embeddings(self) -> None:
        for name, least in (("dimension", 1), ("count", 0)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not least <= value <= 8192):
                raise InvalidInput(f"A step's {name} must be a whole number from {least} to 8192.")
        if self.numbers not in (None, "nan", "zero"):
            raise InvalidInput('A step\'s numbers must be "nan" or "zero".')

    @classmethod
    def of(cls, raw: object) -> Step:
        """A step from a reply's text, a step, or a dict of its fields; raises InvalidInput or UnknownOption."""
        if isinstance(raw, Step):
            return raw
        if isinstance(raw, str):
            return cls(reply=raw)
        if not isinstance(raw, Mapping):
            raise InvalidInput(f"A step must be a string or a dict, not {type(raw).__name__}.")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(str(key) for key in raw if key not in known):
            raise UnknownOption(f"A step has no {', '.join(unknown)}; it has {', '.join(sorted(known))}.")
        return cls(**raw)

    def check_endpoint(self, endpoint: str) -> None:
        """Raises InvalidInput where a field is not one of this endpoint's (chat, embeddings)."""
        foreign = EMBEDDINGS_ONLY if endpoint == "chat" else CHAT_ONLY
        defaults = {field.name: field.default for field in fields(self)}
        if told := [name for name in foreign if getattr(self, name) != defaults[name]]:
            raise InvalidInput(f"{', '.join(told)} can't be scripted for {endpoint}; status, body, raw, drop, cut, hang and delay can.")


def read_script(path: Path) -> dict[str, list[Step]]:
    """The steps of a script file: JSON, {"chat": [step, …], "embeddings": [step, …]}, each a reply's text or an object of `Step`'s fields.

    Raises InvalidInput for a file that is none.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"The script {path} can't be read as JSON ({type(error).__name__}).") from None
    if not isinstance(raw, dict) or not set(raw) <= {"chat", "embeddings"} or not all(isinstance(steps, list) for steps in raw.values()):
        raise InvalidInput(f'The script {path} must be {{"chat": [steps], "embeddings": [steps]}}.')
    found = {endpoint: [Step.of(step) for step in steps] for endpoint, steps in raw.items()}
    for endpoint, steps in found.items():
        for step in steps:
            step.check_endpoint(endpoint)
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
