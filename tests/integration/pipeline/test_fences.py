"""Who comes too late commits nothing, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from memline.contracts.scope import Subject
from memline.ledger.cancel import cancel_jobs
from memline.ledger.jobs import STAGES, Stage, jobs_of_lease
from memline.ledger.leases import Lease, dissolve_expired
from memline.ledger.schema import (
    entities,
    entity_links,
    memories,
    messages,
    stage_results,
    subjects,
)
from memline.ledger.session import Ledger
from memline.pipeline.parts import Parts
from memline.pipeline.runner import run_through
from tests.integration.pipeline.steps import claimed, clock, live, nothing_is_left_over, stage, state, up_to
from tests.parts import (
    accept,
    job_of,
    make_parts,
    make_turn,
    run_all,
    table,
)


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    return make_parts(ledger)


@pytest.mark.parametrize("which", STAGES)
def test_a_worker_that_comes_back_after_its_lease_ran_out_commits_nothing(parts: Parts, which: Stage) -> None:
    from memline.pipeline import runner

    accept(parts, make_turn("User met Anna", id="a"))
    (lease,) = claimed(parts)
    here = up_to(parts, lease, which)
    sources = (memories, entities, entity_links, messages, stage_results)
    before = [table(parts.ledger, source) for source in sources]
    module = runner._MODULES[which]

    class Zombie:
        commit = staticmethod(module.commit)

        @staticmethod
        def prepare(its_parts: Parts, batch: Any) -> Any:
            found = module.prepare(its_parts, batch)
            clock(parts).advance(61)
            return found

    runner._MODULES[which] = Zombie  # type: ignore[assignment]
    try:
        assert stage(parts, here) is None
    finally:
        runner._MODULES[which] = module
    assert [table(parts.ledger, source) for source in sources] == before
    assert state(parts.ledger, "a")[1] == which
    with parts.ledger.write() as tx:
        assert dissolve_expired(tx, now=parts.clock.now(), max_attempts=6) == 1
    run_all(parts)
    assert live(parts.ledger) == ["User met Anna"]
    nothing_is_left_over(parts.ledger)


@pytest.mark.parametrize("kind", ["user", "namespace"])
@pytest.mark.parametrize("which", [Stage.EXTRACT, Stage.PERSIST])
def test_a_job_whose_subject_was_erased_is_cancelled_and_commits_nothing(parts: Parts, kind: Any, which: Stage) -> None:
    accept(parts, make_turn("User met Anna", id="a"), make_turn("two", id="b", user="bob", namespace="other"))
    found = {job.id: up_to(parts, lease, which) for lease in claimed(parts) for job in _jobs(parts, lease)}
    with parts.ledger.write() as tx:
        tx.execute(sa.insert(subjects).values(key=Subject("default", kind, "ann" if kind == "user" else "default").key, epoch=1))
    assert stage(parts, found["a"]) is None
    row = job_of(parts.ledger, "a")
    assert (row.state, row.reason, row.messages, row.metadata) == ("cancelled", "its subject was erased", None, None)
    run_through(parts, found["b"], worker="w", send=lambda _: None, stopped=lambda: False)
    assert live(parts.ledger) == ["two"]
    nothing_is_left_over(parts.ledger)
    accept(parts, make_turn("told after it", id="c"))
    run_all(parts)
    assert "told after it" in live(parts.ledger)


def _jobs(parts: Parts, lease: Lease) -> list[Any]:
    with parts.ledger.read() as connection:
        return list(jobs_of_lease(connection, lease.id))


@pytest.mark.parametrize("when", ["before what it left is read", "after what it left is read"])
@pytest.mark.parametrize("which", STAGES[: STAGES.index(Stage.PERSIST) + 1])
def test_a_job_that_is_cancelled_while_it_runs_commits_nothing_and_its_batch_goes_on(parts: Parts, which: Stage, when: str) -> None:
    accept(parts, make_turn("one", id="a"), make_turn("two", id="b"))
    (lease,) = claimed(parts)
    here = up_to(parts, lease, which)
    from memline.pipeline import runner

    module = runner._MODULES[which]

    def cancel(batch: Any) -> None:
        with parts.ledger.write() as tx:
            cancel_jobs(tx, [job.no for job in batch.jobs if job.id == "a"], reason="its scope was deleted", now=parts.clock.now())

    class Cancelled:
        commit = staticmethod(module.commit)

        @staticmethod
        def prepare(its_parts: Parts, batch: Any) -> Any:
            if when.startswith("before"):
                cancel(batch)
            found = module.prepare(its_parts, batch)
            if when.startswith("after"):
                cancel(batch)
            return found

    runner._MODULES[which] = Cancelled  # type: ignore[assignment]
    try:
        after = stage(parts, here)
    finally:
        runner._MODULES[which] = module
    assert after is not None and state(parts.ledger, "b")[2:] == (0, False)
    run_through(parts, after, worker="w", send=lambda _: None, stopped=lambda: False)
    assert live(parts.ledger) == ["two"]
    assert state(parts.ledger, "a")[0] == "cancelled"
    nothing_is_left_over(parts.ledger)
