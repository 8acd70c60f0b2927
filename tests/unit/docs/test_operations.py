"""What docs/operations.md and the runbooks say is true of this version: metrics, alerts, commands, settings, files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer import BadParameter
from typer.main import get_command

from docs.make_metrics_table import PAGE, page
from memline.cli.app import app
from memline.settings import Settings

ROOT = Path(__file__).parents[3]
RUNBOOKS = ROOT / "docs" / "runbooks"
#: What the parser says of a command that it does not know.
UsageError: type[Any] = BadParameter.__mro__[1]
RULES = yaml.safe_load((ROOT / "ops/prometheus/rules/memline.yml").read_text(encoding="utf-8"))
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule]
NAMES = sorted({rule["alert"] for rule in ALERTS})


def test_the_table_of_metrics_is_that_of_this_version() -> None:
    assert page() == PAGE.read_text(encoding="utf-8"), "run: PYTHONPATH=. python docs/make_metrics_table.py"


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: f"{rule['alert']}-{rule['labels']['severity']}")
def test_an_alert_says_what_it_is_and_where_its_page_is(rule: dict[str, Any]) -> None:
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url"} and all(notes.values())
    assert notes["runbook_url"] == f"docs/runbooks/{rule['alert']}.md"
    assert rule["labels"]["severity"] in ("page", "ticket")


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    assert sorted(path.stem for path in RUNBOOKS.glob("*.md") if path.stem != "README") == NAMES
    index = (RUNBOOKS / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| \[(\w+)\]\(\1\.md\)", index, re.MULTILINE)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_page_says_what_it_means_what_is_noticed_what_to_do_and_when_it_is_over(name: str) -> None:
    text = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n") and "**What users notice:**" in text
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Look", "Do", "It is over"]
    assert list(commands(text)), "no command to run"


def commands(text: str) -> Iterator[str]:
    """Every command of memline's that a page shows or names, without what follows a pipe."""
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        yield from (line.split("|")[0].strip() for line in block.splitlines() if line.startswith("memline "))
    sentences = re.sub(r"## Tracing\n.*?(?=\n## )", "", text, flags=re.DOTALL)  # spans are called like commands
    yield from (found.split("|")[0].strip() for found in re.findall(r"`(memline [^`]+)`", sentences))


PAGES = [*RUNBOOKS.glob("*.md"), PAGE]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_command_of_a_page_is_understood(path: Path) -> None:
    for command in commands(path.read_text(encoding="utf-8")):
        words = shlex.split(command.replace("…", "X"))[1:]
        if words == ["--version"]:
            continue
        try:
            parse(get_command(app), words)
        except UsageError as error:
            if len(words) > 2 or type(error).__name__ != "MissingParameter":  # a sentence may speak of a command alone
                pytest.fail(f"{command}: {error.format_message()}")


@pytest.mark.parametrize("wrong", ["nothing", "jobs --state lost", "jobs retri X", "worker --metrics-prot 9465", "metrics --serve many"])
def test_a_command_that_does_not_exist_would_be_found(wrong: str) -> None:
    with pytest.raises(UsageError):
        parse(get_command(app), wrong.split())


def parse(command: Any, words: list[str]) -> None:
    """Parses a command line without running it; raises what the parser says."""
    context = command.make_context(command.name, list(words), resilient_parsing=False)
    rest = [*context._protected_args, *context.args]
    if hasattr(command, "commands") and rest:
        _, inner, left = command.resolve_command(context, rest)
        parse(inner, left)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_every_setting_and_every_page_that_is_named_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    known = {f"MEMLINE_{name.upper()}" for name in Settings.model_fields}
    assert set(re.findall(r"MEMLINE_[A-Z_]+[A-Z]", text)) <= known
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (path.parent / target).exists(), target
    for named in re.findall(r"`((?:ops|docs)/[^`* ]+)[^`]*`", text):
        assert (ROOT / named).exists(), named
