"""`memline changes`, as a program."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.acceptance.program import Program


def test_follow_shows_changes_as_they_happen_and_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    program = Program(tmp_path / "home")
    program.run("add", "I moved to Lisbon in March.", "--user-id", "mei")
    lines = [json.loads(line) for line in program.run("changes", "--json").stdout.splitlines()]
    assert lines and {each["event"] for each in lines} == {"ADD"}
    followed = program.start("changes", "--since", lines[-1]["cursor"], "--follow", "--json", "--every", "0.1")
    try:
        program.run("delete", lines[0]["id"])
        assert followed.stdout is not None
        change = json.loads(followed.stdout.readline())
        assert (change["id"], change["event"], change["version"]) == (lines[0]["id"], "DELETE", 2)
        followed.send_signal(signal.SIGINT)
        rest, said = followed.communicate(timeout=240)
    finally:
        followed.kill()
        followed.wait()
    assert rest == "" and followed.returncode == 130
    assert "Traceback" not in said and f"go on with --since {change['cursor']}" in said
    shown = program.run("changes", "--since", "now")
    assert shown.stdout == "" and change["cursor"] in shown.stderr
    assert "DELETE" in program.run("changes", "--limit", "5").stdout
    assert "no cursor" in program.run("changes", "--since", "wrong", exit_code=1).stderr
