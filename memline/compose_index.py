"""The composition root's part for the index: embedded, in Weaviate, or one of the application's own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from memline.compose_models import ModelParts
from memline.contracts.errors import ConfigurationError
from memline.settings import sqlite_url

if TYPE_CHECKING:
    from memline.search.index.embedded import EmbeddedIndex
    from memline.search.index.port import Index, Space, SpacedIndex
    from memline.search.index.weaviate import WeaviateIndex

__all__ = ["IndexParts"]

_log = logging.getLogger("memline")


class IndexParts(ModelParts):
    """The index of the ledger's embedder, and of others while the ledger moves from one to the next."""

    @property
    def index(self) -> Index:
        return cast("Index", self._once("_index", self._build_index))

    def _build_index(self) -> Index:
        if self._given_index is not None:
            return self._given_index
        backend = self.settings.index_backend()
        if backend == "weaviate":
            return self._build_weaviate()
        if backend != "embedded":
            return cast("Index", self._loaded("index", backend))
        from memline.search.index.port import Space

        index = self._build_embedded(Space(self.embedder.model, self.embedder.dimension))
        if index.needs_rebuild:
            self._fill(index)
        return cast("Index", index)

    def index_of(self, space: Space) -> SpacedIndex | None:
        """An index of *space*, as the settings name it, unfilled where it is new; None for one of the application's own."""
        backend = self.settings.index_backend()
        if self._given_index is not None or backend not in ("embedded", "weaviate"):
            return None
        return cast("SpacedIndex", self._build_weaviate(space) if backend == "weaviate" else self._build_embedded(space))

    def _build_embedded(self, space: Space) -> EmbeddedIndex:
        from memline.ledger.session import Ledger
        from memline.search.index.embedded import EmbeddedIndex

        store = self.ledger
        if not store.is_sqlite:
            store = Ledger(sqlite_url(self.settings.home_folder() / "index.db"))
            store.make_file()
        return EmbeddedIndex(store, self.ledger, space=space)

    def _build_weaviate(self, space: Space | None = None) -> WeaviateIndex:
        """The index in Weaviate, of *space* or of the embedder's; nothing is connected yet."""
        from memline.search.index.port import Space
        from memline.search.index.weaviate import WeaviateIndex
        from memline.search.index.weaviate_link import EmbeddedServer
        from memline.search.index.weaviate_place import EMBEDDED, place_of

        settings = self.settings
        if settings.weaviate_url is None:
            raise ConfigurationError("MEMLINE_INDEX=weaviate needs MEMLINE_WEAVIATE_URL, such as http://localhost:8080.")
        url, key = settings.weaviate_url.get_secret_value(), settings.weaviate_api_key
        server = (
            self._once("_weaviate_server", lambda: EmbeddedServer(settings.home_folder() / "weaviate"))
            if url == EMBEDDED
            else place_of(url, settings.weaviate_grpc_url, None if key is None else key.get_secret_value())
        )
        return WeaviateIndex(
            server,
            self.ledger,
            space or Space(self.embedder.model, self.embedder.dimension),
            prefix=settings.weaviate_prefix,
            timeout=settings.weaviate_timeout,
            read_timeout=settings.search_deadline,
            ids=self.ids,
        )

    def _fill(self, index: EmbeddedIndex) -> None:
        """The index is new and the ledger is not: the relay shows it everything, from the ledger's own vectors."""
        from memline.outbox.reconcile import refill

        number = refill(self.ledger, self.clock)
        index.mark_rebuilt()
        _log.warning("The index was empty and the ledger is not: %d objects were written to the outbox and are on their way.", number)
