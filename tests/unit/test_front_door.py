"""The front door: settings, parts and options that are wrong are told by name, without a secret, before anything changes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from memline import Memory
from memline.compose import House
from memline.contracts.errors import Closed, ConfigurationError, InvalidInput, NotSupportedYet, ServiceUnavailable, UnknownOption
from memline.ledger.session import Ledger
from memline.settings import Settings, load_settings, sqlite_url


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder without a .env file, and a home in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMLINE_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize("value", ["abc", "nan", "inf", "-1", "0", "1e99"])
def test_a_lease_that_is_no_sensible_time_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MEMLINE_LEASE", value)
    with pytest.raises(ConfigurationError, match="MEMLINE_LEASE"):
        load_settings()


def test_a_variable_that_is_set_to_nothing_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "MEMLINE_HOME",
        "MEMLINE_REDIS_URL",
        "MEMLINE_LEDGER_URL",
        "MEMLINE_OPENAI_API_KEY",
        "OPENAI_API_KEY",
        "MEMLINE_NAMESPACE",
    ):
        monkeypatch.setenv(name, "")
    found = load_settings()
    assert found == Settings(_env_file=None)  # type: ignore[call-arg]
    assert (found.home, found.redis_url, found.ledger_url, found.openai_api_key) == (None, None, None, None)


def test_a_call_may_not_outlive_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLINE_LEASE", "10")
    with pytest.raises(ConfigurationError, match="MEMLINE_MODEL_TIMEOUT"):
        load_settings()


def test_a_value_that_is_refused_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLINE_BATCH", "hunter2")
    with pytest.raises(ConfigurationError) as refused:
        load_settings()
    assert "hunter2" not in str(refused.value)


def test_a_dotenv_file_that_is_no_text_is_a_wrong_setting(bare: Path) -> None:
    (bare / ".env").write_bytes(b"\xff\xfe\x00garbage=\n")
    with pytest.raises(ConfigurationError, match=r"\.env"):
        load_settings()


def test_the_home_of_nobody_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigurationError, match="MEMLINE_HOME"):
        load_settings(home=Path("~nobody-has-this-name/x")).home_folder()


@pytest.mark.parametrize("name", ["plain", "with space", "what?", "100%25", "a#b", "日记"])
def test_a_ledger_lies_in_its_home_whatever_the_folder_is_called(bare: Path, name: str) -> None:
    file = bare / name / "ledger.db"
    ledger = Ledger(sqlite_url(file))
    ledger.make_file()
    ledger.close()
    assert ledger.path == str(file) and file.exists()
    assert file.stat().st_mode & 0o077 == 0 and file.parent.stat().st_mode & 0o077 == 0


def test_a_home_that_is_a_file_is_told(bare: Path) -> None:
    (bare / "home").write_text("in the way", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="MEMLINE_HOME"):
        _ = House(load_settings()).ledger


def test_a_ledger_that_is_no_database_is_damaged_and_stays_as_it_is(bare: Path) -> None:
    file = bare / "home" / "ledger.db"
    file.parent.mkdir()
    file.write_bytes(b"not a database, but long enough to be read as one" * 40)
    before = file.read_bytes()
    with pytest.raises(ServiceUnavailable, match="damaged"):
        _ = House(load_settings()).ledger
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "mysql://root:hunter2@host/db", "postgresql://u:hunter2@host:port/db", "hunter2"]
)
def test_a_url_that_is_no_ledger_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="MEMLINE_LEDGER_URL") as refused:
        Ledger(url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("part", ["embedder", "chat_model", "extractor", "index"])
def test_an_object_that_fits_no_port_is_refused_at_once(part: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{part}= is a int"):
        Memory(**{part: 3})  # type: ignore[arg-type]


def test_settings_of_another_kind_and_unknown_options_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"memline\.Settings"):
        Memory(settings={"lease": 1})  # type: ignore[arg-type]
    with pytest.raises(UnknownOption, match=r"help\(memline\.Memory\)"):
        Memory(colour="blue")


@pytest.mark.parametrize("value", [None, "x", math.nan, True])
def test_a_timeout_that_is_no_time_changes_nothing(value: object) -> None:
    with Memory() as memory:
        with pytest.raises(InvalidInput, match="timeout"):
            memory.add("I live in Rome.", user_id="mei", wait=True, timeout=value)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="timeout"):
            memory.flush(value)  # type: ignore[arg-type]
        assert memory.get_all(filters={"user_id": "mei"})["results"] == []


def test_flags_and_dates_of_a_wrong_kind_are_refused() -> None:
    mei = {"user_id": "mei"}
    with Memory() as memory:
        for call in (
            lambda: memory.add("I live in Rome.", user_id="mei", wait="no"),  # type: ignore[arg-type]
            lambda: memory.search("Rome", filters=mei, explain="yes"),  # type: ignore[arg-type]
            lambda: memory.search("Rome", filters=mei, show_expired=None),  # type: ignore[arg-type]
            lambda: memory.search("Rome", filters=mei, include_superseded=1),  # type: ignore[arg-type]
            lambda: memory.search("Rome", filters=mei, as_of="2026-01-01"),  # type: ignore[arg-type]
            lambda: memory.search("Rome", filters={**mei, "created_at": {"gt": "yesterday"}}),
            lambda: memory.get_all(filters=mei, show_expired="x"),  # type: ignore[arg-type]
        ):
            with pytest.raises(InvalidInput):
                call()


@pytest.mark.parametrize("value", ["\ud800", "\x00", "x" * 257, "", " ", 7, None])
def test_what_can_be_no_id_is_refused_before_anything_is_asked(value: Any) -> None:
    with Memory() as memory:
        for call in (memory.get, memory.history, memory.delete, memory.receipt):
            with pytest.raises(InvalidInput, match="_id "):
                call(value)


def test_a_closed_memory_gives_no_handle_on_another_namespace() -> None:
    memory = Memory()
    memory.close()
    with pytest.raises(Closed):
        memory.in_namespace("other")


def test_what_mem0_has_and_memline_has_not_says_so() -> None:
    with Memory() as memory, pytest.raises(NotSupportedYet):
        memory.chat("hello")
