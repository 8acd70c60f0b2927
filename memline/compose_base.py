"""What every part of the composition root stands on: the settings, the parts that the application gave, and building each part once."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, cast

from memline.contracts.clock import Clock
from memline.contracts.errors import ConfigurationError
from memline.contracts.ids import IdSource
from memline.settings import Settings

if TYPE_CHECKING:
    from memline.language.ports import ChatModel, Embedder
    from memline.ledger.session import Ledger
    from memline.pipeline.extractors.port import Extractor
    from memline.search.index.port import Index
    from memline.search.rerank.port import Reranker

__all__ = ["HouseBase", "check_part"]

#: The ports that a part of the application's own has to fit; loaded only where there is one.
_PORTS = {
    "embedder": "memline.language.ports:Embedder",
    "chat_model": "memline.language.ports:ChatModel",
    "vision_model": "memline.language.ports:ChatModel",
    "extractor": "memline.pipeline.extractors.port:Extractor",
    "index": "memline.search.index.port:Index",
    "reranker": "memline.search.rerank.port:Reranker",
}

#: What their settings may be besides an import path. Those that are not here may be the name of any model.
_WORDS = {
    "embedder": "auto, local, openai",
    "extractor": "auto, rules, model",
    "index": "auto, embedded, weaviate",
    "reranker": "http, llm",
}


class HouseBase(ABC):
    """Settings, given parts, clock and ids, and `_once`."""

    settings: Settings
    clock: Clock
    ids: IdSource
    _building: threading.RLock
    _given_embedder: Embedder | None
    _given_chat_model: ChatModel | None
    _given_extractor: Extractor | None
    _given_index: Index | None
    _given_reranker: Reranker | None

    @property
    @abstractmethod
    def ledger(self) -> Ledger: ...

    @property
    def uses_redis(self) -> bool:
        return self.settings.redis_url is not None

    def built(self, name: str) -> Any:
        """A part, if it was built already."""
        return self.__dict__.get(name)

    def _once(self, name: str, build: Any) -> Any:
        found = self.__dict__.get(name)
        if found is None:
            with self._building:
                found = self.__dict__.get(name)
                if found is None:
                    found = self.__dict__[name] = build()
        return found

    def _loaded(self, name: str, path: str) -> Any:
        from memline.language.loading import load_object

        setting = f"MEMLINE_{name.upper()}"
        if ":" not in path and name in _WORDS:
            raise ConfigurationError(f"{setting} is {path!r}: it must be {_WORDS[name]} or an import path (package.module:name).")
        found = load_object(path, setting)
        if isinstance(found, type):
            try:
                found = found()
            except Exception as error:  # whatever the application's class does
                raise ConfigurationError(
                    f"{setting} names a class that can't be made without arguments: {type(error).__name__}."
                ) from error
        check_part(name, found, setting)
        return found


def check_part(name: str, part: object, where: str) -> None:
    """Raises ConfigurationError where *part*, which *where* gave, does not fit the port of its *name*."""
    from memline.language.loading import check_fits, load_object

    check_fits(part, cast("type", load_object(_PORTS[name], where)), where)
