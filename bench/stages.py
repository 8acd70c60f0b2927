"""Every stage one after the other in this thread, in the batches that a loaded system makes: what the benches of stages measure around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memline.compose import House
from memline.contracts.scope import Scope
from memline.ledger.accept import accept_turns
from memline.ledger.leases import Lease
from memline.pipeline import runner
from memline.producer import build_turn

__all__ = ["text", "walk"]


def text(number: int) -> str:
    """What turn *number* says."""
    return f"I bought lamp number {number} for {number % 90 + 10} euros in Kyoto, because my sister Ana likes paper lamps."


def walk(house: House, turns: int, scopes: int, timed: Callable[[str, Callable[[], Any]], Any]) -> None:
    """Takes *turns* turns of *scopes* users from the accept to the index; *timed* runs each step under its name, a stage's or
    accept, claim, relay."""
    parts = house.parts
    made = [
        build_turn(Scope.of("default", f"user-{number % scopes}"), text(number), ids=house.ids, clock=house.clock)
        for number in range(turns)
    ]
    parts.analyser.analyse(["warm"])
    parts.embedder.embed(["warm"])

    def accept(start: int) -> None:
        with parts.ledger.write() as tx:
            accept_turns(tx, made[start : start + 200], now=parts.clock.now(), order_wait=30)

    for start in range(0, turns, 200):
        timed("accept", lambda start=start: accept(start))  # type: ignore[misc]
    waiting: list[Lease] = []
    while True:
        if not waiting:
            timed("claim", lambda: runner.claim_and_send(parts, waiting.extend))
        if not waiting:
            break
        lease: Lease | None = waiting.pop()
        while lease is not None:
            current = lease
            lease = timed(
                current.stage.value,
                lambda: runner.run_stage(parts, current.id, current.epoch, current.stage, worker="bench", send=waiting.extend),  # noqa: B023
            )
    timed("relay", house.relay.drain)
