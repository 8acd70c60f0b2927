"""The engine's process ends, is killed, or forks: what was accepted goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from memline import Memory
from memline.settings import load_settings

MEI = {"user_id": "mei"}
QUICK = {"MEMLINE_LEASE": "3", "MEMLINE_MODEL_TIMEOUT": "1", "MEMLINE_RESEND": "1"}


def _run(home: Path, program: str, **more: str) -> subprocess.CompletedProcess[str]:
    variables = {"MEMLINE_HOME": str(home), **QUICK, **more}
    return subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, timeout=600)


def _open(home: Path) -> Memory:
    return Memory(settings=load_settings(home=home, lease=3, model_timeout=1, resend=1))


def test_a_process_that_ends_without_closing_finishes_what_it_accepted(tmp_path: Path) -> None:
    patient = {"MEMLINE_LEASE": "600", "MEMLINE_EXIT_DRAIN": "240"}  # on a busy machine it takes longer, and tells of nothing
    done = _run(tmp_path, "from memline import Memory\nMemory().add('I play the cello.', user_id='mei')", **patient)
    assert (done.returncode, done.stderr) == (0, "")
    with _open(tmp_path) as memory:
        memory.flush(300)
        assert [item["memory"] for item in memory.get_all(filters=MEI)["results"]] == ["User plays the cello"]


def test_what_a_process_could_not_finish_goes_on_at_the_next_start(tmp_path: Path) -> None:
    program = "from memline import Memory\nmemory = Memory()\nfor n in range(300): memory.add(f'I bought lamp number {n}.', user_id='mei')"
    done = _run(tmp_path, program, MEMLINE_EXIT_DRAIN="0")
    assert done.returncode == 0, done.stderr
    with _open(tmp_path) as memory:
        memory.flush(300)
        listed = memory.get_all(filters=MEI, top_k=1000)["results"]
        assert [item["memory"] for item in listed] == [f"User bought lamp number {n}" for n in range(300)]


def test_a_killed_process_loses_nothing_that_was_accepted(tmp_path: Path) -> None:
    program = (
        "import os, signal\nfrom memline import Memory\nmemory = Memory()\n"
        "for n in range(40): memory.add(f'I bought lamp number {n}.', user_id='mei')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert _run(tmp_path, program).returncode == -9
    with _open(tmp_path) as memory:
        memory.flush(300)
        assert len(memory.get_all(filters=MEI, top_k=1000)["results"]) == 40


def test_a_forked_child_has_an_engine_of_its_own(tmp_path: Path) -> None:
    program = (
        "import os, sys\nfrom memline import Memory\nmemory = Memory()\n"
        "memory.add('I play the cello.', user_id='parent', wait=True, timeout=300)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    answer = memory.add('I play the oboe.', user_id='child', wait=True, timeout=300)\n"
        "    memory.close()\n"
        "    os._exit(0 if answer['results'] else 7)\n"
        "_, status = os.waitpid(child, 0)\n"
        "memory.add('I play the harp.', user_id='parent', wait=True, timeout=300)\n"
        "found = memory.get_all(filters={'user_id': 'child'})['results']\n"
        "sys.exit(os.waitstatus_to_exitcode(status) or (0 if len(found) == 1 else 8))"
    )
    done = _run(tmp_path, program)
    assert done.returncode == 0, done.stderr
