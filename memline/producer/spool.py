"""The local spool: where turns wait on this machine's disk while Redis is away."""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from memline.contracts.errors import Closed, ConfigurationError, ServiceUnavailable
from memline.contracts.turn import Turn
from memline.producer.spool_file import SUFFIX, SpoolFile, is_owned, line_holds, lines_of, was_erased

__all__ = ["Spool", "SpoolStatus"]


@dataclass(frozen=True, slots=True)
class SpoolStatus:
    """A file of the spool: how many turns it holds, its size in bytes, and whether the process that writes it lives."""

    file: Path
    turns: int
    bytes: int
    owner_alive: bool


def _never() -> bool:
    return False


class Spool:
    """A folder of spool files, one for each producer instance: `<producer>.jsonl`, a turn a line.

    *producer* is the instance that appends; without one the folder is only looked at and drained. The folder is made at the
    first append (0700, files 0600). Safe between threads and between processes. A file that fails is ServiceUnavailable.
    """

    def __init__(self, folder: str | Path, producer: str | None = None) -> None:
        self.folder = Path(folder)
        self._name = None if producer is None else f"{producer}{SUFFIX}"
        self._lock = threading.Lock()  # around the own file and its lanes
        self._draining = threading.Lock()  # one at a time sends
        self._own: SpoolFile | None = None
        self._adopted: SpoolFile | None = None
        self._order: deque[str] = deque()  # the lane of each pending line of the own file
        self._lanes: Counter[str] = Counter()
        self._closed = False

    # The own file

    def append(self, turn: Turn) -> None:
        """Keep a turn: when this returns, it is on disk. Raises ServiceUnavailable if it can't be kept; then nothing of it is."""
        line = turn.as_spooled().to_wire().encode("utf-8")
        lane = turn.scope.lane
        with self._lock:
            if self._closed:
                raise Closed()
            try:
                if self._own is None:
                    self._own = self._create()
                self._own.append(line)
            except OSError as error:
                raise ServiceUnavailable(
                    f"The turn {turn.id} was NOT taken: the spool folder {self.folder} can't be written ({_reason(error)}). "
                    "Make room or set its permissions, then hand the turn over again."
                ) from error
            self._order.append(lane)
            self._lanes[lane] += 1

    def holds(self, lane: str) -> bool:
        """Whether turns of *lane* wait in the own file."""
        return lane in self._lanes

    def lanes(self) -> frozenset[str]:
        """The lanes whose turns wait in the own file."""
        with self._lock:
            return frozenset(self._lanes)

    def pending(self) -> int:
        """How many turns wait in the own file."""
        return len(self._order)

    def drain(self, send: Callable[[str], object], *, stop: Callable[[], bool] = _never) -> int:
        """Send the own file's turns in their order; how many were sent.

        A turn is dropped after it was sent; after a crash between the two it is sent once more, and its id makes it one turn.
        What *send* raises ends the draining and goes to the caller; what was sent before that is dropped. *stop* is asked
        before each turn.
        """
        sent = 0
        with self._draining:
            while lines := self._head():
                for line in lines:
                    if stop():
                        return sent
                    if not was_erased(line):
                        send(line.decode("utf-8"))
                        sent += 1
                    self._sent(line)
        return sent

    def close(self) -> None:
        """Give up the own file, removed if empty; later appends raise Closed."""
        with self._draining, self._lock, self._failing("closed"):
            self._closed = True
            own, self._own = self._own, None
            if own is not None:
                own.close()

    def abandon(self) -> None:
        """In a forked child: leave everything to the parent. Takes no lock, since a thread that is gone may hold it."""
        self._closed = True
        for file in (self._own, self._adopted):
            if file is not None:
                file.abandon()

    # The folder

    def find(self, turn_id: str, belongs: Callable[[bytes], bool] | None = None) -> bool:
        """Whether a turn waits in any file of this folder, and its JSON *belongs* to who asks."""

        def is_it(line: bytes) -> bool:
            return line_holds(line, turn_id) and (belongs is None or belongs(line))

        with self._lock:
            own, sent = (None, 0) if self._own is None else (self._own.path, self._own.sent)
            # Under the lock the own file can't lose its beginning between the look at `sent` and the reading.
            if own is not None and any(is_it(line) for line in lines_of(own, skip=sent)):
                return True
        return any(is_it(line) for path in self._files() if path != own for line in lines_of(path))

    def orphans(self) -> list[Path]:
        """The files of dead producers, oldest first."""
        with self._failing("read"):
            return [path for path in self._files() if path.name != self._name and not is_owned(path)]

    def adopt(self, send: Callable[[str], object], *, stop: Callable[[], bool] = _never) -> int:
        """Send what dead producers left, file by file and in each file's order, and remove the files; how many turns were sent.

        A file whose producer lives, or that another process adopts, is left alone. A line that is no turn is set aside.
        What *send* raises ends it, as in `drain`.
        """
        sent = 0
        with self._draining:
            for path in self._files():
                if stop():
                    break
                if path.name != self._name:
                    sent += self._adopt(path, send, stop)
        return sent

    def status(self) -> list[SpoolStatus]:
        """Every file in the folder, oldest first."""
        found = []
        with self._failing("read"):
            for path in self._files():
                lines = [len(line) + 1 for line in lines_of(path) if not was_erased(line)]
                found.append(SpoolStatus(path, len(lines), sum(lines), is_owned(path)))
        return found

    def _adopt(self, path: Path, send: Callable[[str], object], stop: Callable[[], bool]) -> int:
        sent = 0
        with self._failing("adopted"):
            file = SpoolFile.adopt(path)
        if file is None:
            return 0
        self._adopted = file
        try:
            while lines := file.head():
                for line in lines:
                    if stop():
                        return sent
                    wire = _turn_in(line)
                    if wire is not None:
                        send(wire)
                        sent += 1
                    elif not was_erased(line):
                        with self._failing("adopted"):
                            file.set_aside(line)
                    with self._failing("adopted"):
                        file.advance(line)
        finally:
            self._adopted = None
            with self._failing("adopted"):
                file.close()
        return sent

    def _create(self) -> SpoolFile:
        if self._name is None:
            raise ConfigurationError(f"The spool {self.folder} was opened without a producer: it can be drained, not written.")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return SpoolFile.create(self.folder / self._name)

    def _head(self) -> list[bytes]:
        with self._lock, self._failing("read"):
            return self._own.head() if self._own is not None else []

    def _sent(self, line: bytes) -> None:
        with self._lock:
            lane = self._order.popleft()
            self._lanes[lane] -= 1
            if not self._lanes[lane]:
                del self._lanes[lane]
            if self._own is not None:
                with self._failing("shortened"):
                    self._own.advance(line)

    def _files(self) -> list[Path]:
        # Names begin with the time of their producer's start, so this is their age.
        return sorted(self.folder.glob(f"*{SUFFIX}"))

    @contextmanager
    def _failing(self, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ServiceUnavailable(
                f"The spool folder {self.folder} can't be {verb} ({_reason(error)}). Its turns are kept; make room or set its permissions."
            ) from error


def _turn_in(line: bytes) -> str | None:
    """The line as text if it is a turn of any version, None if it is damaged."""
    try:
        wire = line.decode("utf-8")
        raw = json.loads(wire)
        return wire if isinstance(raw["v"], int) and isinstance(raw["id"], str) else None
    except (ValueError, KeyError, TypeError):
        return None


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__
