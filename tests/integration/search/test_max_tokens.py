"""Results that fit: the best ones, in their order, and what was left out is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from memline import AsyncMemory, Memory
from memline.contracts.errors import InvalidInput
from memline.search.fitting import estimate_tokens


@pytest.fixture
def memory(memline_home: Path) -> Any:
    with Memory() as found:
        found.add("The kettle stands on the third shelf", user_id="ann", infer=False)
        found.add("The kettle was bought in Oslo. " + "It whistles rather loudly in the morning. " * 30, user_id="ann", infer=False)
        found.add("水壶在厨房的架子上", user_id="ann", infer=False)
        found.add("A kettle needs descaling", user_id="ann", infer=False)
        found.flush(300)
        yield found


ASKED: dict[str, Any] = {"filters": {"user_id": "ann"}, "threshold": 0}


def test_the_best_that_fit_come_in_order_and_the_rest_is_told(memory: Memory) -> None:
    every = memory.search("where is the kettle", **ASKED)["results"]
    long = next(item for item in every if len(item["memory"]) > 1000)
    assert estimate_tokens(long["memory"]) > 60
    found = memory.search("where is the kettle", max_tokens=60, **ASKED)
    assert [item["id"] for item in found["results"]] == [item["id"] for item in every if item["id"] != long["id"]]
    used = sum(estimate_tokens(item["memory"]) for item in found["results"])
    assert found["left_out"] == {"count": 1, "ids": [long["id"]], "tokens": {"used": used, "limit": 60}}
    assert {item["id"]: item["score"] for item in found["results"]} == {
        item["id"]: item["score"] for item in every if item["id"] != long["id"]
    }


def test_where_everything_fits_nothing_is_left_out(memory: Memory) -> None:
    found = memory.search("where is the kettle", max_tokens=100_000, **ASKED)
    assert len(found["results"]) == 4 and found["left_out"]["count"] == 0 and found["left_out"]["ids"] == []
    assert "left_out" not in memory.search("where is the kettle", **ASKED)


def test_where_nothing_fits_everything_is_left_out(memory: Memory) -> None:
    found = memory.search("where is the kettle", max_tokens=1, **ASKED)
    assert found["results"] == [] and found["left_out"]["count"] == 4 and found["left_out"]["tokens"] == {"used": 0, "limit": 1}


def test_it_is_over_what_top_k_left(memory: Memory) -> None:
    found = memory.search("where is the kettle", max_tokens=100_000, top_k=2, **ASKED)
    assert len(found["results"]) == 2 and found["left_out"]["count"] == 0


@pytest.mark.parametrize("value", [0, -1, "60", 1.5, True])
def test_a_limit_that_is_none_is_refused(memory: Memory, value: Any) -> None:
    with pytest.raises(InvalidInput, match="max_tokens"):
        memory.search("kettle", max_tokens=value, **ASKED)


async def _asked(found: AsyncMemory) -> dict[str, Any]:
    return await found.search("where is the kettle", max_tokens=60, **ASKED)


def test_the_async_memory_takes_the_same_options(memory: Memory) -> None:
    import asyncio

    async def run() -> dict[str, Any]:
        return await _asked(AsyncMemory(memory=memory))

    assert asyncio.run(run()) == memory.search("where is the kettle", max_tokens=60, **ASKED)
