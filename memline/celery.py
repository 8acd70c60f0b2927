"""The Celery app of the settings, for Celery's own commands: `celery --app memline.celery inspect active`.

It sends and watches; the one that works is made by `memline worker`.
"""

from __future__ import annotations

from typing import Any

from memline.contracts.errors import ConfigurationError
from memline.settings import Settings, load_settings

__all__ = ["app_of"]


def app_of(settings: Settings) -> Any:
    """A Celery app on the Redis of *settings*. Raises ConfigurationError where they name none."""
    from memline.workers.celery_app import make_app

    if settings.redis_url is None:
        raise ConfigurationError("Celery needs MEMLINE_REDIS_URL, which is not set: without Redis there are no messages and no workers.")
    return make_app(settings.redis_url.get_secret_value(), prefix=settings.redis_prefix)


def __getattr__(name: str) -> Any:
    """`app`, made from the environment when Celery asks for it: importing this module needs no Redis."""
    if name != "app":
        raise AttributeError(name)
    app = globals()["app"] = app_of(load_settings())
    return app
