"""What the chat model is asked: the rules of `prompt.md`, and the turn, or several, as one JSON document.

Every text of a conversation is a JSON string in it, so that no heading, quote or order in a message can change the structure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from memline.contracts.fact import Relation
from memline.contracts.message import CONTEXT, CONTEXT_LIMIT, SOURCES, Message, cut
from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.rules_files import sections_of, version_of

__all__ = ["SCHEMA", "UNIT_SCHEMA", "again", "build_messages", "build_unit_messages", "prompt_version"]

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


def _unit_schema() -> Mapping[str, Any]:
    schema: Any = deepcopy(SCHEMA)
    item = schema["properties"]["memory"]["items"]
    item["properties"] = {"turn": {"type": "integer"}} | item["properties"]
    item["required"] = ["turn", *item["required"]]
    found: Mapping[str, Any] = schema
    return found


#: The same for several turns: each memory says of which it is.
UNIT_SCHEMA: Mapping[str, Any] = _unit_schema()


def prompt_version() -> str:
    """The version of the rules, from the first line of `prompt.md`."""
    return version_of(_FILE)


def build_messages(request: Request) -> list[dict[str, str]]:
    """The conversation for the chat model: a system message with the rules, a user message with the turn."""
    document = _moment(request) | _context(request) | _said(request)
    return [{"role": "system", "content": _rules(request)}, {"role": "user", "content": _json(document)}]


def build_unit_messages(requests: Sequence[Request]) -> list[dict[str, str]]:
    """The same for several turns of one lane, oldest first; what is shown beside them is that of the first."""
    first = requests[0]
    rules = _rules(first, "# Several turns\n" + sections_of(_FILE)["unit"])
    turns = [{"turn": number} | _moment(request) | _said(request) for number, request in enumerate(requests)]
    return [{"role": "system", "content": rules}, {"role": "user", "content": _json(_context(first) | {"turns": turns})}]


def again(request: Request) -> list[str]:
    """What is added to the rules where an answer to the same request could not be read; it repeats nothing that was said.

    It stands in the first message: some servers take a system message nowhere else.
    """
    if request.corrects is None:
        return []
    return [f"# Once more\n{sections_of(_FILE)['again']} {request.corrects}. Answer with the one JSON object, whole, and nothing else."]


def _rules(request: Request, *more: str) -> str:
    sections = sections_of(_FILE)
    rules = [sections["facts"], *more]
    if request.of_agent:
        rules.append("# Whose memories\n" + sections["agent"])
    if request.prompt is not None and request.prompt.strip():
        rules.append(f"# Instructions of the application\n{sections['custom']}\n{_json(request.prompt)}")
    rules += again(request)
    return "\n\n".join(rules)


def _moment(request: Request) -> dict[str, Any]:
    return {"said_at": request.said_at.isoformat(timespec="minutes"), "weekday": request.said_at.strftime("%A")}


def _context(request: Request) -> dict[str, Any]:
    told = [message for message in request.window if message.role in (*SOURCES, *CONTEXT) and message.text.strip()]
    return {
        "known": [{"id": known.short_id, "text": cut(known.text, KNOWN_LIMIT)} for known in request.known],
        "window": [_shown(message, WINDOW_LIMIT) for message in told],
    }


def _said(request: Request) -> dict[str, Any]:
    new = [(index, message) for index, message in enumerate(request.messages) if message.text.strip()]
    found: dict[str, Any] = {"messages": [{"index": index, **_shown(message)} for index, message in new if message.role in SOURCES]}
    if tools := [{"index": index, "text": cut(message.text, CONTEXT_LIMIT)} for index, message in new if message.role in CONTEXT]:
        found["tools"] = tools
    return found


def _shown(message: Message, limit: int | None = None) -> dict[str, str]:
    shown = {"role": message.role, "text": message.text if limit is None else cut(message.text, limit)}
    return shown if message.name is None else shown | {"name": message.name}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
