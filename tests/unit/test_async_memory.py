"""`AsyncMemory` has every call of `Memory`, never holds the loop, and survives being cancelled and closed."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from memline import AsyncMemory, AsyncReceipt, Memory, Receipt
from memline.async_memory import THREADS
from memline.contracts.errors import Closed, UnknownOption, WaitTimeout
from memline.language.analysis import TextAnalyser
from memline.language.ports import Vectors
from tests.unit.cli.parts import Tiny

ANN: dict[str, Any] = {"user_id": "ann"}
CALLS = sorted(name for name, member in inspect.getmembers(Memory, callable) if not name.startswith("_"))
#: What is not awaited: as in mem0, or because it waits for nothing.
PLAIN = {"from_config", "in_namespace"}


@pytest.fixture(autouse=True)
def light(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty home, and an embedder that costs nothing to load."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEMLINE_EMBEDDER", "tests.unit.cli.parts:Tiny")
    monkeypatch.setattr(TextAnalyser, "_load", lambda _self: None)
    return tmp_path


def run(main: Callable[[AsyncMemory], Awaitable[None]], **options: Any) -> None:
    async def inside() -> None:
        async with AsyncMemory(**options) as memory:
            await main(memory)

    asyncio.run(inside())


class Held:
    """An embedder that stands still for the text "wait" until it is let go."""

    model, dimension, paid = Tiny.model, Tiny.dimension, False

    def __init__(self) -> None:
        self.arrivals, self.go = threading.Semaphore(0), threading.Event()

    def embed(self, texts: Sequence[str]) -> Vectors:
        if any(text.startswith("wait") for text in texts):
            self.arrivals.release()
            assert self.go.wait(300)
        return Tiny().embed(texts)


@pytest.mark.parametrize("name", CALLS)
def test_each_call_of_memory_is_there_with_the_same_options(name: str) -> None:
    assert hasattr(AsyncMemory, name), f"AsyncMemory lacks {name}"
    ours, theirs = getattr(AsyncMemory, name), getattr(Memory, name)
    assert inspect.iscoroutinefunction(ours) is (name not in PLAIN)
    if name in {"from_config", "in_namespace", "close"}:  # written out: the same parameters, another class comes back
        assert list(inspect.signature(ours, eval_str=False).parameters) == list(inspect.signature(theirs, eval_str=False).parameters)
    else:
        assert ours.__wrapped__ is theirs  # the same code, and so its signature and its docstring
        assert ours.__doc__ == theirs.__doc__


@pytest.mark.parametrize("name", sorted(name for name in vars(Receipt) if not name.startswith("_") and name != "wait_accepted"))
def test_each_look_at_a_receipt_can_be_awaited(name: str) -> None:
    assert inspect.iscoroutinefunction(getattr(AsyncReceipt, name))


def test_two_hundred_calls_at_once_end_while_the_loop_goes_on() -> None:
    held = Held()

    async def main(memory: AsyncMemory) -> None:
        ticks = 0

        async def beat() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1
                if ticks == 200:
                    held.go.set()

        await memory.add("Box 0.", **ANN, infer=False, wait=True)
        beating = asyncio.create_task(beat())
        adds = [memory.add(f"Box {number}.", **ANN, infer=False) for number in range(1, 101)]
        searches = [memory.search("wait: box", filters=ANN, top_k=1) for _ in range(100)]
        answers = await asyncio.gather(*(call for pair in zip(adds, searches, strict=True) for call in pair))
        assert ticks >= 200  # and before that no search had ended: a loop that was held for a call had never come so far
        receipts = [answer for answer in answers if isinstance(answer, AsyncReceipt)]
        assert (len(answers), len(receipts)) == (200, 100)
        assert all(len(answer["results"]) == 1 for answer in answers if isinstance(answer, dict))
        await asyncio.gather(*(receipt.wait(300) for receipt in receipts))
        assert {(await receipt.refresh()).status.value for receipt in receipts} == {"searchable"}
        assert (await receipts[0].reason(), repr(receipts[0]).startswith("AsyncReceipt(id=")) == (None, True)
        beating.cancel()
        assert await memory.count(filters=ANN) == 101

    run(main, embedder=held)


def test_calls_that_stand_still_do_not_hold_the_loop() -> None:
    held = Held()

    async def main(memory: AsyncMemory) -> None:
        await memory.add("Box 1.", **ANN, infer=False, wait=True)
        standing = asyncio.create_task(memory.update((await memory.get_all(filters=ANN))["results"][0]["id"], text="wait for it"))
        assert await asyncio.to_thread(held.arrivals.acquire, timeout=300)
        assert not standing.done()
        assert await memory.count(filters=ANN) == 1  # another call passes it
        held.go.set()
        assert (await standing)["version"] == 2

    run(main, embedder=held)


def test_the_receipt_of_an_error_can_be_awaited() -> None:
    held = Held()

    async def main(memory: AsyncMemory) -> None:
        with pytest.raises(WaitTimeout) as late:
            await memory.add("wait for it", **ANN, infer=False, wait=True, timeout=0.05)
        held.go.set()
        receipt = late.value.receipt
        assert isinstance(receipt, AsyncReceipt)
        await receipt.wait(300)
        assert (await receipt.results())[0]["event"] == "ADD"

    run(main, embedder=held)


def test_a_cancelled_task_leaves_nothing_broken() -> None:
    held = Held()

    async def main(memory: AsyncMemory) -> None:
        ids = [(await memory.add(f"Box {n}.", **ANN, infer=False, wait=True))["results"][0]["id"] for n in range(THREADS + 1)]
        tasks = [asyncio.create_task(memory.update(memory_id, text=f"wait {memory_id}")) for memory_id in ids]
        for _ in range(THREADS):  # until every thread stands; one call has not begun
            assert await asyncio.to_thread(held.arrivals.acquire, timeout=300)
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        held.go.set()
        await memory.flush(300)
        versions = [(await memory.get(memory_id) or {})["version"] for memory_id in ids]
        while versions.count(2) < THREADS:  # what ran goes on to its end
            await asyncio.sleep(0.005)
            versions = [(await memory.get(memory_id) or {})["version"] for memory_id in ids]
        assert sorted(versions) == [1] + [2] * THREADS  # and what had not begun never ran
        assert (await memory.add("After.", **ANN, infer=False, wait=True))["results"][0]["event"] == "ADD"

    run(main, embedder=held)


def test_a_handle_on_another_namespace_shares_threads_and_end() -> None:
    async def main(memory: AsyncMemory) -> None:
        other = memory.in_namespace("other")
        await other.add("Box 1.", **ANN, infer=False, wait=True)
        assert (await other.count(filters=ANN), await memory.count(filters=ANN)) == (1, 0)
        assert other._pool is memory._pool
        await other.close()
        await memory.close()  # a second time does nothing
        for handle in (memory, other):
            with pytest.raises(Closed):
                await handle.count(filters=ANN)

    run(main)


def test_errors_and_context_are_those_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    request = contextvars.ContextVar("request", default="none")
    seen: list[str] = []

    def embed(_self: Held, texts: Sequence[str]) -> Vectors:
        seen.append(request.get())
        return Tiny().embed(texts)

    monkeypatch.setattr(Held, "embed", embed)

    async def main(memory: AsyncMemory) -> None:
        with pytest.raises(UnknownOption):
            await memory.search("x", filters=ANN, limit=3)
        memory_id = (await memory.add("Box 1.", **ANN, infer=False, wait=True))["results"][0]["id"]
        request.set("request-7")
        await memory.update(memory_id, text="Box 2.")
        assert "request-7" in seen

    run(main, embedder=Held())
