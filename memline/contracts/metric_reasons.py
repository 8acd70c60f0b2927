"""From an error, or from the reason a job shows, to one of the few classes that a metric's label may name."""

from __future__ import annotations

__all__ = ["reason_class"]

#: By the name of the error's class, which a reason begins with (`pipeline.parts.reason_of`).
_CLASSES = {
    "ProviderUnavailable": "provider_unavailable",
    "ProviderRefused": "provider_refused",
    "ReplyUnreadable": "reply_unreadable",
    "ServiceUnavailable": "service_unavailable",
    "ConfigurationError": "configuration",
    "MissingPackage": "configuration",
    "EmbedderMismatch": "embedder_mismatch",
}


def reason_class(reason: str | BaseException) -> str:
    """One of `metrics.REASONS`: `error` for what no other names."""
    name = reason.split(":", 1)[0].strip() if isinstance(reason, str) else type(reason).__name__
    return _CLASSES.get(name, "error")
