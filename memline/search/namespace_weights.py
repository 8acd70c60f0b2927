"""Weights that a namespace has of its own: from JSON and back, checked, and found by a search without asking each time."""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from sqlalchemy.engine import Connection

from memline.contracts.errors import InvalidInput
from memline.language.lazy import ForkLock
from memline.ledger.namespace_options import WEIGHTS, option_of
from memline.search.signals import SIGNALS
from memline.search.weights import DEFAULT, Weights

__all__ = ["FRESH_FOR", "STEEPEST", "NamespaceWeights", "Weighing", "weights_from_json", "weights_to_json"]

#: Seconds that a search relies on what it read: weights that are set take effect everywhere within that.
FRESH_FOR = 2.0

#: What a sum may be from the middle at most, times the slope: beyond exp(500) a score can't be told from 0 or 1.
STEEPEST = 500.0

#: Namespaces whose weights are remembered.
_MOST = 1_000

_FIELDS = ("signals", "middle", "slope")

_log = logging.getLogger("memline")


@dataclass(frozen=True, slots=True)
class Weighing:
    """The weights of a search, and whose they are."""

    weights: Weights
    source: Literal["default", "namespace"]


def weights_from_json(raw: object) -> Weights:
    """`{"signals": {name: number}, "middle": number, "slope": number}` as weights.

    A signal, `middle` or `slope` that is left out counts as published; a weight of 0 takes a signal out. Raises InvalidInput for a
    name that is none, for what is no finite number, for a slope that is not above 0, and where no signal speaks for a memory.
    """
    if not isinstance(raw, Mapping):
        raise InvalidInput(f"Weights must be a JSON object with {', '.join(_FIELDS)}, not {type(raw).__name__}.")
    if unknown := [name for name in raw if name not in _FIELDS]:
        raise InvalidInput(f"Weights know no {_shown(unknown)}: their fields are {', '.join(_FIELDS)}.")
    signals = raw.get("signals", {})
    if not isinstance(signals, Mapping):
        raise InvalidInput(f"signals must be an object of numbers by name, not {type(signals).__name__}.")
    if unknown := [name for name in signals if name not in SIGNALS]:
        raise InvalidInput(f"signals name {_shown(unknown)}, and there is no such signal: use {', '.join(SIGNALS)}.")
    found = {name: DEFAULT.signals.get(name, 0.0) for name in SIGNALS}
    found |= {name: _number(f"signals.{name}", value) for name, value in signals.items()}
    if not any(weight > 0 for weight in found.values()):
        raise InvalidInput("No signal has a weight above 0: nothing would speak for any memory.")
    middle = _number("middle", raw.get("middle", DEFAULT.middle))
    slope = _number("slope", raw.get("slope", DEFAULT.slope))
    if slope <= 0:
        raise InvalidInput("slope must be above 0: a larger sum must be a larger score.")
    most, least = (sum(bound(weight, 0.0) for weight in found.values()) for bound in (max, min))
    if slope * max(abs(most - middle), abs(least - middle)) > STEEPEST:
        raise InvalidInput("slope is too steep for these weights: scores would round to 0 or 1. Lower it, or the weights with it.")
    return Weights(MappingProxyType(found), middle, slope)


def weights_to_json(weights: Weights) -> dict[str, Any]:
    """*weights* as `weights_from_json` reads them."""
    return {"signals": dict(weights.signals), "middle": weights.middle, "slope": weights.slope}


class NamespaceWeights:
    """The weights of namespaces, each read again when it is older than `FRESH_FOR`. Thread-safe.

    *default* stands for a namespace that has none of its own. *timer*: seconds, only ever growing.
    """

    def __init__(self, default: Weights = DEFAULT, *, timer: Callable[[], float] = time.monotonic) -> None:
        self._default = Weighing(default, "default")
        self._timer = timer
        self._lock = ForkLock()
        self._read: OrderedDict[str, tuple[float, Weighing]] = OrderedDict()
        self._told: set[str] = set()

    def of(self, connection: Connection, namespace: str) -> Weighing:
        """The weights of *namespace*; one statement where they are not fresh."""
        now = self._timer()
        with self._lock:
            read_at, found = self._read.get(namespace, (-math.inf, self._default))
        if now - read_at < FRESH_FOR:
            return found
        found = self._load(connection, namespace)
        with self._lock:
            self._read[namespace] = (now, found)
            self._read.move_to_end(namespace)
            while len(self._read) > _MOST:
                self._read.popitem(last=False)
        return found

    def _load(self, connection: Connection, namespace: str) -> Weighing:
        option = option_of(connection, namespace, WEIGHTS)
        if option is None:
            return self._default
        try:
            return Weighing(weights_from_json(option.value), "namespace")
        except InvalidInput as error:  # set by a version with other signals: a search goes on, and says which weights it used
            if namespace not in self._told:
                self._told.add(namespace)
                _log.warning("The weights of namespace %s are not used, the published ones are. %s", namespace, error)
            return self._default


def _number(path: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidInput(f"{path} must be a number, not {type(value).__name__}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidInput(f"{path} must be a finite number.")
    return number


def _shown(names: list[Any]) -> str:
    return ", ".join(repr(str(name)[:40]) for name in names[:5])
