"""`memline check`: it tells a deployment that keeps its promises from one that does not, and leaves nothing behind."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from memline import Memory
from memline.cli import check_run, check_samples
from memline.cli.check_run import PREFIX, Verdict
from memline.contracts.errors import InvalidInput, WaitTimeout
from memline.ledger.forget_namespace import forget_namespace, rows_of_namespace
from memline.ledger.schema import jobs, leases, metadata, outbox
from memline.ledger.session import Ledger
from memline.search.index.weaviate import WeaviateIndex
from memline.search.searcher import Searcher
from tests.acceptance.program import Program
from tests.integration.path.stacks import Stack, be_patient
from tests.services import RedisServer
from tests.weaviate_server import Reached
from tests.workers import Worker

#: What a check does not take away: names of the ledger itself, counts of what happened, who is at work, and the tombstone of its subject.
STAYS = {"ledger_meta", "counters", "heartbeats", "tombstones"}


def program_of(stack: Stack, kind: type[Program] = Program) -> Program:
    short = {name.removeprefix("MEMLINE_").lower(): value for name, value in stack.variables.items()}
    return kind(Path(short.pop("home")), **short, search_deadline="30")


def rows(stack: Stack) -> dict[str, int]:
    with closing(Ledger(stack.settings().ledger_location())) as ledger, ledger.read() as connection:
        return {
            table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
            if table.name not in STAYS
        }


def settled(stack: Stack, opened: Memory) -> dict[str, int]:
    """The rows once nothing is on its way: in the namespaces of other tests a turn may be at work, and a worker still holds the lease of
    one that was cancelled under its hands."""
    deadline = time.monotonic() + 300
    while True:
        before, waiting = rows(stack), 0
        if opened._house.uses_redis:
            waiting = opened._house.stream.length()
        with closing(Ledger(stack.settings().ledger_location())) as ledger, ledger.read() as connection:
            for wanted in (jobs.c.finished_at.is_(None), leases.c.id.is_not(None), outbox.c.object_id.is_not(None)):
                waiting += connection.execute(sa.select(sa.func.count()).where(wanted)).scalar_one()
        if waiting == 0 and rows(stack) == before:
            return before
        assert time.monotonic() < deadline, f"{waiting} things are still on their way"
        time.sleep(0.1)


def tombstones(stack: Stack) -> int:
    with closing(Ledger(stack.settings().ledger_location())) as ledger, ledger.read() as connection:
        return int(connection.execute(sa.text("SELECT count(*) FROM tombstones")).scalar_one())


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {sample["name"]: sample["verdict"] for sample in document["samples"]}


def namespaces_of(stack: Stack) -> list[str]:
    with stack.memory() as memory:
        return [name for name in memory._house.index.namespaces() if check_run.is_of_a_check(name)]


def test_every_promise_holds_and_not_a_row_is_left(stack: Stack, opened: Memory) -> None:
    opened.add("I keep bees in the garden.", user_id="keeper", wait=True, timeout=300)
    before, stones = settled(stack, opened), tombstones(stack)
    found = program_of(stack).json("check")
    assert found["ok"], found
    assert verdicts(found) == {**{sample.name: "holds" for sample in check_samples.SAMPLES}, "clean up": "holds"}
    assert found["namespace"].startswith(PREFIX)
    assert settled(stack, opened) == before
    assert tombstones(stack) == stones + 1
    assert namespaces_of(stack) == []
    assert opened.count(filters={"user_id": "keeper"}) == 1


def test_in_weaviate_its_tenant_goes_too(tmp_path: Path, weaviate_server: Reached) -> None:
    variables = {"MEMLINE_HOME": str(tmp_path / "home"), "MEMLINE_WEAVIATE_PREFIX": "CheckTest", **weaviate_server.settings()}
    stack = Stack("weaviate", variables)
    assert program_of(stack).json("check")["ok"]
    with stack.memory() as memory:
        index = memory._house.index
        assert isinstance(index, WeaviateIndex)
        assert index._asked(index._tenants) == set()
        index.forget("never-there")
        memory.add("I keep bees in the garden.", user_id="keeper", infer=False, wait=True, timeout=300)
        assert index.namespaces() == ["default"]


def test_a_broken_promise_is_told_and_the_rest_goes_on(opened: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Searcher.search

    def without_filter(self: Searcher, namespace: str, query: str, filters: Any, **options: Any) -> Any:
        from memline.contracts.filters import parse

        return search(self, namespace, query, parse({"OR": [{"user_id": f"check-{name}"} for name in ("ann", "bob", "cat")]}), **options)

    monkeypatch.setattr(Searcher, "search", without_filter)
    memory = opened.in_namespace(check_run.fresh_namespace())
    try:
        outcomes = {
            outcome.name: outcome
            for outcome in check_run.run(memory, memory._house, check_samples.SAMPLES, timeout=300, told=lambda _name: None)
        }
    finally:
        monkeypatch.undo()
        check_run.clean(memory, memory._house, timeout=300)
    assert outcomes["apart"].verdict is Verdict.BROKEN
    assert outcomes["apart"].seen == "search shows the other user's memory"
    assert outcomes["once"].verdict is Verdict.HOLDS
    with memory._house.ledger.read() as connection:
        assert set(rows_of_namespace(connection, memory.namespace)) <= {"tombstones"}


def test_samples_whose_time_is_over_count_as_broken(opened: Memory) -> None:
    memory = opened.in_namespace(check_run.fresh_namespace())
    (outcome, *_) = check_run.run(memory, memory._house, check_samples.SAMPLES, timeout=0, told=lambda _name: None)
    assert outcome.verdict is Verdict.BROKEN and "--timeout" in outcome.seen


class NeverThrough(Program):
    """`memline check` whose second sample has no end, so that whoever interrupts it is never too late; it says that it is there."""

    @staticmethod
    def _command(arguments: tuple[str | Path, ...]) -> list[str]:
        python, option, start, *rest = Program._command(arguments)
        endless = "lambda bench: (open(os.path.join(os.environ['MEMLINE_HOME'], 'endless'), 'x').close(), time.sleep(3600))"
        samples = f"check_samples.SAMPLES = (check_samples.SAMPLES[0], check_samples.Sample('endless', '', {endless}))"
        whole = f"import os, time; from memline.cli import check_samples; {samples}; main()"
        return [python, option, start.replace("; main()", f"; {whole}"), *rest]


def test_ctrl_c_cleans_up(stack: Stack, opened: Memory) -> None:
    before, program = settled(stack, opened), program_of(stack, NeverThrough)
    with Ended(program.start("check", "--json")) as running:
        deadline = time.monotonic() + 300
        while not (program.home / "endless").exists():
            assert time.monotonic() < deadline and running.poll() is None
            time.sleep(0.01)
        assert rows(stack)["jobs"] == before["jobs"] + 1
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=300)
    assert running.returncode == 130, told
    assert settled(stack, opened) == before
    assert namespaces_of(stack) == []


def test_what_a_killed_check_has_left_is_taken_away_by_its_name(stack: Stack, opened: Memory) -> None:
    before = settled(stack, opened)
    left = opened.in_namespace(check_run.fresh_namespace())
    left.add("Ann keeps her bicycle in garage 4417.", user_id=check_samples.ANN, infer=False, wait=True, timeout=300)
    program = program_of(stack)
    assert "rows" in program.run("check", "--clean", left.namespace).stderr
    assert settled(stack, opened) == before
    assert "made" in program.run("check", "--clean", "default", exit_code=1).stderr


def test_an_applications_own_namespace_is_not_cleaned_whatever_it_is_called(opened: Memory, stack: Stack) -> None:
    own = opened.in_namespace(f"{PREFIX}of-our-shop")
    own.add("Ann keeps her bicycle in garage 4417.", user_id="ann", infer=False, wait=True, timeout=300)
    assert "nothing was removed" in program_of(stack).run("check", "--clean", own.namespace, exit_code=1).stderr
    with pytest.raises(InvalidInput, match="nothing was removed"):
        check_run.clean(own, own._house, timeout=300)
    assert own.count(filters={"user_id": "ann"}) == 1


def test_a_deployment_that_keeps_nothing_of_a_verbatim_text_is_told(opened: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    from memline.receipt import Receipt

    monkeypatch.setattr(Receipt, "results", property(lambda _self: []))
    memory = opened.in_namespace(check_run.fresh_namespace())
    try:
        first = check_run.run(memory, memory._house, check_samples.SAMPLES[:1], timeout=300, told=lambda _name: None)[0]
    finally:
        check_run.clean(memory, memory._house, timeout=300)
    assert (first.verdict, first.seen) == (Verdict.BROKEN, "0 memories came of one text that is kept as it is")


def test_a_turn_that_is_still_on_its_way_is_waited_for(tmp_path: Path, redis: RedisServer) -> None:
    """Forgotten before it came, the namespace would have it as a new turn."""
    variables = {"MEMLINE_HOME": str(tmp_path / "home"), "MEMLINE_REDIS_URL": redis.url}
    with Memory(check_run.fresh_namespace(), settings=Stack("celery", variables).settings()) as memory:
        be_patient(memory)
        memory.add("Ann keeps her bicycle in garage 4417.", user_id=check_samples.ANN, infer=False)
        with pytest.raises(WaitTimeout, match="1 turns"):
            check_run.clean(memory, memory._house, timeout=0)
        with Worker(variables):
            check_run.clean(memory, memory._house, timeout=300)
        with memory._house.ledger.read() as connection:
            assert rows_of_namespace(connection, memory.namespace) == {}
        assert memory._house.stream.length() == 0


def test_a_namespace_that_is_in_use_is_not_forgotten(opened: Memory) -> None:
    used = opened.in_namespace("in-use")
    used.add("Ann keeps her bicycle in garage 4417.", user_id="ann", infer=False, wait=True, timeout=300)
    with pytest.raises(InvalidInput, match="reset it first"), used._house.ledger.write() as tx:
        forget_namespace(tx, "in-use")
    assert used.count(filters={"user_id": "ann"}) == 1


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


def test_without_workers_it_says_so_and_writes_nothing(tmp_path: Path, redis: RedisServer) -> None:
    program = Program(tmp_path / "home", redis_url=redis.url)
    ran = program.run("check", exit_code=4)
    assert "No worker serves accept, relay, sweep, stage.extract" in ran.stderr
    assert "Nothing was written" in ran.stderr


def test_what_costs_is_said_before_and_needs_a_yes(tmp_path: Path) -> None:
    program = Program(tmp_path / "home", openai_api_key="none", openai_base_url="http://127.0.0.1:9")
    ran = program.run("check", exit_code=1)
    assert "This costs: about 2 calls of" in ran.stderr and "--yes" in ran.stderr


def test_a_namespace_that_can_not_be_drained_is_named(opened: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memline.ledger.pending.pending_work", lambda *_given: (0, 3))
    memory = opened.in_namespace(check_run.fresh_namespace())
    with pytest.raises(WaitTimeout, match=memory.namespace):
        check_run.clean(memory, memory._house, timeout=0)


class Ended:
    """Ends a program that is still there when the block ends."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __enter__(self) -> subprocess.Popen[str]:
        return self._process

    def __exit__(self, *_told: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        self._process.wait()


def test_the_document_is_json_and_nothing_else(tmp_path: Path) -> None:
    ran = Program(tmp_path / "home").run("check", "--json")
    assert set(json.loads(ran.stdout)) == {"ok", "namespace", "samples"}
