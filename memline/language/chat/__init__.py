"""Chat models behind an OpenAI-compatible server."""
