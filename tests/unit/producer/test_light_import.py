"""The producer is imported by every web process: it brings nothing heavy along."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = ("celery", "kombu", "spacy", "weaviate", "openai", "sqlalchemy", "alembic", "pydantic", "redis", "numpy", "typer", "rich", "rjieba")


def test_importing_the_producer_loads_no_heavy_package() -> None:
    code = f"import sys, memline.producer; print([name for name in {HEAVY} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.strip() == "[]"


def test_of_memline_itself_only_the_contracts_are_loaded() -> None:
    code = "import sys, json, memline.producer; print(json.dumps([name for name in sys.modules if name.startswith('memline.')]))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {name.split(".")[1] for name in json.loads(found.stdout)} == {"contracts", "producer"}
