"""What a real worker and a real application tell: their log, what Sentry gets and what a collector gets; and that no text is in it.

Redis, PostgreSQL, Celery and OpenAI's client (against the simulator) are real; Sentry and the collector are HTTP servers on loopback.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import redis
import sqlalchemy as sa

from memline.cli.simulator import Simulator, Step
from memline.workers.celery_app import make_app
from tests.listeners import Collector, SentryServer, Span
from tests.services import PostgresServer, RedisServer
from tests.workers import Worker

#: In messages, replies, questions, the key and the passwords: nothing that leaves may have any of it.
TEXT, QUESTION, REPLY = "canarytext-zebra", "canaryquestion-zebra", "canaryreply-zebra"
KEY, REDIS_PASSWORD, SQL_PASSWORD = "canarykey-zebra", "canaryredis-zebra", "canarysql-zebra"
STAGES = ["extract", "embed", "dedup", "persist", "link", "save"]

#: Seconds for what a slow machine may take its time for.
LONG = 240

#: An application of its own, with a trace around what it does. Arguments: what to do.
APPLICATION = f"""
import sys
import memline.telemetry.sentry
import memline.telemetry.tracing
import redis
memline.telemetry.sentry.open_sentry.__kwdefaults__["timeout"] = 120.0  # a slow machine is no Sentry, collector or Redis that is away
memline.telemetry.tracing._LAST = 120.0
plain = redis.Redis.from_url
redis.Redis.from_url = lambda url, **given: plain(url, **given | {{"socket_timeout": 120, "socket_connect_timeout": 120}})
from opentelemetry.sdk.trace import TracerProvider
from memline import Memory
tracer = TracerProvider().get_tracer("application")
with Memory() as memory:
    if sys.argv[1] == "add":
        with tracer.start_as_current_span("request") as span:
            receipt = memory.add(sys.argv[2], user_id="ann")
            print(receipt.id, format(span.get_span_context().trace_id, "032x"), format(span.get_span_context().span_id, "016x"))
        if len(sys.argv) > 3:
            receipt.wait(240)
            print(len(memory.search("{QUESTION}", filters={{"user_id": "ann"}})["results"]))
    else:
        try:
            memory.search("{QUESTION}", filters={{"user_id": "ann"}})
        except Exception as error:
            print(type(error).__name__)
"""


@dataclass
class World:
    """All of it, running."""

    variables: dict[str, str]
    simulator: Simulator
    sentry: SentryServer
    collector: Collector
    worker: Worker
    engine: sa.Engine

    def application(self, *arguments: str) -> list[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMLINE_", "OPENAI_"))}
        done = subprocess.run(
            [sys.executable, "-c", APPLICATION, *arguments], env=kept | self.variables, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def event(self, name: str, value: str) -> dict[str, Any] | None:
        """The event with a tag, if it is there."""
        return next((event for event in self.sentry.items("event") if event.get("tags", {}).get(name) == value), None)

    def spans(self, trace: str) -> list[Span]:
        return [span for span in self.collector.spans if span.trace_id == trace]

    def rename(self, *tables: tuple[str, str]) -> None:
        with self.engine.connect() as connection:
            for one, other in tables:
                connection.execute(sa.text(f"ALTER TABLE {one} RENAME TO {other}"))


@dataclass
class Story:
    """What has happened; what left of it is in `world`."""

    world: World
    job: str
    trace: str
    request: str
    results: int
    refused: str
    refused_trace: str
    unreadable: str
    search_error: str


@pytest.fixture(scope="module", params=["threads", "prefork"])
def story(
    request: pytest.FixtureRequest, redis_server: RedisServer, postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    database = postgres_server.create_database()
    url = sa.make_url(postgres_server.url(database))
    with redis.Redis.from_url(redis_server.url) as client:
        client.acl_setuser("memline", enabled=True, passwords=[f"+{REDIS_PASSWORD}"], keys=["*"], channels=["*"], categories=["+@all"])
    engine = sa.create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with Simulator() as simulator, SentryServer() as sentry, Collector() as collector:
        variables = {
            "MEMLINE_HOME": str(tmp_path_factory.mktemp("home")),
            "MEMLINE_REDIS_URL": redis_server.url.replace("//", f"//memline:{REDIS_PASSWORD}@"),
            "MEMLINE_REDIS_PREFIX": database,
            "MEMLINE_LEDGER_URL": url.set(password=SQL_PASSWORD).render_as_string(hide_password=False),
            "MEMLINE_OPENAI_API_KEY": KEY,
            "MEMLINE_OPENAI_BASE_URL": simulator.url,
            "MEMLINE_MAX_ATTEMPTS": "2",
            "MEMLINE_SENTRY_DSN": sentry.dsn,
            "MEMLINE_SENTRY_ENVIRONMENT": "tests",
            "MEMLINE_SENTRY_TRACES": "1",
            "MEMLINE_OTLP_ENDPOINT": collector.endpoint,
            "MEMLINE_LOG_FORMAT": "json",
            "MEMLINE_SEARCH_DEADLINE": "30",
            "MEMLINE_STOP_WITHIN": "110",
            "OTEL_BSP_SCHEDULE_DELAY": "200",
        }
        with Worker(variables, "--log-level", "DEBUG", "--pool", request.param, "--concurrency", "2") as worker:
            yield tell(World(variables, simulator, sentry, collector, worker, engine))
    engine.dispose()
    with redis.Redis.from_url(redis_server.url) as client:
        client.acl_deluser("memline")
    postgres_server.drop_database(database)


def tell(world: World) -> Story:
    """A turn that becomes memory and is found; two that fail; a ledger that breaks under a loop, a task and a search; the end."""
    sentry = world.sentry
    job, trace, request, results = world.application("add", f"I keep {TEXT} in a hive.", "wait")
    world.simulator.script(Step(status=401))
    refused, refused_trace, _ = world.application("add", f"I keep {TEXT} elsewhere.")
    assert sentry.wait_until(lambda: world.event("job", refused) is not None, LONG)
    world.simulator.script(*[f"no JSON but {REPLY}"] * 3)
    unreadable, _, _ = world.application("add", f"I keep {TEXT} twice.")
    assert sentry.wait_until(lambda: world.event("job", unreadable) is not None, LONG)
    told = {f"memline {name}" for name in ("add", "accept", *STAGES, "index write", "ask model", "ask embedder")}
    assert world.collector.wait_until(lambda: told <= {span.name for span in world.spans(trace)}, LONG)
    assert world.collector.wait_until(lambda: "memline extract" in {span.name for span in world.spans(refused_trace)}, LONG)
    loops = {f"memline-{name}" for name in ("accept", "relay", "sweep", "prune", "expire", "reconcile")}
    assert sentry.wait_until(lambda: loops <= {each["monitor_slug"] for each in sentry.items("check_in")}, LONG)  # before they fail
    world.rename(("leases", "leases_away"), ("memories", "memories_away"))
    app = make_app(world.variables["MEMLINE_REDIS_URL"], prefix=world.variables["MEMLINE_REDIS_PREFIX"])
    app.signature("memline.extract", args=("lease-zebra", 1), immutable=True).apply_async(retry=False)
    app.close()
    (search_error,) = world.application("search")
    wanted = [("where", "loop sweep"), ("lease", "lease-zebra"), ("where", "search")]
    assert sentry.wait_until(lambda: all(world.event(*tag) is not None for tag in wanted), LONG)
    world.rename(("leases_away", "leases"), ("memories_away", "memories"))
    world.worker.stop()  # what was waiting to be sent is sent
    return Story(world, job, trace, request, int(results), refused, refused_trace, unreadable, search_error)


def test_one_trace_shows_a_turn_from_the_application_to_the_index(story: Story) -> None:
    assert story.results >= 1
    spans = {span.name: span for span in story.world.spans(story.trace)}
    add = spans["memline add"]
    assert (add.parent, add.service, add.attributes["memline.job"]) == (story.request, "memline", story.job)
    for name in (*(f"memline {stage}" for stage in STAGES), "memline accept"):
        assert (spans[name].parent, spans[name].service) == (add.id, "memline-worker"), name
    # the memory's, and those of entities that the fifth stage made
    writes = {span.parent for span in story.world.spans(story.trace) if span.name == "memline index write"}
    assert add.id in writes <= {add.id, spans["memline link"].id}
    assert spans["memline ask model"].parent == spans["memline extract"].id
    assert spans["memline ask embedder"].parent == spans["memline embed"].id
    assert spans["memline persist"].attributes["memline.stage"] == "persist"
    assert "memline extract" in {span.name for span in story.world.spans(story.refused_trace)}


def test_a_search_is_a_trace_with_its_phases(story: Story) -> None:
    all_spans = story.world.collector.spans
    found, broken = sorted((span for span in all_spans if span.name == "memline search"), key=lambda span: span.status)
    assert found.attributes["memline.results"] >= 1
    inside = {span.name for span in all_spans if span.parent == found.id}
    assert {"memline search analyse", "memline search embed", "memline search read", "memline search score"} <= inside
    assert broken.attributes["error.type"] == story.search_error


def test_a_failed_job_raises_an_alert_with_its_id_stage_namespace_and_reason(story: Story) -> None:
    event = story.world.event("job", story.refused)
    assert event is not None
    assert event["level"] == "error" and event["environment"] == "tests"
    tags = event["tags"]
    assert (tags["stage"], tags["namespace"], tags["reason"], tags["role"]) == ("extract", "default", "ProviderRefused", "worker")
    assert event["fingerprint"] == ["memline", "job failed", "extract", "ProviderRefused"]
    assert {"celery", "sqlalchemy", "redis", "openai"} <= set(event["sdk"]["integrations"])
    unreadable = story.world.event("job", story.unreadable)
    assert unreadable is not None and unreadable["tags"]["reason"] == "ReplyUnreadable"


def test_each_loop_checks_in_with_its_schedule_and_margins(story: Story) -> None:
    checked: dict[str, list[dict[str, Any]]] = {}
    for each in story.world.sentry.items("check_in"):
        checked.setdefault(each["monitor_slug"].removeprefix("memline-"), []).append(each)
    assert {"accept", "relay", "sweep", "prune", "expire", "reconcile"} <= set(checked)
    assert {rounds[0]["status"] for rounds in checked.values()} == {"ok"}
    accept, prune = checked["accept"][0]["monitor_config"], checked["prune"][0]["monitor_config"]
    assert accept["schedule"] == {"type": "interval", "value": 1, "unit": "minute"}
    assert accept["checkin_margin"] == 2 and accept["failure_issue_threshold"] == 3 and accept["max_runtime"] == 5
    assert prune["schedule"]["value"] == 5 and prune["checkin_margin"] == 15


def test_an_error_in_a_loop_in_a_task_and_in_a_search_is_told_by_class_and_place(story: Story) -> None:
    world = story.world
    loop, task, search = world.event("where", "loop sweep"), world.event("lease", "lease-zebra"), world.event("where", "search")
    assert loop is not None and task is not None and search is not None
    assert task["tags"]["stage"] == "extract" and task["transaction"] == "memline.extract"
    tags = search["tags"]
    assert (tags["role"], tags["namespace"], tags["reason"]) == ("application", "default", story.search_error)
    assert search["sdk"]["integrations"] == [] and loop["tags"]["loop"] == "sweep"
    for event in (loop, task, search):
        innermost = event["exception"]["values"][-1]
        assert "value" not in innermost and innermost["type"] in ("ProgrammingError", "UndefinedTable")
        frames = innermost["stacktrace"]["frames"]
        assert any("memline" in frame["module"] for frame in frames)
        assert all(not {"vars", "context_line", "pre_context", "abs_path"} & set(frame) for frame in frames)


def test_times_of_tasks_are_told_with_statements_and_no_values(story: Story) -> None:
    spans = [span for each in story.world.sentry.items("transaction") for span in each["spans"]]
    assert "db" in {span["op"] for span in spans}
    kept = {"trace_id", "span_id", "parent_span_id", "op", "origin", "status", "description", "start_timestamp", "timestamp"}
    assert all(set(span) <= kept | {"same_process_as_parent"} for span in spans)
    assert story.world.sentry.kinds() <= {"event", "check_in", "transaction", "client_report"}


def test_every_line_of_the_worker_is_json_and_says_what_it_is_about(story: Story) -> None:
    lines = [json.loads(line) for line in story.world.worker.output]
    done = [line for line in lines if line["event"] in ("stage done", "committed")]
    assert {line["stage"] for line in done} == set(STAGES)
    assert all(line["namespace"] == "default" and line["lease"] and ("job" in line or "jobs" in line) for line in done)
    assert {"accepted", "shown", "loop started", "loop ended", "job failed"} <= {line["event"] for line in lines}
    failed = next(line for line in lines if line["event"] == "job failed" and line["job"] == story.refused)
    assert failed["level"] == "error" and failed["stage"] == "extract" and "ProviderRefused" in failed["reason"]
    assert any(line["logger"].startswith("celery") and line["level"] == "debug" for line in lines)
    of_task = [line for line in lines if line["logger"] == "celery.app.trace" and "error" in line]
    assert ("ProgrammingError", "lease-zebra") in {(line["error"]["type"], line.get("lease")) for line in of_task}
    assert any(line["event"].startswith("worker: stopped") for line in lines)


def test_no_text_reply_question_key_or_password_has_left(story: Story) -> None:
    world = story.world
    told = {"log": "".join(world.worker.output).encode(), "sentry": world.sentry.everything, "traces": world.collector.everything}
    for where, everything in told.items():
        assert len(everything) > 1000, where
        for canary in (TEXT, QUESTION, REPLY, KEY, REDIS_PASSWORD, SQL_PASSWORD):
            assert canary.encode() not in everything, (where, canary)
        # nor of the rest of the text, of the prompt, or of what OpenAI's client sends
        for words in (b"canary", b"hive", b"You read one turn", b"Bearer", b"json_schema"):
            assert words not in everything, (where, words)
