"""What the chat model is asked: the rules of `prompt.md`, and the turn as one JSON document.

Every text of a conversation is a JSON string in it, so that no heading, quote or order in a message can change the structure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from memline.contracts.fact import Relation
from memline.contracts.turn import Message
from memline.pipeline.extractors.port import Request

__all__ = ["SCHEMA", "SOURCES", "build_messages", "prompt_version"]

#: Roles whose messages are a source of facts; a system prompt or a tool's output never is.
SOURCES = ("user", "assistant")

#: Characters of a message of the window, and of a known memory, that are shown.
WINDOW_LIMIT = 300
KNOWN_LIMIT = 1000

#: The reply, as strict JSON schema: every property required, none beside them.
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "memory": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "attributed_to": {"type": "string", "enum": list(SOURCES)},
                    "links": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "id": {"type": "string"},
                                "relation": {"type": "string", "enum": [relation.value for relation in Relation]},
                            },
                            "required": ["id", "relation"],
                            "additionalProperties": False,
                        },
                    },
                    "message": {"type": ["integer", "null"]},
                },
                "required": ["text", "attributed_to", "links", "message"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["memory"],
    "additionalProperties": False,
}

_SECTION = re.compile(r"^---- (\w+) ----\n", re.MULTILINE)


def prompt_version() -> str:
    """The version of the rules, from the first line of `prompt.md`."""
    return _sections()["version"]


def build_messages(request: Request) -> list[dict[str, str]]:
    """The conversation for the chat model: a system message with the rules, a user message with the turn."""
    sections = _sections()
    rules = [sections["facts"]]
    if request.of_agent:
        rules.append("# Whose memories\n" + sections["agent"])
    if request.prompt is not None and request.prompt.strip():
        rules.append(f"# Instructions of the application\n{sections['custom']}\n{_json(request.prompt)}")
    turn = {
        "said_at": request.said_at.isoformat(timespec="minutes"),
        "weekday": request.said_at.strftime("%A"),
        "known": [{"id": known.short_id, "text": _cut(known.text, KNOWN_LIMIT)} for known in request.known],
        "window": [_shown(message, WINDOW_LIMIT) for message in request.window if message.role in SOURCES],
        "messages": [{"index": index, **_shown(message)} for index, message in enumerate(request.messages) if message.role in SOURCES],
    }
    return [{"role": "system", "content": "\n\n".join(rules)}, {"role": "user", "content": _json(turn)}]


def _shown(message: Message, limit: int | None = None) -> dict[str, str]:
    shown = {"role": message.role, "text": message.text if limit is None else _cut(message.text, limit)}
    return shown if message.name is None else shown | {"name": message.name}


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=1)
def _sections() -> dict[str, str]:
    text = files("memline.pipeline.extractors").joinpath("prompt.md").read_text(encoding="utf-8")
    head, *parts = _SECTION.split(text)
    found = {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}
    return found | {"version": head.partition(":")[2].strip()}
