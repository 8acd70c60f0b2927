"""Every error memline raises, in one tree.

    MemlineError
    ├── InvalidInput (also ValueError)     what the caller gave is wrong; nothing was changed
    │   ├── ScopeRequired
    │   ├── InvalidScopeId
    │   ├── InvalidMessage
    │   ├── TurnTooLarge
    │   ├── InvalidDate
    │   ├── PolicyRefused              the write policy does not let this text in
    │   ├── InvalidFilter
    │   ├── InvalidCursor
    │   │   └── StaleCursor            the feed of changes does not reach back so far
    │   └── UnknownOption (also TypeError)
    ├── NotFound (also ValueError, as mem0 raises)
    │   ├── MemoryNotFound
    │   └── UnknownReceipt
    ├── NotSupportedYet (also NotImplementedError)
    ├── IdempotencyConflict
    ├── VersionConflict                    somebody else changed the memory first
    ├── DuplicateMemory                    another live memory of the scope says the same
    ├── TurnFailed                         how a turn ended that somebody waited for
    │   ├── JobFailed
    │   ├── JobCancelled
    │   └── TurnLost
    ├── WaitTimeout (also TimeoutError)    the turn goes on; the error holds its receipt
    ├── ConfigurationError                 the settings or the installation do not fit
    │   ├── MissingPackage
    │   ├── SchemaMismatch
    │   ├── EmbedderMismatch
    │   └── EvictingRedis
    ├── ServiceUnavailable                 a part that is needed does not answer
    ├── ProviderError                      a model's or embedder's server answered badly
    │   ├── ProviderUnavailable            worth another try (``retry_after`` seconds)
    │   ├── ProviderRefused                not worth another try
    │   └── ReplyUnreadable                the reply is kept with the job
    ├── LeaseLost                          a worker came too late; it committed nothing
    ├── UnknownWireVersion                 a newer memline wrote this; leave it to a newer worker
    └── Closed                             the handle was closed

The docstring of a class is its default message. A message says what is wrong, with which id or setting, and what to do.
Text of a message or memory is never part of an error: of a text only its path, type and length are told.
"""

from __future__ import annotations

import inspect
from typing import Any, Literal

__all__ = [
    "Closed",
    "ConfigurationError",
    "DuplicateMemory",
    "EmbedderMismatch",
    "EvictingRedis",
    "IdempotencyConflict",
    "InvalidCursor",
    "InvalidDate",
    "InvalidFilter",
    "InvalidInput",
    "InvalidMessage",
    "InvalidScopeId",
    "JobCancelled",
    "JobFailed",
    "LeaseLost",
    "MemlineError",
    "MemoryNotFound",
    "MissingPackage",
    "NotFound",
    "NotSupportedYet",
    "PolicyRefused",
    "ProviderError",
    "ProviderRefused",
    "ProviderUnavailable",
    "ReplyUnreadable",
    "SchemaMismatch",
    "ScopeRequired",
    "ServiceUnavailable",
    "StaleCursor",
    "TurnFailed",
    "TurnLost",
    "TurnTooLarge",
    "UnknownOption",
    "UnknownReceipt",
    "UnknownWireVersion",
    "VersionConflict",
    "WaitTimeout",
]


class MemlineError(Exception):
    """Something went wrong in memline."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or inspect.cleandoc(type(self).__doc__ or type(self).__name__))


class InvalidInput(MemlineError, ValueError):
    """The input is not valid; nothing was changed."""


class ScopeRequired(InvalidInput):
    """At least one of user_id, agent_id and run_id is needed: say whose memory this is."""


class InvalidScopeId(InvalidInput):
    """A scope id must be a non-empty string without white space, NUL or wildcard."""


class InvalidMessage(InvalidInput):
    """Messages must be a string, a message, or a list of messages in OpenAI's shape."""


class TurnTooLarge(InvalidInput):
    """The turn is larger than MEMLINE_MAX_TURN; hand it over in parts."""


class InvalidDate(InvalidInput):
    """Dates are given as YYYY-MM-DD, a date, a datetime, or an ISO-8601 time."""


class PolicyRefused(InvalidInput):
    """The text holds what the write policy refuses; nothing was changed. `kind` and `path` say what and where, never the text."""

    def __init__(self, message: str | None = None, *, kind: str = "", path: str = "") -> None:
        super().__init__(message)
        self.kind, self.path = kind, path


class InvalidFilter(InvalidInput):
    """The filter can't be understood; no rows were read."""


class InvalidCursor(InvalidInput):
    """This cursor does not belong to this question; no rows were read."""


class StaleCursor(InvalidCursor):
    """Changes after this cursor are not kept any more, or the ledger was put back from a backup: begin anew. Take a cursor with
    changes(since="now"), then read everything with get_all, then go on from that cursor."""


class UnknownOption(InvalidInput, TypeError):
    """An option of this name does not exist."""


class NotFound(MemlineError, ValueError):
    """Nothing is known under this id."""


class MemoryNotFound(NotFound):
    """No memory has this id in this namespace."""

    def __init__(self, memory_id: str) -> None:
        super().__init__(f"Memory with id {memory_id} not found in this namespace. Check the id, or list what is there with get_all().")
        self.memory_id = memory_id

    def __reduce__(self) -> tuple[type[MemoryNotFound], tuple[str]]:
        return type(self), (self.memory_id,)  # the id makes the message, so a copy is made from the id


class UnknownReceipt(NotFound):
    """No turn with this id was handed over here."""


class NotSupportedYet(MemlineError, NotImplementedError):
    """This part of the interface is not built yet."""


class IdempotencyConflict(MemlineError):
    """The idempotency key was used for another turn in this scope: the first one stands. Use a new key, or send the same content."""


class VersionConflict(MemlineError):
    """The memory was changed since it was read: nothing was written. Read it again, then decide."""

    def __init__(self, message: str | None = None, *, memory_id: str = "", expected: int = 0, found: int = 0) -> None:
        super().__init__(message)
        self.memory_id, self.expected, self.found = memory_id, expected, found


class DuplicateMemory(MemlineError):
    """Another live memory of this scope says the same: nothing was written. Delete one of the two, or keep that one."""

    def __init__(self, message: str | None = None, *, memory_id: str = "", duplicate_of: str = "") -> None:
        super().__init__(message)
        self.memory_id, self.duplicate_of = memory_id, duplicate_of


class TurnFailed(MemlineError):
    """The turn did not become memory."""

    def __init__(self, message: str | None = None, *, receipt: Any = None) -> None:
        super().__init__(message)
        self.receipt = receipt


class JobFailed(TurnFailed):
    """The job failed; `memline jobs` shows the reason and `memline jobs retry ID` replays it."""


class JobCancelled(TurnFailed):
    """The job was cancelled before it was committed: its subject was erased or its scope deleted."""


class TurnLost(TurnFailed):
    """The turn was queued in Redis, which lost it before it was accepted. Hand it over again; ack="accepted" waits for the ledger."""


class WaitTimeout(MemlineError, TimeoutError):
    """The wait ended before the turn did; the turn goes on. `receipt` holds it, `committed` says whether its memories exist already."""

    def __init__(self, message: str | None = None, *, receipt: Any = None, committed: bool = False) -> None:
        super().__init__(message)
        self.receipt = receipt
        self.committed = committed


class ConfigurationError(MemlineError):
    """The settings do not fit together; `memline doctor` shows them."""


class MissingPackage(ConfigurationError):
    """A package that this setting needs is not installed."""


class SchemaMismatch(ConfigurationError):
    """The ledger has a schema that this version of memline does not know."""


class EmbedderMismatch(ConfigurationError):
    """The memories of this ledger were embedded by another model."""


class EvictingRedis(ConfigurationError):
    """This Redis may evict keys when it is full, which would lose turns. Set maxmemory-policy to noeviction."""


class ServiceUnavailable(MemlineError):
    """A part that is needed for this does not answer."""


class ProviderError(MemlineError):
    """A model's or embedder's server answered with an error.

    `call`: of which kind the call was (`metrics.CALL_KINDS`), where it was made for a job and costs.
    """

    call: str | None = None


class ProviderUnavailable(ProviderError):
    """The provider did not answer, or asked to come back later."""

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_after: float | None = None,
        cause: Literal["outage", "limit", "held", "answer"] = "outage",
        answer_lost: bool = False,
    ) -> None:
        """*cause*: it is away (outage), asks for fewer calls (limit), was not called, since a limit or its breaker holds calls back (held),
        or sent something that is no answer (answer). *retry_after* in seconds. *answer_lost*: the call may have been carried out, and paid,
        all the same.
        """
        super().__init__(message)
        self.retry_after, self.cause, self.answer_lost = retry_after, cause, answer_lost


class ProviderRefused(ProviderError):
    """The provider refused the request; the same request will be refused again. Check the key, the model and the base URL."""

    def __init__(self, message: str | None = None, *, of_content: bool = True) -> None:
        """*of_content* False: whatever is sent is refused, so that a part of the request would be, too (the key, the model's name)."""
        super().__init__(message)
        self.of_content = of_content


class ReplyUnreadable(ProviderError):
    """The model's reply can't be read as memories; it is kept with the job.

    `why`: what is wrong with it, in words that the model can be told; `cut`: it ends in the middle.
    """

    def __init__(self, message: str | None = None, *, reply: str = "", why: str = "", cut: bool = False) -> None:
        super().__init__(message)
        self.reply = reply
        self.why = why
        self.cut = cut


class LeaseLost(MemlineError):
    """The lease ran out, was taken over, or its subject was erased; nothing was committed."""


class UnknownWireVersion(MemlineError):
    """This entry was written by a newer version of memline."""


class Closed(MemlineError):
    """This Memory was closed; open a new one."""
