"""What the chat model is asked: the rules of `prompt.md`, and the turn as one JSON document.

Every text of a conversation is a JSON string in it, so that no heading, quote or order in a message can change the structure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from memline.contracts.fact import Relation
from memline.contracts.message import CONTEXT, CONTEXT_LIMIT, SOURCES, Message, cut
from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.rules_files import sections_of, version_of

__all__ = ["SCHEMA", "build_messages", "prompt_version"]

_FILE = "prompt.md"

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


def prompt_version() -> str:
    """The version of the rules, from the first line of `prompt.md`."""
    return version_of(_FILE)


def build_messages(request: Request) -> list[dict[str, str]]:
    """The conversation for the chat model: a system message with the rules, a user message with the turn."""
    sections = sections_of(_FILE)
    rules = [sections["facts"]]
    if request.of_agent:
        rules.append("# Whose memories\n" + sections["agent"])
    if request.prompt is not None and request.prompt.strip():
        rules.append(f"# Instructions of the application\n{sections['custom']}\n{_json(request.prompt)}")
    told = [message for message in request.window if message.role in (*SOURCES, *CONTEXT) and message.text.strip()]
    turn: dict[str, Any] = {
        "said_at": request.said_at.isoformat(timespec="minutes"),
        "weekday": request.said_at.strftime("%A"),
        "known": [{"id": known.short_id, "text": cut(known.text, KNOWN_LIMIT)} for known in request.known],
        "window": [_shown(message, WINDOW_LIMIT) for message in told],
        "messages": [{"index": index, **_shown(message)} for index, message in enumerate(request.messages) if message.role in SOURCES],
    }
    if tools := [(index, message) for index, message in enumerate(request.messages) if message.role in CONTEXT and message.text.strip()]:
        turn["tools"] = [{"index": index, "text": cut(message.text, CONTEXT_LIMIT)} for index, message in tools]
    return [{"role": "system", "content": "\n\n".join(rules)}, {"role": "user", "content": _json(turn)}]


def _shown(message: Message, limit: int | None = None) -> dict[str, str]:
    shown = {"role": message.role, "text": message.text if limit is None else cut(message.text, limit)}
    return shown if message.name is None else shown | {"name": message.name}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
