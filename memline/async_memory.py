"""`AsyncMemory`: the same `Memory` for asyncio applications. Every call runs the same code on a thread of its pool: no second copy."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from memline.contracts.errors import Closed, TurnFailed, WaitTimeout
from memline.contracts.receipt import ReceiptState, Status
from memline.memory import Memory
from memline.receipt import Receipt

__all__ = ["AsyncMemory", "AsyncReceipt"]

P = ParamSpec("P")
R = TypeVar("R")

#: Threads of one AsyncMemory; further calls queue, the loop goes on. A wait (`wait=True`, `receipt.wait`, `flush`) holds one.
THREADS = 32


class AsyncReceipt:
    """A `Receipt` whose looks and waits are awaited."""

    def __init__(self, receipt: Receipt, pool: ThreadPoolExecutor) -> None:
        self._receipt, self._pool = receipt, pool
        self.id = receipt.id

    @property
    def seen(self) -> ReceiptState:
        """The last look, without a new one."""
        return self._receipt.seen

    async def status(self) -> Status:
        """Where the turn is now."""
        return await self._run(lambda: self._receipt.status)

    async def results(self) -> list[dict[str, Any]]:
        """What became of each fact."""
        return await self._run(lambda: self._receipt.results)

    async def reason(self) -> str | None:
        """Why it ended as it did, or why it has no memory."""
        return await self._run(lambda: self._receipt.reason)

    async def notes(self) -> dict[str, int]:
        """What else there is to tell; see `Receipt.notes`."""
        return await self._run(lambda: self._receipt.notes)

    async def masked(self) -> dict[str, int]:
        """What the write policy masked in the turn: {kind: how often}."""
        return await self._run(lambda: self._receipt.masked)

    async def refresh(self) -> ReceiptState:
        """See `Receipt.refresh`."""
        return await self._run(self._receipt.refresh)

    async def wait(self, timeout: float = 30, until: Literal["searchable", "committed"] = "searchable") -> AsyncReceipt:
        """See `Receipt.wait`."""
        await self._run(lambda: self._receipt.wait(timeout, until))
        return self

    def __repr__(self) -> str:
        return f"Async{self._receipt!r}"

    async def _run(self, call: Callable[[], R]) -> R:
        return await _on_thread(self._pool, call)


async def _on_thread(pool: ThreadPoolExecutor, call: Callable[[], R]) -> R:
    """*call* on a thread of *pool*, with the caller's context. Raises Closed where the pool has ended.

    Cancelled, it stops waiting: a call that runs goes on to its end, one that has not begun never runs.
    """
    loop = asyncio.get_running_loop()
    try:
        begun = pool.submit(contextvars.copy_context().run, call)
    except RuntimeError:  # the pool takes nothing more: it, or the interpreter, is shut down
        raise Closed() from None
    try:
        return await asyncio.wrap_future(begun, loop=loop)
    except (TurnFailed, WaitTimeout) as error:
        if isinstance(error.receipt, Receipt):  # its waits would hold the loop
            error.receipt = AsyncReceipt(error.receipt, pool)
        raise


def _threaded(
    method: Callable[Concatenate[Memory, P], R],
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, R]]:
    @functools.wraps(method)
    async def call(self: AsyncMemory, /, *args: P.args, **options: P.kwargs) -> R:
        found = await _on_thread(self._pool, functools.partial(method, self.memory, *args, **options))
        return AsyncReceipt(found, self._pool) if isinstance(found, Receipt) else found  # type: ignore[return-value]

    return call


class AsyncMemory:
    """`Memory` for asyncio: the same options, results and errors; receipts are `AsyncReceipt`.

    A task that is cancelled stops waiting: its call goes on to its end if it runs, and never runs if it has not begun. So an `add` that
    was cancelled may have been handed over; an `idempotency_key` makes it safe to send again.
    """

    def __init__(self, namespace: str | None = None, *, memory: Memory | None = None, **options: Any) -> None:
        self.memory = memory or Memory(namespace, **options)
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="memline-async")

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any], *, namespace: str | None = None, **parts: Any) -> AsyncMemory:
        """See `Memory.from_config`. Not awaited, as in mem0."""
        return cls(memory=Memory.from_config(config_dict, namespace=namespace, **parts))

    def in_namespace(self, name: str) -> AsyncMemory:
        """A light handle on another namespace, on the same connections and threads; closing one closes both."""
        handle = object.__new__(type(self))
        handle.memory, handle._pool = self.memory.in_namespace(name), self._pool
        return handle

    add = _threaded(Memory.add)
    search = _threaded(Memory.search)
    get = _threaded(Memory.get)
    get_all = _threaded(Memory.get_all)
    count = _threaded(Memory.count)
    entities = _threaded(Memory.entities)
    history = _threaded(Memory.history)
    why = _threaded(Memory.why)
    changes = _threaded(Memory.changes)
    delete = _threaded(Memory.delete)
    receipt = _threaded(Memory.receipt)
    flush = _threaded(Memory.flush)
    update = _threaded(Memory.update)
    delete_all = _threaded(Memory.delete_all)
    reset = _threaded(Memory.reset)
    erase = _threaded(Memory.erase)
    chat = _threaded(Memory.chat)

    async def close(self) -> None:
        """See `Memory.close`; calls that are running end with it, and those after it raise `Closed`."""
        await asyncio.get_running_loop().run_in_executor(None, self.memory.close)
        self._pool.shutdown(wait=False)

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()
