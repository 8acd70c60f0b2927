"""Looking for bytes in files, whatever they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["files_below", "forms_of", "scan"]

_CHUNK = 4 * 1024 * 1024


def files_below(folders: Iterable[Path], *, without: Sequence[str] = ()) -> list[Path]:
    """Every file below *folders*, each once; *without*: names of folders that are passed over."""
    found = {
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and not any(part in without for part in path.relative_to(folder).parts[:-1])
    }
    return sorted(found)


def forms_of(text: str) -> list[bytes]:
    """How *text* may stand in a file: in UTF-8, and as JSON writes it, with and without escapes."""
    forms = [text.encode("utf-8", "surrogatepass")]
    forms += [json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode("utf-8", "surrogatepass") for ascii_only in (True, False)]
    return list(dict.fromkeys(forms))


def scan(files: Iterable[Path], texts: Sequence[str]) -> dict[str, list[int]]:
    """By file, which of *texts* (their places) stand in it; files without any are left out. Memory is bounded by a part of a file."""
    wanted = [(place, form) for place, text in enumerate(texts) for form in forms_of(text)]
    longest = max((len(form) for _, form in wanted), default=1)
    found: dict[str, list[int]] = {}
    for path in files:
        there: set[int] = set()
        try:
            with path.open("rb") as handle:
                tail = b""
                while chunk := handle.read(_CHUNK):
                    data = tail + chunk
                    there |= {place for place, form in wanted if place not in there and form in data}
                    tail = data[-(longest - 1) :] if longest > 1 else b""
        except FileNotFoundError:
            continue
        if there:
            found[str(path)] = sorted(there)
    return found
