"""The write policy on the whole way: what it masks is in no file, no table, no entry, no message, no call and no log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from memline import Memory
from memline.cli.simulator import Simulator
from memline.contracts.errors import PolicyRefused
from memline.ledger.counters import read_counters
from memline.ledger.erase_census import holders_of
from tests.integration.path.stacks import PATIENT, Stack, celery_stack, engine_stack
from tests.policy_lists.made import card, join, pem, url64

ANN = {"user_id": "ann"}
KEY = join("sk", "-proj-", url64("p1", 60))
CARD = card("4", 16, "p2", 4, 4, 4, 4)
PRIVATE = pem("OPENSSH", "p3", 6)
PASSWORD = "Okapi-Zebra-77"
SECRETS = (KEY, CARD, PRIVATE.splitlines()[2], PASSWORD)
SAID = f"My OpenAI key is {KEY}, my password is {PASSWORD} and my card is {CARD}.\nMy ssh key:\n{PRIVATE}"


class Heard:
    """Everything that a Redis and a model's server are sent."""

    def __init__(self) -> None:
        self.redis: list[str] = []
        self.model: list[str] = []


@pytest.fixture(scope="module")
def heard() -> Heard:
    return Heard()


@pytest.fixture(scope="module")
def simulator(heard: Heard) -> Iterator[Simulator]:
    class Listening(Simulator):
        def respond(self, method: str, path: str, content: bytes) -> Any:
            heard.model.append(content.decode())
            return super().respond(method, path, content)

    with Listening() as server:
        yield server


@pytest.fixture(scope="module", params=["engine", "celery"])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, simulator: Simulator, heard: Heard) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("home")
    model = {**PATIENT, "MEMLINE_OPENAI_API_KEY": "test", "MEMLINE_OPENAI_BASE_URL": simulator.url}
    if request.param == "engine":
        with engine_stack(folder, **model) as found:
            yield found
        return
    server, postgres = request.getfixturevalue("redis_server"), request.getfixturevalue("postgres_server")
    listener = redis.Redis.from_url(server.url, socket_timeout=None)
    listens, stop = threading.Event(), threading.Event()

    def listen() -> None:
        with listener.monitor() as monitor:
            listens.set()
            for command in monitor.listen():
                heard.redis.append(command["command"])
                if stop.is_set():
                    return

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    assert listens.wait(120)
    with celery_stack(folder, server, postgres, **model) as found:
        yield found
    stop.set()
    with redis.Redis.from_url(server.url, socket_timeout=120) as client:
        client.ping()  # the last command that is heard
    thread.join(60)


def hear_everything(url: str, heard: Heard) -> None:
    """Returns when whoever listens to Redis has come to what is said to it now."""
    with redis.Redis.from_url(url, socket_timeout=120) as client:
        client.echo("heard until here")
    deadline = time.monotonic() + 180
    while not any("heard until here" in command for command in heard.redis):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def in_files(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_a_secret_is_nowhere_and_what_was_said_around_it_is_everywhere(
    stack: Stack, heard: Heard, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    del heard.model[:], heard.redis[:]
    with stack.memory("secrets") as memory:
        with memory._house.ledger.read() as connection:
            before = read_counters(connection)
        metadata = {"note": f"pays by {CARD}", "password": PASSWORD}
        receipt = memory.add(SAID, **ANN, metadata=metadata, prompt=f"{KEY} is mine", idempotency_key="k").wait(300)
        assert receipt.masked == {"api_key": 2, "card": 2, "password": 2, "private_key": 1}
        kept = memory.add(f"The code of the gate is 4711, the card {CARD}.", **ANN, infer=False, wait=True)["results"]
        assert kept[0]["memory"] == "The code of the gate is 4711, the card [masked: card number]."
        changed = memory.update(kept[0]["id"], f"The token is {KEY}", metadata={"card": CARD}, reason=f"password: {PASSWORD}")
        assert changed["version"] == 2
        found = memory.get(kept[0]["id"])
        assert found is not None
        assert (found["memory"], found["metadata"]) == ("The token is [masked: api key]", {"card": "[masked: card number]"})
        memory.delete(kept[0]["id"], reason=f"it had {KEY}")
        memory.add("The gate is green.", user_id="bea", infer=False, wait=True)
        memory.delete_all(user_id="bea", reason=f"asked by {CARD}")
        memory.flush(300)
        # a repeat with other secrets is the same turn, as the fingerprint sees no secret either
        other = memory.add(SAID.replace(PASSWORD, "Lemur-Tapir-88"), **ANN, metadata=metadata, prompt=f"{KEY} is mine", idempotency_key="k")
        assert other.wait(300).results == receipt.results
        house = memory._house
        with house.ledger.read() as connection:
            counts = read_counters(connection)
            for secret in SECRETS:
                assert holders_of(connection, secret) == []
            assert holders_of(connection, "[masked: password]")
        assert [counts[name] - before[name] for name in ("masked_api_key", "masked_card", "masked_private_key")] == [4, 5, 1]
    if stack.redis is not None:
        hear_everything(stack.redis.url, heard)
    home = Path(stack.variables["MEMLINE_HOME"])
    logs = caplog.text + "".join(line for worker in stack.workers for line in worker.output)
    for secret in SECRETS:
        assert in_files(home, secret) == []
        assert secret not in "".join(heard.model)
        assert secret not in "".join(heard.redis)
        assert secret not in logs
    assert "[masked: password]" in "".join(heard.model)
    if stack.redis is not None:
        assert "[masked: password]" in "".join(heard.redis)
    else:
        assert in_files(home, "[masked: password]")


def test_while_redis_is_away_the_spool_holds_no_secret(tmp_path: Path, stack: Stack) -> None:
    if stack.redis is None:
        pytest.skip("the embedded mode has no spool")
    with stack.memory("spooled", redis_url="redis://127.0.0.1:1/0", home=tmp_path) as memory:
        receipt = memory.add(SAID, **ANN)
        assert receipt.seen.status == "spooled"
        assert receipt.masked == {"api_key": 1, "card": 1, "password": 1, "private_key": 1}
        assert in_files(tmp_path, "[masked: password]")
        assert all(in_files(tmp_path, secret) == [] for secret in SECRETS)


def test_a_namespace_that_refuses_changes_nothing_and_the_others_go_on(stack: Stack) -> None:
    policy = {"*": {"card": "mask"}, "strict": {"card": "refuse", "email": "mask"}}
    with Memory("strict", settings=stack.settings(), write_policy=policy) as memory:
        with pytest.raises(PolicyRefused, match=r"messages\[0\].content holds what the write policy refuses \(card number\)"):
            memory.add(f"My card is {CARD}.", **ANN)
        added = memory.add("Write to ann@example.com.", **ANN, infer=False, wait=True)["results"]
        assert added[0]["memory"] == "Write to [masked: email]."
        with pytest.raises(PolicyRefused):
            memory.update(added[0]["id"], f"My card is {CARD}.")
        assert memory.get_all(filters=ANN)["total"] == 1
        assert (memory.get(added[0]["id"]) or {})["memory"] == "Write to [masked: email]."
        elsewhere = memory.in_namespace("lenient").add(f"My card is {CARD}.", **ANN, infer=False, wait=True)["results"]
        assert elsewhere[0]["memory"] == "My card is [masked: card number]."
