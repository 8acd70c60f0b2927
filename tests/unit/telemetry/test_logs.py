"""One line an event, with what it is about, and nothing that another package or an exception might quote."""

from __future__ import annotations

import contextvars
import io
import json
import logging
import sys
import threading
import warnings
from typing import Any

import pytest
from celery.signals import setup_logging

from memline.contracts.about import about, about_of, at_hand, told
from memline.contracts.errors import ProviderRefused
from memline.telemetry import logs
from memline.telemetry.logs import JsonLines, TextLines, install

CANARY = "Dora keeps bees"


def record(name: str, message: str, *args: Any, level: int = logging.INFO, **given: Any) -> logging.LogRecord:
    made = logging.LogRecord(name, level, "/somewhere/module.py", 7, message, args, given.pop("exc_info", None))
    for key, value in given.items():
        setattr(made, key, value)
    return made


def as_json(made: logging.LogRecord) -> dict[str, Any]:
    line = JsonLines().format(made)
    assert "\n" not in line
    found: dict[str, Any] = json.loads(line)
    return found


def raised(error: Exception) -> Any:
    try:
        raise error
    except Exception:
        return sys.exc_info()


def test_a_line_has_time_level_logger_event_and_what_it_is_about() -> None:
    with about(stage="extract", lease="l-1", job="j-1", namespace="shop"):
        line = as_json(record("memline.runner", "stage done", **told(jobs=1, seconds=0.25)))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info", "logger": "memline.runner", "event": "stage done", "stage": "extract", "lease": "l-1", "job": "j-1",
        "namespace": "shop", "jobs": 1, "seconds": 0.25,
    }  # fmt: skip


def test_the_text_form_is_one_line_that_reads() -> None:
    with about(stage="extract", job="j-1"):
        line = TextLines().format(record("memline.runner", "job\nretried", **told(reason="a b", wait=1.0)))
    assert line.split(" ", 1)[1] == 'INFO    memline.runner: job retried stage=extract job=j-1 reason="a b" wait=1'


def test_what_a_line_is_about_takes_the_place_of_nothing_that_it_is() -> None:
    line = as_json(record("memline.runner", "stage done", **told(event="x", level="x", jobs=1)))
    assert (line["event"], line["level"], line["jobs"]) == ("stage done", "info", 1)


def test_what_is_at_hand_is_nested_ends_with_its_block_and_goes_along_with_a_copied_context() -> None:
    found: list[Any] = []
    with about(stage="extract", jobs=2), about(job="j-1", loop=None):
        assert at_hand() == {"stage": "extract", "jobs": 2, "job": "j-1"}
        thread = threading.Thread(target=contextvars.copy_context().run, args=(lambda: found.append(at_hand()),))
        thread.start()
        thread.join()
    assert found == [{"stage": "extract", "jobs": 2, "job": "j-1"}]
    assert at_hand() == {}


def test_an_exception_takes_along_what_was_at_hand_where_it_was_raised() -> None:
    with pytest.raises(RuntimeError) as failed, about(stage="extract"), about(job="j-1"):
        raise RuntimeError(CANARY)
    assert about_of(failed.value) == {"stage": "extract", "job": "j-1"}
    line = as_json(record("celery.app.trace", "it failed", exc_info=(RuntimeError, failed.value, failed.tb)))
    assert line["job"] == "j-1"


@pytest.mark.parametrize("form", [JsonLines(), TextLines()])
def test_an_exception_is_its_class_and_place_and_its_words_only_where_memline_wrote_them(form: logging.Formatter) -> None:
    foreign = form.format(record("memline.loop", "failed", exc_info=raised(ValueError(CANARY))))
    assert "ValueError" in foreign and "test_logs.py" in foreign and CANARY not in foreign
    own = form.format(record("memline.loop", "failed", exc_info=raised(ProviderRefused("The server refused the key."))))
    assert "The server refused the key." in own


@pytest.mark.parametrize(
    ("logger", "message", "args", "shown"),
    [
        ("celery.worker", "Connected to %s", ("redis://:secret@host",), "Connected to <str>"),
        ("celery.worker", "mingle: all alone", (), "mingle: all alone"),
        ("celery.app.trace", "Task %(name)s[%(id)s] %(exc)s", ({"name": "memline.link", "id": "t-1", "exc": CANARY},),
         "Task memline.link[t-1] <str>"),
        ("sqlalchemy.engine", "[%s] %r", ("generated", (CANARY,)), "[<str>] <tuple>"),
        ("openai", f"Request: {CANARY}", (), f"a message of {len(CANARY) + 9} characters at module:7"),
        ("other", "%s of %d", (CANARY, 3), "<str> of 3"),
        ("other", "%d", (CANARY,), "%d"),
        ("other", "%(name)s", ({"name": CANARY},), "<str>"),
    ],
)  # fmt: skip
def test_of_other_packages_the_wording_is_told_and_no_value_that_could_be_a_text(
    logger: str, message: str, args: tuple[Any, ...], shown: str
) -> None:
    assert as_json(record(logger, message, *args))["event"] == shown


def test_installed_it_takes_every_line_warning_and_uncaught_error_of_the_process() -> None:
    out = io.StringIO()
    install("debug", "json", stream=out)
    logging.getLogger("memline.x").debug("fine")
    logging.getLogger("sqlalchemy.engine.Engine").info("INSERT %r", CANARY)
    logging.getLogger("other").info("not worth a line")
    logging.getLogger("other").warning("%s", CANARY)
    thread = threading.Thread(target=lambda: raised(ValueError(CANARY)) and [][0])
    thread.start()
    thread.join()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = sys.modules["memline.telemetry.logs"]._show_warning  # catch_warnings took it out
        warnings.warn(CANARY, stacklevel=1)
    sys.excepthook(*raised(KeyError(CANARY)))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(line["logger"], line["level"]) for line in lines] == [
        ("memline.x", "debug"), ("other", "warning"), ("memline", "critical"), ("memline.warnings", "warning"), ("memline", "critical"),
    ]  # fmt: skip
    assert [line["error"]["type"] for line in lines if "error" in line] == ["IndexError", "KeyError"]
    assert CANARY not in out.getvalue()
    assert setup_logging.send(sender=None)  # somebody listens: Celery sets up nothing


def test_a_line_that_can_not_be_shown_is_told_by_its_place_without_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    install("info", "json", stream=out)
    logging.getLogger("memline.x").info("%d", CANARY)
    assert out.getvalue().startswith("a line of memline.x at test_logs:") and out.getvalue().endswith("TypeError\n")
    assert CANARY not in out.getvalue() + capsys.readouterr().err
    out.close()
    logging.getLogger("memline.x").info("fine")  # the stream is gone: nobody to tell, and no harm
    assert capsys.readouterr().err == ""


def test_an_error_that_could_not_be_raised_is_a_line_without_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    install("info", "json", stream=out)

    class Ends:
        def __del__(self) -> None:
            raise ValueError(CANARY)

    Ends()
    line = json.loads(out.getvalue())
    assert (line["level"], line["error"]["type"]) == ("error", "ValueError")
    assert CANARY not in out.getvalue() + capsys.readouterr().err


def test_a_package_in_a_folder_named_memline_is_none_of_ours() -> None:
    out = io.StringIO()
    install("info", "json", stream=out)
    show = warnings.showwarning
    show(UserWarning(CANARY), UserWarning, "/srv/memline/lib/python3/site-packages/other/x.py", 3)
    show(UserWarning("the words are ours"), UserWarning, logs.__file__, 3)
    told = [json.loads(line)["event"] for line in out.getvalue().splitlines()]
    assert told == ["UserWarning at site-packages/other/x.py:3", "UserWarning: the words are ours (memline/telemetry/logs.py:3)"]


def test_no_character_breaks_a_line_in_two() -> None:
    line = JsonLines().format(record("memline.x", "one\ntwo\x85three\u2028four\u2029five"))
    assert len(line.splitlines()) == 1
    assert json.loads(line)["event"] == "one\ntwo\x85three\u2028four\u2029five"
    assert len(TextLines().format(record("memline.x", "one\ntwo\x85three\u2028four")).splitlines()) == 1
