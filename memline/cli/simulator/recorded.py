"""Dialects: replies in the shape of real servers (OpenAI, Ollama, vLLM, LM Studio), written down from what their documentation and their
users tell, with what memline has to make of each. They are data: `dialects/NAME.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from memline.cli.simulator.steps import Step
from memline.contracts.errors import InvalidInput

__all__ = ["Dialect", "Recorded", "dialect", "dialects"]


@dataclass(frozen=True, slots=True)
class Recorded:
    """One reply of a server. `expect` is for tests: for chat text, finish, tokens_in, tokens_out, tokens_cached and facts (a list of texts,
    "cut" or "unreadable"); for embeddings vectors, dimension and tokens_in; for either error, the name of the class that is raised.
    """

    name: str
    endpoint: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    raw: str | None = None
    expect: Mapping[str, Any] = field(default_factory=dict)

    @property
    def step(self) -> Step:
        """It, as a behaviour of the simulator."""
        return Step(status=self.status, headers=dict(self.headers), body=self.body, raw=self.raw)


@dataclass(frozen=True, slots=True)
class Dialect:
    """A server: `response_formats` that it takes (json_schema, json_object), and replies of it."""

    server: str
    about: str
    response_formats: tuple[str, ...]
    replies: tuple[Recorded, ...]

    def of(self, endpoint: str) -> list[Recorded]:
        """The replies of one endpoint: chat or embeddings."""
        return [reply for reply in self.replies if reply.endpoint == endpoint]

    def named(self, name: str) -> Recorded | None:
        """The reply of this name, where there is one."""
        return next((reply for reply in self.replies if reply.name == name), None)


def dialects() -> list[str]:
    """Names of the dialects that are there."""
    return sorted(file.name.removesuffix(".json") for file in _FOLDER.iterdir() if file.name.endswith(".json"))


def dialect(name: str) -> Dialect:
    """The dialect of this name; raises InvalidInput for an unknown one."""
    if name not in dialects():
        raise InvalidInput(f"There is no dialect {name!r}; there are {', '.join(dialects())}.")
    raw = json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    replies = tuple(Recorded(**reply) for reply in raw["replies"])
    return Dialect(raw["server"], raw["about"], tuple(raw["response_formats"]), replies)


_FOLDER = resources.files("memline.cli.simulator") / "dialects"
