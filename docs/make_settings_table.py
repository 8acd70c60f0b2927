"""Writes the table of settings into README.md from `memline.settings`: `python docs/make_settings_table.py`; a test holds them equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from memline.settings import Settings

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- settings -->\n", "<!-- /settings -->"


def table() -> str:
    """One line a setting: variable, default, meaning."""
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    lines += [
        f"| `{_variable(name, field)}` | {_default(field.default)} | {field.description} |" for name, field in Settings.model_fields.items()
    ]
    return "\n".join(lines) + "\n"


def with_table(text: str) -> str:
    """README's *text* with the table of this version."""
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    return head + BEGIN + table() + END + tail


def _variable(name: str, field: Any) -> str:
    return str(field.validation_alias.choices[0]) if field.validation_alias else f"MEMLINE_{name.upper()}"


def _default(value: Any) -> str:
    return "" if value is None else f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


if __name__ == "__main__":
    README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
