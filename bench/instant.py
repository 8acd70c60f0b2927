"""A chat model that answers at once: each message becomes one fact. For benches, by import path, so that only memline's time counts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from memline.cli.simulator import extraction_reply
from memline.language.ports import ChatReply

__all__ = ["InstantChat"]


class InstantChat:
    """A `ChatModel` without a server."""

    model = "instant"

    def complete(self, messages: Sequence[Mapping[str, str]], *, schema: Mapping[str, Any] | None = None) -> ChatReply:
        """The simulator's default reply, without the network."""
        reply = extraction_reply({"messages": [dict(message) for message in messages]})
        return ChatReply(reply if isinstance(reply, str) else json.dumps(reply))
