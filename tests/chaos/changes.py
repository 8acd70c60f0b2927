"""The verbs of governance in the crash matrix: an application process updates or deletes, the fault happens there, and it calls again."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping

from memline import Memory
from memline.errors import MemoryNotFound, ServiceUnavailable

__all__ = ["VERBS", "begin", "call_until_done", "prepare", "problems_of"]

_ON_THE_WAY = "[memory.add('I bought chair number %d.' % n, user_id='victim') for n in range(3, 9)]; "

#: Verb -> what the application calls; `ids` are the memories of the user `victim`. Turns are on their way when a scope is deleted.
VERBS = {
    "update": "memory.update(ids[0], 'User bought chair number 100.', {'changed': True})",
    "delete": "memory.delete(ids[0], redact=True)",
    "delete_all": _ON_THE_WAY + "memory.delete_all(user_id='victim')",
    "reset": _ON_THE_WAY + "memory.reset(confirm='victims')",
}

#: A namespace of their own, so that a reset leaves the conversation of the matrix alone.
NAMESPACE = "victims"


def prepare(memory: Memory) -> list[str]:
    """Three memories of the victim, and one of somebody else; the ids of the former."""
    victims = memory.in_namespace(NAMESPACE)
    for number in range(3):
        victims.add(f"I bought chair number {number}.", user_id="victim").wait(240)
    memory.add("I bought a sofa.", user_id="neighbour").wait(240)
    return [item["id"] for item in victims.get_all(filters={"user_id": "victim"})["results"]]


def begin(verb: str, ids: list[str], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """The application, in a process that meets the fault."""
    program = f"from memline import Memory\nmemory, ids = Memory({NAMESPACE!r}), {ids!r}\n{VERBS[verb]}\n"
    return subprocess.Popen([sys.executable, "-c", program], env=dict(variables), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def call_until_done(verb: str, memory: Memory, ids: list[str], *, seconds: float = 240) -> None:
    """As an application does that was not told: it calls again until it is."""
    victims = memory.in_namespace(NAMESPACE)
    deadline = time.monotonic() + seconds
    while True:
        try:
            if verb == "update":
                victims.update(ids[0], "User bought chair number 100.", {"changed": True})
            elif verb == "delete":
                victims.delete(ids[0], redact=True)
            elif verb == "delete_all":
                victims.delete_all(user_id="victim")
            else:
                victims.reset(confirm=NAMESPACE)
            return
        except MemoryNotFound:
            return  # the first call did it
        except ServiceUnavailable:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.2)


def problems_of(verb: str, memory: Memory, ids: list[str]) -> list[str]:
    """What does not hold when all is quiet."""
    victims = memory.in_namespace(NAMESPACE)
    there = {item["id"]: item["memory"] for item in victims.get_all(filters={"user_id": "victim"}, top_k=100)["results"]}
    events = [row["event"] for row in victims.history(ids[0])]
    found: list[str] = []
    if verb == "update":
        found += ["the update has no effect"] if there.get(ids[0]) != "User bought chair number 100." else []
        found += [f"history of an update: {events}"] if events != ["ADD", "UPDATE"] else []
    elif verb == "delete":
        found += ["a deleted memory is there"] if ids[0] in there else []
        found += [f"history of a deletion: {events}"] if events != ["ADD", "DELETE"] else []
    elif there:
        found.append(f"{len(there)} memories are there although their scope was deleted")
    if verb in ("update", "delete") and len(there) != (3 if verb == "update" else 2):
        found.append(f"{len(there)} memories of the victim")
    if len(memory.get_all(filters={"user_id": "neighbour"})["results"]) != 1:
        found.append("a memory of somebody else is gone")
    return found
