"""memline: the memory layer of an AI application. Hand a turn over in a millisecond, find it again, trust what you find.

    from memline import Memory

    with Memory() as memory:
        memory.add("I moved to Lisbon in March.", user_id="mei")
        memory.search("where does she live?", filters={"user_id": "mei"})

Importing this package loads nothing but its names; each part comes when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memline import errors
    from memline.async_memory import AsyncMemory, AsyncReceipt
    from memline.contracts.receipt import Status
    from memline.memory import Memory
    from memline.receipt import Receipt
    from memline.settings import Settings

__all__ = ["AsyncMemory", "AsyncReceipt", "Memory", "Receipt", "Settings", "Status", "__version__", "errors"]

__version__ = "0.1.0"

_WHERE = {
    "AsyncMemory": "memline.async_memory",
    "AsyncReceipt": "memline.async_memory",
    "Memory": "memline.memory",
    "Receipt": "memline.receipt",
    "Settings": "memline.settings",
    "Status": "memline.contracts.receipt",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("memline.errors")
    if name not in _WHERE:
        raise AttributeError(f"module 'memline' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
