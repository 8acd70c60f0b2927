"""The OpenAI path over real HTTP, against the simulator: extraction, embeddings, and what a bad answer does to a turn."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from memline import Memory, Status
from memline.cli.simulator import Simulator, Step
from memline.cli.simulator.replies import extraction_reply
from memline.errors import EmbedderMismatch, JobFailed, WaitTimeout
from tests.integration.path.stacks import Stack, celery_stack, engine_stack

MEI = {"user_id": "mei"}


class Gate:
    """A model that answers when it is let: what has to happen before has happened then, however slow the machine is."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()

    def __call__(self, body: Mapping[str, Any]) -> str:
        self._open.wait(90)  # less than a call's deadline
        return extraction_reply(body)

    @contextmanager
    def shut(self) -> Iterator[None]:
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()


@pytest.fixture(scope="module")
def gate() -> Gate:
    return Gate()


@pytest.fixture(scope="module")
def simulator(gate: Gate) -> Iterator[Simulator]:
    with Simulator(chat=gate) as server:
        yield server


@pytest.fixture(scope="module", params=["engine", "celery"])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, simulator: Simulator) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("home")
    model = {
        "MEMLINE_OPENAI_API_KEY": "test",
        "MEMLINE_OPENAI_BASE_URL": simulator.url,
        "MEMLINE_MAX_ATTEMPTS": "2",
        # on a busy machine a call may take seconds, and a worker that is slow is not dead: nothing here waits for either
        "MEMLINE_MODEL_TIMEOUT": "120",
        "MEMLINE_LEASE": "150",
    }
    if request.param == "engine":
        with engine_stack(folder, **model) as found:
            yield found
        return
    redis, postgres = request.getfixturevalue("redis_server"), request.getfixturevalue("postgres_server")
    with celery_stack(folder, redis, postgres, **model) as found:
        yield found


def test_a_model_finds_the_facts_and_is_asked_once(memory: Memory, simulator: Simulator) -> None:
    before = simulator.counts.get("/v1/chat/completions", 0)
    answer = memory.add("I play the cello in an orchestra.", **MEI, wait=True)
    assert [result["event"] for result in answer["results"]] == ["ADD"]
    assert "cello" in answer["results"][0]["memory"]
    assert simulator.counts.get("/v1/chat/completions", 0) == before + 1
    found = memory.search("cello", filters=MEI, explain=True)["results"]
    assert "cello" in found[0]["memory"]


def test_a_reply_that_can_not_be_read_is_asked_for_again(memory: Memory, simulator: Simulator) -> None:
    simulator.script("I cannot do that.", '{"memory": [{"text": "User likes tea", "attributed_to": "user"}]}')
    answer = memory.add("I like tea.", **MEI, wait=True)
    assert [result["memory"] for result in answer["results"]] == ["User likes tea"]


def test_a_refusing_server_fails_the_turn_with_its_reason_and_the_lane_goes_on(memory: Memory, simulator: Simulator) -> None:
    simulator.script(Step(status=401))
    receipt = memory.add("I like tea.", **MEI)
    with pytest.raises(JobFailed, match="ProviderRefused") as raised:
        receipt.wait(300)
    assert "tea" not in str(raised.value)
    assert receipt.status is Status.FAILED
    answer = memory.add("I like coffee.", **MEI, wait=True)
    assert len(answer["results"]) == 1


def test_a_server_that_stumbles_is_asked_again_later(memory: Memory, simulator: Simulator) -> None:
    simulator.script(Step(status=503))
    answer = memory.add("I like oolong.", **MEI, wait=True)
    assert len(answer["results"]) == 1


def test_a_wait_that_ends_too_early_holds_the_receipt_and_says_what_is_committed(memory: Memory, gate: Gate) -> None:
    with gate.shut(), pytest.raises(WaitTimeout) as raised:
        memory.add("I like sencha.", **MEI, wait=True, timeout=0.2)
    assert raised.value.committed is False
    assert raised.value.receipt.wait(300).status is Status.SEARCHABLE


def test_another_embedder_is_refused_at_the_first_use_with_both_names(stack: Stack) -> None:
    with stack.memory("embedder") as memory:
        memory.add("I like tea.", **MEI, wait=True)
    with pytest.raises(EmbedderMismatch) as raised, stack.memory("embedder", embedder="local") as other:
        other.get_all(filters=MEI)
    assert "text-embedding-3-small (1536" in str(raised.value)
    assert "(512" in str(raised.value)


def test_a_slow_call_for_one_lane_holds_back_no_other(memory: Memory, simulator: Simulator) -> None:
    simulator.script(Step(delay=1.5))
    slow = memory.add("I like pu-erh.", user_id="slow")
    quick = [memory.add("I like gyokuro.", user_id=f"quick-{number}") for number in range(5)]
    for receipt in quick:
        receipt.wait(300)
    assert not slow.seen.status.ended or slow.status is Status.SEARCHABLE
    slow.wait(300)


def test_a_turn_of_200_000_characters_is_read_to_its_end(memory: Memory, simulator: Simulator) -> None:
    before = simulator.counts.get("/v1/chat/completions", 0)
    filler = "The weather was discussed at length and nothing came of it. " * 1660
    text = f"My locker code is Bergen-417. {filler}My badge code is Kyoto-932. {filler}My garage code is Lima-205."
    assert len(text) > 190_000
    receipt = memory.add(text, user_id="long").wait(300)
    assert receipt.notes["windows"] == simulator.counts["/v1/chat/completions"] - before > 3
    kept = " ".join(result["memory"] for result in receipt.results)
    assert [mark in kept for mark in ("Bergen-417", "Kyoto-932", "Lima-205")] == [True] * 3
    for mark in ("Bergen-417", "Kyoto-932", "Lima-205"):
        assert mark in memory.search(mark, filters={"user_id": "long"})["results"][0]["memory"]


def test_turns_that_wait_are_extracted_together_each_with_its_own_receipt(memory: Memory, simulator: Simulator, gate: Gate) -> None:
    before = simulator.counts.get("/v1/chat/completions", 0)
    things = ("a lamp", "a desk", "a chair", "a rug", "a clock", "a vase")
    with gate.shut():
        receipts = [memory.add(f"I bought {thing}.", user_id="buyer", ack="accepted") for thing in things]
    found = [[result["memory"] for result in receipt.wait(300).results] for receipt in receipts]
    assert found == [[f"User bought {thing}."] for thing in things]
    assert simulator.counts["/v1/chat/completions"] - before < len(receipts)
