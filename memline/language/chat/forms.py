"""How a reply is asked for, and what each server takes of it: found out once a server and model, and remembered where all can read it."""

from __future__ import annotations

import hashlib
import logging
import threading
from enum import IntEnum
from typing import Protocol

from memline.contracts.errors import MemlineError
from memline.language.providers import host_of

__all__ = ["FormStore", "Forms", "ReplyForm"]

_log = logging.getLogger(__name__)


class ReplyForm(IntEnum):
    """How a reply is asked for, from the strictest form to none."""

    SCHEMA = 0
    OBJECT = 1
    TEXT = 2


class FormStore(Protocol):
    """Where other processes learn what this one found out (`ledger.chat_forms`). Raises MemlineError where it does not answer."""

    def load(self, key: str) -> str | None:
        """The name of the form that was kept, unless it is too old to be trusted."""
        ...

    def keep(self, key: str, form: str) -> None: ...


class Forms:
    """The strictest form that each server and model is not known to refuse. Thread-safe.

    Without *store* it is remembered by this object alone.
    """

    def __init__(self, store: FormStore | None = None) -> None:
        self._store = store
        self._known: dict[str, ReplyForm] = {}
        self._lock = threading.Lock()

    def of(self, base_url: str | None, model: str) -> ReplyForm:
        """The form to begin with; the strictest where nothing is known, or nothing can be asked."""
        key = _key(base_url, model)
        with self._lock:
            if key in self._known:
                return self._known[key]
        stored = self._loaded(key)
        with self._lock:
            return self._known.setdefault(key, stored)

    def learned(self, base_url: str | None, model: str, form: ReplyForm) -> None:
        """*form* worked where the stricter ones were refused."""
        key = _key(base_url, model)
        with self._lock:
            self._known[key] = form
        if self._store is None:
            return
        try:
            self._store.keep(key, form.name)
        except MemlineError as error:  # then each process finds it out
            _log.warning("what %s takes could not be kept: %s", host_of(base_url), error)

    def _loaded(self, key: str) -> ReplyForm:
        if self._store is None:
            return ReplyForm.SCHEMA
        try:
            name = self._store.load(key)
        except MemlineError as error:
            _log.warning("what a server takes could not be looked up: %s", error)
            return ReplyForm.SCHEMA
        return ReplyForm.SCHEMA if name is None else ReplyForm.__members__.get(name, ReplyForm.SCHEMA)


def _key(base_url: str | None, model: str) -> str:
    """Host and model, with a digest in place of the rest of the URL, which may be secret."""
    digest = hashlib.sha256((base_url or "").encode("utf-8")).hexdigest()[:12]
    return f"{host_of(base_url)} {digest} {model}"
