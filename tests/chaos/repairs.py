"""The reconciler in the crash matrix: an index that differs in every way, and a `memline reconcile` that meets the fault."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace

from memline.compose import House
from memline.contracts.ids import derived_id
from memline.ledger.memories import index_objects
from memline.search.index.port import Write

__all__ = ["POINTS_OF", "begin", "damage"]

#: What the names of the reconciler's points begin with.
POINTS_OF = "reconcile"


def damage(house: House) -> None:
    """One object is gone, one is older, one is another's, and one is there that never was."""
    keys = sorted((state.key for state in house.index.walk("memory", "default")), key=lambda key: key.id)
    with house.ledger.read() as connection:
        objects = index_objects(connection, keys)
    lost, older, changed, same = keys[-4:]
    never = replace(same, id=derived_id("chaos", "never"))
    answers = house.index.write(
        [
            Write(lost, None),
            Write(older, replace(objects[older], version=0)),
            Write(changed, replace(objects[changed], user_id="somebody else")),
            Write(never, replace(objects[same], key=never)),
        ]
    )
    assert [answer.error for answer in answers] == [None] * 4


def begin(variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """The reconciler, in a process that meets the fault."""
    command = [sys.executable, "-m", "memline", "reconcile"]
    return subprocess.Popen(command, env=dict(variables), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
