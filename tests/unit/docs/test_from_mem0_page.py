"""docs/from-mem0.md says what is true of this version: each defect of mem0's has its line, and each test that is named is there."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from memline import AsyncMemory, Memory
from memline.settings import Settings

ROOT = Path(__file__).parent.parent.parent.parent
PAGE = (ROOT / "docs" / "from-mem0.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))
DEFECTS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if line.startswith("| D")]


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_each_test_that_is_named_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}


def test_each_of_the_45_defects_has_one_line_that_says_how_it_stands() -> None:
    assert [row[0] for row in DEFECTS] == [f"D{number:02}" for number in range(1, 46)]
    for number, _, here in DEFECTS:
        assert re.match(r"can't happen|difference: |not yet \(issue \d+\)", here), number
        assert "::" in here or not here.startswith("can't happen"), number


def test_each_call_that_is_named_is_there() -> None:
    table = PAGE.partition("## Calls")[2].partition("## Settings")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    calls = {name for cell in cells for name in re.findall(r"`(\w+)\(", cell) if name != "Mem0"}
    assert {"add", "search", "get", "get_all", "update", "delete", "delete_all", "history", "reset", "close"} <= calls
    new = re.search(r"\| – \| (.*?) \| new \|", table)
    assert new is not None
    for name in calls | set(re.findall(r"`(\w+)`", new[1])):
        assert callable(getattr(Memory, name)) and callable(getattr(AsyncMemory, name)), name
    for name in ("add", "search", "get_all", "update", "delete", "delete_all"):
        given = next(cell for cell in cells if cell.strip().startswith(f"`{name}("))
        options = set(re.findall(r"(\w+)=", given)) | set(re.findall(r"[(,] ?(\w+)(?=[,)])", given))
        assert options <= {*inspect.signature(getattr(Memory, name)).parameters, "id", "…"}, name


def test_each_setting_that_is_named_exists() -> None:
    settings = {name.removeprefix("MEMLINE_").lower() for name in re.findall(r"MEMLINE_[A-Z_]+[A-Z]", PAGE)}
    assert settings and settings <= set(Settings.model_fields)


def test_each_link_leads_to_a_file() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
