"""The composition root's part for erasure: the eraser of every store there is, and what was erased before a backup was put back."""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import TYPE_CHECKING

from memline.compose_index import IndexParts

if TYPE_CHECKING:
    from memline.ledger.session import Ledger
    from memline.outbox.erase import Eraser
    from memline.outbox.tombstone_file import EraseKey, TombstoneFile
    from memline.producer import TurnStream
    from memline.search.index.port import Index

__all__ = ["EraseParts"]

_log = logging.getLogger("memline")


class EraseParts(IndexParts):
    """Tombstones and their key, and what erases."""

    @property
    @abstractmethod
    def stream(self) -> TurnStream: ...

    @property
    def tombstone_file(self) -> TombstoneFile:
        from memline.outbox.tombstone_file import TombstoneFile

        return TombstoneFile(self.settings.home_folder() / "tombstones.jsonl")

    def _replay_tombstones(self, ledger: Ledger) -> None:
        """A ledger that was put back from a backup forgets nothing that was erased since: before anything of it is served."""
        file = self.tombstone_file
        if not file.path.exists():
            return
        from memline.outbox.erase_replay import missing, replay

        stones = missing(ledger, file)
        if stones:
            removed = replay(ledger, stones, self._erase_key(make=False), now=self.clock.now())
            _log.warning("The ledger lacked %d tombstones: %d memories and turns that it had were erased again.", len(stones), removed)

    def _erase_key(self, *, make: bool) -> EraseKey | None:
        from memline.outbox.tombstone_file import load_key

        given = self.settings.erase_key
        return load_key(self.settings.home_folder(), None if given is None else given.get_secret_value(), make=make)

    @property
    def eraser(self) -> Eraser:
        """Made anew for each erasure: which indexes there are changes while the ledger moves to another embedder."""
        return self._build_eraser()

    def _build_eraser(self) -> Eraser:
        from memline.contracts.erasing import TurnStore
        from memline.ledger.meta import embedders
        from memline.outbox.erase import Eraser, Stores
        from memline.producer.erase_spool import SpoolEraser
        from memline.producer.erase_stream import StreamEraser
        from memline.search.index.embedded import EmbeddedIndex
        from memline.search.index.port import OfSpace, Space

        settings = self.settings
        indexes: list[Index] = [self.index]
        own = self.index.space if isinstance(self.index, OfSpace) else None
        with self.ledger.read() as connection:
            known = embedders(connection)
        spaces = [Space(*found) for found in known.known]
        if known.former is not None and settings.index_backend() == "weaviate":  # the embedded one goes when another is opened
            spaces.append(Space(*known.former))
        others = [self.index_of(space) for space in dict.fromkeys(spaces) if space != own]
        indexes += [index for index in others if index is not None]
        files = [self.ledger] if self.ledger.is_sqlite else []
        files += [index.store for index in indexes if isinstance(index, EmbeddedIndex) and index.store not in files]
        redis = StreamEraser(self.stream) if self.uses_redis else None
        spool = SpoolEraser(settings.home_folder() / "spool")
        turns: list[TurnStore] = [spool] if redis is None else [redis, spool]
        outside = []
        if not self.ledger.is_sqlite and any(isinstance(index, EmbeddedIndex) for index in indexes):
            outside.append("the embedded index that other machines keep beside this ledger, in index.db of their home folders")
        key = self._erase_key(make=True)
        assert key is not None  # it was made
        return Eraser(
            self.ledger,
            Stores(indexes, turns, files, [settings.home_folder()], redis, outside),
            self.clock,
            self.ids,
            key,
            self.tombstone_file,
            grace=max(settings.model_timeout, settings.weaviate_timeout),
        )
