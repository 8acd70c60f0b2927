"""Stacks that a module's tests share; each test uses a namespace of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memline import Memory
from memline.contracts.ids import digest_of
from tests.integration.path.stacks import PATIENT, Stack, celery_stack, engine_stack


@pytest.fixture(scope="module", params=["engine", "celery"])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """memline, run both ways."""
    folder = tmp_path_factory.mktemp("home")
    if request.param == "engine":
        with engine_stack(folder, **PATIENT) as found:
            yield found
        return
    redis, postgres = request.getfixturevalue("redis_server"), request.getfixturevalue("postgres_server")
    with celery_stack(folder, redis, postgres, **PATIENT) as found:
        yield found


@pytest.fixture(scope="module")
def opened(stack: Stack) -> Iterator[Memory]:
    """One Memory of that stack: its models are loaded once."""
    with stack.memory() as found:
        yield found


@pytest.fixture
def memory(opened: Memory, request: pytest.FixtureRequest) -> Memory:
    """A handle on the test's own namespace."""
    return opened.in_namespace(f"test-{digest_of(request.node.nodeid)}")
