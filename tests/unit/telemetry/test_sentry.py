"""What may be told to Sentry, and how often; what the SDK really sends is looked at in tests/integration/telemetry."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
import sentry_sdk
from sentry_sdk.integrations.dedupe import DedupeIntegration

from memline.contracts import incidents
from memline.contracts.about import about
from memline.contracts.errors import Closed, ConfigurationError, InvalidInput, MemlineError, NotFound, ServiceUnavailable
from memline.contracts.incidents import FailedJob
from memline.telemetry.scrub import scrub_breadcrumb, scrub_event, scrub_transaction
from memline.telemetry.sentry import MOST_FAILED, SentryIncidents, _renew_after_fork, open_sentry

SECRET = "Dora keeps bees"

#: A project of Sentry's where nobody listens.
NOWHERE = "http://key@127.0.0.1:9/1"


def full_event() -> dict[str, Any]:
    """An event with a secret wherever Sentry has room for one."""
    frame = {"filename": "memline/x.py", "abs_path": SECRET, "function": "f", "module": "memline.x", "lineno": 3, "in_app": True,
             "vars": {"text": SECRET}, "context_line": SECRET, "pre_context": [SECRET], "post_context": [SECRET]}  # fmt: skip
    foreign = {"type": "ValueError", "module": "builtins", "value": SECRET, "stacktrace": {"frames": [frame]},
               "mechanism": {"type": "celery", "handled": False, "data": {"x": SECRET}}}  # fmt: skip
    own = {"type": "ServiceUnavailable", "module": "memline.contracts.errors", "value": "Redis does not answer."}
    return {
        "event_id": "e", "level": "error", "logger": SECRET, "message": SECRET, "logentry": {"message": SECRET, "params": [SECRET]},
        "exception": {"values": [own, foreign]}, "request": {"headers": {"x": SECRET}, "data": SECRET}, "user": {"id": SECRET},
        "extra": {"celery-job": {"task_name": "memline.embed", "args": [SECRET], "kwargs": {"x": SECRET}}, "sys.argv": [SECRET]},
        "tags": {"job": "j-1", "text": SECRET}, "contexts": {"trace": {"trace_id": "t", "data": {"x": SECRET}}, "app": {"x": SECRET}},
        "breadcrumbs": {"values": [{"category": "query", "message": SECRET, "data": {"x": SECRET}}]}, "modules": {SECRET: "1"},
        "threads": {"values": [{"name": SECRET}]}, "transaction": SECRET, "sdk": {"integrations": ["celery"]},
    }  # fmt: skip


def test_only_what_is_on_the_list_passes() -> None:
    event = full_event()
    event["logger"] = "memline.x"
    told = scrub_event(event, {})
    assert SECRET not in json.dumps(told)
    assert told["tags"] == {"job": "j-1", "stage": "embed"}
    own, foreign = told["exception"]["values"]
    assert own["value"] == "Redis does not answer."
    assert foreign["mechanism"] == {"type": "celery", "handled": False}
    assert foreign["stacktrace"]["frames"] == [
        {"filename": "memline/x.py", "function": "f", "module": "memline.x", "lineno": 3, "in_app": True}
    ]
    assert told["contexts"] == {"trace": {"trace_id": "t"}}
    assert told["breadcrumbs"] == {"values": [{"category": "query"}]}


def test_an_event_is_tagged_with_what_was_at_hand_where_its_error_was_raised() -> None:
    try:
        with about(stage="embed", lease="l-1", namespace="shop", jobs=3):
            raise ValueError(SECRET)
    except ValueError:
        told = scrub_event({"exception": {"values": []}}, {"exc_info": sys.exc_info()})
    assert told["tags"] == {"stage": "embed", "lease": "l-1", "namespace": "shop", "jobs": "3"}


def test_a_tag_is_cut() -> None:
    assert scrub_event({"tags": {"job": "j" * 1000}}, {})["tags"]["job"] == "j" * 200


def test_of_a_check_in_only_what_makes_it_one_passes() -> None:
    told = scrub_event(full_event() | {"type": "check_in", "monitor_slug": "memline-sweep", "status": "ok", "duration": 1.0}, {})
    assert set(told) == {"event_id", "type", "monitor_slug", "status", "duration", "sdk"}


def test_of_a_transaction_statements_and_names_of_commands_pass() -> None:
    spans = [
        {"op": "db", "description": "SELECT 1", "data": {"params": SECRET}, "tags": {"x": SECRET}},
        {"op": "db.redis", "description": f"XADD {SECRET}"},
        {"op": "gen_ai.chat", "description": SECRET, "data": {"gen_ai.request.messages": SECRET}},
        {"op": "http.client", "description": SECRET},
    ]
    told = scrub_transaction(full_event() | {"type": "transaction", "logger": "x", "spans": spans}, {})
    assert SECRET not in json.dumps(told)
    assert [span.get("description") for span in told["spans"]] == ["SELECT 1", "XADD", None, None]


def test_a_breadcrumb_has_words_only_from_our_own_log() -> None:
    assert scrub_breadcrumb({"category": "memline.runner", "message": "stage done", "data": {"x": SECRET}}, {}) == {
        "category": "memline.runner", "message": "stage done",
    }  # fmt: skip
    assert scrub_breadcrumb({"category": "httplib", "message": SECRET, "level": "info"}, {}) == {"category": "httplib", "level": "info"}


class Client:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.options = sentry_sdk.Client().options
        self.events: list[dict[str, Any]] = []

    def capture_event(self, event: dict[str, Any], hint: object = None, scope: object = None) -> None:
        self.events.append(event)


class Seconds:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.fixture
def seconds() -> Seconds:
    return Seconds()


@pytest.fixture
def sentry(client: Client, seconds: Seconds) -> SentryIncidents:
    return SentryIncidents(client, "worker", timer=seconds)  # type: ignore[arg-type]


def failed(reason: str = "ProviderRefused: no", job: str = "j-1") -> FailedJob:
    return FailedJob(job, "extract", "shop", reason, 6)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("ProviderRefused: The server refused it.", "ProviderRefused"),
        ("extract: RuntimeError", "RuntimeError"),
        ("The worker died or hung 6 times at embed.", "WorkerDied"),
        (f"{SECRET}: more", "Other"),
    ],
)
def test_the_reason_of_a_job_is_told_by_its_class(reason: str, kind: str) -> None:
    assert failed(reason).kind == kind


def test_a_failed_job_is_an_event_grouped_by_stage_and_reason(sentry: SentryIncidents, client: Client) -> None:
    sentry.job_failed(failed(f"ValueError: {SECRET}"))
    (event,) = client.events
    assert event["tags"] == {
        "job": "j-1", "stage": "extract", "namespace": "shop", "reason": "ValueError", "tries": 6, "role": "worker",
    }  # fmt: skip
    assert event["fingerprint"] == ["memline", "job failed", "extract", "ValueError"]
    with about(lease="l-1", job="another"):
        sentry.job_failed(failed())
    assert (client.events[-1]["tags"]["lease"], client.events[-1]["tags"]["job"]) == ("l-1", "j-1")
    assert SECRET not in json.dumps(event)


def test_a_flood_of_failed_jobs_is_cut_and_counted(sentry: SentryIncidents, client: Client, seconds: Seconds) -> None:
    for number in range(MOST_FAILED + 7):
        sentry.job_failed(failed(job=f"j-{number}"))
    assert len(client.events) == MOST_FAILED
    seconds.now += 60
    sentry.job_failed(failed())
    assert "7 failed jobs before it" in client.events[-1]["logentry"]["message"]
    sentry.job_failed(failed())
    assert "before it" not in client.events[-1]["logentry"]["message"]


def test_one_error_at_one_place_is_told_once_a_minute(sentry: SentryIncidents, client: Client, seconds: Seconds) -> None:
    for _ in range(3):
        sentry.broke("loop relay", ServiceUnavailable("away"))
    sentry.broke("loop relay", ValueError(SECRET))
    assert len(client.events) == 2
    seconds.now += 60
    sentry.broke("loop relay", ServiceUnavailable("away"))
    assert len(client.events) == 3
    assert client.events[-1]["tags"] == {"where": "loop relay", "reason": "ServiceUnavailable", "role": "worker"}


def test_a_loop_checks_in_once_a_minute_and_says_when_it_failed(sentry: SentryIncidents, client: Client, seconds: Seconds) -> None:
    for _ in range(120):
        sentry.round_ended("sweep", every=1.0, seconds=0.1, error=None)
        seconds.now += 1
    assert [event["status"] for event in client.events] == ["ok", "ok"]
    seconds.now += 60
    sentry.round_ended("sweep", every=1.0, seconds=0.1, error=ValueError(SECRET))
    assert client.events[-1]["status"] == "error" and client.events[-1]["monitor_slug"] == "memline-sweep"
    sentry.round_ended("reconcile", every=900.0, seconds=60, error=None)
    config = client.events[-1]["monitor_config"]
    assert (config["schedule"]["value"], config["checkin_margin"], config["max_runtime"]) == (15, 15, 30)


def test_an_application_that_embeds_the_engine_checks_in_nowhere(client: Client) -> None:
    SentryIncidents(client, "application").round_ended("reconcile", every=5, seconds=1, error=None)  # type: ignore[arg-type]
    assert client.events == []


def test_the_applications_own_sentry_reports_the_same_error_and_its_processors_meet_none_of_memlines() -> None:
    reported: list[str] = []
    met: list[str] = []

    def before_send(event: Any, hint: Any) -> None:
        reported.append(event["exception"]["values"][-1]["type"])

    def processor(event: Any, hint: Any) -> Any:
        met.append("app" if "role" not in event.get("tags", {}) else "memline")
        return event

    dedupe = [DedupeIntegration()]
    own = sentry_sdk.Client(NOWHERE, default_integrations=False, integrations=dedupe, before_send=before_send)
    ours = open_sentry(NOWHERE, role="application", environment="tests", release="memline@0", timeout=0)
    with sentry_sdk.new_scope() as scope:
        scope.set_client(own)
        scope.add_event_processor(processor)
        try:
            raise RuntimeError(SECRET)
        except RuntimeError as error:
            ours.broke("search", error)
            sentry_sdk.capture_exception(error)
    ours.close()
    own.close(timeout=0)
    assert (reported, met) == (["RuntimeError"], ["app"])


def test_notes_that_somebody_added_to_an_error_of_memlines_are_not_told(sentry: SentryIncidents, client: Client) -> None:
    error = ServiceUnavailable("Redis does not answer.")
    error.add_note(SECRET)
    sentry.broke("loop relay", error)
    assert SECRET in json.dumps(client.events)  # the SDK takes them along
    told = scrub_event(client.events[0], {})
    assert [value["value"] for value in told["exception"]["values"]] == ["Redis does not answer."]


def test_who_tells_of_a_failure_does_not_fail_by_telling(
    sentry: SentryIncidents, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr("sentry_sdk.utils.event_from_exception", broken)
    sentry.broke("loop relay", RuntimeError())
    monkeypatch.setattr(client, "capture_event", broken)
    sentry.job_failed(failed())
    sentry.round_ended("sweep", every=1, seconds=1, error=None)
    ours = [record.getMessage() for record in caplog.records if record.name == "memline.sentry"]  # a client of before may still complain
    assert ours == ["Sentry could not be told: ValueError"] * 3
    assert client.events == []


def test_a_forked_child_does_not_wait_for_a_lock_that_its_parent_held(sentry: SentryIncidents) -> None:
    held = sentry._lock
    with held:
        _renew_after_fork()
        assert sentry._lock is not held


def test_what_the_caller_gave_is_nobodys_incident() -> None:
    heard: list[str] = []

    class Sink:
        def broke(self, where: str, error: BaseException) -> None:
            heard.append(f"{where} {type(error).__name__}")

    incidents.use(Sink())  # type: ignore[arg-type]
    try:
        for error in (InvalidInput("no"), ConfigurationError("no"), NotFound("no"), Closed("no"), MemlineError("yes"), ValueError("yes")):
            with pytest.raises(type(error)), incidents.watched("search"):
                raise error
    finally:
        incidents.use(None)
    assert heard == ["search MemlineError", "search ValueError"]


def test_a_dsn_that_is_none_is_refused_without_being_told() -> None:
    with pytest.raises(ConfigurationError, match="MEMLINE_SENTRY_DSN") as refused:
        open_sentry("not-a-dsn-secret", role="application", environment="tests", release="memline@0")
    assert "secret" not in str(refused.value)
