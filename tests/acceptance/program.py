"""The program `memline` in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from tests.patience import more_time

__all__ = ["Program", "widest"]


class Program:
    """`memline` with a home folder of its own, no setting of the machine, and time to search; *settings* are MEMLINE_* by short names."""

    def __init__(self, home: Path, *, columns: int = 80, **settings: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(("MEMLINE_", "OPENAI_"))}
        self.home = home
        self._environment = {
            **kept,
            "MEMLINE_HOME": str(home),
            "COLUMNS": str(columns),
            "PYTHONWARNINGS": "default",
            "MEMLINE_SEARCH_DEADLINE": "30",  # a slow machine is no part that is missing
            **{f"MEMLINE_{name.upper()}": value for name, value in settings.items()},
        }

    def run(self, *arguments: str | Path, exit_code: int = 0, stdin: str = "", timeout: float = 480) -> subprocess.CompletedProcess[str]:
        """A command that ends with *exit_code*."""
        ran = subprocess.run(
            self._command(arguments), env=self._environment, capture_output=True, text=True, input=stdin, timeout=timeout, cwd=self._folder
        )
        assert ran.returncode == exit_code, f"{arguments} ended with {ran.returncode}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
        assert "Traceback" not in ran.stderr, ran.stderr[-3000:]
        return ran

    def json(self, *arguments: str | Path, exit_code: int = 0, stdin: str = "") -> Any:
        """The document that a command writes with `--json`."""
        return json.loads(self.run(*arguments, "--json", exit_code=exit_code, stdin=stdin).stdout)

    def start(self, *arguments: str | Path) -> subprocess.Popen[str]:
        """A command that goes on; whoever starts it ends it."""
        return subprocess.Popen(
            self._command(arguments),
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._folder,
        )

    @property
    def _folder(self) -> Path:
        # A folder without a .env file.
        self.home.parent.mkdir(parents=True, exist_ok=True)
        return self.home.parent

    @staticmethod
    def _command(arguments: tuple[str | Path, ...]) -> list[str]:
        root = Path(__file__).parents[2]
        start = f"import sys; sys.path.insert(0, {str(root)!r}); sys.argv[0] = 'memline'; from memline.cli import main; main()"
        return [sys.executable, "-c", start, *map(str, arguments), *more_time(arguments)]


def widest(shown: str) -> int:
    """Columns of the longest line; a Chinese character takes two."""
    return max((cell_len(line.rstrip()) for line in shown.splitlines()), default=0)
