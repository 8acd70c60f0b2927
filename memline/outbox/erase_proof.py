"""The proof of an erasure: what was read, how, and what was found there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memline.ledger.backup import left_beside
from memline.ledger.erase_census import holders_of
from memline.ledger.session import Ledger
from memline.outbox.byte_scan import files_below, is_database, scan

__all__ = ["Proof", "Read", "read_bytes"]

#: Folders in the home folder whose files belong to a server that memline only starts.
_SERVERS = ("weaviate",)


@dataclass(frozen=True, slots=True)
class Read:
    """One look at one store. *found*: how much of the subject is there."""

    store: str
    what: str
    found: int
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        raw: dict[str, Any] = {"store": self.store, "read": self.what, "found": self.found}
        return raw if self.note is None else {**raw, "note": self.note}


@dataclass(slots=True)
class Proof:
    """All looks."""

    reads: list[Read] = field(default_factory=list)
    #: Files that were read byte by byte, and for how many texts.
    files: list[str] = field(default_factory=list)
    texts: int = 0

    def add(self, store: str, what: str, found: int, note: str | None = None) -> None:
        self.reads.append(Read(store, what, found, note))

    @property
    def sound(self) -> bool:
        return not any(read.found for read in self.reads)

    def told(self) -> str:
        """Where something was found."""
        return "; ".join(f"{read.store} ({read.what}: {read.found})" for read in self.reads if read.found)


def read_bytes(proof: Proof, sqlite: Sequence[Ledger], folders: Sequence[Path], texts: Sequence[str]) -> None:
    """Reads every byte of every file of memline's here, and looks for *texts*.

    A text that somebody else has, too, stands in a file rightly; it is told from the subject's by being in a row that is left. A ledger
    that a restore put aside counts as found, whatever is in it: it may hold texts of the subject that no row tells any more.
    """
    aside = {str(path) for store in sqlite if store.path is not None for path in left_beside(Path(store.path))}
    beside = [Path(f"{store.path}{end}") for store in sqlite for end in ("", "-wal", "-shm", "-journal")]
    files = sorted(
        {
            *files_below([folder for folder in folders if folder.is_dir()], without=_SERVERS),
            *(p for p in beside if p.exists()),
            *map(Path, aside),
        }
    )
    proof.files, proof.texts = [str(path) for path in files], len(texts)
    hits = scan(files, texts)
    databases = {str(path) for path in beside}
    shared: dict[int, bool] = {}
    for path in map(str, files):
        if path in aside:
            proof.add(path, "a ledger that a restore put aside: remove it", 1)
            continue
        own = 0
        for place in hits.get(path, ()) if path in databases or (path in hits and is_database(Path(path))) else ():
            if place not in shared:
                shared[place] = any(_is_held(store, texts[place]) for store in sqlite)
            own += not shared[place]
        # a spool's turns were told one by one; what else is no database has numbers and names of memline's own
        both = len(hits.get(path, ())) - own
        note = f"{both} more are texts that others have, too" if both else None
        proof.add(path, f"bytes of {len(texts)} texts and ids of the subject", own, note)


def _is_held(store: Ledger, text: str) -> bool:
    with store.read() as connection:
        return bool(holders_of(connection, text))
