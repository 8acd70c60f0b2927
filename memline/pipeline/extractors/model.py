"""The extractor that asks a chat model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memline.contracts.fact import Fact
from memline.contracts.message import SOURCES, cut
from memline.language.ports import ChatModel
from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.procedure import MAX_PROCEDURE, PROCEDURE_SCHEMA, build_procedure_messages, steps_of
from memline.pipeline.extractors.prompt import SCHEMA, build_messages, prompt_version
from memline.pipeline.extractors.reply import read_facts, read_text
from memline.pipeline.extractors.slots import slot_of

__all__ = ["ModelExtractor"]

#: What a model would answer to a turn without a source; it is not asked.
_NOTHING = '{"memory": []}'


class ModelExtractor:
    """Port `Extractor` over a `ChatModel`: one call a turn, by the rules of `prompt.md`; of `procedure.md` for a procedural memory."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat

    @property
    def name(self) -> str:
        return f"{self._chat.model}/prompt-{prompt_version()}"

    @property
    def paid(self) -> bool:
        return True

    @property
    def wants_context(self) -> bool:
        return True

    def ask(self, request: Request) -> str:
        """The model's reply as it came, but storable: NUL and lone surrogates are U+FFFD.

        A reply that the server cut ("length") is returned too; `read` finds it unreadable where it is. Raises what the chat model raises.
        """
        if request.procedural:
            if not steps_of(request.messages):
                return _NOTHING
            text = self._chat.complete(build_procedure_messages(request), schema=PROCEDURE_SCHEMA).text
        elif not any(message.role in SOURCES and message.text.strip() for message in request.messages):
            return _NOTHING
        else:
            text = self._chat.complete(build_messages(request), schema=SCHEMA).text
        return text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def read(self, reply: str, request: Request) -> Sequence[Fact]:
        """The facts in a reply; raises ReplyUnreadable. A slot is added where the text plainly fills one."""
        if request.procedural:
            return [] if reply == _NOTHING else [Fact(cut(read_text(reply), MAX_PROCEDURE), "assistant")]
        return [replace(fact, slot=slot_of(fact.text)) for fact in read_facts(reply, request)]
