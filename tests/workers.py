"""Real worker processes for tests: started as a user starts them, killed by their process id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import IO, Self

__all__ = ["Worker"]


class Worker:
    """`memline worker` in a process of its own: `with Worker(settings) as worker: ...`. *settings*: its `MEMLINE_*` variables."""

    #: How Python is told to run memline.
    program: tuple[str, ...] = ("-m", "memline")

    def __init__(self, settings: dict[str, str], *options: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMLINE_", "OPENAI_"))}
        self._environment = kept | settings
        self._options = options
        self._process: subprocess.Popen[str] | None = None
        self.output: list[str] = []

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("this Worker was not started")
        return self._process.pid

    def start(self, timeout: float = 120) -> Self:
        """Starts it and waits until it says that it is up."""
        self._process = subprocess.Popen(
            [sys.executable, *self.program, "worker", "--log-level", "INFO", *self._options],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        up = threading.Event()
        assert self._process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout, up), daemon=True)
        self._reader.start()
        deadline = time.monotonic() + timeout
        while not up.wait(0.05):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError("the worker did not come up:\n" + "".join(self.output[-40:]))
        return self

    def kill(self) -> None:
        """SIGKILL: no chance to finish anything."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, as an operator stops it."""
        self._end(signal.SIGTERM)

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self, timeout: float = 240) -> None:
        """Waits until it has ended by itself."""
        if self._process is not None:
            self._process.wait(timeout)

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(number)
            try:
                process.wait(120)  # longer than any limit of its own
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._reader.join(60)
        if process.stdout is not None:
            process.stdout.close()

    def _read(self, stream: IO[str], up: threading.Event) -> None:
        for line in stream:
            self.output.append(line)
            if line.startswith("worker:") or '"event": "worker:' in line:  # for people, or as JSON
                up.set()
