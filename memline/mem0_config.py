"""mem0's configuration (`Memory.from_config`) read as memline's settings.

What has a counterpart is taken. What only tunes how mem0 samples its model is named in a warning and left out. Everything else is an
error that names each key by its path and says what to do: a key that is silently dropped would send data elsewhere than its owner thinks.
No value is shown, since some are secrets.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memline.contracts.errors import ConfigurationError, InvalidInput, MemlineError
from memline.contracts.turn import check_text
from memline.settings import sqlite_url

__all__ = ["Mem0Config", "read_config"]

#: Longest custom instructions, in bytes of UTF-8, as a namespace's own: they go with every turn.
_MAX_INSTRUCTIONS = 16_384
#: mem0's class for Cohere asks this; memline's reranker takes the whole URL.
_COHERE_URL = "https://api.cohere.com/v2/rerank"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,59}")
_COLLECTION = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")

#: What mem0 samples its model with: memline leaves that to the model, and asks for JSON by its own prompt.
_SAMPLING = ("temperature", "max_tokens", "top_p", "top_k", "vision_details")
#: What each other key of mem0's asks for that there is not, and what to do.
_ELSEWHERE = {
    "graph_store": "memline has no graph relations; take it out",
    "enable_graph": "memline has no graph relations; take it out",
    "custom_fact_extraction_prompt": "mem0 2 ignores it; say what to write down in custom_instructions, which are added to the rules",
    "custom_update_memory_prompt": "there is no second call that updates memories; take it out",
    "vector_store.config.additional_headers": "memline embeds by itself, so Weaviate needs no provider's key; take it out",
}
_ONLY_OPENAI = (
    "memline speaks OpenAI's protocol: provider 'openai' with config.openai_base_url of that server (Ollama: http://localhost:11434/v1), "
    "or an object, Memory.from_config(…, {part}=…)"
)


@dataclass(frozen=True, slots=True)
class Mem0Config:
    """What a configuration asks for."""

    #: Fields of `memline.Settings`.
    settings: dict[str, Any]
    #: `custom_instructions`: the prompt of each `add` that has none of its own.
    instructions: str | None
    #: Paths of keys that have no effect here.
    ignored: tuple[str, ...]


def read_config(config: object) -> Mem0Config:
    """*config*, a dict as mem0's `from_config` takes it, read without a side effect.

    Raises InvalidInput naming every key that can't be taken, by its path, and what to do.
    """
    if not isinstance(config, Mapping):
        raise InvalidInput(f"from_config takes mem0's dict, not {type(config).__name__}; memline's own settings go to Memory(settings=…).")
    reader = _Reader()
    reader.read(config)
    if reader.problems:
        raise InvalidInput(f"This configuration can't be taken as it is; nothing was opened. {'. '.join(reader.problems)}.")
    return Mem0Config(reader.settings, reader.instructions, tuple(reader.ignored))


class _Reader:
    """One configuration on its way."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.instructions: str | None = None
        self.ignored: list[str] = []
        self.problems: list[str] = []

    def read(self, config: Mapping[Any, Any]) -> None:
        """Each section in turn; what is left over is not known."""
        rest = {key: value for key, value in config.items() if value is not None}
        llm = self._part(rest.pop("llm", None), "llm")
        embedder = self._part(rest.pop("embedder", None), "embedder")
        self._read_server(llm, embedder)
        if llm is not None:
            self._read_llm(llm)
        if embedder is not None:
            self._read_embedder(embedder)
        self._read_vector_store(rest.pop("vector_store", None))
        self._read_reranker(rest.pop("reranker", None))
        self._read_history(rest.pop("history_db_path", None))
        self._read_instructions(rest.pop("custom_instructions", None))
        if rest.pop("version", None) not in (None, "v1.1"):
            self._refuse("version", "'v1.1' is the only shape that memline gives back; take it out")
        if rest.get("enable_graph") is False:
            del rest["enable_graph"]
        self._refuse_rest("", rest)

    # Sections

    def _part(self, section: object, name: str) -> dict[str, Any] | None:
        """The config of an `llm` or `embedder` section whose provider is OpenAI; None where there is none to read."""
        provider, config = self._section(section, name, default="openai")
        if provider is None:
            return None
        if provider != "openai":
            part = "chat_model" if name == "llm" else "embedder"
            local = "" if name == "llm" else "; without a key, leave the section out: a local model embeds"
            self._refuse(f"{name}.provider", f"{_shown(provider)} is not here. {_ONLY_OPENAI.format(part=part)}{local}")
            return None
        return config

    def _section(self, section: object, name: str, *, default: str | None) -> tuple[str | None, dict[str, Any]]:
        if section is None:
            return None, {}
        if not isinstance(section, Mapping):
            self._refuse(name, f"must be a dict with provider and config, not {type(section).__name__}")
            return None, {}
        rest = {key: value for key, value in section.items() if value is not None}
        provider, config = rest.pop("provider", default), rest.pop("config", {})
        self._refuse_rest(f"{name}.", rest)
        if not isinstance(provider, str):
            self._refuse(f"{name}.provider", "must be a string")
            return None, {}
        if not isinstance(config, Mapping):
            self._refuse(f"{name}.config", f"must be a dict, not {type(config).__name__}")
            return None, {}
        return provider, {key: value for key, value in config.items() if value is not None}

    def _read_server(self, llm: dict[str, Any] | None, embedder: dict[str, Any] | None) -> None:
        """One server, with one key, serves both parts here."""
        for key, setting in (("openai_base_url", "openai_base_url"), ("api_key", "openai_api_key")):
            given = [
                (name, self._text(f"{name}.config.{key}", config.pop(key, None)))
                for name, config in (("llm", llm), ("embedder", embedder))
                if config is not None
            ]
            values = {value for _, value in given if value is not None}
            # A key may stand once; a server named for one part only would be asked by the other part, too.
            if len(values) > 1 or (key == "openai_base_url" and values and None in {value for _, value in given}):
                self._refuse(
                    f"llm.config.{key} and embedder.config.{key}",
                    "memline has one OpenAI-compatible server for both: name the same, or give one of them as an object "
                    "(Memory.from_config(…, chat_model=…) or embedder=…) and leave its section out",
                )
            elif values:
                (self.settings[setting],) = values

    def _read_llm(self, config: dict[str, Any]) -> None:
        self.settings["extractor"] = "model"
        if (model := self._text("llm.config.model", config.pop("model", None))) is not None:
            self.settings["chat_model"] = model
        vision = config.pop("enable_vision", False)
        if not isinstance(vision, bool):
            self._refuse("llm.config.enable_vision", "must be True or False")
        elif vision:
            self.settings["vision_model"] = model or "gpt-5-mini"
        self._ignore("llm.config.", config, _SAMPLING)
        self._refuse_rest("llm.config.", config)

    def _read_embedder(self, config: dict[str, Any]) -> None:
        self.settings["embedder"] = "openai"
        if (model := self._text("embedder.config.model", config.pop("model", None))) is not None:
            self.settings["embedding_model"] = model
        self._read_dimension("embedder.config.embedding_dims", config.pop("embedding_dims", None))
        self._refuse_rest("embedder.config.", config)

    def _read_vector_store(self, section: object) -> None:
        provider, config = self._section(section, "vector_store", default="qdrant")
        if provider is None:
            return
        if provider != "weaviate":
            self._refuse(
                "vector_store.provider",
                f"{_shown(provider)} is no index here. Leave the section out for the embedded index, take 'weaviate', or give an object, "
                "Memory.from_config(…, index=…); `memline import --from mem0` brings over what is in that store",
            )
            return
        self.settings["index"] = "weaviate"
        self._read_dimension("vector_store.config.embedding_model_dims", config.pop("embedding_model_dims", None))
        url = self._text("vector_store.config.cluster_url", config.pop("cluster_url", None))
        if url is None:
            self._refuse("vector_store.config.cluster_url", "is needed: http[s]://host:port of the Weaviate")
        else:
            self._check_weaviate(url)
        if (key := self._text("vector_store.config.auth_client_secret", config.pop("auth_client_secret", None))) is not None:
            self.settings["weaviate_api_key"] = key
        if (collection := self._text("vector_store.config.collection_name", config.pop("collection_name", None))) is not None:
            if _COLLECTION.fullmatch(collection):
                self.settings["weaviate_prefix"] = collection[0].upper() + collection[1:]
            else:
                self._refuse(
                    "vector_store.config.collection_name",
                    "begins the names of memline's collections: at most 64 letters, digits and underscores, a letter first",
                )
        self._refuse_rest("vector_store.config.", config)

    def _check_weaviate(self, url: str) -> None:
        from memline.search.index.weaviate_place import place_of

        try:
            place_of(url)
        except ConfigurationError as error:
            self._refuse("vector_store.config.cluster_url", str(error).rstrip("."))
        else:
            self.settings["weaviate_url"] = url

    def _read_dimension(self, path: str, value: object) -> None:
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 16_384:
            self._refuse(path, "must be a whole number from 1 to 16384")
        elif self.settings.setdefault("embedding_dimension", value) != value:
            self._refuse(path, "differs from embedder.config.embedding_dims: an index has the embedder's dimension")

    def _read_reranker(self, section: object) -> None:
        provider, config = self._section(section, "reranker", default="cohere")
        if provider is None:
            return
        self._ignore("reranker.config.", config, ("top_k", "temperature", "max_tokens"))
        if provider == "llm_reranker":
            self.settings["reranker"] = "llm"  # the chat model, whatever it is
        elif provider == "cohere":
            self.settings |= {"reranker": "http", "rerank_url": _COHERE_URL}
            self.settings["rerank_model"] = self._text("reranker.config.model", config.pop("model", None)) or "rerank-v3.5"
            key = self._text("reranker.config.api_key", config.pop("api_key", None))
            if key is None:
                self._refuse("reranker.config.api_key", "is needed: COHERE_API_KEY is not read here")
            self.settings["rerank_api_key"] = key
        else:
            self._refuse(
                "reranker.provider",
                f"{_shown(provider)} is not here: leave the section out and set MEMLINE_RERANKER=http with MEMLINE_RERANK_URL (a /rerank "
                "in the shape of Cohere, Jina and vLLM), or give an object, Memory.from_config(…, reranker=…)",
            )
            return
        self._refuse_rest("reranker.config.", config)

    def _read_history(self, value: object) -> None:
        path = self._text("history_db_path", str(value) if isinstance(value, Path) else value)
        if path is None:
            return
        if path == ":memory:":
            self._refuse("history_db_path", "memline's ledger is a file; take it out for ledger.db in the home folder (MEMLINE_HOME)")
            return
        try:
            file = Path(path).expanduser().absolute()
            taken = file.exists() and not _may_be_ledger(file)
        except (OSError, RuntimeError, sqlite3.Error) as error:
            self._refuse("history_db_path", f"can't be read as a SQLite file ({type(error).__name__}); name another one")
            return
        if taken:
            self._refuse(
                "history_db_path",
                "is there already and is no ledger of memline's, such as mem0's own history: name another file "
                "(`memline import --from mem0 … --history-db` reads mem0's)",
            )
        else:
            self.settings["ledger_url"] = sqlite_url(file)

    def _read_instructions(self, value: object) -> None:
        text = self._text("custom_instructions", value)
        if text is not None and (size := len(text.encode("utf-8"))) > _MAX_INSTRUCTIONS:
            self._refuse("custom_instructions", f"has {size} bytes, {_MAX_INSTRUCTIONS} are allowed, since it goes with every turn")
        else:
            self.instructions = text

    # Values and problems

    def _text(self, path: str, value: object) -> str | None:
        """A string that is not blank; None for one that is not given, or was refused."""
        if value is None:
            return None
        if not isinstance(value, str):
            self._refuse(path, f"must be a string, not {type(value).__name__}")
            return None
        if not value.strip():
            self._refuse(path, "is blank; take it out")
            return None
        try:
            return check_text(path, value)
        except MemlineError as error:
            self._refuse(path, str(error).rstrip("."))
            return None

    def _ignore(self, prefix: str, config: dict[str, Any], names: tuple[str, ...]) -> None:
        for name in names:
            if name in config:
                del config[name]
                self.ignored.append(prefix + name)

    def _refuse_rest(self, prefix: str, rest: Mapping[Any, Any]) -> None:
        for key in rest:
            name = _key(key)
            self._refuse(prefix + name, _ELSEWHERE.get(prefix + name, "memline knows no such key; take it out (docs/from-mem0.md)"))

    def _refuse(self, path: str, why: str) -> None:
        self.problems.append(f"{path}: {why}")


def _may_be_ledger(file: Path) -> bool:
    """Whether memline may open *file*: it is empty, or has a schema of ours. Reads only."""
    if not file.stat().st_size:
        return True
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        tables = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    return not tables or {"alembic_version", "ledger_meta"} <= tables


def _shown(provider: str) -> str:
    return repr(provider) if _NAME.fullmatch(provider) else f"a name of {len(provider)} characters"


def _key(key: object) -> str:
    if isinstance(key, str):
        return key if _NAME.fullmatch(key) else f"a key of {len(key)} characters"
    return f"a key of type {type(key).__name__}"
