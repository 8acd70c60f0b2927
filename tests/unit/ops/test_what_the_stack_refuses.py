"""`python -m ops.stack` with settings that can't be: it says what to do in one line, and starts nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ops.stack import __main__ as stack
from ops.stack.secrets import filled

EXAMPLE = (Path(__file__).parents[3] / ".env.example").read_text(encoding="utf-8")


def written(folder: Path, change: Callable[[str], str]) -> Path:
    file = folder / "env"
    file.write_text(change(filled(EXAMPLE)), encoding="utf-8")
    return file


def binary(folder: Path) -> Path:
    (folder / "env").write_bytes(b"\xff\xfe")
    return folder / "env"


@pytest.mark.parametrize(
    ("made", "more", "told"),
    [
        (lambda folder: folder / "missing" / "env", [], "can't be read or made (No such file or directory)"),
        (lambda folder: folder, [], "can't be read or made (Is a directory)"),
        (binary, [], "can't be read or made (no text in UTF-8)"),
        (
            lambda folder: written(folder, lambda text: text.replace("ERASE_KEY=", "ERASED=")),
            [],
            "does not set MEMLINE_ERASE_KEY: add the line",
        ),
        (lambda folder: written(folder, lambda text: text.replace("REDIS_PORT=6379", "REDIS_PORT=99999")), [], "port of redis must be"),
        (lambda folder: written(folder, lambda text: text.replace("GRAFANA_PORT=3000", "GRAFANA_PORT=high")), [], "not 'high'"),
        (lambda folder: written(folder, str), ["--without", "rediss"], "no service rediss"),
    ],
)
def test_it_is_said_in_one_line(
    made: Callable[[Path], Path],
    more: list[str],
    told: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)  # those of the tests stay
    for name in ("MEMLINE_ERASE_KEY", "REDIS_PORT", "GRAFANA_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert stack.main(["--state", str(tmp_path / "state"), "--env-file", str(made(tmp_path)), "--free-ports", *more]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("✗ ") and told in line
    assert not (tmp_path / "state" / "log").exists() or not any((tmp_path / "state" / "log").iterdir())
