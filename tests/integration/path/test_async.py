"""`AsyncMemory` does what `Memory` does, without holding the loop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from memline import AsyncMemory, AsyncReceipt, Status
from memline.errors import ScopeRequired
from memline.settings import load_settings

MEI = {"user_id": "mei"}


def test_the_path_of_a_turn_can_be_awaited(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncMemory(settings=load_settings(home=tmp_path)) as memory:
            receipt = await memory.add("I play the cello.", **MEI)
            assert isinstance(receipt, AsyncReceipt)
            await receipt.wait(300)
            assert await receipt.status() is Status.SEARCHABLE
            answers = await asyncio.gather(*(memory.search("cello", filters=MEI) for _ in range(20)))
            assert {answer["results"][0]["memory"] for answer in answers} == {"User plays the cello"}
            memory_id = (await receipt.results())[0]["id"]
            assert (await memory.get(memory_id) or {})["memory"] == "User plays the cello"
            await memory.delete(memory_id)
            assert (await memory.get_all(filters=MEI))["results"] == []
            with pytest.raises(ScopeRequired):
                await memory.add("x")

    asyncio.run(main())
