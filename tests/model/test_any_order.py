"""Turns, deliveries, crashes, zombies, deletions, outages and repairs in any order: after each step the guarantees G2 to G7 hold, and
when all is quiet G1 and G8 do, too.

`MEMLINE_MODEL_EXAMPLES` and `MEMLINE_MODEL_STEPS` make the run larger.
"""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memline.contracts.turn import Message
from memline.ledger.meta import check_embedder
from memline.ledger.migrate import open_ledger
from memline.ledger.session import Ledger
from tests.model.checks import Checks
from tests.model.world import SCOPES, Trouble, World
from tests.parts import START, TrigramEmbedder

# Read here: a test's environment has no MEMLINE_* left.
EXAMPLES = int(os.environ.get("MEMLINE_MODEL_EXAMPLES", "60"))
STEPS = int(os.environ.get("MEMLINE_MODEL_STEPS", "40"))

TEXTS = (
    "[city] User lives in Paris",
    "[city] User lives in Rome",
    "[city] user lives  in paris",
    "[city] User lives in Oslo\n[city] User lives in Paris\nUser met Anna",
    "User met Anna B12",
    "User met Anne B12",
    "User moved on >>0",
    "hello",
    "boom",
    "User was away",
    "User mumbled",
)

MEANWHILE = (
    "lease passes",
    "half a lease passes",
    "seconds pass",
    "a day passes",
    "sweep",
    "work",
    "one stage",
    "accept",
    "relay",
    "delete",
    "delete newest",
    "erase",
    "index away",
)

turns = st.fixed_dictionaries(
    {
        "scope": st.sampled_from(SCOPES),
        "text": st.sampled_from(TEXTS),
        "infer": st.sampled_from([True, True, True, False]),
        "idempotency_key": st.sampled_from([None, None, "k1", "k2"]),
        "expires": st.sampled_from([None, None, None, 0, 1]),
        "said": st.sampled_from([None, None, -86_400, -3_600]),
    }
)
which = st.integers(0, 7)
at = st.integers(0, 11)


def troubles(*kinds: str) -> st.SearchStrategy[Trouble | None]:
    """Nothing, what *kinds* name, or things that go on meanwhile: often that the lease runs out and others take over."""
    taken_over = st.just(("lease passes", "sweep", "work"))
    any_steps = st.lists(st.sampled_from(MEANWHILE), min_size=1, max_size=4).map(tuple)
    meanwhile = st.builds(Trouble, st.just("meanwhile"), at, taken_over | any_steps)
    return st.none() | st.builds(Trouble, st.sampled_from(kinds), at) | meanwhile


@cache
def empty_ledger() -> bytes:
    """The file of a ledger with the newest schema."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        ledger = Ledger(f"sqlite:///{path}")
        open_ledger(ledger)
        with ledger.write() as tx:
            check_embedder(tx, TrigramEmbedder.model, TrigramEmbedder.dimension)
        ledger.close()
        return path.read_bytes()


class AnyOrder(RuleBasedStateMachine):
    """The rules; what they do stands in `World`."""

    world: World

    @initialize(paid=st.booleans())
    def begin(self, paid: bool) -> None:
        self.world = World(empty_ledger(), paid=paid)
        self.checks = Checks(self.world)

    @rule(given=st.lists(turns, min_size=1, max_size=3), producer=st.sampled_from(["p1", "p2"]), how=st.data())
    def hand_over(self, given: list[dict[str, Any]], producer: str, how: st.DataObject) -> None:
        for one in given:
            ways = st.sampled_from(["plain", "plain", "plain", "twice", "overtakes", "lost"])
            self.world.hand_over(self._turn(**one), producer=producer, how=how.draw(ways, label="how"))

    def _turn(self, *, scope: Any, text: str, infer: bool, idempotency_key: str | None, expires: int | None, said: int | None) -> Any:
        today = self.world.clock.now().date()
        return {
            "scope": scope,
            "messages": (Message("user", text),),
            "infer": infer,
            "idempotency_key": idempotency_key,
            "expires_on": None if expires is None else today + timedelta(days=expires),
            "occurred_at": None if said is None else START + timedelta(seconds=said),
        }

    @rule(which=which)
    def hand_over_again(self, which: int) -> None:
        self.world.hand_over_again(which)

    @rule()
    def redis_forgets_what_nobody_read(self) -> None:
        self.world.stream.lose_unread()

    @rule(
        consumer=st.sampled_from(["one", "two"]),
        trouble=troubles("kill", "lost", "send"),
        done_lost=st.sampled_from([None, None, None, "before", "after"]),
    )
    def accept(self, consumer: str, trouble: Trouble | None, done_lost: str | None) -> None:
        self.world.accept(consumer, trouble, done_lost=done_lost)

    @rule()
    def claim(self) -> None:
        self.world.claim()

    @precondition(lambda self: self.world.messages)
    @rule(which=which, trouble=troubles("kill", "raise", "lost", "send"), keep=st.booleans())
    def deliver(self, which: int, trouble: Trouble | None, keep: bool) -> None:
        self.world.deliver(which, trouble, keep=keep)

    @precondition(lambda self: self.world.messages)
    @rule(some=st.lists(st.tuples(which, troubles("kill", "raise", "lost", "send")), min_size=2, max_size=6))
    def deliver_several(self, some: list[tuple[int, Trouble | None]]) -> None:
        for which, trouble in some:
            self.world.deliver(which, trouble)

    @precondition(lambda self: self.world.delivered)
    @rule(which=which)
    def deliver_again(self, which: int) -> None:
        self.world.deliver_again(which)

    @precondition(lambda self: self.world.messages)
    @rule(which=which)
    def lose_message(self, which: int) -> None:
        self.world.lose_message(which)

    @rule()
    def work(self) -> None:
        self.world.work()

    @rule()
    def sweep(self) -> None:
        self.world.sweep()

    @rule(seconds=st.sampled_from([1, 6, 31, 61, 86_400]))
    def time_passes(self, seconds: int) -> None:
        self.world.clock.advance(seconds)

    @rule(
        which=st.integers(0, 1),
        trouble=troubles("kill"),
        fault=st.sampled_from(["", "", "lost", "partial", "silent", "breaks"]),
        rounds=st.integers(1, 3),
    )
    def relay(self, which: int, trouble: Trouble | None, fault: str, rounds: int) -> None:
        for _ in range(rounds):
            self.world.relay(which, trouble, fault=fault)

    @rule(away=st.booleans())
    def index_goes_or_comes(self, away: bool) -> None:
        self.world.index.away = away

    @rule(how=st.sampled_from(["delete", "older", "newer", "terms", "vector", "foreign", "snapshot", "restore"]), which=which)
    def damage(self, how: str, which: int) -> None:
        self.world.damage(how, which)

    @rule(deep=st.booleans(), in_pieces=st.booleans())
    def reconcile(self, deep: bool, in_pieces: bool) -> None:
        self.world.reconcile(deep=deep, in_pieces=in_pieces)

    @rule(which=which)
    def delete(self, which: int) -> None:
        self.world.delete(which)

    @rule(which=which)
    def erase(self, which: int) -> None:
        self.world.erase(which)

    @rule(which=which)
    def retry(self, which: int) -> None:
        self.world.retry(which)

    @rule(text=st.sampled_from(["User lives in Paris", "User met Anna B12", "Rome"]))
    def read(self, text: str) -> None:
        self.checks.reads_are_honest(text)

    @invariant()
    def what_is_promised_holds(self) -> None:
        self.checks.after_a_step()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            if sys.exc_info()[0] is None:
                self.checks.in_the_end()
        finally:
            self.world.close()


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    database=None,
    print_blob=True,
    derandomize=False,
    suppress_health_check=list(HealthCheck),
)
