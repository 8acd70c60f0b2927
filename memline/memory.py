"""The front door: `Memory`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from memline.compose import House
from memline.contracts.errors import Closed, InvalidInput, NotSupportedYet
from memline.contracts.scope import check_namespace
from memline.lifetime import Lifetime
from memline.observing import observe
from memline.settings import Settings, load_settings

if TYPE_CHECKING:
    from memline.language.ports import ChatModel, Embedder
    from memline.pipeline.extractors.port import Extractor
    from memline.search.index.port import Index
    from memline.search.rerank.port import Reranker

from memline.memory_handle import refuse_unknown
from memline.memory_reads import Reads
from memline.memory_writes import Writes

__all__ = ["Memory"]


class Memory(Writes, Reads):
    """The memory of one namespace.

    Settings come from `MEMLINE_*` (and a `.env` file); with nothing set, everything runs here: a SQLite ledger in the user's data
    folder, an engine thread, a local embedder, an extractor by rules. Safe for threads. Close it, or use it in a `with` block.

    *embedder*, *chat_model*, *extractor*, *index* and *reranker* take an object in place of what the settings name.
    *write_policy* stands in place of MEMLINE_WRITE_POLICY: what of a text is kept, masked or refused (`docs/write-policy.md`).
    """

    def __init__(
        self,
        namespace: str | None = None,
        *,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
        chat_model: ChatModel | None = None,
        extractor: Extractor | None = None,
        index: Index | None = None,
        reranker: Reranker | None = None,
        write_policy: Mapping[str, Any] | str | None = None,
        **unknown: object,
    ) -> None:
        refuse_unknown("Memory", unknown)
        if settings is not None and not isinstance(settings, Settings):
            raise InvalidInput(f"settings must be a memline.Settings, not {type(settings).__name__}.")
        loaded = settings or load_settings()
        self.namespace = check_namespace(loaded.namespace if namespace is None else namespace)
        observe(loaded, role="application")
        self._house = House(
            loaded,
            embedder=embedder,
            chat_model=chat_model,
            extractor=extractor,
            index=index,
            reranker=reranker,
            write_policy=write_policy,
        )
        self._open = Lifetime(self._house)
        if self._house.uses_redis:
            _ = self._house.producer  # a Redis that evicts is refused here, not at the first turn it loses

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any], *, namespace: str | None = None, **parts: Any) -> Memory:
        """A `Memory` from mem0's configuration; `docs/from-mem0.md` has the keys. What it does not name comes from MEMLINE_*.

        *parts* as in `Memory(…)`: embedder, chat_model, extractor, index, reranker, write_policy. `custom_instructions` become the
        prompt of each `add` that extracts facts and has no prompt of its own. Keys without an effect here are told in a UserWarning.
        Raises InvalidInput that names every key which can't be taken and what to do; nothing was opened then.
        """
        import warnings

        from memline.mem0_config import read_config

        found = read_config(config_dict)
        if "settings" in parts:
            raise InvalidInput("from_config takes mem0's configuration in place of settings: give one of them.")
        if found.ignored:
            shown = ", ".join(found.ignored)
            warnings.warn(f"These keys of the configuration have no effect in memline: {shown}. See docs/from-mem0.md.", stacklevel=2)
        memory = cls(namespace, settings=load_settings(**found.settings), **parts)
        memory._instructions = found.instructions
        return memory

    def in_namespace(self, name: str) -> Memory:
        """A light handle on another namespace, on the same connections; closing one closes both."""
        if self._open.closed:
            raise Closed()
        handle = object.__new__(Memory)
        handle.namespace = check_namespace(name)
        handle._house, handle._open, handle._instructions = self._house, self._open, self._instructions
        return handle

    # Closing

    def close(self) -> None:
        """Ends the engine after what it has accepted, for at most MEMLINE_EXIT_DRAIN seconds, and closes every connection."""
        self._open.close()

    def __enter__(self) -> Memory:
        self._check_open()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Memory(namespace={self.namespace!r})"

    # What is not there yet

    def chat(self, /, *_args: object, **_options: object) -> NoReturn:
        """mem0 does not have it either."""
        raise NotSupportedYet("Memory.chat is not built: search, ask your model with what was found, and add the turn.")
