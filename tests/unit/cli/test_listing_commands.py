"""`memline list`, `count`, `entities`, `purge`, `namespace`: what they write and how they end."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.program import memline, memline_json

pytestmark = pytest.mark.usefixtures("light")


def today() -> date:
    """Now, and not when the tests were collected: a day may have ended since."""
    return datetime.now(UTC).date()


def add(text: str, *options: str) -> str:
    found: Any = memline_json("add", text, "--user-id", "mei", "--no-infer", *options)
    return str(found["results"][0]["id"])


def test_a_list_goes_on_by_its_cursor() -> None:
    ids = [add(f"Box {number}.") for number in range(3)]
    first = memline_json("list", "-u", "mei", "-k", "2")
    assert ([item["id"] for item in first["results"]], first["total"]) == (ids[:2], 3)
    rest = memline_json("list", "-u", "mei", "-k", "2", "--cursor", first["next_cursor"])
    assert [item["id"] for item in rest["results"]] == ids[2:]
    assert "next_cursor" not in rest
    shown = memline("list", "-u", "mei", "-k", "2")
    assert "2 of 3" in shown.stderr and first["next_cursor"] in shown.stderr
    refused = memline("list", "-u", "bob", "--cursor", first["next_cursor"], exit_code=1)
    assert "another question" in refused.stderr


def test_memories_are_counted() -> None:
    add("Box 1.", "--metadata", '{"kind": "note"}')
    add("Box 2.")
    assert memline_json("count", "-u", "mei") == {"count": 2}
    assert memline("count", "-u", "mei", "-f", '{"kind": "note"}').stdout.strip() == "1"
    assert "--user-id" in memline("count", exit_code=1).stderr


def test_entities_are_listed_with_their_counts() -> None:
    first = add("we met in Rome")
    add("we saw Rome again")
    found = memline_json("entities", "-u", "mei")["results"]
    assert [(item["name"], item["count"]) for item in found] == [("Rome", 2)]
    assert found[0]["memory_ids"][0] == first
    page = memline("entities", "-u", "mei")
    assert "Rome" in page.stdout and "--cursor" not in page.stderr
    assert "No name" in memline("entities", "-u", "bob").stderr


def test_a_purge_says_what_would_go_and_then_does_it() -> None:
    old = today() - timedelta(days=40)
    gone, kept = add("Deck 3.", "--expiration-date", str(old)), add("Deck 4.", "--expiration-date", str(today() - timedelta(days=3)))
    told = memline_json("purge", "--dry-run")
    assert told == {
        "dry_run": True,
        "grace_days": 30,
        "last_day_before": str(today() - timedelta(days=30)),
        "purged": 0,
        "namespaces": [{"namespace": "default", "memories": 1, "oldest_last_day": str(old)}],
    }
    shown = memline("purge", "--dry-run")
    assert "default" in shown.stdout and str(old) in shown.stdout and "Nothing was changed" in shown.stderr
    memline_json("get", gone)
    done = memline_json("purge")
    assert (done["dry_run"], done["purged"]) == (False, 1)
    memline("get", gone, exit_code=3)
    memline_json("get", kept)
    assert "nothing to purge" in memline("purge").stderr
    assert memline_json("purge")["namespaces"] == []
    assert memline_json("purge", "--grace", "0")["purged"] == 1
    memline("get", kept, exit_code=3)


def test_a_purge_stays_in_the_namespaces_it_was_given() -> None:
    gone = add("Deck 3.", "--expiration-date", "2020-01-01")
    assert memline_json("purge", "--namespace", "other")["purged"] == 0
    assert memline_json("--namespace", "other", "purge")["purged"] == 0
    memline_json("get", gone)
    assert memline_json("purge", "-n", "other", "-n", "default")["purged"] == 1
    memline("purge", "--grace", "-1", exit_code=2)
    memline("purge", "-n", "*", exit_code=1)


def test_a_namespace_has_a_lifetime_of_its_own() -> None:
    assert memline_json("namespace", "show") == {
        "namespace": "default",
        "default_lifetime_days": None,
        "source": "settings",
        "set_at": None,
        "prompt": None,
    }
    found = memline_json("namespace", "set", "default-lifetime", "7")
    assert (found["default_lifetime_days"], found["source"]) == (7, "namespace")
    assert memline_json("get", add("Deck 3."))["expiration_date"] == str(today() + timedelta(days=7))
    assert "7 days" in memline("namespace", "show").stdout
    assert memline_json("namespace", "set", "default-lifetime", "never")["source"] == "namespace"
    assert "for ever" in memline("namespace", "show").stdout
    assert memline_json("namespace", "clear", "default-lifetime")["source"] == "settings"
    assert "was not set" in memline("namespace", "clear", "default-lifetime").stderr


@pytest.mark.parametrize(("value", "code"), [("0", 1), ("40000", 1), ("1.5", 2), ("soon", 2), ("-1", 2), ("9999999", 2)])
def test_a_lifetime_that_is_none_is_refused(value: str, code: int) -> None:
    refused = memline("namespace", "set", "default-lifetime", value, exit_code=code)
    assert "Traceback" not in refused.output
    assert memline_json("namespace", "show")["source"] == "settings"


def test_a_namespace_has_instructions_of_its_own(tmp_path: Path) -> None:
    rules = tmp_path / "rules.txt"
    rules.write_text("Only food.\nNothing else.", encoding="utf-8")
    told = memline_json("namespace", "set", "prompt", "--file", str(rules))["prompt"]
    assert told["text"] == "Only food.\nNothing else." and len(told["hash"]) == 32
    memline("add", "I like tea.", "--user-id", "mei")
    (job,) = memline_json("jobs")["jobs"]
    assert (job["prompt_source"], job["prompt_hash"]) == ("namespace", told["hash"])
    assert "Only food." in memline("namespace", "show").stdout
    assert memline_json("namespace", "set", "prompt", "Only names.")["prompt"]["text"] == "Only names."
    memline("add", "I like tea a lot.", "--user-id", "mei", "--prompt", "Only drinks.")
    assert memline_json("jobs")["jobs"][0]["prompt_source"] == "call"
    assert memline_json("namespace", "clear", "prompt")["prompt"] is None
    assert "was not set" in memline("namespace", "clear", "prompt").stderr


@pytest.mark.parametrize("given", [(), ("a text", "--file", "x.txt"), ("--file", "missing.txt")])
def test_a_prompt_is_given_once_and_can_be_read(given: tuple[str, ...]) -> None:
    memline("namespace", "set", "prompt", *given, exit_code=2)
    memline("namespace", "set", "prompt", " ", exit_code=1)
    assert memline_json("namespace", "show")["prompt"] is None


def test_a_procedure_is_one_memory_of_an_agent() -> None:
    memline("add", "Renamed the report to report-2.pdf", "--agent-id", "robot", "--procedural")
    (found,) = memline_json("list", "--agent-id", "robot")["results"]
    assert (found["memory"], found["memory_type"]) == ("Renamed the report to report-2.pdf", "procedural_memory")
    assert "agent_id" in memline("add", "x", "--user-id", "mei", "--procedural", exit_code=1).stderr
