"""A line of an import file: from JSON to a checked turn with a key that the same line gets again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from memline.contracts.clock import Clock
from memline.contracts.errors import InvalidInput
from memline.contracts.ids import IdSource, digest_of
from memline.contracts.scope import ID_KEYS, Scope
from memline.contracts.turn import Turn
from memline.producer.build import build_turn
from memline.producer.policy import WritePolicy

__all__ = ["FIELDS", "BadLine", "LineReader", "Numbered", "object_in"]

#: What a line may hold.
FIELDS = ("messages", "content", "role", "name", *ID_KEYS, "timestamp", "metadata", "infer", "prompt", "expiration_date", "key")

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no turn: its number, from 1, and what is wrong with it (never its text)."""

    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class Numbered:
    """A turn and the number of its line, from 1."""

    number: int
    turn: Turn


class LineReader:
    """Reads lines one after the other; not safe for threads.

    *ids*: scope ids for lines that name none of that kind. *ignore*: fields to pass over. *max_turn* in bytes.
    What *policy* refuses is a bad line; keys are made of what it leaves.
    A line without a key of its own gets one from its content and from how many equal lines came before it, so the order of other
    lines, the file's name and its length mean nothing to it.
    """

    def __init__(
        self,
        namespace: str,
        ids: Mapping[str, str],
        *,
        infer: bool,
        max_turn: int,
        id_source: IdSource,
        clock: Clock,
        ignore: Collection[str] = (),
        policy: WritePolicy | None = None,
    ) -> None:
        self._namespace = namespace
        self._ids = dict(ids)
        self._infer = infer
        self._max_turn = max_turn
        self._id_source = id_source
        self._clock = clock
        self._ignore = frozenset(ignore)
        self._policy = policy
        self._seen: Counter[str] = Counter()

    def read(self, lines: Iterable[bytes]) -> Iterator[Numbered | BadLine]:
        """Turns in the order of their lines; for a line that is none, what is wrong with it. Blank lines are passed over."""
        for number, raw in enumerate(lines, 1):
            line = raw.removeprefix(_BOM) if number == 1 else raw
            if not line.strip():
                continue
            try:
                yield Numbered(number, self._turn(object_in(line)))
            except InvalidInput as error:
                yield BadLine(number, str(error))

    def _turn(self, line: dict[str, Any]) -> Turn:
        unknown = sorted(line.keys() - set(FIELDS) - self._ignore)
        if unknown:
            shown = ", ".join(name[:40] for name in unknown[:5])
            raise InvalidInput(f"unknown field {shown}: put it in metadata, or pass it over with --ignore. Known: {', '.join(FIELDS)}.")
        ids = {name: line.get(name, self._ids.get(name)) for name in ID_KEYS}
        scope = Scope.of(self._namespace, **ids)
        turn = build_turn(
            scope,
            _messages_in(line),
            ids=self._id_source,
            clock=self._clock,
            metadata=line.get("metadata"),
            infer=line.get("infer", self._infer),
            prompt=line.get("prompt"),
            expiration_date=line.get("expiration_date"),
            timestamp=line.get("timestamp"),
            idempotency_key=line.get("key"),
            max_turn=self._max_turn,
            policy=self._policy,
        )
        return turn if turn.idempotency_key is not None else replace(turn, idempotency_key=self._derived_key(turn))

    def _derived_key(self, turn: Turn) -> str:
        # Its own canonical form, not the turn's fingerprint: a later version may count more as content, and a file that was imported
        # under this one must keep its keys.
        content = {
            "scope": turn.scope.ids(),
            "messages": [message.to_json() for message in turn.messages],
            "time": None if turn.occurred_at is None else turn.occurred_at.isoformat(),
            "metadata": dict(turn.metadata),
            "infer": turn.infer,
            "prompt": turn.prompt,
            "expires": None if turn.expires_on is None else turn.expires_on.isoformat(),
        }
        digest = digest_of("import", json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":")))
        self._seen[digest] += 1
        return f"import:{digest}:{self._seen[digest]}"


def object_in(line: bytes) -> dict[str, Any]:
    """The JSON object that a line holds. Raises InvalidInput."""
    try:
        found = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 (byte {error.start + 1}).") from None
    except json.JSONDecodeError as error:
        raise InvalidInput(f"not JSON ({error.msg} at character {error.pos + 1}): one JSON object a line is needed.") from None
    except (RecursionError, ValueError) as error:  # nested too deep, or a number of too many digits
        raise InvalidInput(f"not JSON that can be read ({type(error).__name__}).") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"must be a JSON object, not {type(found).__name__}.")
    return found


def _messages_in(line: Mapping[str, Any]) -> object:
    """`messages` as they stand, or the one message of `content`."""
    if ("messages" in line) == ("content" in line):
        raise InvalidInput("messages or content is needed, " + ("not both." if "messages" in line else "and neither is there."))
    if "messages" in line:
        beside = [name for name in ("role", "name") if name in line]
        if beside:
            raise InvalidInput(f"{' and '.join(beside)} belongs to content; with messages it stands in each message.")
        return line["messages"]
    if not isinstance(line["content"], str):
        raise InvalidInput(f"content must be a string, not {type(line['content']).__name__}; a list of messages goes into messages.")
    message = {"role": line.get("role", "user"), "content": line["content"]}
    return message if line.get("name") is None else message | {"name": line["name"]}
