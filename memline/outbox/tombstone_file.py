"""The tombstones that lie outside the ledger, and the key that makes their hashes: what a restored ledger is held against.

A file of JSON lines in the home folder, appended and synced; the newest line of an id counts. It holds no id of a person: `hash` is keyed,
and `sealed` is the subject's key in the ledger under the same key. The key is a setting, or a file of its own beside it: whoever has
neither can't confirm a guess. Keep both, and keep them out of the ledger's backup.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from memline.contracts.errors import ConfigurationError, ServiceUnavailable
from memline.ledger.tombstones import Tombstone

__all__ = ["EraseKey", "FiledStone", "TombstoneFile", "load_key"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class EraseKey:
    """The secret, and where it is."""

    secret: bytes
    where: str

    @property
    def id(self) -> str:
        """8 hex digits that tell this key from another."""
        return hashlib.sha256(b"memline key id:" + self.secret).hexdigest()[:8]

    def seal(self, erasure: str, subject: str) -> str:
        """*subject* (32 hex digits) under this key; `unseal` is the way back."""
        pad = hmac.new(self.secret, b"memline seal:" + erasure.encode("utf-8"), hashlib.sha256).digest()
        return bytes(one ^ other for one, other in zip(bytes.fromhex(subject), pad, strict=False)).hex()

    unseal = seal


@dataclass(frozen=True, slots=True)
class FiledStone:
    """A tombstone as it lies in the file. *ledger*: the name of the ledger it belongs to (`ledger.tenants.ledger_name`)."""

    id: str
    ledger: str
    namespace: str
    kind: str
    hash: str
    sealed: str
    key_id: str
    epoch: int
    place: str
    at: datetime
    finished: bool

    @classmethod
    def of(cls, stone: Tombstone, ledger: str, key: EraseKey) -> FiledStone:
        """What is written of an erasure."""
        sealed = key.seal(stone.id, stone.subject)
        finished = stone.finished_at is not None
        return cls(
            stone.id, ledger, stone.namespace, stone.kind, stone.hash, sealed, stone.key_id, stone.epoch, stone.place, stone.at, finished
        )

    def to_json(self) -> dict[str, Any]:
        raw = {name: getattr(self, name) for name in self.__slots__}
        return {"v": _VERSION, **raw, "at": self.at.isoformat()}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> FiledStone:
        values = {name: raw[name] for name in cls.__slots__}
        return cls(**{**values, "at": datetime.fromisoformat(raw["at"])})


class TombstoneFile:
    """The file. It need not be there; the folder neither."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, stone: FiledStone) -> None:
        """Adds a line and has it on disk. Raises ServiceUnavailable where it can't be written."""
        line = json.dumps(stone.to_json(), ensure_ascii=True).encode("ascii") + b"\n"
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
                os.write(descriptor, b"\n" + line if torn else line)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise ServiceUnavailable(
                f"The tombstone can't be written to {self.path} ({error.strerror}): make room or set its permissions, then erase again."
            ) from error

    def read(self) -> dict[str, FiledStone]:
        """The newest line of each id, in the order in which the ids came. A torn line is passed over: its writer did not come to its end.

        Raises ConfigurationError for a file that can't be read, or a line of a newer memline.
        """
        found: dict[str, FiledStone] = {}
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return found
        except OSError as error:
            raise ConfigurationError(f"The tombstones in {self.path} can't be read ({error.strerror}): set its permissions.") from error
        for line in lines:
            try:
                raw = json.loads(line)
                if raw["v"] > _VERSION:
                    raise ConfigurationError(f"A newer memline has written {self.path}: upgrade this one (`memline --version`).")
                stone = FiledStone.from_json(raw)
            except (ValueError, KeyError, TypeError):
                continue
            found[stone.id] = stone
        return found


def load_key(home: Path, given: str | None, *, make: bool) -> EraseKey | None:
    """The key of the setting, or the one in `erase.key` of the home folder; *make*: a new one where there is none. None: there is none.

    Raises ConfigurationError where the file can't be read or made.
    """
    if given is not None:
        return EraseKey(given.encode("utf-8"), "MEMLINE_ERASE_KEY")
    path = home / "erase.key"
    try:
        if make:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh = path.with_name(f"erase.key.{secrets.token_hex(8)}")
            if not path.exists():
                descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with os.fdopen(descriptor, "w") as handle:
                    handle.write(secrets.token_hex(32) + "\n")
                    handle.flush()
                    os.fsync(handle.fileno())
                try:
                    os.link(fresh, path)  # whoever is first has made it
                except FileExistsError:
                    pass
                finally:
                    fresh.unlink()
        return EraseKey(path.read_text("ascii").strip().encode("ascii"), str(path))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"The key in {path} can't be read ({type(error).__name__}): set its permissions, or give the key in MEMLINE_ERASE_KEY."
        ) from error
