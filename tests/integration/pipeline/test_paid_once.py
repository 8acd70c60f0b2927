"""What is bought once, what is counted where it is bought again, and who pays for it; on both databases."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from memline.cli.costs import cost_lines
from memline.cli.simulator.replies import extraction_reply
from memline.contracts.errors import ProviderRefused, ProviderUnavailable
from memline.contracts.message import Image, Message
from memline.contracts.scope import Scope
from memline.contracts.turn import Turn
from memline.language.calls import Calls, CallTimes, Link
from memline.language.ports import ChatReply
from memline.language.prices import Price, Prices
from memline.language.usage import Use, tell
from memline.ledger.claim import ClaimLimits
from memline.ledger.counters import read_counters
from memline.ledger.schema import jobs, stage_results
from memline.ledger.session import Ledger
from memline.ledger.usage import usage_by, usage_of_job
from memline.pipeline.extractors.model import ModelExtractor
from memline.pipeline.images import ImageReader
from memline.pipeline.paid import embedded_for
from memline.pipeline.parts import Parts, RetryPolicy
from tests.integration.pipeline.steps import clock, live, state
from tests.parts import START, ScriptedExtractor, TrigramEmbedder, accept, make_parts, make_turn, run_all, table

RETRY = RetryPolicy(max_attempts=3, first_delay=1, longest_delay=60)
DOG = Image("https://example.com/dog.png")


def away(**more: Any) -> ProviderUnavailable:
    return ProviderUnavailable("away", **more)


def repeated(ledger: Ledger) -> tuple[int, int]:
    """Repetitions by the counter, and by what is told as usage."""
    with ledger.read() as connection:
        return read_counters(connection)["repeated_calls"], sum(row["repeated"] for row in usage_by(connection, ["call"]))


def run_later(parts: Parts, seconds: float = 120) -> None:
    clock(parts).advance(seconds)
    run_all(parts)


class Chat:
    """Does one step a call: an error to raise, or None to answer as the simulator does."""

    model = "seen"

    def __init__(self, step: Callable[[], Exception | None] = lambda: None, tokens: Callable[[], tuple[int, int, int]] = lambda: (7, 5, 2)):
        self.step, self.tokens = step, tokens
        self.calls = 0

    def complete(self, messages: Sequence[Mapping[str, Any]], *, schema: Mapping[str, Any] | None = None) -> ChatReply:
        self.calls += 1
        if (error := self.step()) is not None:
            raise error
        tokens_in, tokens_out, cached = self.tokens()
        text = "A dog." if schema is None else extraction_reply({"messages": [dict(message) for message in messages]})
        return ChatReply(text, tokens_in, tokens_out, "stop", cached)


# --- calls that were made again -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failures", [1, 2])
def test_a_call_that_is_made_again_is_counted_also_where_it_fails_in_its_turn(ledger: Ledger, failures: int) -> None:
    extractor = ScriptedExtractor({"one": [RuntimeError("the process died here"), *[away()] * failures, '["one"]']})
    parts = make_parts(ledger, extractor=extractor, retry=RETRY)
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    for _ in range(failures + 1):
        run_later(parts)
    assert live(ledger) == ["one"] and repeated(ledger) == (1, 1)


def test_answers_that_were_lost_within_one_call_are_counted_when_it_fails(ledger: Ledger) -> None:
    lost = [away(answer_lost=True) for _ in range(5)]

    class Linked(ScriptedExtractor):
        def ask(self, request: Any) -> str:
            def once(seconds: float) -> str:
                if lost:
                    raise lost.pop()
                return super(Linked, self).ask(request)

            link = Link("server", "scripted", times=CallTimes(tries=4), calls=Calls(sleep=lambda seconds: None))
            return link.make(once, tokens=1, deadline=link.deadline())[0]

    parts = make_parts(ledger, extractor=Linked(), retry=RETRY)
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    assert repeated(ledger) == (3, 3)  # four calls for one answer
    run_later(parts)
    assert live(ledger) == ["one"] and repeated(ledger)[0] >= 4


# --- the vectors of what a turn is compared with ------------------------------------------------------------------------------------


@pytest.mark.parametrize("users", [1, 3])
def test_a_model_that_is_away_costs_no_vectors(ledger: Ledger, users: int) -> None:
    names = [f"turn-{number}" for number in range(users)]
    extractor = ScriptedExtractor({name: [away()] * 3 + [json.dumps([name])] for name in names}, wants_context=True)
    embedder = TrigramEmbedder(paid=True)
    parts = make_parts(ledger, extractor=extractor, embedder=embedder, retry=RETRY)
    accept(parts, *(make_turn(f"{name}\nsaid more", id=name, user=name) for name in names))
    for _ in range(4):
        run_later(parts)
    assert sorted(live(ledger)) == names
    sent = Counter(text for call in embedder.calls for text in call)
    assert [sent[f"{name}\nsaid more"] for name in names] == [1] * users
    assert [row for row in table(ledger, stage_results) if row.stage.startswith("looked:")] == []


def test_a_vector_whose_answer_was_lost_is_counted_before_the_model_is_asked(ledger: Ledger) -> None:
    failures: list[BaseException] = [RuntimeError("the process died here")]

    def fail(texts: Sequence[str]) -> None:
        if failures:
            raise failures.pop()

    extractor = ScriptedExtractor(wants_context=True)
    parts = make_parts(ledger, extractor=extractor, embedder=TrigramEmbedder(paid=True, fail=fail), retry=RETRY)
    accept(parts, make_turn("one", id="a"))
    run_all(parts)
    assert extractor.calls == []
    run_later(parts)
    assert live(ledger) == ["one"] and repeated(ledger) == (1, 1)


def test_the_windows_of_a_long_turn_have_vectors_of_their_own(ledger: Ledger) -> None:
    steps: list[Exception | None] = [None, away(), away()]
    chat = Chat(lambda: steps.pop(0) if steps else None)
    embedder = TrigramEmbedder(paid=True)
    parts = make_parts(ledger, extractor=ModelExtractor(chat, window_tokens=500), embedder=embedder, retry=RETRY)
    accept(parts, make_turn("\n".join(f"I bought the lamp {number} and it is very bright." for number in range(80)), id="a"))
    for _ in range(4):
        run_later(parts)
    assert state(ledger, "a")[0] != "failed" and live(ledger) != []
    long = [text for call in embedder.calls for text in call if text.count("lamp") > 5 and text.startswith("I bought")]
    assert len(long) == len(set(long)) >= 2


# --- outages ------------------------------------------------------------------------------------------------------------------------


def test_a_vision_model_that_is_away_spends_nothing_while_the_extractor_answers(ledger: Ledger) -> None:
    down = [True]
    vision = Chat(lambda: away() if down[0] else None)
    parts = make_parts(ledger, extractor=ScriptedExtractor(), vision=ImageReader(vision), retry=RETRY)
    accept(parts, Turn("a", Scope.of("default", "ann", None, None), (Message("user", "pets", images=(DOG,)),), START))
    for number in range(8):
        run_later(parts)
        clock(parts).advance(0.5)  # it is not due yet
        accept(parts, make_turn(f"fine {number}", user=f"user-{number}"))
        run_all(parts)
        assert state(ledger, "a")[:3] == ("accepted", "extract", 0)
    down[0] = False
    run_later(parts)
    assert "pets" in live(ledger)


def test_an_outage_is_remembered_where_others_of_its_call_are_answered(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memline.pipeline.embedding.CHUNK", 1)
    down = [True]

    def fail(texts: Sequence[str]) -> None:
        if down[0] or "poison" in texts:
            raise away()

    parts = make_parts(ledger, embedder=TrigramEmbedder(paid=True, fail=fail), retry=RETRY, limits=ClaimLimits(in_flight=1))
    # a batch goes lane by lane in the order of their keys: what is sent before the poison is answered
    first, *_, last = sorted((f"user-{number}" for number in range(50)), key=lambda user: Scope.of("default", user).lane)
    accept(parts, make_turn("poison", id="a", user=last), make_turn("fine", id="b", user=first))
    run_all(parts)
    down[0] = False
    run_later(parts)
    assert live(ledger) == ["fine"]
    assert state(ledger, "a") == ("accepted", "embed", 0, True)  # others were answered since: it is tried alone


# --- who pays -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_what_the_jobs_cost_is_what_their_namespaces_cost(ledger: Ledger, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memline.pipeline.extract.PATIENCE", 60)  # one call after the other: the draws are the same on any machine
    chance = random.Random(seed)

    def fails() -> Exception | None:
        return away(answer_lost=chance.random() < 0.5) if chance.random() < 0.3 else None

    def fail(texts: Sequence[str]) -> None:
        if (error := fails()) is not None:
            raise error

    extractor = ModelExtractor(Chat(fails, lambda: (chance.randrange(1, 999), chance.randrange(99), chance.randrange(300))))
    prices = Prices({"seen": Price(0.333, 0.07, 1.237), "trigrams": Price(0.021, 0.021)} if seed % 2 else {"seen": Price(1 / 3, 0.1)})
    parts = make_parts(
        ledger,
        extractor=extractor,
        embedder=TrigramEmbedder(paid=True, fail=fail),
        vision=ImageReader(Chat(fails)),
        retry=RETRY,
        prices=prices,
        limits=ClaimLimits(paid_unit=4, unit_size=32_000),
        parallel_asks=1,
    )
    turns = [
        make_turn(f"I bought lamp {number}", id=f"t{number}", user=f"u{number % 3}", namespace=f"n{number % 2}") for number in range(12)
    ]
    accept(parts, *turns, Turn("t12", Scope.of("n0", "dora", None, None), (Message("user", "pets", images=(DOG,)),), START))
    for _ in range(12):
        run_later(parts)
    named = {row.id: row.namespace for row in table(ledger, jobs)}
    names = ("calls", "repeated", "tokens_in", "tokens_cached", "tokens_out", "nanodollars", "unpriced")
    by_jobs: Counter[tuple[str, ...]] = Counter()
    with ledger.read() as connection:
        for job_id, namespace in named.items():
            for row in usage_of_job(connection, job_id):
                by_jobs.update({(namespace, row["call"], row["model"], name): row[name] for name in names})
        rows = usage_by(connection, ["namespace", "call", "model"])
        counted = read_counters(connection)["repeated_calls"]
    assert by_jobs == Counter({(row["namespace"], row["call"], row["model"], name): row[name] for row in rows for name in names})
    assert {row["call"] for row in rows} == {"extract", "embed", "vision"} and sum(row["nanodollars"] for row in rows) > 0
    assert sum(row["repeated"] for row in rows) == counted > 0
    assert all(row["tokens_cached"] <= row["tokens_in"] for row in rows)


@pytest.mark.parametrize(("table_of_prices", "told"), [({}, "unknown"), ({"seen": Price(0.0, 0.0)}, "$0.000000")])
def test_of_a_call_for_several_turns_each_turn_says_whether_its_price_is_known(
    ledger: Ledger, table_of_prices: dict[str, Price], told: str
) -> None:
    parts = make_parts(
        ledger,
        extractor=ModelExtractor(Chat(tokens=lambda: (90, 30, 0))),
        prices=Prices(table_of_prices),
        limits=ClaimLimits(paid_unit=4, unit_size=32_000),
    )
    accept(parts, *(make_turn(f"I bought lamp {number}", id=f"t{number}") for number in range(3)))
    run_all(parts)
    with ledger.read() as connection:
        used = [[row for row in usage_of_job(connection, f"t{number}") if row["call"] == "extract"] for number in range(3)]
        (day,) = usage_by(connection, ["call"])
    assert [[row["calls"] for row in rows] for rows in used] == [[1], [0], [0]] and day["unpriced"] == (told == "unknown")
    lines = [line for rows in used for _, line in cost_lines(rows)]
    assert [line.startswith("a part of a call, 30 tokens in") for line in lines] == [False, True, True]
    assert all(line.endswith(told) for line in lines)


def test_an_image_of_which_a_model_says_nothing_has_cost_what_the_model_tells(ledger: Ledger) -> None:
    class Silent(Chat):
        def complete(self, messages: Sequence[Mapping[str, Any]], *, schema: Mapping[str, Any] | None = None) -> ChatReply:
            return ChatReply("", 70, 4, "content_filter")

    parts = make_parts(ledger, extractor=ScriptedExtractor(), vision=ImageReader(Silent()), retry=RETRY)
    accept(parts, Turn("a", Scope.of("default", "ann", None, None), (Message("user", "pets", images=(DOG,)),), START))
    run_all(parts)
    with ledger.read() as connection:
        rows = {row["call"]: row for row in usage_of_job(connection, "a")}
    assert (rows["vision"]["calls"], rows["vision"]["tokens_in"], rows["vision"]["tokens_out"]) == (1, 70, 4)


def test_vectors_that_are_refused_have_cost_what_was_told_also_for_no_job(ledger: Ledger) -> None:
    class Zeros(TrigramEmbedder):
        def embed(self, texts: Sequence[str]) -> Any:
            tell(Use(self.model, 1, 9))
            return super().embed(texts) * 0

    parts = make_parts(ledger, embedder=Zeros(paid=True))
    with pytest.raises(ProviderRefused):
        embedded_for(parts, "default", ["one"])
    with ledger.read() as connection:
        (row,) = usage_by(connection, ["call"])
    assert (row["call"], row["calls"], row["tokens_in"]) == ("embed", 1, 9)


# --- leases -------------------------------------------------------------------------------------------------------------------------


def test_a_call_that_lasts_three_quarters_of_a_lease_ends_within_it_whenever_it_begins(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memline.pipeline.embedding.CHUNK", 1)
    lasts = iter([19.0, 45.0, 4.0, 45.0])
    parts = make_parts(ledger, retry=RETRY)
    embedder = TrigramEmbedder(paid=True, fail=lambda texts: clock(parts).advance(next(lasts, 0.0)))
    parts = make_parts(ledger, retry=RETRY, embedder=embedder, clock=parts.clock)
    accept(parts, make_turn("one\ntwo\nthree\nfour", id="a"))
    run_all(parts)
    assert live(ledger) == ["one", "two", "three", "four"] and state(ledger, "a")[2] == 0
