"""Runs the program in this process."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from memline.cli.app import app
from tests.patience import more_time

__all__ = ["memline", "memline_json"]


def memline(*arguments: str, stdin: str | bytes | None = None, exit_code: int = 0) -> Result:
    """The result of `memline ARGUMENTS`, which must end with *exit_code* and without a traceback."""
    result = CliRunner().invoke(app, [*arguments, *more_time(arguments)], input=stdin, prog_name="memline")
    assert result.exit_code == exit_code, f"{result.exit_code}\n{result.output}\n{result.exception!r}"
    assert "Traceback" not in result.output
    return result


def memline_json(*arguments: str, stdin: str | bytes | None = None, exit_code: int = 0) -> Any:
    """The document that `memline ARGUMENTS --json` writes, and nothing else on stdout."""
    return json.loads(memline(*arguments, "--json", stdin=stdin, exit_code=exit_code).stdout)
