"""docs/filters.md says what the code does."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from memline.contracts.filter_parse import MAX_CONDITIONS, MAX_DEPTH, MAX_SCOPES
from memline.contracts.filter_tree import Operator
from memline.contracts.filters import parse

PAGE = (Path(__file__).parent.parent.parent.parent / "docs" / "filters.md").read_text(encoding="utf-8")


def test_every_operator_has_a_line_in_the_table() -> None:
    table = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert {name for cell in table for name in re.findall(r"`(\w+)`", cell)} >= set(Operator)


def test_the_bounds_are_those_of_the_code() -> None:
    text = " ".join(PAGE.split())
    assert f"nest freely, {MAX_DEPTH} deep" in text
    assert f"more than {MAX_CONDITIONS} conditions or {MAX_SCOPES} scopes" in text


def test_the_example_is_a_filter() -> None:
    source = re.search(r"filters=(\{.*?\n\})\)", PAGE, re.DOTALL)
    assert source is not None
    assert parse(ast.literal_eval(source[1])).scopes
