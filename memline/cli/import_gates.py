"""Where an import hands its turns over: straight into the ledger, or to Redis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memline.cli.import_lines import Numbered
from memline.compose import House
from memline.contracts.turn import Turn

__all__ = ["Gate", "Given", "gate_of"]

#: Turns that go into the ledger in one transaction.
BATCH = 50


@dataclass(frozen=True, slots=True)
class Given:
    """A turn that was taken, as far as the gate can tell: None where only the receipt will."""

    number: int
    turn_id: str
    known: bool | None = None
    conflict: bool = False


class Gate(Protocol):
    """Takes turns in order, some at a time."""

    #: How many turns `give` is best called with.
    batch: int

    def give(self, turns: Sequence[Numbered]) -> list[Given]:
        """Hands turns over. Raises ServiceUnavailable where they can't be taken; then none of them counts as given."""
        ...


def gate_of(house: House) -> Gate:
    """The gate that the settings lead to; raises ServiceUnavailable where Redis does not answer."""
    return _StreamGate(house) if house.uses_redis else _LedgerGate(house)


class _LedgerGate:
    batch = BATCH

    def __init__(self, house: House) -> None:
        self._house = house

    def give(self, turns: Sequence[Numbered]) -> list[Given]:
        from memline.ledger.accept import Outcome, accept_turns

        house = self._house
        with house.ledger.write() as tx:
            accepted = accept_turns(tx, [each.turn for each in turns], now=house.clock.now(), order_wait=house.settings.order_wait)
        house.engine.wake()
        return [
            Given(each.number, each.turn.id, one.outcome in (Outcome.REPEAT, Outcome.AGAIN), one.outcome is Outcome.CONFLICT)
            for each, one in zip(turns, accepted, strict=True)
        ]


class _StreamGate:
    batch = 1

    def __init__(self, house: House) -> None:
        self._house = house
        # A caller of `add` must not wait for Redis and gets the spool; a file can wait.
        house.stream.ping()

    def give(self, turns: Sequence[Numbered]) -> list[Given]:
        return [Given(each.number, self._hand_over(each.turn)) for each in turns]

    def _hand_over(self, turn: Turn) -> str:
        handed, _ = self._house.producer.hand_over(
            turn.scope,
            [_message(message.role, message.text, message.name) for message in turn.messages],
            metadata=turn.metadata,
            infer=turn.infer,
            prompt=turn.prompt,
            expiration_date=turn.expires_on,
            timestamp=turn.occurred_at,
            idempotency_key=turn.idempotency_key,
            masked=turn.masked,
        )
        return handed.id


def _message(role: str, text: str, name: str | None) -> dict[str, str]:
    message = {"role": role, "content": text}
    return message if name is None else message | {"name": name}
