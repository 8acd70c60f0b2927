"""Opening a ledger that was put back: it replays the tombstones that it lacks, and this counts them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from memline.cli.chosen import Chosen
from memline.cli.houses import open_house

if TYPE_CHECKING:
    from memline.compose import House

__all__ = ["replayed_house"]


@contextmanager
def replayed_house(options: Chosen) -> Iterator[tuple[House, int]]:
    """The opened house, and how many tombstones its opening replayed. After the block what they erased is in no byte of a SQLite file.

    Raises what opening a ledger raises; one with an older schema is told with the command that brings it on.
    """
    from memline.ledger.compact import compact
    from memline.ledger.counters import read_counters
    from memline.ledger.migrate import open_ledger
    from memline.ledger.session import Ledger

    with closing(Ledger(options.settings().ledger_location())) as bare:
        open_ledger(bare)
        with bare.read() as connection:
            before = read_counters(connection)["subjects_erased"]
    with closing(open_house(options)) as opened:
        house = opened.house
        with house.ledger.read() as connection:
            replayed = read_counters(connection)["subjects_erased"] - before
        yield house, replayed
        if replayed and house.ledger.is_sqlite:
            compact(house.ledger)
