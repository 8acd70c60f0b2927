"""What calls of models use, told by whoever makes them to whoever pays: a port's answer alone does not say it.

A client that knows what a call used says so with `tell`; who made the call collects it with `metered`, in the same thread. A part of the
application's own need not tell: its calls are counted all the same, without tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from memline.language.ports import ChatModel, ChatReply, Embedder, Vectors

__all__ = ["Use", "asked", "embedded", "metered", "tell", "total"]


@dataclass(frozen=True, slots=True)
class Use:
    """What calls of one model used. `tokens_cached` are a part of `tokens_in`. `repeated`: calls made again as their answer was lost."""

    model: str
    calls: int = 1
    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0
    repeated: int = 0


_METER: ContextVar[list[Use] | None] = ContextVar("memline_meter", default=None)


@contextmanager
def metered() -> Iterator[list[Use]]:
    """The list of what the calls inside this block used, as they tell it."""
    found: list[Use] = []
    token = _METER.set(found)
    try:
        yield found
    finally:
        _METER.reset(token)


def tell(use: Use) -> None:
    """Adds to the list of the block around; nothing where nobody collects."""
    if (meter := _METER.get()) is not None:
        meter.append(use)


def asked(chat: ChatModel, messages: Sequence[Mapping[str, Any]], *, schema: Mapping[str, Any] | None = None) -> ChatReply:
    """`chat.complete`, and what it used is told, also by a model of the application's own, whose reply alone says it."""
    meter = _METER.get()
    before = 0 if meter is None else len(meter)
    reply = chat.complete(messages, schema=schema)
    if meter is not None and len(meter) == before:
        meter.append(Use(chat.model, 1, reply.tokens_in, reply.tokens_cached, reply.tokens_out))
    return reply


def total(uses: Sequence[Use]) -> list[Use]:
    """One a model, in order of the models' names."""
    by_model: dict[str, list[Use]] = {}
    for use in uses:
        by_model.setdefault(use.model, []).append(use)
    return [
        Use(
            model,
            sum(use.calls for use in some),
            sum(use.tokens_in for use in some),
            sum(use.tokens_cached for use in some),
            sum(use.tokens_out for use in some),
            sum(use.repeated for use in some),
        )
        for model, some in sorted(by_model.items())
    ]


def embedded(embedder: Embedder, texts: Sequence[str]) -> Vectors:
    """`embedder.embed`, and that it was called is told, also of an embedder of the application's own, whose tokens nobody knows."""
    meter = _METER.get()
    before = 0 if meter is None else len(meter)
    vectors = embedder.embed(texts)
    if meter is not None and len(meter) == before:
        meter.append(Use(embedder.model))
    return vectors
