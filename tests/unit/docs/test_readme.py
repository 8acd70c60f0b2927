"""README says what is true of this version."""

from __future__ import annotations

from docs.make_settings_table import README, with_table


def test_the_table_of_settings_is_that_of_this_version() -> None:
    text = README.read_text(encoding="utf-8")
    assert with_table(text) == text, "run: python docs/make_settings_table.py"


def test_the_example_turn_is_at_most_fifteen_lines_and_compiles() -> None:
    text = README.read_text(encoding="utf-8")
    example = text.split("```python\n")[1].split("```")[0]
    compile(example, "README.md", "exec")
    assert len([line for line in example.splitlines() if line.strip()]) <= 15


def test_every_command_in_the_table_exists() -> None:
    from typer.main import get_command

    from memline.cli.app import app

    commands = set(get_command(app).commands)  # type: ignore[attr-defined]
    table = README.read_text(encoding="utf-8").split("## The command line")[1].split("## ")[0]
    cells = [line.split("|")[1].replace("memline ", "") for line in table.splitlines() if line.startswith("| `")]
    named = {word.split()[0] for cell in cells for word in cell.split("`")[1::2]}
    assert named <= commands
