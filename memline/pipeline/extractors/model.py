"""The extractor that asks a chat model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memline.contracts.fact import Fact
from memline.contracts.message import SOURCES, cut
from memline.language.ports import ChatModel
from memline.language.usage import Use, asked, tell
from memline.pipeline.extractors.port import ReadFacts, Request
from memline.pipeline.extractors.procedure import MAX_PROCEDURE, PROCEDURE_SCHEMA, build_procedure_messages, steps_of
from memline.pipeline.extractors.prompt import SCHEMA, UNIT_SCHEMA, build_messages, build_unit_messages, prompt_version
from memline.pipeline.extractors.reply import divide_reply, read_facts, read_text
from memline.pipeline.extractors.slots import slot_of

__all__ = ["WINDOW_TOKENS", "ModelExtractor"]

#: What a model would answer to a turn without a source; it is not asked.
_NOTHING = '{"memory": []}'

#: Tokens of new messages in one call where nothing is set: with the rules (2,000), the older messages and known memories (up to 4,000) and
#: the reply it fits a model of 16,000, and alone the 8,191 of OpenAI's embedders, as the estimate leans to too many.
WINDOW_TOKENS = 8000


class ModelExtractor:
    """Ports `Extractor` and `UnitExtractor` over a `ChatModel`, by the rules of `prompt.md`; of `procedure.md` for a procedural memory.

    *window_tokens*: most tokens of new messages in one call (estimated).
    """

    def __init__(self, chat: ChatModel, *, window_tokens: int = WINDOW_TOKENS) -> None:
        self._chat = chat
        self._window_tokens = window_tokens

    @property
    def name(self) -> str:
        return f"{self._chat.model}/prompt-{prompt_version()}"

    @property
    def paid(self) -> bool:
        return True

    @property
    def wants_context(self) -> bool:
        return True

    @property
    def window_tokens(self) -> int:
        return self._window_tokens

    def ask(self, request: Request) -> str:
        """The model's reply as it came, but storable: NUL and lone surrogates are U+FFFD.

        A reply that the server cut ("length") is returned too; `read` finds it unreadable where it is. Raises what the chat model raises.
        """
        if request.procedural:
            if not steps_of(request.messages):
                return self._nothing()
            return _storable(asked(self._chat, build_procedure_messages(request), schema=PROCEDURE_SCHEMA).text)
        if not _has_source(request):
            return self._nothing()
        return _storable(asked(self._chat, build_messages(request), schema=SCHEMA).text)

    def _nothing(self) -> str:
        tell(Use(self._chat.model, calls=0))
        return _NOTHING

    def read(self, reply: str, request: Request) -> Sequence[Fact]:
        """The facts in a reply; raises ReplyUnreadable. A slot is added where the text plainly fills one."""
        if request.procedural:
            return [] if reply == _NOTHING else [Fact(cut(read_text(reply), MAX_PROCEDURE), "assistant")]
        found = read_facts(reply, request)
        facts = ReadFacts((replace(fact, slot=slot_of(fact.text)) for fact in found), named=found.named)
        facts.links_dropped = found.links_dropped
        return facts

    def ask_unit(self, requests: Sequence[Request]) -> str:
        """The reply to several turns, storable; raises what the chat model raises."""
        if not any(_has_source(request) for request in requests):
            return self._nothing()
        return _storable(asked(self._chat, build_unit_messages(requests), schema=UNIT_SCHEMA).text)

    def divide(self, reply: str, turns: int) -> list[str]:
        """Each turn's share of it; raises ReplyUnreadable."""
        return divide_reply(reply, turns)


def _has_source(request: Request) -> bool:
    return any(message.role in SOURCES and message.text.strip() for message in request.messages)


def _storable(text: str) -> str:
    return text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
