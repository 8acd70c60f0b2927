"""What the ledger counts, as metrics: every counter of `COUNTERS`, once, as the ledger has it. A restart loses none of it."""

from __future__ import annotations

from collections.abc import Mapping

from memline.contracts.metrics import Counter
from memline.ledger.counters import COUNTERS

__all__ = ["LEDGER_METRICS", "exported", "place_of"]

#: Counters that are one metric with a label, by what their names begin or end with.
_DRIFT, _MASKED = "drift_", "masked_"
_PRUNED = "_pruned"

_KINDS = tuple(name.removeprefix(_DRIFT) for name in COUNTERS if name.startswith(_DRIFT) and name != "drift_repaired")
_SECRETS = tuple(name.removeprefix(_MASKED) for name in COUNTERS if name.startswith(_MASKED))
_WHAT = tuple(name.removesuffix(_PRUNED) for name in COUNTERS if name.endswith(_PRUNED))

DRIFT = Counter("memline_drift_total", "Objects that the reconciler found to differ from the ledger, by how.", {"kind": _KINDS})
PRUNED = Counter("memline_pruned_total", "Rows that left the ledger by age.", {"what": _WHAT})

MASKED = Counter("memline_masked_total", "Places in texts that the write policy masked, by what was there.", {"what": _SECRETS})

_PLAIN = {
    name: Counter(f"memline_{name}_total", told[:1].upper() + told[1:] + ".")
    for name, told in COUNTERS.items()
    if name.removeprefix(_DRIFT) not in _KINDS and not name.startswith(_MASKED) and not name.endswith(_PRUNED)
}

#: All metrics that come from the ledger's counters.
LEDGER_METRICS: tuple[Counter, ...] = (DRIFT, PRUNED, MASKED, *_PLAIN.values())


def place_of(counter: str) -> tuple[Counter, tuple[str, ...]]:
    """The metric of a counter of `COUNTERS`, and the values of its labels."""
    if counter in _PLAIN:
        return _PLAIN[counter], ()
    if counter.startswith(_DRIFT):
        return DRIFT, (counter.removeprefix(_DRIFT),)
    if counter.startswith(_MASKED):
        return MASKED, (counter.removeprefix(_MASKED),)
    return PRUNED, (counter.removesuffix(_PRUNED),)


def exported(counts: Mapping[str, int]) -> list[tuple[Counter, tuple[str, ...], float]]:
    """What `read_counters` read, as series."""
    return [(*place_of(name), float(value)) for name, value in counts.items()]
