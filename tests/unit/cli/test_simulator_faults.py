"""What the simulator does wrong when it is asked to, and how it says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memline.cli.simulator import Faults, MinuteLimit, Simulator, Step, dialect, read_script
from memline.cli.simulator.faults import FAULTS
from memline.contracts.errors import InvalidInput, ProviderRefused, ProviderUnavailable
from memline.language.chat.openai import OpenAIChat
from memline.language.embedders.openai import OpenAIEmbedder

ASK = [{"role": "user", "content": "hello"}]


def chat_of(simulator: Simulator, timeout: float = 20) -> OpenAIChat:
    return OpenAIChat("a-model", "key", simulator.url, timeout)


def failed(simulator: Simulator, *, timeout: float = 20) -> ProviderUnavailable:
    chat = chat_of(simulator, timeout)
    with pytest.raises(ProviderUnavailable) as caught:
        chat.complete(ASK)
    chat.close()
    return caught.value


@pytest.mark.parametrize(
    ("step", "cause", "lost"),
    [
        ({"status": 500}, "outage", False),
        ({"status": 503, "retry_after": 2}, "outage", False),
        ({"status": 429, "retry_after": 2}, "limit", False),
        ({"drop": True}, "outage", True),
        ({"cut": True}, "outage", True),
        ({"raw": "{ no json"}, "answer", True),
        ({"body": {"object": "chat.completion", "choices": []}}, "answer", False),
    ],
)
def test_a_fault_is_what_our_client_makes_of_it(step: dict[str, Any], cause: str, lost: bool) -> None:
    with Simulator() as simulator:
        simulator.script(step)
        error = failed(simulator)
    assert (error.cause, error.answer_lost) == (cause, lost)


def test_a_call_that_hangs_is_given_up_and_may_have_been_paid() -> None:
    with Simulator() as simulator:
        simulator.script({"hang": True})
        error = failed(simulator, timeout=0.2)
    assert (error.cause, error.answer_lost) == ("outage", True)


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ({"dimension": 3}, "dimension 3, set is 8"),
        ({"count": 0}, "0 vectors"),
        ({"count": 3}, "3 vectors"),
        ({"numbers": "nan"}, "not finite"),
        ({"numbers": "zero"}, "zeros"),
    ],
)
def test_wrong_vectors_are_refused_with_what_is_wrong(step: dict[str, Any], told: str) -> None:
    with Simulator() as simulator:
        simulator.script(step, endpoint="embeddings")
        embedder = OpenAIEmbedder("a-model", 8, "key", simulator.url, send_dimension=True)
        with pytest.raises(ProviderRefused, match=told) as caught:
            embedder.embed(["one", "two"])
        assert caught.value.of_content is ("dimension" not in step)
        embedder.close()


@pytest.mark.parametrize("kind", [kind for kind in FAULTS if kind not in ("truncated", "prose")])
def test_every_fault_by_its_name_is_an_error_of_our_client(kind: str) -> None:
    with Simulator(faults=Faults(1.0, (kind,)), dimension=8) as simulator:
        embedder = OpenAIEmbedder("a-model", 8, "key-that-is-secret", simulator.url, timeout=0.5 if kind == "hang" else 20)
        with pytest.raises((ProviderUnavailable, ProviderRefused)) as caught:
            embedder.embed(["a text that is private"])
        embedder.close()
    assert "secret" not in str(caught.value) and "private" not in str(caught.value)


def test_faults_of_one_seed_are_the_same_and_as_many_as_wanted() -> None:
    def drawn(seed: int) -> list[Step | None]:
        faults = Faults(0.25, ("500", "drop"), seed)
        return [faults.next("chat") for _ in range(400)]

    assert drawn(7) == drawn(7) != drawn(8)
    assert 60 <= sum(step is not None for step in drawn(7)) <= 140


def test_a_fault_of_chats_never_meets_embeddings() -> None:
    assert Faults(1.0, ("truncated",)).next("embeddings") is None
    assert Faults(1.0, ("nan",)).next("chat") is None


@pytest.mark.parametrize("wrong", [{"share": 2.0}, {"share": 0.1, "kinds": ("nothing",)}, {"share": 0.1, "kinds": ()}])
def test_faults_that_do_not_exist_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Faults(**wrong)


def test_a_limit_takes_so_many_a_minute_and_tells_what_is_left() -> None:
    now = 100.0
    limit = MinuteLimit(requests=2, tokens=1000, clock=lambda: now)
    assert limit.enter(300)[0] == 0
    wait, headers = limit.enter(300)
    assert wait == 0 and ("x-ratelimit-remaining-requests", "0") in headers and ("x-ratelimit-remaining-tokens", "400") in headers
    now = 130.0
    assert limit.enter(10)[0] == 30 and limit.refused == 1
    now = 160.1
    assert limit.enter(900)[0] == 0
    assert limit.enter(200)[0] > 0


def test_what_is_over_the_limit_is_429_with_its_wait() -> None:
    with Simulator(limit=MinuteLimit(requests=1, clock=lambda: 100.0)) as simulator:  # no minute ends meanwhile
        chat = chat_of(simulator)
        chat.complete(ASK)
        chat.close()
        error = failed(simulator)
    assert error.cause == "limit" and error.retry_after is not None and error.retry_after > 50


def test_a_repeated_first_message_is_cached_as_openai_counts_it() -> None:
    long = [{"role": "system", "content": "word " * 2000}, *ASK]
    with Simulator() as simulator:
        chat = chat_of(simulator)
        first, second = chat.complete(long), chat.complete(long)
        chat.close()
    assert first.tokens_cached == 0
    assert second.tokens_cached % 128 == 0 and 1024 <= second.tokens_cached < second.tokens_in


def test_a_refusal_thoughts_and_a_usage_can_be_scripted() -> None:
    with Simulator() as simulator:
        simulator.script({"refusal": "no"}, {"reply": "yes", "reasoning": "hm", "usage": None})
        chat = chat_of(simulator)
        assert chat.complete(ASK).finish == "refusal"
        reply = chat.complete(ASK)
        assert (reply.text, reply.tokens_in) == ("yes", 0)
        chat.close()


def test_a_replay_gives_the_replies_of_a_server_in_turn() -> None:
    server = dialect("vllm")
    with Simulator(replay=server) as simulator:
        chat = chat_of(simulator)
        for reply in server.of("chat"):
            if "text" in reply.expect:
                assert chat.complete(ASK).text == reply.expect["text"]
            else:
                with pytest.raises((ProviderRefused, ProviderUnavailable)):
                    chat.complete(ASK)
        assert chat.complete(ASK).text == server.of("chat")[0].expect["text"]
        chat.close()


def test_a_script_file_is_read_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "script.json"
    file.write_text(json.dumps({"chat": ["hello", {"status": 500}], "embeddings": [{"numbers": "nan"}]}))
    found = read_script(file)
    assert found["chat"] == [Step(reply="hello"), Step(status=500)] and found["embeddings"] == [Step(numbers="nan")]
    for wrong in ("[", "[]", '{"chats": []}', '{"chat": [{"numbers": "nan"}]}', '{"embeddings": ["text"]}'):
        file.write_text(wrong)
        with pytest.raises(InvalidInput):
            read_script(file)
