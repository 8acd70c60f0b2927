"""What every part of the front door stands on: one namespace, the parts behind it, and the checks that every call begins with."""

from __future__ import annotations

from collections.abc import Mapping

from memline.compose import House
from memline.contracts.errors import Closed, UnknownOption
from memline.contracts.scope import ID_KEYS
from memline.lifetime import Lifetime
from memline.settings import Settings

__all__ = ["Handle", "refuse_unknown"]


class Handle:
    """One namespace of an open house."""

    namespace: str
    _house: House
    _open: Lifetime
    #: What a configuration says to write down, where a call does not.
    _instructions: str | None = None

    @property
    def settings(self) -> Settings:
        return self._house.settings

    @property
    def models(self) -> tuple[str, str]:
        """What extracts and what embeds, by name."""
        return self._house.extractor.name, self._house.embedder.model

    def _check_open(self) -> None:
        if self._open.closed:
            raise Closed()
        if not self._house.uses_redis:
            _ = self._house.engine  # what an earlier process could not finish goes on now

    def _refuse_ids(self, call: str, unknown: Mapping[str, object]) -> None:
        for name in ID_KEYS:
            if name in unknown:
                raise UnknownOption(f"{call} takes scope ids in filters: filters={{{name!r}: ...}}.")
        refuse_unknown(call, unknown)

    def _place(self) -> str | None:
        """Where in the stream this moment is; None where turns go straight into the ledger."""
        from memline.contracts import failpoints
        from memline.ledger.marks import place_of

        place = place_of(self._house.stream.draw_place()) if self._house.uses_redis else None
        failpoints.hit("delete_all.placed")
        return place

    def _wake(self) -> None:
        if not self._house.uses_redis:
            self._house.engine.wake()


def refuse_unknown(call: str, unknown: Mapping[str, object]) -> None:
    if not unknown:
        return
    where = "memline.Memory" if call == "Memory" else f"memline.Memory.{call}"
    raise UnknownOption(f"{call} has no option {', '.join(sorted(unknown))}; nothing was changed. See help({where}).")
