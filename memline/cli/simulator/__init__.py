"""A small OpenAI-compatible server on the standard library: for tests, benchmarks and trying memline without a key.

It answers over real HTTP what memline asks of a provider: chat completions (scripted, or facts found in memline's own
extraction prompt) and embeddings (deterministic). It is not a model; nothing it says means anything.
"""

from __future__ import annotations

from memline.cli.simulator.faults import Faults, MinuteLimit
from memline.cli.simulator.recorded import dialect, dialects
from memline.cli.simulator.replies import embedding, extraction_reply, new_messages
from memline.cli.simulator.server import Call, Simulator, serve
from memline.cli.simulator.steps import Step, read_script

__all__ = [
    "Call",
    "Faults",
    "MinuteLimit",
    "Simulator",
    "Step",
    "dialect",
    "dialects",
    "embedding",
    "extraction_reply",
    "new_messages",
    "read_script",
    "serve",
]
