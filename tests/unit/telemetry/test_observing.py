"""Set up once a process, only what a setting asks for, and nothing of the application's touched."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sentry_sdk
from opentelemetry import trace

from memline import observing
from memline.contracts import incidents, tracing
from memline.errors import ConfigurationError
from memline.settings import load_settings

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
