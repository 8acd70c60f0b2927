"""Set up once a process, only what a setting asks for, and nothing of the application's touched."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import sentry_sdk
from opentelemetry import trace
from typer.testing import CliRunner

from memline import lifetime, observing
from memline.cli.app import app
from memline.compose import House
from memline.contracts import incidents, tracing
from memline.errors import ConfigurationError
from memline.settings import load_settings
from memline.telemetry.tracing import LastSpans

DSN = "http://key@127.0.0.1:9/1"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    observing.forget()
    yield
    observing.forget()


def test_without_a_setting_nothing_is_installed() -> None:
    observing.observe(load_settings(), role="application")
    assert (incidents._sink, tracing._tracer) == (None, None)


def test_an_application_keeps_its_logging_its_sentry_and_its_tracer_provider(memline_home: Path) -> None:
    handlers, provider = logging.getLogger().handlers[:], trace.get_tracer_provider()
    settings = load_settings(sentry_dsn=DSN, otlp_endpoint="http://127.0.0.1:9", home=memline_home)
    observing.observe(settings, role="application")
    assert incidents._sink is not None and tracing._tracer is not None
    assert (logging.getLogger().handlers, trace.get_tracer_provider()) == (handlers, provider)
    assert not sentry_sdk.get_client().is_active()
    first = incidents._sink, tracing._tracer
    observing.observe(settings, role="application")
    assert (incidents._sink, tracing._tracer) == first


def test_an_application_sends_what_waits_when_it_ends(memline_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last: list[object] = []
    monkeypatch.setattr(observing, "at_last", last.append)
    observing.observe(load_settings(sentry_dsn=DSN, otlp_endpoint="http://127.0.0.1:9", home=memline_home), role="application")
    sink, spans = last
    assert sink == incidents._sink.close and isinstance(spans, LastSpans)  # type: ignore[union-attr]


def test_tracing_on_asks_the_applications_provider() -> None:
    observing.observe(load_settings(tracing="on"), role="application")
    assert tracing._tracer is not None


@pytest.mark.parametrize("setting", [{"sentry_dsn": "nonsense"}, {"otlp_endpoint": "nonsense"}, {"traces_rate": 2}])
def test_a_setting_that_can_not_be_is_an_error(setting: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        observing.observe(load_settings(**setting), role="application")


def test_nothing_heavy_is_imported_before_a_setting_asks_for_it() -> None:
    code = (
        "import sys; from memline import Memory; import memline.observing; "
        "print([name for name in ('sentry_sdk', 'opentelemetry', 'prometheus_client') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_the_extra_memline_works_and_a_setting_that_needs_it_says_so(memline_home: Path) -> None:
    code = textwrap.dedent("""
        import sys
        for name in ("prometheus_client", "sentry_sdk", "opentelemetry"):
            sys.modules[name] = None  # as if it were not installed
        from memline import Memory
        from memline.errors import MissingPackage
        from memline.settings import load_settings
        with Memory() as memory:
            assert memory.add("I live in Rome.", user_id="ann", infer=False, wait=True, timeout=240)["results"]
        for asked in ({"sentry_dsn": "http://key@127.0.0.1:9/1"}, {"tracing": "on"}, {"otlp_endpoint": "http://127.0.0.1:9"}):
            try:
                Memory(settings=load_settings(**asked))
            except MissingPackage as error:
                assert "memline[observe]" in str(error) and "MEMLINE_" in str(error)
            else:
                raise AssertionError(asked)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_command_that_only_looks_imports_neither_sentry_nor_opentelemetry(memline_home: Path) -> None:
    code = textwrap.dedent("""
        import runpy, sys
        sys.argv = ["memline", "jobs", "list"]
        try:
            runpy.run_module("memline", run_name="__main__")
        except SystemExit as ended:
            assert not ended.code, ended.code
        print([name for name in ("sentry_sdk", "opentelemetry") if name in sys.modules])
    """)
    variables = {"MEMLINE_SENTRY_DSN": DSN, "MEMLINE_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | variables)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stdout + done.stderr


def test_whoever_builds_what_runs_stages_is_heard_of(memline_home: Path) -> None:
    house = House(load_settings(sentry_dsn=DSN, home=memline_home))
    assert incidents._sink is None
    try:
        assert house.parts is not None and incidents._sink is not None
    finally:
        house.close(0)


def test_what_closing_tells_at_exit_is_still_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    class Opened:
        def close(self) -> None:
            told.append("closed")

    monkeypatch.setattr(lifetime, "_open_houses", {Opened()})
    monkeypatch.setattr(lifetime, "_last", [])
    lifetime.at_last(lambda: told.append("sent"))
    lifetime._close_all()
    assert told == ["closed", "sent"]


@pytest.mark.parametrize("command", [["metrics", "--serve", "0"], ["flower"]])
def test_a_command_that_runs_until_it_is_stopped_writes_lines_as_a_worker_does(
    command: list[str], monkeypatch: pytest.MonkeyPatch, memline_home: Path
) -> None:
    seen: list[tuple[str, str]] = []

    def ends(*_: object, **__: object) -> None:
        raise ConfigurationError("as far as this test goes")

    monkeypatch.setattr("memline.telemetry.logs.install", lambda level, form: seen.append((level, form)))
    monkeypatch.setattr("memline.telemetry.metrics_server.MetricsServer", ends)
    monkeypatch.setattr("memline.cli.flower._flower", ends)
    monkeypatch.setenv("MEMLINE_LOG_FORMAT", "json")
    CliRunner().invoke(app, command)
    assert seen == [("info", "json")]


def test_a_forked_child_does_not_wait_for_a_lock_that_its_parent_held(memline_home: Path) -> None:
    held = observing._lock
    with held:
        observing._renew_after_fork()
        assert observing._lock is not held
