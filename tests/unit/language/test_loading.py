"""Import paths in settings."""

from __future__ import annotations

import sys
from collections import OrderedDict
from pathlib import Path

import pytest

from memline.contracts.errors import ConfigurationError
from memline.language.loading import load_object


def test_a_path_names_an_object() -> None:
    assert load_object("collections:OrderedDict", "MEMLINE_EMBEDDER") is OrderedDict
    assert load_object("collections:OrderedDict.fromkeys", "MEMLINE_EMBEDDER") == OrderedDict.fromkeys


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("collections.OrderedDict", "package.module:name"),
        ("", "package.module:name"),
        ("collections:", "package.module:name"),
        ("my module:x", "package.module:name"),
        ("no_such_package_here.part:x", "'no_such_package_here' is not installed"),
        ("collections.nothing:x", "'collections.nothing' is not installed"),
        ("collections:Missing", "no 'Missing'"),
        ("collections:OrderedDict.missing", "no 'missing'"),
    ],
)
def test_a_path_that_leads_nowhere_names_the_setting_and_says_why(path: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match="MEMLINE_EMBEDDER") as caught:
        load_object(path, "MEMLINE_EMBEDDER")
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("source", "why"),
    [("raise RuntimeError('secret')", "RuntimeError"), ("import no_such_package_here", "missing module 'no_such_package_here'")],
)
def test_a_module_that_breaks_while_it_is_imported_is_said_to(
    source: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "breaks_on_import.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match=why) as caught:
        load_object("breaks_on_import:x", "MEMLINE_CHAT")
    assert "secret" not in str(caught.value)
    assert "breaks_on_import" not in sys.modules
