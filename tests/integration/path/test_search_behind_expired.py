"""What may be read is found behind hundreds of memories that may not, through the front door."""

from __future__ import annotations

from pathlib import Path

from tests.integration.path.stacks import engine_stack


def test_one_live_memory_is_found_behind_five_hundred_expired_ones(tmp_path: Path) -> None:
    """Whether they are marked as expired by then, and out of the index, or not."""
    with engine_stack(tmp_path) as stack, stack.memory() as memory:
        talk = [{"role": "user", "content": f"I drank green tea from cup number {number} today"} for number in range(500)]
        memory.add(talk, user_id="mei", infer=False, expiration_date="2020-01-01").wait(300)
        memory.add("There was some tea left, I think", user_id="mei", infer=False).wait(300)
        found = memory.search("I drank green tea from cup number 7", filters={"user_id": "mei"}, top_k=5, threshold=0, explain=True)
        assert [item["memory"] for item in found["results"]] == ["There was some tea left, I think"]
        assert "incomplete" not in found
        shown = memory.search("I drank green tea from cup number 7", filters={"user_id": "mei"}, top_k=5, show_expired=True)
        assert shown["results"][0]["memory"] == "I drank green tea from cup number 7 today"
