"""Embedders: one that runs in this process, one that asks an OpenAI-compatible server."""
