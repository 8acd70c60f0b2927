"""Our client against what real servers answer: OpenAI, Ollama, vLLM, LM Studio."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from memline.cli.simulator import Simulator, dialect, dialects
from memline.cli.simulator.recorded import Dialect, Recorded
from memline.contracts import errors
from memline.contracts.errors import ReplyUnreadable
from memline.contracts.message import Message
from memline.language.chat.openai import OpenAIChat, ReplyForm
from memline.language.embedders.openai import OpenAIEmbedder
from memline.language.usage import metered
from memline.pipeline.extractors.model import ModelExtractor
from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.prompt import SCHEMA
from tests.dialects import recorded
from tests.parts import START

ASK = [{"role": "user", "content": "what do you remember?"}]
TURN = Request(
    messages=(
        Message("user", "I moved from Oslo to Bergen for a new job, and I drink oat milk now, as I am lactose intolerant."),
        Message("assistant", "Noted."),
    ),
    said_at=START,
)


@pytest.fixture
def simulator() -> Iterator[Simulator]:
    with Simulator() as found:
        yield found


def test_there_are_four_servers_at_least_and_each_has_errors_and_replies() -> None:
    assert set(dialects()) >= {"openai", "ollama", "vllm", "lmstudio"}
    for name in dialects():
        replies = dialect(name).of("chat")
        assert len(replies) >= 8
        assert any("error" in reply.expect for reply in replies) and any("text" in reply.expect for reply in replies)
        assert len({reply.name for reply in replies}) == len(replies)


@pytest.mark.parametrize(("server", "reply"), recorded("chat"))
def test_a_chat_reply_is_read_as_it_is_meant(simulator: Simulator, server: Dialect, reply: Recorded) -> None:
    simulator.script(reply.step)
    chat = OpenAIChat("a-model", "key", simulator.url)
    if "error" in reply.expect:
        with pytest.raises(getattr(errors, reply.expect["error"])) as caught:
            chat.complete(ASK)
        assert "127.0.0.1" in str(caught.value)
    else:
        with metered() as uses:
            found = chat.complete(ASK)
        shown = (found.text, found.finish, found.tokens_in, found.tokens_out, found.tokens_cached)
        assert shown == tuple(reply.expect[name] for name in ("text", "finish", "tokens_in", "tokens_out", "tokens_cached"))
        assert [(use.tokens_in, use.tokens_cached, use.tokens_out) for use in uses] == [(shown[2], shown[4], shown[3])]
    chat.close()


@pytest.mark.parametrize(("server", "reply"), [each for each in recorded("chat") if "text" in each.values[1].expect])
def test_the_facts_of_a_reply_are_found_or_it_is_unreadable(simulator: Simulator, server: Dialect, reply: Recorded) -> None:
    simulator.script(reply.step)
    chat = OpenAIChat("a-model", "key", simulator.url)
    extractor = ModelExtractor(chat)
    text = extractor.ask(TURN)
    wanted = reply.expect["facts"]
    if isinstance(wanted, str):
        with pytest.raises(ReplyUnreadable):
            extractor.read(text, TURN)
    else:
        assert [fact.text for fact in extractor.read(text, TURN)] == wanted
    chat.close()


@pytest.mark.parametrize(("server", "reply"), recorded("embeddings"))
def test_an_embeddings_reply_is_read_as_it_is_meant(simulator: Simulator, server: Dialect, reply: Recorded) -> None:
    simulator.script(reply.step, endpoint="embeddings")
    embedder = OpenAIEmbedder("a-model", 4, "key", simulator.url)
    if "error" in reply.expect:
        with pytest.raises(getattr(errors, reply.expect["error"])):
            embedder.embed(["a text"])
    else:
        with metered() as uses:
            assert embedder.embed(["a text"]).shape == (reply.expect["vectors"], reply.expect["dimension"])
        assert [use.tokens_in for use in uses] == [reply.expect["tokens_in"]]
    embedder.close()


@pytest.mark.parametrize("name", dialects())
def test_the_form_that_a_server_takes_is_found_out(name: str) -> None:
    good = dialect(name).named("a reply by schema")
    assert good is not None
    with Simulator(replay=replace(dialect(name), replies=(good, *[r for r in dialect(name).replies if r.status == 400]))) as simulator:
        chat = OpenAIChat("a-model", "key", simulator.url)
        assert chat.complete(ASK, schema=SCHEMA).text == good.expect["text"]
        assert chat.form is ReplyForm.SCHEMA
        chat.close()


def test_a_server_without_json_mode_is_asked_for_plain_text_in_its_own_words_of_refusal() -> None:
    server = replace(dialect("lmstudio"), response_formats=())
    with Simulator(replay=server) as simulator:
        chat = OpenAIChat("a-model", "key", simulator.url)
        assert "Bergen" in chat.complete(ASK, schema=SCHEMA).text
        assert chat.form is ReplyForm.TEXT
        chat.close()
