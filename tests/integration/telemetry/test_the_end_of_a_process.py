"""What a process did last is told before it ends, and a collector or a Sentry that hangs does not keep it from ending."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.listeners import Collector, SentryServer

#: A slow machine is no Sentry and no collector that is away: what is told at the end is waited for.
PATIENT = """
import memline.telemetry.sentry
import memline.telemetry.tracing
memline.telemetry.sentry.open_sentry.__kwdefaults__["timeout"] = 120.0
memline.telemetry.tracing._LAST = 120.0
"""

#: Hands a turn over and ends, so that its stages run at exit; before that a search fails.
APPLICATION = """
import sqlite3
from pathlib import Path
from memline import Memory
memory = Memory()
memory.add("I like green tea.", user_id="ann", infer=False, wait=True, timeout=240)
ledger = next(Path(memory._house.settings.home_folder()).glob("*.db"))
with sqlite3.connect(ledger, timeout=120) as other:
    other.execute("ALTER TABLE memories RENAME TO away")
try:
    memory.search("tea", filters={"user_id": "ann"})
except Exception as error:
    print(type(error).__name__)
with sqlite3.connect(ledger, timeout=120) as other:
    other.execute("ALTER TABLE away RENAME TO memories")
memory.add("I like black tea.", user_id="ann", infer=False)
"""


def run(home: Path, code: str, **variables: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMLINE_", "OPENAI_"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=kept | {"MEMLINE_HOME": str(home), "MEMLINE_EXIT_DRAIN": "120", "MEMLINE_SEARCH_DEADLINE": "30"} | variables,
        capture_output=True,
        text=True,
        timeout=480,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_search_that_failed_last_and_what_ran_at_exit_are_told(memline_home: Path) -> None:
    with SentryServer() as sentry, Collector() as collector:
        error = run(
            memline_home,
            PATIENT + APPLICATION,
            MEMLINE_SENTRY_DSN=sentry.dsn,
            MEMLINE_OTLP_ENDPOINT=collector.endpoint,
            OTEL_BSP_SCHEDULE_DELAY="600000",  # not before the end
        )
        sentry.wait_until(lambda: bool(sentry.items("event")), 120)  # sent by the process, and perhaps not yet read here
        events = sentry.items("event")
        spans = collector.spans
    assert [event["tags"]["reason"] for event in events if event["tags"].get("where") == "search"] == [error]
    added = {span.trace_id for span in spans if span.name == "memline add"}
    saved = {span.trace_id for span in spans if span.name == "memline save"}
    assert len(added) == 2 and saved == added


def test_a_collector_and_a_sentry_that_never_answer_keep_no_process(memline_home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert run(
            memline_home,
            APPLICATION,
            MEMLINE_SENTRY_DSN=f"http://key@127.0.0.1:{port}/1",
            MEMLINE_OTLP_ENDPOINT=f"http://127.0.0.1:{port}",
            OTEL_EXPORTER_OTLP_TIMEOUT="3600",
        )
