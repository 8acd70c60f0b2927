"""docs/guarantees.md says what is true of this version: every guarantee, by tests that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from memline.ledger.counters import COUNTERS
from memline.settings import Settings

ROOT = Path(__file__).parent.parent.parent.parent
PAGE = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if line.startswith("| G")]
NAMED = sorted(set(re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_each_test_that_is_named_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    defined |= {target.id for node in tree.body if isinstance(node, ast.Assign) for target in node.targets if isinstance(target, ast.Name)}
    assert name in defined


def test_each_guarantee_has_a_line_with_how_it_is_kept_and_a_test() -> None:
    assert [row[0].split()[0] for row in ROWS] == [f"G{number}" for number in range(1, 14)]
    for row in ROWS:
        assert len(row) == 4 and row[2] and "::" in row[3]


def test_each_file_that_keeps_a_guarantee_exists() -> None:
    files = {found for row in ROWS for found in re.findall(r"`(\w[\w/]*\.py)`", row[2])}
    assert files
    assert [file for file in files if not (ROOT / "memline" / file).exists()] == []


def test_each_setting_and_counter_that_is_named_exists() -> None:
    settings = {name.removeprefix("MEMLINE_").lower() for name in re.findall(r"MEMLINE_[A-Z_]+", PAGE)}
    assert settings <= set(Settings.model_fields)
    assert set(re.findall(r"`(drift_\w+|jobs_failed)`", PAGE)) <= set(COUNTERS)


def test_the_matrix_has_its_place() -> None:
    lines = PAGE.splitlines()
    assert lines.index("<!-- matrix -->") < lines.index("<!-- /matrix -->")
