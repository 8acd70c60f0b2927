"""The whole path on Weaviate while the line to it is broken: add, search, delete, reconcile; and all is equal when it is whole again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from memline.compose import House
from memline.errors import ServiceUnavailable
from memline.outbox.verify import verify
from tests.chaos.remote_index import REMOTE_FAULTS, Line
from tests.integration.path.stacks import engine_stack
from tests.tcp_proxy import TcpProxy
from tests.weaviate_server import Reached

MEI = {"user_id": "mei"}


@pytest.fixture
def line(weaviate_server: Reached) -> Iterator[Line]:
    http, grpc = make_url(weaviate_server.url), weaviate_server.grpc_url
    if grpc is None or not grpc.isdigit() or http.port is None or http.host not in ("127.0.0.1", "localhost"):
        pytest.skip("a proxy is put before a Weaviate on this machine only, whose gRPC port is given as a number")
    with TcpProxy(http.port) as rest, TcpProxy(int(grpc)) as calls:
        yield Line(rest, calls)


@pytest.mark.parametrize("fault", [fault for fault in REMOTE_FAULTS if fault != "server killed"])
def test_add_search_delete_and_reconcile_while_the_line_is_broken(weaviate_server: Reached, line: Line, tmp_path: Path, fault: str) -> None:
    prefix = f"T{os.urandom(6).hex()}"
    broken = {"MEMLINE_WEAVIATE_TIMEOUT": "1", "MEMLINE_SEARCH_DEADLINE": "2", **line.reached.settings()}
    direct = weaviate_server.settings()
    with engine_stack(tmp_path, MEMLINE_WEAVIATE_PREFIX=prefix, **direct) as stack, stack.memory() as memory:
        memory.add("My dog Poppy is a beagle.", **MEI, wait=True)
        memory.add("I live in Munich.", **MEI, wait=True)
    with engine_stack(tmp_path, MEMLINE_WEAVIATE_PREFIX=prefix, **broken) as stack, stack.memory() as memory:
        dog = memory.search("Poppy the beagle", filters=MEI)["results"][0]
        assert "Poppy" in dog["memory"]
        line.begin(fault)
        receipt = memory.add("My cat Luna is grey.", **MEI)
        assert receipt.wait(300, until="committed").results
        memory.delete(dog["id"])
        found = memory.search("which pet is it?", filters=MEI, threshold=0)
        assert found["missing"] == ["index"]
        texts = [item["memory"] for item in found["results"]]
        assert any("Luna" in text for text in texts) and not any("Poppy" in text for text in texts)
        house = House(stack.settings())
        with pytest.raises(ServiceUnavailable):
            house.reconciler.run()
        house.close(0)
        line.end()
        assert receipt.wait(300).status == "searchable"
        memory.flush(300)
    with engine_stack(tmp_path, MEMLINE_WEAVIATE_PREFIX=prefix, **direct) as stack:
        house = House(stack.settings())
        assert house.reconciler.run().complete
        house.relay.drain()
        report = verify(house.ledger, house.index, deep=True)
        assert (report.counts, report.lag) == ({}, 0)
        assert dog["id"] not in {state.key.id for state in house.index.walk("memory", "default")}
        house.index.drop()  # type: ignore[attr-defined]
        house.close(0)
