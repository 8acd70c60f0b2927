"""Memories that an application pastes into a message are blanked; what people write of their own memories stays."""

from __future__ import annotations

import time

import pytest

from memline.contracts.message import Message
from memline.pipeline.extractors.pasted import pasted_blocks, pasted_lines, without_pasted


def blanked(text: str) -> str:
    (message,) = without_pasted([Message("user", text)])
    assert len(message.text) == len(text)
    assert message.text.count("\n") == text.count("\n")
    return message.text.strip()


@pytest.mark.parametrize(
    "block",
    [
        "Relevant memories:\n- User likes tea\n- User has a dog\n",
        "## Relevant memories\n\n1. User likes tea\n2. User has a dog\n",
        "**Recalled memories from earlier:**\n* User likes tea\n",
        "Here are the relevant memories:\n[0] User likes tea\n[1] User has a dog\n",
        "Memories about the user:\n- User likes tea\n",
        "What I know about the user:\n- User likes tea\n- User has a dog\n",
        "User memories:\n• User likes tea\n",
        "<memories>\nUser likes tea\n</memories>\n",
        "<relevant_memories>User likes tea</relevant_memories>\n",
        "<Long-Term-Memory>\nUser likes tea\nUser has a dog\n</Long-Term-Memory>\n",
        "相关记忆：\n- 用户喜欢茶\n- 用户有一只狗\n",
        "用户记忆列表（3 条）：\n- 用户喜欢茶\n",
        "Existing memories of the user:\n- User likes tea\n",
        "What you remember about user 42:\n- User likes tea\n",
        "Stored memories from previous conversations (top 2):\n- User likes tea\n",
        "### Long-term memory\n- User likes tea\n",
    ],
)
def test_a_block_that_says_it_is_memories_goes(block: str) -> None:
    assert blanked(f"{block}\nI am in Rome now.") == "I am in Rome now."
    assert blanked(f"I am in Rome now.\n{block}") == "I am in Rome now."


@pytest.mark.parametrize(
    "text",
    [
        "My memories of Rome:\n- the fountain\n- the heat",
        "Memories:\n- we met in Oslo",
        "I have relevant memories of that day.",
        "Relevant memories fade.\nThat is how it is.",
        "Buy the following:\n- tea\n- milk",
        "The <memory> tag of this page is never closed: it holds 16 GB.",
        "We talked about existing memory modules:\n\nthey are slow.",
        "What you know about user interfaces is a lot.",
        "Known memory issues:\n- the laptop runs out of RAM",
        "Existing memory modules:\n1. 16 GB\n2. 8 GB",
        "Long-term memory problems my mother has:\n- she forgets names",
        "Previous memories of my grandmother:\n- she baked on Sundays",
        "The stored memories I want you to keep:\n- I am vegan",
        "Known memories from my childhood:\n- I fell from a tree",
        "Memories of the user conference:\n- I met Ann",
        "What I know about user Kim:\n- she is vegan",
        "用户记忆力测试：\n- 我妈妈忘了名字",
        "已知记忆体型号：\n- DDR5",
    ],
)
def test_what_people_write_stays(text: str) -> None:
    assert blanked(text) == text
    assert pasted_blocks([Message("user", text)]) == 0


def test_blocks_are_counted() -> None:
    text = "<memories>tea</memories>\nHello\nRelevant memories:\n- a\n- b\n\nUser memories:\n- c"
    assert pasted_blocks([Message("user", text), Message("tool", text), Message("assistant", text)]) == 6


def test_only_what_people_and_the_assistant_say_is_looked_at() -> None:
    tool = Message("tool", "Relevant memories:\n- User likes tea\n")
    assert without_pasted([tool]) == (tool,)


def test_items_of_lists_are_where_a_memory_may_have_been_pasted() -> None:
    said = [Message("user", "- User likes tea\nand now?"), Message("user", "User has a dog"), Message("tool", "a\nb")]
    assert pasted_lines(said) == {"user likes tea"}


@pytest.mark.parametrize(
    "part", ["<memory>", "<memory></memory>", "Relevant memories:\n", "- a\n", " ", "# ", "\n\n", "Relevant memories:\n- a\n"]
)
def test_it_takes_linear_time(part: str) -> None:
    began = time.process_time()
    blanked("x" + part * (200_000 // len(part)))
    assert time.process_time() - began < 20  # quadratic takes minutes
