"""A fork waits for calls of gRPC to end: a child that is born while a thread of its parent is inside one can never use gRPC."""

from __future__ import annotations

from memline.contracts.fork_gate import ForkGate

__all__ = ["GATE"]

#: The one of this process. Its calls have deadlines, and a fork waits five seconds for them.
GATE = ForkGate("a call of Weaviate", 5.0)
