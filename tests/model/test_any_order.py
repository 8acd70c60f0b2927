"""Turns, deliveries, crashes, zombies, deletions, outages and repairs in any order: after each step the guarantees G2 to G7 hold, and
when all is quiet G1 and G8 do, too.

`MEMLINE_MODEL_EXAMPLES` and `MEMLINE_MODEL_STEPS` make the run larger (`make explore`). In CI, where they are not set, the examples are
the same each time: what is submitted is not judged by a draw.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memline.contracts.turn import Message
from memline.ledger.meta import check_embedder
from memline.ledger.migrate import open_ledger
from memline.ledger.session import Ledger
from tests.model.checks import Checks
from tests.model.troubles import Trouble
from tests.model.world import SCOPES, World
from tests.parts import START, TrigramEmbedder

# Read here: a test's environment has no MEMLINE_* left.
EXAMPLES = int(os.environ.get("MEMLINE_MODEL_EXAMPLES", "50"))
STEPS = int(os.environ.get("MEMLINE_MODEL_STEPS", "40"))

TEXTS = (
    "[city] User lives in Paris",
    "[city] User lives in Rome",
    "[city] user lives  in paris",
    "[city] User lives in Oslo\n[city] User lives in Paris\nUser met Anna",
    "User met Anna B12",
    "user met  anna B12",
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
    "update",
    "delete all",
    "index away",
)

WAYS_OF_AN_INDEX = ("away", "back", "delete", "older", "newer", "terms", "vector", "foreign", "snapshot", "restore")

turns = st.fixed_dictionaries(
    {
        "scope": st.sampled_from([SCOPES[0], *SCOPES]),
        "text": st.sampled_from(TEXTS),
        "infer": st.sampled_from([True, True, True, False]),
        "key": st.sampled_from([None, None, "k1", "k2"]),
        "expires": st.sampled_from([None, None, 0, 0]),
        "said": st.sampled_from([None, None, -86_400, -3_600]),
    }
)
handed_over = st.tuples(
    turns, st.sampled_from(["p1", "p2"]), st.sampled_from(["plain", "plain", "plain", "plain", "twice", "overtakes", "lost"])
)
ways_of_a_message = st.sampled_from(["once", "once", "once", "kept", "again", "lost"])
which = st.integers(0, 7)
at = st.integers(0, 11)


TAKEN_OVER = (("lease passes", "sweep", "work"), ("lease passes",), ("sweep", "lease passes", "work"))


def troubles(*kinds: str, often: Sequence[tuple[str, ...]] = TAKEN_OVER) -> st.SearchStrategy[Trouble | None]:
    """Nothing, what *kinds* name, or things that go on meanwhile: *often* these, such as that the lease runs out and others take over."""
    any_steps = st.lists(st.sampled_from(MEANWHILE), min_size=1, max_size=4).map(tuple)
    meanwhile = st.builds(Trouble, st.just("meanwhile"), at, st.sampled_from(often) | any_steps)
    return st.none() | st.builds(Trouble, st.sampled_from(kinds), at) | meanwhile


consumers = st.sampled_from(["one", "two"])
lost_answers = st.sampled_from([None, None, None, "before", "after"])
relay_faults = st.sampled_from(["", "", "lost", "partial", "silent", "breaks"])
relay_troubles = troubles("kill", often=[("delete on its way",)])
stage_troubles = troubles("kill", "raise", "lost", "send")
new_texts = st.sampled_from([None, "User lives in Rome", "user lives in Oslo", "User met Anna B12", "User met Zoe Z9", "User likes tea"])
days = st.sampled_from([None, None, -1, 0, 1])
RARE = ("arrives late", "arrives late", "redis forgets", "erase", "retry", "retry")

#: What may happen, with what is drawn for it, and how often.
STEPS_BY_NAME: tuple[tuple[str, dict[str, st.SearchStrategy[Any]], int], ...] = (
    ("hand_over", {"given": st.lists(handed_over, min_size=1, max_size=4), "then": st.sampled_from(["accept", "accept", ""])}, 2),
    ("accept", {"consumer": consumers, "trouble": troubles("kill", "lost", "send"), "done_lost": lost_answers}, 2),
    ("deliver", {"some": st.lists(st.tuples(ways_of_a_message, which, stage_troubles), min_size=3, max_size=10)}, 5),
    ("work", {}, 1),
    ("time_passes", {"seconds": st.sampled_from([0, 1, 6, 31, 61, 86_400, 86_400]), "sweep": st.booleans()}, 2),
    ("relay", {"which": st.integers(0, 1), "trouble": relay_troubles, "fault": relay_faults, "rounds": st.integers(1, 3)}, 3),
    ("something_happens_to_the_index", {"how": st.sampled_from(WAYS_OF_AN_INDEX), "which": which}, 1),
    ("reconcile", {"deep": st.booleans(), "in_pieces": st.booleans()}, 1),
    ("delete", {"which": which}, 2),
    ("update", {"which": which, "text": new_texts, "expires": days, "tag": st.sampled_from([None, None, "a", "b"])}, 2),
    ("delete_all", {"which": which, "whole": st.sampled_from([False, False, True])}, 1),
    ("something_rare", {"what": st.sampled_from(RARE), "which": which}, 1),
    ("read", {"text": st.sampled_from(["User lives in Paris", "User met Anna B12", "Rome"])}, 1),
)


class Step:
    """One of them, as a failing example shows it."""

    def __init__(self, name: str, given: dict[str, Any]) -> None:
        self.name = name
        self.given = given

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.given.items())})"


any_step = st.one_of(
    [st.builds(Step, st.just(name), st.fixed_dictionaries(given)) for name, given, often in STEPS_BY_NAME for _ in range(often)]
)


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
    """One rule that draws any step: of several rules hypothesis leaves most out of an example, and then hardly a turn becomes a memory."""

    world: World
    hands: bool

    @initialize(paid=st.booleans(), hands=st.booleans(), given=st.lists(handed_over, min_size=1, max_size=4))
    def begin(self, paid: bool, hands: bool, given: list[tuple[dict[str, Any], str, str]]) -> None:
        """*hands*: somebody changes the index by hand; where nobody does, a reconciler must find no drift."""
        self.hands = hands
        self.world = World(empty_ledger(), paid=paid)
        self.checks = Checks(self.world)
        self.hand_over(given, "accept")

    @rule(step=any_step)
    def happens(self, step: Step) -> None:
        getattr(self, step.name)(**step.given)

    def hand_over(self, given: list[tuple[dict[str, Any], str, str]], then: str) -> None:
        for turn, producer, how in given:
            self.world.hand_over(self._turn(**turn), producer=producer, how=how)
        if then:
            self.world.accept("one")

    def _turn(self, *, scope: Any, text: str, infer: bool, key: str | None, expires: int | None, said: int | None) -> dict[str, Any]:
        today = self.world.clock.now().date()
        return {
            "scope": scope,
            "messages": (Message("user", text),),
            "infer": infer,
            "idempotency_key": key,
            "expires_on": None if expires is None else today + timedelta(days=expires),
            "occurred_at": None if said is None else START + timedelta(seconds=said),
        }

    def accept(self, consumer: str, trouble: Trouble | None, done_lost: str | None) -> None:
        self.world.accept(consumer, trouble, done_lost=done_lost)

    def deliver(self, some: list[tuple[str, int, Trouble | None]]) -> None:
        """Messages of the broker, each once, twice, once more after it was done with, or never."""
        self.world.claim()
        for way, which, trouble in some:
            if way == "again":
                self.world.deliver_again(which, trouble)
            elif way == "lost":
                self.world.lose_message(which)
            else:
                self.world.deliver(which, trouble, keep=way == "kept")

    def work(self) -> None:
        self.world.work()

    def time_passes(self, seconds: int, sweep: bool) -> None:
        self.world.clock.advance(seconds)
        if sweep:
            self.world.sweep()

    def relay(self, which: int, trouble: Trouble | None, fault: str, rounds: int) -> None:
        for _ in range(rounds):
            self.world.relay(which, trouble, fault=fault)

    def something_happens_to_the_index(self, how: str, which: int) -> None:
        if how in ("away", "back"):
            self.world.index.away = how == "away"
        elif self.hands:
            self.world.damage(how, which)

    def reconcile(self, deep: bool, in_pieces: bool) -> None:
        self.world.reconcile(deep=deep, in_pieces=in_pieces)

    def delete(self, which: int) -> None:
        self.world.delete(which)

    def update(self, which: int, text: str | None, expires: int | None, tag: str | None) -> None:
        self.world.update(which, text, expires=expires, tag=tag)

    def delete_all(self, which: int, whole: bool) -> None:
        self.world.delete_all(which, whole=whole)

    def something_rare(self, what: str, which: int) -> None:
        if what == "arrives late":
            self.world.hand_over_again(which)
        elif what == "redis forgets":
            self.world.stream.lose_unread()
        elif what == "erase":
            self.world.erase(which)
        else:
            self.world.retry(which)

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
    derandomize="CI" in os.environ and "MEMLINE_MODEL_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
