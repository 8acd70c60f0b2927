"""Update, delete, delete_all and reset in a process that is killed, or fails, at each of their points: all of it happened, or nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from memline import Memory
from memline.contracts.failpoints import POINTS
from memline.errors import MemoryNotFound
from memline.outbox.verify import verify
from memline.settings import load_settings

pytestmark = pytest.mark.chaos

CALLS = {
    "update": "memory.update(ids[0], 'User met Bert in Oslo.', {'changed': True})",
    "delete": "memory.delete(ids[0], redact=True)",
    "delete_all": "memory.delete_all(user_id='mei')",
    "reset": "memory.reset(confirm='default')",
}

CASES = [(point, action) for point in POINTS if point.partition(".")[0] in CALLS for action in ("raise", "kill")]


@pytest.mark.parametrize(("point", "action"), CASES)
def test_a_change_happens_whole_or_not_at_all(tmp_path: Path, point: str, action: str) -> None:
    settings = load_settings(home=tmp_path, embedder="tests.chaos.small_parts:SmallEmbedder")
    verb = point.partition(".")[0]
    with Memory(settings=settings) as memory:
        ids = [
            memory.add(text, user_id="mei", infer=False, wait=True)["results"][0]["id"]
            for text in ("User met Anna in Rome.", "User likes tea.")
        ]
        memory.add("User met Anna in Rome.", user_id="tomas", infer=False, wait=True)
        before = memory.get_all(filters={"user_id": "mei"})["results"]
        memory.flush(300)  # so that whoever is killed holds no lease
    program = f"from memline import Memory\nids = {ids!r}\nwith Memory() as memory:\n    {CALLS[verb]}\n"
    variables = {
        "MEMLINE_HOME": str(tmp_path),
        "MEMLINE_EMBEDDER": "tests.chaos.small_parts:SmallEmbedder",
        "MEMLINE_FAILPOINTS": f"{point}={action}",
    }
    done = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, check=False)
    assert done.returncode != 0
    assert action == "kill" or f"failpoint {point}" in done.stderr.decode()
    with Memory(settings=settings) as memory:
        there = memory.get_all(filters={"user_id": "mei"})["results"]
        if point.endswith("after_commit"):
            assert there != before
        else:
            assert there == before
        if not (verb == "delete" and point.endswith("after_commit")):
            exec(CALLS[verb], {"memory": memory, "ids": ids})
        else:
            with pytest.raises(MemoryNotFound):
                memory.delete(ids[0])
        memory.flush(300)
        texts = [item["memory"] for item in memory.get_all(filters={"user_id": "mei"})["results"]]
        expected = {"update": ["User met Bert in Oslo.", "User likes tea."], "delete": ["User likes tea."]}
        assert texts == expected.get(verb, [])
        assert len(memory.get_all(filters={"user_id": "tomas"})["results"]) == (0 if verb == "reset" else 1)
        assert verify(memory._house.ledger, memory._house.index, deep=True).sound
