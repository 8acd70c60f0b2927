"""`memline doctor`: what is on, what is wrong, and the exit code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from memline.ledger.meta import check_embedder
from memline.ledger.migrate import HEAD, open_ledger
from memline.ledger.session import Ledger
from tests.services import RedisServer
from tests.unit.cli.program import memline, memline_json

pytestmark = pytest.mark.usefixtures("light")


def part(document: Any, name: str) -> dict[str, str]:
    (found,) = (each for each in document["parts"] if each["part"] == name)
    return dict(found)


@pytest.fixture
def ledger(memline_home: Path) -> Ledger:
    """The ledger of the home folder, filled."""
    opened = Ledger(f"sqlite:///{memline_home / 'ledger.db'}")
    open_ledger(opened)
    return opened


def test_a_fresh_machine_is_in_order_and_nothing_is_made(memline_home: Path) -> None:
    found = memline_json("doctor")
    assert found["ok"] is True
    assert [each["part"] for each in found["parts"]] == ["mode", "home", "ledger", "index", "embedder", "extractor", "analyser"]
    assert {each["state"] for each in found["parts"]} == {"ok"}
    assert "made at the first use" in part(found, "ledger")["detail"]
    assert found["packages"]["sqlalchemy"] is not None
    assert list(memline_home.iterdir()) == []


def test_a_person_reads_the_same(memline_home: Path) -> None:
    shown = memline("doctor").stdout
    assert "embedded" in shown and "tiny-1, 2 dimensions" in shown and "Everything works." in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_settings_that_are_wrong_are_the_only_finding(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLINE_MODEL_TIMEOUT", "90")
    found = memline_json("doctor", exit_code=4)
    assert found["ok"] is False
    assert "MEMLINE_MODEL_TIMEOUT (90 s) must be shorter than MEMLINE_LEASE (60 s)" in part(found, "settings")["detail"]


def test_a_name_that_is_no_setting_is_told_with_the_one_that_may_be_meant(
    memline_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEMLINE_OPENAI_KEY", "a-secret")
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("MEMLINE_WRITEPOLICY=card=refuse\nOTHER=1\n", "utf-8")
    result = memline("doctor", "--json")
    found = [each for each in json.loads(result.stdout)["parts"] if each["part"] == "settings"]
    assert [(each["state"], each["hint"]) for each in found] == [
        ("warn", "Is MEMLINE_OPENAI_API_KEY meant?"),
        ("warn", "Is MEMLINE_WRITE_POLICY meant?"),
    ]
    assert "a-secret" not in result.output


def test_another_embedder_is_told_with_both_models_and_dimensions(ledger: Ledger) -> None:
    with ledger.write() as tx:
        check_embedder(tx, "other-9", 512)
    found = memline_json("doctor", exit_code=4)
    told = part(found, "embedder")
    assert told["state"] == "bad"
    assert "tiny-1 (2 dimensions)" in told["detail"] and "other-9 (512 dimensions)" in told["detail"]
    assert "One part does not work." in memline("doctor", exit_code=4).stdout


def test_a_model_of_equal_dimension_is_another_embedder(ledger: Ledger) -> None:
    with ledger.write() as tx:
        check_embedder(tx, "other-9", 2)
    assert part(memline_json("doctor", exit_code=4), "embedder")["state"] == "bad"


@pytest.mark.parametrize(("revision", "todo"), [("0000", "memline migrate"), ("9999", "Upgrade memline")])
def test_a_schema_that_does_not_fit_names_both_and_the_way_on(ledger: Ledger, revision: str, todo: str) -> None:
    with ledger.write() as tx:
        tx.execute(sa.text("UPDATE alembic_version SET version_num = :it"), {"it": revision})
    told = part(memline_json("doctor", exit_code=4), "ledger")
    assert revision in told["detail"] and HEAD in told["detail"]
    assert todo in told["hint"]


def test_a_ledger_that_does_not_answer_is_bad(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLINE_LEDGER_URL", "postgresql://someone:hidden@127.0.0.1:1/nothing")
    result = memline("doctor", "--json", exit_code=4)
    assert "does not answer" in result.stdout
    assert "hidden" not in result.output


def test_a_database_that_is_none_of_ours_is_bad(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLINE_LEDGER_URL", "mysql://localhost/x")
    assert "SQLite or PostgreSQL" in part(memline_json("doctor", exit_code=4), "ledger")["detail"]


def test_an_embedded_index_beside_postgres_is_fit_for_one_machine(
    memline_home: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMLINE_LEDGER_URL", postgres_url)
    found = memline_json("doctor")
    assert part(found, "index")["state"] == "warn"
    assert "Fit for one machine" in part(found, "index")["hint"]
    assert "PostgreSQL" in part(found, "ledger")["detail"]


def test_a_home_that_is_a_file_is_bad(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (memline_home / "file").write_text("x")
    monkeypatch.setenv("MEMLINE_HOME", str(memline_home / "file" / "below"))
    assert part(memline_json("doctor", exit_code=4), "home")["state"] == "bad"


@pytest.mark.parametrize(("free", "state", "exit_code"), [(10 << 20, "bad", 4), (500 << 20, "warn", 0)])
def test_a_full_disk_is_told(memline_home: Path, monkeypatch: pytest.MonkeyPatch, free: int, state: str, exit_code: int) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: shutil._ntuple_diskusage(1 << 40, 0, free))
    assert part(memline_json("doctor", exit_code=exit_code), "home")["state"] == state


def test_redis_that_is_away_is_bad(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLINE_REDIS_URL", "redis://:hidden@127.0.0.1:1/0")
    result = memline("doctor", "--json", exit_code=4)
    assert "does not answer" in result.stdout and "hidden" not in result.output


@pytest.mark.usefixtures("patient_redis")
def test_redis_without_a_worker_is_told() -> None:
    found = memline_json("doctor")
    assert part(found, "redis")["state"] == "ok" and "noeviction" in part(found, "redis")["detail"]
    assert part(found, "workers")["state"] == "warn" and "memline worker" in part(found, "workers")["hint"]
    assert "one machine" in part(found, "mode")["hint"]


@pytest.mark.services
@pytest.mark.usefixtures("patient")
def test_redis_that_evicts_is_bad_with_both_values_and_no_worker_starts_on_it(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RedisServer(policy="allkeys-lru") as server:
        monkeypatch.setenv("MEMLINE_REDIS_URL", server.url)
        told = part(memline_json("doctor", exit_code=4), "redis")
        assert "allkeys-lru" in told["detail"] and "noeviction" in told["detail"]
        refused = memline("worker", exit_code=1).stderr
        assert "allkeys-lru" in refused and "noeviction" in refused


def test_an_extractor_that_can_not_be_loaded_is_bad(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLINE_EXTRACTOR", "no.such:thing")
    assert "MEMLINE_EXTRACTOR" in part(memline_json("doctor", exit_code=4), "extractor")["detail"]


def test_a_paid_embedder_is_named_and_not_asked(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLINE_OPENAI_API_KEY", "sk-hidden")
    monkeypatch.setenv("MEMLINE_OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("MEMLINE_EMBEDDER", "auto")
    result = memline("doctor", "--json")
    assert "text-embedding-3-small, 1536 dimensions, at 127.0.0.1:1 (not asked" in result.stdout
    assert "sk-hidden" not in result.output
