"""What a memory's text may do to a terminal: nothing."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.cli.screen import day, plain, print_json, text


def test_what_would_steer_a_terminal_is_not_written() -> None:
    assert plain("a\x1b[2Jb\x07c\u202ed") == "a�[2Jb�c�d"


def test_line_ends_and_tabs_become_spaces() -> None:
    assert plain("a\nb\tc\r") == "a b c "


@given(st.text())
def test_only_printable_characters_and_spaces_are_left_of_controls(shown: str) -> None:
    assert len(plain(shown)) == len(shown)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in plain(shown))


def test_markup_in_a_memory_is_text() -> None:
    assert text("[bold]no[/bold]").plain == "[bold]no[/bold]"


def test_nothing_is_an_empty_text() -> None:
    assert text(None).plain == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [("2026-03-14T09:00:00+00:00", "2026-03-14"), (datetime(2026, 3, 14, 9, tzinfo=UTC), "2026-03-14"), (date(2026, 3, 14), "2026-03-14"),
     (None, ""), ("", "")],
)  # fmt: skip
def test_a_day_is_shown_as_a_date(value: object, shown: str) -> None:
    assert day(value) == shown


def test_json_keeps_other_scripts_readable_and_writes_times_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"memory": "对青霉素过敏", "at": datetime(2026, 3, 14, 9, tzinfo=UTC)})
    shown = capsys.readouterr().out
    assert "对青霉素过敏" in shown
    assert json.loads(shown) == {"memory": "对青霉素过敏", "at": "2026-03-14T09:00:00+00:00"}
