"""`Memory.from_config`: mem0's configuration becomes settings, or an error that names every key; nothing is dropped silently."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline import AsyncMemory, Memory, Settings
from memline.contracts.errors import InvalidInput
from memline.language.analysis import TextAnalyser
from memline.mem0_config import read_config
from memline.settings import load_settings, sqlite_url


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty home, and an embedder that costs nothing to load."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEMLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MEMLINE_EMBEDDER", "tests.unit.cli.parts:Tiny")
    monkeypatch.setattr(TextAnalyser, "_load", lambda _self: None)
    return tmp_path


def settings_of(config: dict[str, Any]) -> Settings:
    return load_settings(**read_config(config).settings)


def test_each_section_becomes_the_settings_that_do_the_same(tmp_path: Path) -> None:
    service = {"api_key": "key-1", "openai_base_url": "http://127.0.0.1:1/v1"}
    found = settings_of(
        {
            "llm": {"provider": "openai", "config": {"model": "small", "enable_vision": True, **service}},
            "embedder": {"provider": "openai", "config": {"model": "embeds", "embedding_dims": 256, **service}},
            "vector_store": {
                "provider": "weaviate",
                "config": {
                    "cluster_url": "http://127.0.0.1:8080",
                    "auth_client_secret": "key-2",
                    "collection_name": "shop",
                    "embedding_model_dims": 256,
                },
            },
            "reranker": {"provider": "cohere", "config": {"api_key": "key-3"}},
            "history_db_path": str(tmp_path / "h.db"),
            "version": "v1.1",
        }
    )
    secrets = [found.openai_api_key, found.weaviate_api_key, found.rerank_api_key, found.weaviate_url]
    assert [secret and secret.get_secret_value() for secret in secrets] == ["key-1", "key-2", "key-3", "http://127.0.0.1:8080"]
    assert (found.chat_model, found.vision_model, found.openai_base_url) == ("small", "small", "http://127.0.0.1:1/v1")
    assert (found.embedding_model, found.embedding_dimension, found.index_backend()) == ("embeds", 256, "weaviate")
    assert (found.weaviate_prefix, found.reranker, found.rerank_model) == ("Shop", "http", "rerank-v3.5")
    assert found.ledger_location() == sqlite_url(tmp_path / "h.db")
    assert found.uses_model() and found.uses_openai_embedder()


def test_a_configuration_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MEMLINE_OPENAI_API_KEY", "OPENAI_API_KEY", "MEMLINE_CHAT_MODEL", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "environment")
    found = settings_of({"llm": {"config": {"model": "mine", "api_key": "mine", "openai_base_url": "mine"}}})
    assert found.openai_api_key is not None
    assert {found.openai_api_key.get_secret_value(), found.chat_model, found.openai_base_url} == {"mine"}


def test_an_empty_configuration_changes_no_setting() -> None:
    nothing = {"llm": None, "reranker": None, "enable_graph": False, "custom_instructions": None}
    assert read_config(nothing).settings == read_config({}).settings == {}


REFUSED: list[tuple[dict[Any, Any], str]] = [
    ({"vector_store": {"provider": "qdrant", "config": {"path": "x"}}}, r"vector_store\.provider: 'qdrant' .*import --from mem0"),
    ({"vector_store": {"config": {"path": "x"}}}, r"vector_store\.provider: 'qdrant'"),
    ({"vector_store": {"provider": "weaviate"}}, r"vector_store\.config\.cluster_url: is needed"),
    ({"vector_store": {"provider": "weaviate", "config": {"cluster_url": "host"}}}, r"vector_store\.config\.cluster_url: "),
    ({"vector_store": {"provider": "weaviate", "config": {"cluster_url": "http://h", "additional_headers": {}}}}, r"additional_headers: "),
    ({"vector_store": {"provider": "weaviate", "config": {"cluster_url": "http://h", "collection_name": "a-b"}}}, r"collection_name: "),
    ({"llm": {"provider": "ollama"}}, r"llm\.provider: 'ollama' is not here.*chat_model="),
    ({"embedder": {"provider": "huggingface"}}, r"embedder\.provider: 'huggingface'.*a local model embeds"),
    ({"embedder": {"provider": "openai", "config": {"embedding_dims": "many"}}}, r"embedder\.config\.embedding_dims: must be a whole"),
    (
        {
            "embedder": {"config": {"embedding_dims": 3}},
            "vector_store": {"provider": "weaviate", "config": {"cluster_url": "http://h", "embedding_model_dims": 4}},
        },
        r"vector_store\.config\.embedding_model_dims: differs",
    ),
    (
        {"llm": {"config": {"api_key": "a"}}, "embedder": {"config": {"api_key": "b"}}},
        r"llm\.config\.api_key and embedder\.config\.api_key",
    ),
    ({"llm": {"config": {"openai_base_url": "http://a"}}, "embedder": {}}, r"llm\.config\.openai_base_url and embedder"),
    ({"llm": {"config": {"enable_vision": "yes"}}}, r"llm\.config\.enable_vision: must be True or False"),
    ({"llm": {"config": {"openrouter_base_url": "x"}}}, r"llm\.config\.openrouter_base_url: memline knows no such key"),
    ({"llm": "openai"}, r"llm: must be a dict"),
    ({"llm": {"provider": 5}}, r"llm\.provider: must be a string"),
    ({"llm": {"config": []}}, r"llm\.config: must be a dict"),
    ({"llm": {"config": {"model": " "}}}, r"llm\.config\.model: is blank"),
    ({"reranker": {"provider": "zero_entropy"}}, r"reranker\.provider: 'zero_entropy'.*MEMLINE_RERANK_URL"),
    ({"reranker": {"provider": "cohere"}}, r"reranker\.config\.api_key: is needed"),
    ({"graph_store": {}}, r"graph_store: .*take it out"),
    ({"enable_graph": True}, r"enable_graph: "),
    ({"custom_fact_extraction_prompt": "x"}, r"custom_fact_extraction_prompt: .*custom_instructions"),
    ({"custom_update_memory_prompt": "x"}, r"custom_update_memory_prompt: "),
    ({"custom_instructions": 5}, r"custom_instructions: must be a string"),
    ({"custom_instructions": "x" * 20_000}, r"custom_instructions: has 20000 bytes"),
    ({"version": "v1.0"}, r"version: 'v1\.1' is the only"),
    ({"history_db_path": ":memory:"}, r"history_db_path: "),
    ({"colour": "red"}, r"colour: memline knows no such key"),
    ({5: "x"}, r"a key of type int"),
]


@pytest.mark.parametrize(("config", "says"), REFUSED)
def test_what_can_not_be_taken_is_named_by_its_path_and_nothing_is_opened(light: Path, config: dict[Any, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Memory.from_config(config)
    assert not (light / "home").exists()


def test_every_problem_is_told_at_once_and_no_value() -> None:
    with pytest.raises(InvalidInput) as refused:
        read_config(
            {
                "llm": {"provider": "sk-secret " * 9, "config": {}},
                "embedder": {"config": {"api_key": 5, "sk-secret key": 1}},
                "vector_store": {"provider": "weaviate", "config": {"cluster_url": "http://me:sk-secret@host/path"}},
                "graph_store": "sk-secret",
            }
        )
    told = str(refused.value)
    assert all(path in told for path in ("llm.provider", "embedder.config.api_key", "cluster_url", "graph_store"))
    assert "sk-secret" not in told


def test_a_history_of_mem0s_own_is_not_written_into(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE history (id TEXT PRIMARY KEY)")
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match="history_db_path: is there already and is no ledger"):
        Memory.from_config({"history_db_path": str(path)})
    assert path.read_bytes() == before
    path.write_text("no database, " * 100)
    with pytest.raises(InvalidInput, match=r"history_db_path: can't be read"):
        Memory.from_config({"history_db_path": str(path)})


def test_a_ledger_of_ones_own_is_opened_again(light: Path) -> None:
    config = {"history_db_path": str(light / "own.db")}
    for _ in range(2):
        with Memory.from_config(config, namespace="shop") as memory:
            memory.add("Box 12.", user_id="ann", infer=False, wait=True)
            assert (memory.namespace, memory.count(filters={"user_id": "ann"})) == ("shop", 1)


def test_a_model_with_a_version_and_a_tag_is_no_import_path(light: Path) -> None:
    with Memory.from_config(
        {"llm": {"config": {"model": "llama3.1:8b", "api_key": "none", "openai_base_url": "http://127.0.0.1:1/v1"}}}
    ) as m:
        assert "llama3.1:8b" in m.models[0]


def test_keys_without_an_effect_are_told(light: Path) -> None:
    config = {"llm": {"provider": "openai", "config": {"api_key": "none", "temperature": 0.2, "max_tokens": 1500}}}
    with pytest.warns(UserWarning, match=r"llm\.config\.temperature, llm\.config\.max_tokens") as told:
        Memory.from_config(config).close()
    assert Path(told[0].filename) == Path(__file__)


def test_custom_instructions_are_the_prompt_of_what_extracts_and_has_none_of_its_own(light: Path) -> None:
    with Memory.from_config({"custom_instructions": "Only food."}) as memory:
        handed: list[str | None] = []
        accept = memory._accept

        def note(scope: Any, messages: object, options: dict[str, Any]) -> Any:
            handed.append(options["prompt"])
            return accept(scope, messages, options)

        memory._accept = note  # type: ignore[method-assign]
        memory.add("I like soup.", user_id="ann")
        memory.add("I like rice.", user_id="ann", prompt="Only drinks.")
        memory.add("I like bread.", user_id="ann", prompt="")
        memory.add("I like oats.", user_id="ann", infer=False)
        memory.add("I like corn.", agent_id="bot", memory_type="procedural_memory")
        assert handed == ["Only food.", "Only drinks.", "", None, None]
        assert memory.in_namespace("other")._instructions == "Only food."


def test_settings_and_a_configuration_are_not_both_taken(light: Path) -> None:
    with pytest.raises(InvalidInput, match="one of them"):
        Memory.from_config({}, settings=load_settings())
    with pytest.raises(InvalidInput, match="from_config takes mem0's dict"):
        Memory.from_config("config.yaml")  # type: ignore[arg-type]


def test_an_async_memory_has_it_too(light: Path) -> None:
    memory = AsyncMemory.from_config({"history_db_path": str(light / "own.db")}, namespace="shop")
    assert type(memory).__name__ == "AsyncMemory"
    assert memory.memory.namespace == "shop"
    memory.memory.close()


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=5) | st.sampled_from(["openai", "weaviate", "cohere", "qdrant"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["provider", "config", "model", "api_key", "cluster_url", "top_k", "zzz"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["llm", "embedder", "vector_store", "reranker", "custom_instructions", "version", "enable_graph", "zzz"]),
        json_like,
        max_size=4,
    )
)
def test_any_configuration_is_read_or_refused(config: dict[str, Any]) -> None:
    try:
        found = read_config(config)
    except InvalidInput:
        return
    assert set(found.settings) <= set(Settings.model_fields)
    assert "zzz" not in config or config["zzz"] is None
