"""The port of an extractor. `ask` is the outside call, `read` makes facts of its answer: the answer is stored between the two.

Two more things an extractor may offer: `window_tokens`, above which a turn is asked in windows, and to take several turns of a lane in one
call (`UnitExtractor`). One without them is asked turn by turn, each whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from memline.contracts.fact import Fact
from memline.contracts.turn import Message

__all__ = ["Extractor", "Known", "ReadFacts", "Request", "UnitExtractor"]


@dataclass(frozen=True, slots=True)
class Known:
    """A live memory of the owner, shown to the model under a short id ("0", "1", …)."""

    short_id: str
    memory_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Request:
    """All that an extraction may look at."""

    messages: tuple[Message, ...]
    #: When the turn was said: what "yesterday" is resolved against.
    said_at: datetime
    #: The last messages of the lane before this turn, oldest first, at most 10.
    window: tuple[Message, ...] = ()
    #: The nearest live memories of the owner, at most 10.
    known: tuple[Known, ...] = ()
    #: Custom instructions of this call, or of the namespace.
    prompt: str | None = None
    #: There is an agent and no user: facts are the agent's.
    of_agent: bool = False
    #: One memory of what the agent did, step by step, is wanted, in place of facts; there is no window then, and nothing is known.
    procedural: bool = False
    #: Why the last answer to the same request could not be read (memline's own words); None: it is the first ask.
    corrects: str | None = None


class ReadFacts(list[Fact]):
    """Facts as `read` may return them, with how many links named a memory that was not shown.

    `named`: of a share (`UnitExtractor.divide`), the short ids under which later turns of the same reply link to its facts, and the texts
    of those.
    """

    links_dropped: int = 0

    def __init__(self, facts: Iterable[Fact] = (), *, named: Mapping[str, str] | None = None) -> None:
        super().__init__(facts)
        self.named = dict(named or {})


class Extractor(Protocol):
    """Finds the facts of a turn."""

    @property
    def name(self) -> str:
        """What extracts, with model and prompt version; recorded with each job."""
        ...

    @property
    def paid(self) -> bool:
        """`ask` leaves the process: its answer is stored before it is read, and never bought again."""
        ...

    @property
    def wants_context(self) -> bool:
        """`ask` looks at the window and the known memories."""
        ...

    def ask(self, request: Request) -> str:
        """The raw reply.

        Raises ProviderUnavailable where another try may help, ProviderRefused where it won't.
        """
        ...

    def read(self, reply: str, request: Request) -> Sequence[Fact]:
        """The facts in a reply; raises ReplyUnreadable where it is not one.

        Needs only `request.known`, `request.messages` and `request.procedural`; for a procedural request several facts are taken as the
        lines of one memory.
        """
        ...


@runtime_checkable
class UnitExtractor(Extractor, Protocol):
    """An extractor that takes several consecutive turns of one lane in one call."""

    @property
    def window_tokens(self) -> int:
        """Most tokens of new messages in one call, estimated (`tokens.tokens_of`)."""
        ...

    def ask_unit(self, requests: Sequence[Request]) -> str:
        """The raw reply to several turns, oldest first. The first request's `window` and `known` are those of all.

        Raises what `ask` raises.
        """
        ...

    def divide(self, reply: str, turns: int) -> list[str]:
        """The share of each of so many turns in a reply, in order, as a reply that `read` takes for that turn's request.

        Raises ReplyUnreadable where a fact does not say of which turn it is.
        """
        ...
