"""A short, seeded part of the crash matrix (`make chaos` runs all of it)."""

from __future__ import annotations

import os

import pytest

from memline.contracts.failpoints import POINTS
from tests.chaos import provider
from tests.chaos.matrix import OF_A_COMMAND, OF_ERASING, all_cases, some_cases, table
from tests.chaos.remote import REPRESENTATIVE, remote_cases
from tests.chaos.remote_index import REMOTE_FAULTS
from tests.chaos.running import run_case, servers
from tests.chaos.scenario import FAULTS, Case, Outcome
from tests.weaviate_server import weaviate_binary

pytestmark = pytest.mark.chaos

SEED = int(os.environ.get("MEMLINE_CHAOS_SEED", "1"))
SOME = int(os.environ.get("MEMLINE_CHAOS_CASES", "6"))


def test_every_point_and_every_fault_is_in_the_matrix() -> None:
    cases = all_cases()
    assert {case.point for case in cases} == {point for point in POINTS if not point.startswith((OF_A_COMMAND, OF_ERASING))}
    assert {case.fault for case in cases} == set(FAULTS)
    assert len(cases) == len(set(cases))


def test_a_seeded_part_of_the_matrix_holds() -> None:
    outcomes = []
    with servers() as found:
        for case in some_cases(SOME, seed=SEED):
            outcomes.append(run_case(found, case))
    assert [(outcome.case, outcome.problems) for outcome in outcomes if not outcome.held] == []


def test_a_failed_case_stands_out_in_the_table() -> None:
    failed = Outcome(Case("persist.taken", "SIGKILL"), reached=True, problems=["3 facts missing"])
    assert "**failed**" in table([failed])


def test_every_fault_of_a_remote_index_is_in_the_matrix_of_weaviate() -> None:
    cases = remote_cases()
    assert {case.index for case in cases} == {"weaviate"}
    assert {case.point for case in cases} <= set(POINTS)
    assert {case.fault for case in cases} >= set(REMOTE_FAULTS)
    assert len(cases) == len(set(cases))
    assert set(REPRESENTATIVE) <= set(cases) and {case.fault for case in REPRESENTATIVE} == set(REMOTE_FAULTS)


def test_a_part_of_the_matrix_of_weaviate_holds() -> None:
    if weaviate_binary() is None:
        pytest.skip("the matrix of weaviate was NOT run: it kills its server, so it needs a `weaviate` server binary on the PATH")
    with servers("weaviate") as found:
        outcomes = [run_case(found, case) for case in REPRESENTATIVE]
    assert [(outcome.case, outcome.problems) for outcome in outcomes if not outcome.held] == []
    assert all(outcome.reached for outcome in outcomes)


def test_every_fault_of_a_provider_is_in_its_matrix() -> None:
    cases = provider.provider_cases()
    assert {case.index for case in cases} == {"provider"} and {case.point for case in cases} <= set(POINTS)
    assert {case.fault for case in cases} == {*provider.PROVIDER_FAULTS, "SIGKILL"} and len(cases) == len(set(cases))
    assert set(provider.REPRESENTATIVE) <= set(cases)


def test_a_part_of_the_matrix_of_providers_holds() -> None:
    with servers() as found:
        outcomes = [run_case(found, case) for case in provider.REPRESENTATIVE]
    assert [(outcome.case, outcome.problems) for outcome in outcomes if not outcome.held] == []
    assert all(outcome.reached for outcome in outcomes)
