"""The main job, with services and without: hand over, commit, find, delete."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

import pytest

from memline import Memory, Receipt, Status
from memline.errors import (
    Closed,
    IdempotencyConflict,
    InvalidDate,
    InvalidInput,
    InvalidMessage,
    InvalidScopeId,
    MemoryNotFound,
    NotSupportedYet,
    ScopeRequired,
    TurnTooLarge,
    UnknownOption,
    UnknownReceipt,
)
from tests.integration.path.stacks import Stack

MEI = {"user_id": "mei"}


def texts(answer: dict[str, Any]) -> list[str]:
    return [item["memory"] for item in answer["results"]]


def test_a_turn_is_handed_over_committed_and_found(memory: Memory) -> None:
    receipt = memory.add("I live in Munich. My dog Poppy is a beagle.", **MEI)
    assert isinstance(receipt, Receipt)
    assert receipt.seen.status in (Status.QUEUED, Status.ACCEPTED)
    assert receipt.wait(300).status is Status.SEARCHABLE
    assert [result["event"] for result in receipt.results] == ["ADD", "ADD"]
    found = memory.search("what kind of dog is it?", filters=MEI)
    assert "Poppy" in texts(found)[0]
    item = memory.get(receipt.results[0]["id"])
    assert item is not None
    assert item["memory"] == receipt.results[0]["memory"]
    assert item["user_id"] == "mei"
    assert texts(memory.get_all(filters=MEI)) == [result["memory"] for result in receipt.results]


def test_waiting_returns_what_mem0_returns(memory: Memory) -> None:
    answer = memory.add([{"role": "user", "content": "I am allergic to walnuts."}], **MEI, wait=True)
    assert set(answer) == {"results"}
    assert [set(result) for result in answer["results"]] == [{"id", "memory", "event"}]
    assert answer["results"][0]["event"] == "ADD"


def test_a_greeting_ends_searchable_and_says_that_there_was_nothing(memory: Memory) -> None:
    receipt = memory.add("Hello! How are you?", **MEI).wait(300)
    assert receipt.results == []
    assert receipt.reason == "nothing to extract"


def test_a_fact_that_changed_shows_only_what_is_current(memory: Memory) -> None:
    memory.add("I live in Munich.", **MEI, timestamp="2026-03-01T09:00:00Z", wait=True)
    memory.add("I live in Lisbon.", **MEI, run_id="second", timestamp="2026-03-20T09:00:00Z", wait=True)
    assert texts(memory.search("where does the user live?", filters=MEI)) == ["User lives in Lisbon"]
    both = texts(memory.search("where does the user live?", filters=MEI, include_superseded=True))
    assert both == ["User lives in Lisbon", "User lives in Munich"]


def test_a_fact_that_arrives_late_does_not_replace_a_newer_one(memory: Memory) -> None:
    memory.add("I live in Lisbon.", **MEI, timestamp="2026-03-20T09:00:00Z", wait=True)
    memory.add("I live in Munich.", **MEI, timestamp="2026-03-01T09:00:00Z", wait=True)
    assert texts(memory.search("where does the user live?", filters=MEI)) == ["User lives in Lisbon"]


def test_eight_parallel_adds_of_one_fact_leave_one_memory_and_seven_receipts_that_name_it(memory: Memory) -> None:
    receipts: list[Receipt] = []
    start = threading.Barrier(8)

    def hand_over() -> None:
        start.wait()
        receipts.append(memory.add("My passport number is X1234567.", **MEI))

    threads = [threading.Thread(target=hand_over) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results = [receipt.wait(300).results for receipt in receipts]
    assert len({receipt.id for receipt in receipts}) == 8
    assert sorted(result["event"] for (result,) in results) == ["ADD"] + ["DUPLICATE"] * 7
    assert len({result["id"] for (result,) in results}) == 1
    assert len(memory.get_all(filters=MEI)["results"]) == 1


def test_one_key_has_one_effect(memory: Memory) -> None:
    first = memory.add("I bought a kayak.", **MEI, idempotency_key="turn-1").wait(300)
    again = memory.add("I bought a kayak.", **MEI, idempotency_key="turn-1").wait(300)
    assert again.results == first.results
    assert len(memory.get_all(filters=MEI)["results"]) == 1


def test_a_key_for_another_content_is_a_conflict(memory: Memory, stack: Stack) -> None:
    memory.add("I bought a kayak.", **MEI, idempotency_key="turn-1").wait(300)
    if stack.name == "engine":
        with pytest.raises(IdempotencyConflict):
            memory.add("I bought a canoe.", **MEI, idempotency_key="turn-1")
    else:
        receipt = memory.add("I bought a canoe.", **MEI, idempotency_key="turn-1")
        with pytest.raises(IdempotencyConflict):
            receipt.wait(300)
        assert receipt.status is Status.CONFLICT
    assert texts(memory.get_all(filters=MEI)) == ["User bought a kayak"]


def test_without_a_key_every_call_is_a_turn(memory: Memory) -> None:
    first, second = memory.add("Yes.", **MEI), memory.add("Yes.", **MEI)
    assert first.id != second.id
    first.wait(300)
    second.wait(300)


def test_a_verbatim_turn_keeps_each_message_to_the_letter(memory: Memory) -> None:
    said = [
        {"role": "system", "content": "You are a helpful assistant."},
        {"role": "user", "content": "hello  THERE", "name": "Ann"},
        {"role": "assistant", "content": "Hi Ann."},
    ]
    memory.add(said, **MEI, infer=False, metadata={"topic": "greeting"}, wait=True)
    items = memory.get_all(filters=MEI)["results"]
    assert [(item["memory"], item["role"], item.get("actor_id")) for item in items] == [
        ("hello  THERE", "user", "Ann"),
        ("Hi Ann.", "assistant", None),
    ]
    assert items[0]["metadata"] == {"topic": "greeting"}


def test_a_deleted_memory_is_gone_from_every_read_at_once_and_its_history_stays(memory: Memory) -> None:
    answer = memory.add("My locker code is 4471.", **MEI, wait=True)
    memory_id = answer["results"][0]["id"]
    assert memory.delete(memory_id) == {"message": "Memory deleted successfully!"}
    assert memory.get(memory_id) is None
    assert memory.search("locker code 4471", filters=MEI)["results"] == []
    assert memory.get_all(filters=MEI)["results"] == []
    assert [row["event"] for row in memory.history(memory_id)] == ["ADD", "DELETE"]
    with pytest.raises(MemoryNotFound):
        memory.delete(memory_id)
    again = memory.add("My locker code is 4471.", **MEI, wait=True)
    assert again["results"][0]["event"] == "ADD"


def test_an_expired_memory_is_hidden_and_does_not_block_its_twin(memory: Memory) -> None:
    memory.add("I am on sick leave.", **MEI, expiration_date="2020-01-01", wait=True)
    assert memory.search("sick leave", filters=MEI)["results"] == []
    assert len(memory.search("sick leave", filters=MEI, show_expired=True)["results"]) == 1
    answer = memory.add("I am on sick leave.", **MEI, wait=True)
    assert answer["results"][0]["event"] == "ADD"
    assert texts(memory.search("sick leave", filters=MEI)) == ["User is on sick leave"]


def test_namespaces_and_users_are_walls(memory: Memory) -> None:
    memory.add("I keep the spare key under the blue pot.", **MEI, wait=True)
    other = memory.in_namespace("another-customer")
    assert other.search("spare key", filters=MEI)["results"] == []
    assert memory.search("spare key", filters={"user_id": "Mei"})["results"] == []
    memory_id = memory.get_all(filters=MEI)["results"][0]["id"]
    assert other.get(memory_id) is None
    assert other.history(memory_id) == []
    with pytest.raises(MemoryNotFound):
        other.delete(memory_id)
    assert memory.get(memory_id) is not None


def test_a_receipt_is_found_from_another_process(memory: Memory, stack: Stack) -> None:
    receipt = memory.add("I play the cello.", **MEI).wait(300)
    program = (
        "import sys, json; from memline import Memory\n"
        "with Memory(sys.argv[1]) as memory:\n"
        "    receipt = memory.receipt(sys.argv[2]); print(json.dumps([receipt.status, receipt.results]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, memory.namespace, receipt.id], env=stack.variables, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == ["searchable", receipt.results]


def test_the_receipt_of_nothing_is_an_error(memory: Memory) -> None:
    with pytest.raises(UnknownReceipt):
        memory.receipt("no-such-turn")
    memory_id = memory.add("I play the cello.", **MEI, wait=True)["results"][0]["id"]
    with pytest.raises(UnknownReceipt):
        memory.receipt(memory_id)


def test_chinese_is_kept_and_found_in_both_languages(memory: Memory) -> None:
    memory.add("我住在上海，喜欢吃火锅。", **MEI, wait=True)
    assert any("火锅" in text for text in texts(memory.search("火锅", filters=MEI)))
    assert any("火锅" in text for text in texts(memory.search("What does the user like to eat?", filters=MEI)))


BAD_TURNS: list[tuple[dict[str, Any], type[InvalidInput]]] = [
    ({"messages": "x"}, ScopeRequired),
    ({"messages": "x", "user_id": ""}, InvalidScopeId),
    ({"messages": "x", "user_id": "  "}, InvalidScopeId),
    ({"messages": "x", "user_id": "*"}, InvalidScopeId),
    ({"messages": "x", "user_id": "a b"}, InvalidScopeId),
    ({"messages": "x", "user_id": {"in": ["a"]}}, InvalidScopeId),
    ({"messages": "x", "user_id": "u", "metadata": {"user_id": "v"}}, InvalidScopeId),
    ({"messages": 7, "user_id": "u"}, InvalidMessage),
    ({"messages": None, "user_id": "u"}, InvalidMessage),
    ({"messages": [], "user_id": "u"}, InvalidMessage),
    ({"messages": "   ", "user_id": "u"}, InvalidMessage),
    ({"messages": ["x"], "user_id": "u"}, InvalidMessage),
    ({"messages": [{"role": "robot", "content": "x"}], "user_id": "u"}, InvalidMessage),
    ({"messages": [{"role": "user", "content": 7}], "user_id": "u"}, InvalidMessage),
    ({"messages": "a\ud800b", "user_id": "u"}, InvalidMessage),
    ({"messages": "a\x00b", "user_id": "u"}, InvalidMessage),
    ({"messages": "x" * (1024 * 1024 + 1), "user_id": "u"}, TurnTooLarge),
    ({"messages": "x", "user_id": "u", "expiration_date": "31.12.2026"}, InvalidDate),
    ({"messages": "x", "user_id": "u", "timestamp": "yesterday"}, InvalidDate),
    ({"messages": "x", "user_id": "u", "idempotency_key": ""}, InvalidInput),
    ({"messages": "x", "user_id": "u", "ack": "later"}, InvalidInput),
    ({"messages": "x", "user_id": "u", "memory_typ": "procedural"}, UnknownOption),
]


@pytest.mark.parametrize(("bad", "error"), BAD_TURNS)
def test_bad_input_is_refused_with_what_to_do_and_changes_nothing(memory: Memory, bad: dict[str, Any], error: type[InvalidInput]) -> None:
    messages = bad.pop("messages")
    try:
        with pytest.raises(error) as raised:
            memory.add(messages, **bad)
    finally:
        bad["messages"] = messages
    assert "xxx" not in str(raised.value)
    memory.flush(300)
    assert memory.get_all(filters={"user_id": "u"})["results"] == []


def test_reads_refuse_what_they_can_not_answer(memory: Memory) -> None:
    with pytest.raises(UnknownOption, match="filters"):
        memory.search("x", user_id="mei")
    with pytest.raises(InvalidInput):
        memory.search("  ", filters=MEI)
    with pytest.raises(InvalidInput):
        memory.search("x", filters=MEI, top_k=-1)
    with pytest.raises(InvalidInput):
        memory.search("x", filters=MEI, threshold=float("nan"))
    with pytest.raises(ScopeRequired):
        memory.search("x", filters={"topic": "a"})
    with pytest.raises(InvalidScopeId):
        memory.search("x", filters={"user_id": "*"})


def test_what_is_not_built_says_so(memory: Memory) -> None:
    for call in (memory.chat,):
        with pytest.raises(NotSupportedYet):
            call()


def test_a_closed_memory_says_so(stack: Stack) -> None:
    with stack.memory("closing") as memory:
        pass
    with pytest.raises(Closed):
        memory.add("x", **MEI)
