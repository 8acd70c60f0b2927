"""A small OpenAI-compatible server on the standard library: for tests, benchmarks and trying memline without a key.

It answers over real HTTP what memline asks of a provider: chat completions (scripted, or facts found in memline's own
extraction prompt) and embeddings (deterministic). It is not a model; nothing it says means anything.
"""

from __future__ import annotations

from memline.cli.simulator.replies import Step, embedding, extraction_reply, new_messages
from memline.cli.simulator.server import Call, Simulator, serve

__all__ = ["Call", "Simulator", "Step", "embedding", "extraction_reply", "new_messages", "serve"]
