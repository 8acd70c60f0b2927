"""A real Prometheus for tests, and its promtool: Debian's package `prometheus`, or what else is on PATH."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from tests.services import free_port

__all__ = ["ROOT", "Prometheus", "binary"]

ROOT = Path(__file__).parents[1]


def binary(name: str) -> str:
    """The path of `prometheus` or `promtool`. Without it a test is skipped, and fails in CI, which installs it."""
    if found := shutil.which(name):
        return found
    if os.environ.get("CI"):
        pytest.fail(f"{name} is not installed: .ci/run installs Debian's prometheus.")
    pytest.skip(f"{name} is not installed: apt-get install prometheus")


class Prometheus:
    """One that runs `ops/prometheus/prometheus.yml` with other targets (by job: host:port, …) and short intervals."""

    def __init__(self, targets: Mapping[str, Sequence[str]]) -> None:
        self._binary = binary("prometheus")
        self._targets = targets
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="memline-prometheus-")
        self.folder = Path(self._folder.name)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        source = ROOT / "ops" / "prometheus"
        config = yaml.safe_load((source / "prometheus.yml").read_text(encoding="utf-8"))
        config["global"] = {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(source / "rules" / "*.yml")]
        config["scrape_configs"] = [
            {"job_name": job["job_name"], "static_configs": [{"targets": list(self._targets[job["job_name"]])}]}
            for job in config["scrape_configs"]
            if job["job_name"] in self._targets
        ]
        written = self.folder / "prometheus.yml"
        written.write_text(yaml.safe_dump(config), encoding="utf-8")
        log = self.folder / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *(self._binary, f"--config.file={written}", f"--storage.tsdb.path={self.folder / 'data'}"),
                    *(f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=warn"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + 240
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise RuntimeError(f"prometheus did not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.1)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
        self._folder.cleanup()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples that an instant query answers; raises what it complains of."""
        answer = self.ask("query", query=expression)
        found: list[dict[str, Any]] = answer["result"]
        return found

    def value(self, expression: str) -> float:
        """The one number that a query answers; 0 where there is none."""
        found = self.query(expression)
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else 0.0

    def ask(self, what: str, **parameters: str) -> Any:
        with urlopen(f"http://127.0.0.1:{self.port}/api/v1/{what}?{urlencode(parameters)}", timeout=120) as response:
            answer = json.load(response)
        assert answer["status"] == "success", answer
        return answer["data"]

    def _ready(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=2) as response:
                return bool(response.status == 200)
        except OSError:
            return False
