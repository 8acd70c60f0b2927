"""An import whose process is killed goes on when it is run again, and doubles nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent.parent


def program(home: Path, *arguments: str, kill_at: int | None = None) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("MEMLINE_")}
    variables |= {"MEMLINE_HOME": str(home), "MEMLINE_EMBEDDER": "tests.integration.path.killing:Killing", "PYTHONPATH": str(ROOT)}
    if kill_at is not None:
        variables["TEST_KILL_AT"] = str(kill_at)
    return subprocess.run(
        [sys.executable, "-m", "memline", *arguments], env=variables, cwd=home, capture_output=True, text=True, timeout=300
    )


def answer(home: Path, *arguments: str) -> Any:
    done = program(home, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_killed_in_the_middle_and_run_again_an_import_is_whole(tmp_path: Path) -> None:
    points = [
        {"id": f"00000000-0000-4000-8000-{n:012}", "payload": {"data": f"fact number{n}", "user_id": f"user{n % 3}", "created_at": n}}
        for n in range(250)
    ]
    (tmp_path / "points.json").write_text(json.dumps({"points": points}), encoding="utf-8")
    killed = program(tmp_path, "import", "--from", "mem0", "points.json", kill_at=4)  # texts and names of a batch are a call each
    assert killed.returncode == -signal.SIGKILL
    first = answer(tmp_path, "list", "-u", "user0", "--top-k", "200")["total"]
    assert 0 < first < 84
    found = answer(tmp_path, "import", "--from", "mem0", "points.json")
    assert found["known"] > 0 and found["known"] + found["new"] == 250
    assert answer(tmp_path, "verify", "--deep")["sound"]
    assert sum(answer(tmp_path, "count", "-u", f"user{n}")["count"] for n in range(3)) == 250
