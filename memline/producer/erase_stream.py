"""Taking a subject's turns out of Redis: out of the stream, and out of the list of what was set aside beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from memline.contracts.erasing import MarkedTurn, Moment, Sought
from memline.contracts.errors import ServiceUnavailable
from memline.producer.stream import TurnStream

__all__ = ["StreamEraser"]

_PAGE = 200


class StreamEraser:
    """Redis as an erasure sees it (`contracts.erasing.TurnStore`)."""

    def __init__(self, stream: TurnStream) -> None:
        self._stream = stream

    @property
    def name(self) -> str:
        return f"Redis at {self._stream.place}, {self._stream.key}"

    def erase(self, sought: Sought, record: Callable[[Sequence[MarkedTurn]], None]) -> int:
        """See the port. An entry that a worker has read already is ended in the ledger when that one comes to accept it."""
        total = 0
        for page in self._pages(sought):
            record([turn for _, turn in page if turn is not None])
            self._stream.done([entry_id for entry_id, _ in page])
            total += len(page)
        for item in self._set_aside(sought):
            turn = sought.turn_in(item)
            if turn is not None:
                record([turn])
            total += self._remove(item)
        return total

    def count(self, sought: Sought, before: Moment | None = None) -> int:
        """See the port."""
        entries = [entry_id for page in self._pages(sought) for entry_id, _ in page]
        if before is not None:
            entries = [entry_id for entry_id in entries if _order(entry_id) < _order(before.place)]
        return len(entries) + len(self._set_aside(sought))

    def draw_place(self) -> str:
        """See `TurnStream.draw_place`."""
        return self._stream.draw_place()

    def persistence(self) -> dict[str, Any]:
        """What Redis says of the files it writes; None of what it does not tell."""
        told = self._stream.ask(lambda client: client.info("persistence"))
        names = ("aof_enabled", "aof_rewrite_in_progress", "rdb_bgsave_in_progress", "rdb_last_save_time", "aof_last_bgrewrite_status")
        return {name: told.get(name) for name in names}

    def rewrite_files(self, *, timeout: float = 60.0, sleep: Callable[[float], None] = time.sleep) -> dict[str, str]:
        """Has Redis write its files anew, without what was deleted, and waits for it; what was done, or why not."""
        done: dict[str, str] = {}
        if self.persistence()["aof_enabled"]:
            done["aof"] = self._write("bgrewriteaof", "aof_rewrite_in_progress", "aof_last_bgrewrite_status", timeout, sleep)
        done["rdb"] = self._write("bgsave", "rdb_bgsave_in_progress", "rdb_last_bgsave_status", timeout, sleep)
        return done

    def _write(self, command: str, flag: str, status: str, timeout: float, sleep: Callable[[float], None]) -> str:
        deadline = time.monotonic() + timeout
        try:
            self._stream.ask(lambda client: getattr(client, command)())
        except ServiceUnavailable as error:
            return f"refused: {error}"
        while True:
            told = self._stream.ask(lambda client: client.info("persistence"))
            if not told.get(flag) and not told.get("aof_rewrite_scheduled"):
                return "rewritten" if told.get(status) == "ok" else "failed: see Redis's log"
            if time.monotonic() >= deadline:
                return f"still being written after {timeout:g} s"
            sleep(0.05)

    @property
    def _aside(self) -> str:
        return f"{self._stream.key}:unreadable"

    def _pages(self, sought: Sought) -> Iterator[list[tuple[str, MarkedTurn | None]]]:
        first = "-"
        while True:
            raw = self._page(first)
            found = []
            for entry_id, fields in raw:
                data = (fields or {}).get(b"turn", b"")
                turn = sought.turn_in(data)
                # what is no turn would be set aside when a worker comes to it
                if turn is not None or (sought.is_damaged_turn(data) and sought.holds(data)):
                    found.append((entry_id.decode("ascii"), turn))
            if found:
                yield found
            if len(raw) < _PAGE:
                return
            first = f"({raw[-1][0].decode('ascii')}"

    def _page(self, first: str) -> Any:
        return self._stream.ask(lambda client: client.xrange(self._stream.key, first, "+", count=_PAGE))

    def _remove(self, item: bytes) -> int:
        return int(self._stream.ask(lambda client: client.lrem(self._aside, 0, item)))

    def _set_aside(self, sought: Sought) -> list[bytes]:
        items: Sequence[bytes] = self._stream.ask(lambda client: client.lrange(self._aside, 0, -1))
        return [item for item in dict.fromkeys(items) if sought.holds(item)]


def _order(entry_id: str) -> tuple[int, int]:
    milliseconds, _, sequence = entry_id.partition("-")
    return int(milliseconds), int(sequence or 0)
