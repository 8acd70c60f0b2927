"""Processes that are started in an order and ended in the opposite one, with nothing left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ops.stack.compose import Service
from ops.stack.recipes import Recipe

__all__ = ["Failed", "Running"]

#: prctl's option by which a process gets a signal when the one that started it is gone.
_PR_SET_PDEATHSIG = 1


class Failed(Exception):
    """A service does not come up; says which, and where its log lies."""


@dataclass
class _One:
    service: Service
    recipe: Recipe
    process: subprocess.Popen[bytes]
    started: float
    starts: int = 1


class Running:
    """What runs, in the order it was started. *told* is asked again and again whether to give up waiting."""

    def __init__(self, logs: Path, told: Callable[[], bool]) -> None:
        self._logs = logs
        self._told = told
        self._ones: dict[str, _One] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, service: Service, recipe: Recipe) -> None:
        """Starts a process, in a session of its own: a Ctrl-C is for us, who end them in order."""
        self._ones[service.name] = _One(service, recipe, self._open(service.name, recipe), time.monotonic())

    def pid(self, name: str) -> int:
        return self._ones[name].process.pid

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def wait(self, name: str, timeout: float = 120) -> None:
        """Until it works; one that runs to its end: until it has. Raises Failed; returns early when told to end."""
        one, deadline = self._ones[name], time.monotonic() + timeout
        while not self._told():
            code = one.process.poll()
            if one.service.once and code == 0:
                break
            if code is not None:
                raise Failed(f"{name} ended with {code} while it was starting; its log: {self.log(name)}")
            if not one.service.once and one.recipe.works():
                break
            if time.monotonic() > deadline:
                raise Failed(f"{name} does not work after {timeout:g} s; its log: {self.log(name)}")
            time.sleep(0.1)
        else:
            return
        one.recipe.after()

    def revive(self) -> list[str]:
        """Starts again what has ended by itself, as `restart: unless-stopped` asks; says of each what happened."""
        said = []
        for name, one in self._ones.items():
            code = one.process.poll()
            # a process that ends at once is not started in a tight loop
            if code is None or one.service.once or time.monotonic() - one.started < min(30.0, 2.0**one.starts):
                continue
            said.append(f"{name} ended with {code} and was started again; its log: {self.log(name)}")
            one.process, one.started, one.starts = self._open(name, one.recipe), time.monotonic(), one.starts + 1
        return said

    def end(self, say: Callable[[str], None]) -> None:
        """Ends all, the last one first; who depends on nobody of the others' is not waited for in between."""
        while self._ones:
            needed = {other for one in self._ones.values() for other in one.service.depends_on}
            wave = [one for name, one in self._ones.items() if name not in needed]
            for one in wave:
                if one.process.poll() is None:
                    one.process.send_signal(signal.Signals[one.service.stop_signal])
            for one in wave:
                try:
                    one.process.wait(one.service.grace)
                except subprocess.TimeoutExpired:
                    say(f"{one.service.name} did not end within {one.service.grace:g} s and was killed")
                self._kill_group(one)
                del self._ones[one.service.name]

    def kill(self) -> None:
        """Ends all at once."""
        for one in self._ones.values():
            self._kill_group(one)

    def _open(self, name: str, recipe: Recipe) -> subprocess.Popen[bytes]:
        with self.log(name).open("ab") as log:
            return subprocess.Popen(  # noqa: S603
                recipe.command,
                env=dict(recipe.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_us if sys.platform == "linux" else None,
                **{"cwd": self._logs, **recipe.how},
            )

    def _kill_group(self, one: _One) -> None:
        """Whatever it started ends with it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()


def _end_with_us() -> None:
    """In the child: where we are killed, it is told to end. (A change of user takes this away again: PostgreSQL's.)"""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
