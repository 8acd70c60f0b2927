"""Makes .env from .env.example, with secrets drawn for what is empty there: `python -m ops.stack.secrets`. Standard library only."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

__all__ = ["DRAWN", "filled", "write_env"]

ROOT = Path(__file__).parents[2]

#: What is drawn; letters and digits, since some of it stands in URLs.
DRAWN = (
    "REDIS_PASSWORD",
    "POSTGRES_PASSWORD",
    "MEMLINE_WEAVIATE_API_KEY",
    "MEMLINE_ERASE_KEY",
    "MEMLINE_FLOWER_PASSWORD",
    "GRAFANA_PASSWORD",
)


def filled(example: str) -> str:
    """*example* with a secret behind each of `DRAWN` that has none."""
    lines = [line + secrets.token_hex(24) if line.endswith("=") and line[:-1] in DRAWN else line for line in example.splitlines()]
    return "\n".join(lines) + "\n"


def write_env(path: Path, example: Path = ROOT / ".env.example") -> bool:
    """Writes *path*, for its owner alone; False where it is there already: secrets are never drawn twice."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(filled(example.read_text(encoding="utf-8")))
    return True


if __name__ == "__main__" and write_env(ROOT / ".env"):
    sys.stderr.write("Secrets were drawn and written to .env. Keep that file: without it nothing opens what it locked.\n")
