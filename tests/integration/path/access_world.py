"""A ledger with memories of several users and namespaces, whole dumps of it, and what a call answers, made comparable."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from memline import Memory
from memline.contracts.errors import MemlineError
from memline.language.ports import ChatReply
from memline.ledger.schema import metadata
from memline.settings import load_settings

__all__ = ["ANN", "CONTENT", "BoastingModel", "World", "answer", "dump", "open_world"]

ANN = {"user_id": "ann"}

#: What a call must not change. Beside it there is what an engine does on its own: leases, its passes, its heartbeat every ten seconds.
CONTENT = sorted(set(metadata.tables) - {"leases", "ledger_meta", "heartbeats"})


@dataclass
class World:
    """Memories and turns by their owner: ann (and ann's agent and run), bob, a deleted one of bob's, and another namespace's ann."""

    memory: Memory
    other: Memory
    memories: dict[str, str] = field(default_factory=dict)
    turns: dict[str, str] = field(default_factory=dict)

    def say(self, name: str, memory: Memory, text: str, **scope: str) -> str:
        receipt = memory.add(text, infer=False, **scope).wait(300)
        self.turns[name], self.memories[name] = receipt.id, receipt.results[0]["id"]
        return self.memories[name]

    def settle(self) -> None:
        """Nothing is on its way any more."""
        for memory in (self.memory, self.other):
            memory.flush(300)


@contextmanager
def open_world(folder: Path, ledger_url: str | None = None) -> Iterator[World]:
    settings = load_settings(home=folder, ledger_url=ledger_url, embedder="tests.unit.cli.parts:Tiny")
    with Memory("ours", settings=settings) as memory:
        world = World(memory, memory.in_namespace("theirs"))
        world.say("own", memory, "Ann parks in Box 12 near Porto.", user_id="ann")
        world.say("own agent's", memory, "Ann parks in Box 13.", user_id="ann", agent_id="helper", run_id="r1")
        world.say("bob's", memory, "Bob parks in Box 14 near Porto.", user_id="bob")
        world.say("an agent's", memory, "The agent parks in Box 15.", agent_id="helper")
        world.say("bob's deleted", memory, "Bob parks in Box 16.", user_id="bob")
        world.say("another namespace's", world.other, "Ann parks in Box 17 near Porto.", user_id="ann")
        memory.delete(world.memories["bob's deleted"])
        world.settle()
        yield world


def dump(world: World) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table that holds content."""
    world.settle()
    with world.memory._house.ledger.read() as connection:
        tables = {name: metadata.tables[name] for name in CONTENT}
        return {
            name: [tuple(row) for row in connection.execute(sa.select(each).order_by(*each.columns[:2]))] for name, each in tables.items()
        }


def answer(call: Callable[[], Any], *ids: str) -> tuple[str, Any]:
    """What *call* returns, or its error with its message, an id that was asked for shown as <id>."""
    try:
        kind, said = "returned", repr(call())
    except MemlineError as error:
        kind, said = type(error).__name__, str(error)
    for each in ids:
        said = said.replace(each, "<id>")
    return kind, said


class BoastingModel:
    """A chat model whose reply names other owners wherever it can."""

    model = "boasting"

    def complete(self, messages: Sequence[Mapping[str, Any]], *, schema: Mapping[str, Any] | None = None) -> ChatReply:
        foreign = {"user_id": "bob", "agent_id": "eve", "run_id": "r9", "namespace": "theirs", "scope": {"user_id": "bob"}}
        fact = {"text": "The user keeps bees", "attributed_to": "user", "metadata": {"user_id": "bob"}, **foreign}
        return ChatReply(json.dumps({"memory": [fact], **foreign}))
