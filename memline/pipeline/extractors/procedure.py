"""A procedural memory: what an agent did in one task, as one text. A model summarises it by `procedure.md`; without one, and for
`infer=False`, the messages themselves are the steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memline.contracts.message import CONTEXT, CONTEXT_LIMIT, SOURCES, Message, cut
from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.prompt import again
from memline.pipeline.extractors.rules_files import sections_of, version_of

__all__ = ["MAX_PROCEDURE", "PROCEDURE_SCHEMA", "build_procedure_messages", "procedure_version", "steps_of"]

#: Most characters of a procedural memory, and of one step where no model has summarised them.
MAX_PROCEDURE = 16_000
_MAX_STEP = 500

_FILE = "procedure.md"

PROCEDURE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"memory": {"type": "string"}},
    "required": ["memory"],
    "additionalProperties": False,
}


def procedure_version() -> str:
    """The version of the rules."""
    return version_of(_FILE)


def build_procedure_messages(request: Request) -> list[dict[str, str]]:
    """The conversation for the chat model: the rules, and the task as one JSON document."""
    sections = sections_of(_FILE)
    rules = [sections["procedure"]]
    if request.prompt is not None and request.prompt.strip():
        rules.append(f"# Instructions of the application\n{sections['custom']}\n{json.dumps(request.prompt, ensure_ascii=False)}")
    rules += again(request)
    task = {
        "said_at": request.said_at.isoformat(timespec="minutes"),
        "messages": [_shown(message) for message in _steps(request.messages)],
    }
    return [{"role": "system", "content": "\n\n".join(rules)}, {"role": "user", "content": json.dumps(task, ensure_ascii=False)}]


def steps_of(messages: Sequence[Message]) -> str:
    """The messages of a task as its steps: one alone as it stands, several as numbered lines, each cut to 500 characters.

    What does not fit into `MAX_PROCEDURE` is left out, and a last line says how much. Empty where nothing was said.
    """
    steps = list(_steps(messages))
    if len(steps) == 1:
        return cut(steps[0].text.strip(), MAX_PROCEDURE)
    lines: list[str] = []
    size = 0
    for number, step in enumerate(steps, 1):
        line = f"{number}. {step.name or step.role.title()}: {cut(' '.join(step.text.split()), _MAX_STEP)}"
        size += len(line) + 1
        if size > MAX_PROCEDURE - 40:  # room for the last line
            lines.append(f"… and {len(steps) - number + 1} more steps.")
            break
        lines.append(line)
    return "\n".join(lines)


def _steps(messages: Sequence[Message]) -> Iterator[Message]:
    return (message for message in messages if message.role in (*SOURCES, *CONTEXT) and message.text.strip())


def _shown(message: Message) -> dict[str, str]:
    text = cut(message.text, CONTEXT_LIMIT) if message.role in CONTEXT else message.text
    shown = {"role": message.role, "text": text}
    return shown if message.name is None else shown | {"name": message.name}
