"""The Redis stream between producers and the accept loop: the only transport that carries text."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from memline.contracts.errors import ConfigurationError, EvictingRedis, MissingPackage, ServiceUnavailable

__all__ = ["NEEDED_POLICY", "Entry", "TurnStream", "was_late", "was_refused"]

#: The only maxmemory-policy under which Redis never drops a turn by itself.
NEEDED_POLICY = "noeviction"

_PAGE = 500

#: In one step: a consumer that read something in between would lose it with its name.
_FORGET_CONSUMERS = """
local gone = 0
for _, fields in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
    local told = {}
    for i = 1, #fields, 2 do told[fields[i]] = fields[i + 1] end
    if told['pending'] == 0 and told['idle'] >= tonumber(ARGV[2]) then
        redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], told['name'])
        gone = gone + 1
    end
end
return gone
"""

_DRAW_PLACE = """
local id = redis.call('XADD', KEYS[1], '*', 'mark', '')
redis.call('XDEL', KEYS[1], id)
return id
"""

_VERSION = re.compile(r'\{"v":(\d+)[,}]')


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the stream: its id (`milliseconds-sequence`) and its fields as they came."""

    id: str
    fields: Mapping[str, bytes]

    @property
    def wire(self) -> bytes | None:
        """The turn as JSON, for `Turn.from_wire`; None for an entry that holds no turn."""
        return self.fields.get("turn")


class TurnStream:
    """One Redis stream and its consumer group.

    Every call is tried once: whoever calls knows better than a client library what a lost answer means. Redis that does not
    answer in time, or answers with an error, is ServiceUnavailable with the client's error as its cause. Times are seconds.
    Safe to share between threads; a forked child needs an instance of its own.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "memline",
        group: str = "accept",
        connect_timeout: float = 0.5,
        socket_timeout: float = 1.0,
    ) -> None:
        self.key = f"{prefix}:turns"
        self.group = group
        #: Where this Redis is, without its password.
        self.place = _place(url)
        self._url = url
        self._connect_timeout = connect_timeout
        self._socket_timeout = socket_timeout
        self._lock = threading.Lock()
        self._client: Any = None
        self._reader: Any = None
        self._reader_timeout = 0.0

    # The producer's side

    def append(self, wire: str) -> str:
        """Append a turn (`Turn.to_wire`); its entry's id. ServiceUnavailable may mean that only the answer was lost (`was_refused`)."""
        fields = {"v": _version_of(wire), "turn": wire}
        return _text(self._ask(lambda client: client.xadd(self.key, fields)))

    def draw_place(self) -> str:
        """An id between those of all entries before now and those of all after: what a deletion is ordered by against turns.

        It is the id of an entry that is removed in the step that appends it, so that no reader ever meets one.
        """
        return _text(self._ask(lambda client: client.eval(_DRAW_PLACE, 1, self.key)))

    def find(self, turn_id: str, belongs: Callable[[bytes], bool] | None = None) -> bool:
        """Whether a turn is in the stream, and its JSON *belongs* to who asks; newest entries are looked at first."""
        needle = json.dumps(turn_id).encode("utf-8")
        last = "+"
        while True:
            page = self._entries(self._ask(lambda client, newest: client.xrevrange(self.key, newest, "-", count=_PAGE), last))
            wires = [entry.wire for entry in page if entry.wire is not None and needle in entry.wire]
            if any(json.loads(wire).get("id") == turn_id and (belongs is None or belongs(wire)) for wire in wires):
                return True
            if len(page) < _PAGE:
                return False
            last = f"({page[-1].id}"

    def length(self) -> int:
        """How many entries wait in the stream, those being accepted included."""
        return int(self._ask(lambda client: client.xlen(self.key)))

    def ping(self) -> None:
        """Raise ServiceUnavailable unless Redis answers."""
        self._ask(lambda client: client.ping())

    def check_policy(self) -> str | None:
        """Refuse a Redis that may evict turns.

        Raises EvictingRedis with the policy found and the one needed, whatever maxmemory is: it can be changed while turns wait.
        Where Redis does not tell its policy (a managed one may forbid CONFIG and shorten INFO) a warning is returned.
        """
        policy = self._policy()
        if policy is None:
            return f"Redis at {self.place} tells its maxmemory-policy neither by CONFIG nor by INFO: make sure that it is {NEEDED_POLICY}."
        if policy != NEEDED_POLICY:
            raise EvictingRedis(
                f"Redis at {self.place} has maxmemory-policy {policy}, memline needs {NEEDED_POLICY}: when full it would drop turns. "
                f"Set `maxmemory-policy {NEEDED_POLICY}` in its configuration, or give memline a Redis of its own."
            )
        return None

    def _policy(self) -> str | None:
        def read(client: Any) -> object:
            from redis.exceptions import ResponseError

            try:
                return client.config_get("maxmemory-policy").get("maxmemory-policy")
            except ResponseError:  # not permitted, or renamed
                pass
            try:
                return client.info("memory").get("maxmemory_policy")
            except ResponseError:
                return None

        policy = self._ask(read)
        return None if policy is None else _text(policy)

    # The accept loop's side

    def ensure_group(self) -> None:
        """Make the group (and the stream) if it is not there; it begins at the stream's first entry."""
        from redis.exceptions import ResponseError

        def create(client: Any) -> None:
            try:
                client.xgroup_create(self.key, self.group, id="0", mkstream=True)
            except ResponseError as error:
                if not str(error).startswith("BUSYGROUP"):
                    raise

        self._ask(create)

    def read(self, consumer: str, *, count: int = 100, block_ms: int = 1000) -> list[Entry]:
        """Up to *count* entries that nobody has read, waiting up to *block_ms* for the first; 0 does not wait.

        A group that is gone (FLUSHALL, a restart without persistence) is made again; what the stream still holds is then
        delivered once more, and a turn's own id tells it from a new one.
        """
        block = block_ms if block_ms > 0 else None

        def ask() -> object:
            with self._translated():
                return self._reading_client(max(block_ms, 0) / 1000).xreadgroup(
                    self.group, consumer, {self.key: ">"}, count=count, block=block
                )

        answer = self._with_group(ask)
        return [entry for _, raw in cast("Sequence[Any]", answer or ()) for entry in self._entries(raw)]

    def claim_idle(self, consumer: str, *, min_idle_ms: int, count: int = 100, after: str = "") -> list[Entry]:
        """Take over up to *count* entries that some consumer read at least *min_idle_ms* ago and did not finish.

        *after*: the id of an entry; those up to it are passed over.
        """
        found: list[Entry] = []
        start = f"({after}" if after else "0-0"

        def page() -> Any:
            with self._translated():
                return self._asking_client().xautoclaim(
                    self.key, self.group, consumer, min_idle_ms, start_id=start, count=count - len(found)
                )

        while True:
            answer = self._with_group(page)
            start = _text(answer[0])
            found += self._entries(answer[1])
            if start == "0-0" or len(found) >= count:
                return found

    def done(self, entry_ids: Iterable[str]) -> None:
        """Acknowledge and delete entries, both or neither."""
        ids = list(entry_ids)
        if not ids:
            return

        def finish(client: Any) -> None:
            with client.pipeline(transaction=True) as pipe:
                pipe.xack(self.key, self.group, *ids)
                pipe.xdel(self.key, *ids)
                pipe.execute()

        self._ask(finish)

    def set_aside(self, entry_ids: Iterable[str]) -> None:
        """Move entries that are no turn out of the way, to a list beside the stream that Redis forgets after 30 days."""
        ids = list(entry_ids)

        def move(client: Any) -> None:
            for entry_id in ids:
                for _, fields in client.xrange(self.key, entry_id, entry_id):
                    client.rpush(f"{self.key}:unreadable", fields.get(b"turn", b""))
            client.expire(f"{self.key}:unreadable", 30 * 86400)

        self._ask(move)
        self.done(ids)

    def leave(self, consumer: str, entry_ids: Iterable[str], *, idle_ms: int) -> int:
        """Leave entries that *consumer* has unfinished, as if it had them for *idle_ms*; how many of them nobody had left before.

        So a newer worker may claim them at its next look, instead of waiting behind an older one that claims them again and again.
        Which ones were left is remembered in a set that Redis forgets 30 days after the last of them.
        """
        ids = list(entry_ids)
        if not ids:
            return 0
        left = f"{self.key}:too_new"

        def leave(client: Any) -> Any:
            with client.pipeline(transaction=True) as pipe:
                pipe.sadd(left, *ids)
                pipe.expire(left, 30 * 86400)
                pipe.xclaim(self.key, self.group, consumer, 0, ids, idle=idle_ms, justid=True)
                return pipe.execute()

        return int(self._ask(leave)[0])

    def forget_consumers(self, *, idle_ms: int) -> int:
        """Forget consumers that have nothing unfinished and were silent for *idle_ms*: each worker that ever started is one."""
        forget = lambda client: client.eval(_FORGET_CONSUMERS, 1, self.key, self.group, idle_ms)  # noqa: E731
        return int(self._with_group(lambda: self._ask(forget)))

    def pending_count(self) -> int:
        """How many entries were read and not finished."""
        answer = self._with_group(lambda: self._ask(lambda client: client.xpending(self.key, self.group)))
        return int(answer["pending"])

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            clients, self._client, self._reader = (self._client, self._reader), None, None
        for client in clients:
            if client is not None:
                client.close()

    # Asking

    def ask(self, call: Callable[[Any], Any]) -> Any:
        """What *call* answers, given the client; its errors are those of every other call."""
        return self._ask(call)

    def _ask(self, call: Callable[..., Any], *arguments: object) -> Any:
        with self._translated():
            return call(self._asking_client(), *arguments)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Errors of the client as memline's, with the cause kept. Of the server's answer only the code is told: some echo arguments."""
        redis = _redis()
        try:
            yield
        except redis.ResponseError as error:
            raise ServiceUnavailable(f"Redis at {self.place} refused ({_code(error)}). Check it with `memline doctor`.") from error
        except (redis.RedisError, OSError) as error:
            raise ServiceUnavailable(
                f"Redis at {self.place} does not answer ({type(error).__name__}). Check MEMLINE_REDIS_URL and that it runs."
            ) from error

    def _with_group(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except ServiceUnavailable as error:
            # UNBLOCKED is what some versions say to a blocked reader whose stream was deleted; a script may put words before the rest.
            if not any(told in str(error.__cause__) for told in ("NOGROUP", "UNBLOCKED", "no such key")):
                raise
        self.ensure_group()
        return ask()

    def _asking_client(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._connect(self._socket_timeout)
            return self._client

    def _reading_client(self, block: float) -> Any:
        """A client whose socket waits longer than Redis may block: else every quiet moment would be an error."""
        with self._lock:
            needed = block + self._socket_timeout
            if self._reader is None or self._reader_timeout < needed:
                if self._reader is not None:
                    self._reader.close()
                self._reader, self._reader_timeout = self._connect(needed), needed
            return self._reader

    def _connect(self, socket_timeout: float) -> Any:
        redis = _redis()
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        try:
            return redis.Redis.from_url(
                self._url,
                socket_connect_timeout=self._connect_timeout,
                socket_timeout=socket_timeout,
                retry=Retry(NoBackoff(), 0),  # the client's own default is ten tries, a minute for a caller who waits
                decode_responses=False,
                protocol=2,  # one handshake less, and one shape of answers with every server
            )
        except ValueError:
            raise ConfigurationError(
                f"MEMLINE_REDIS_URL ({self.place}) is no Redis URL: write redis://host:port/db, rediss:// for TLS, or unix://path."
            ) from None

    @staticmethod
    def _entries(raw: Iterable[Any]) -> list[Entry]:
        """Entries as the client gives them; an id whose entry was deleted comes without fields and is left out."""
        return [
            Entry(_text(entry_id), {key.decode("utf-8", "replace"): value for key, value in fields.items()})
            for entry_id, fields in raw
            if entry_id is not None and fields is not None
        ]


def was_refused(error: ServiceUnavailable) -> bool:
    """Whether Redis answered and said no, so that the command was certainly not carried out."""
    return isinstance(error.__cause__, _redis().ResponseError)


def was_late(error: ServiceUnavailable) -> bool:
    """Whether Redis did not answer in time: it may be slow, where one that is not there refuses the connection."""
    return isinstance(error.__cause__, _redis().TimeoutError)


def _code(error: Exception) -> str:
    first = str(error).split(" ", 1)[0]
    return first if first.isupper() and first.isalpha() else type(error).__name__


def _redis() -> Any:
    try:
        import redis
    except ImportError:
        raise MissingPackage("MEMLINE_REDIS_URL is set, and the package redis is not installed: pip install 'redis>=8.1,<9'.") from None
    return redis


def _version_of(wire: str) -> int:
    """The schema version a line was written in: what a spool of a newer memline holds keeps its own."""
    found = _VERSION.match(wire)
    return int(found[1]) if found else int(json.loads(wire)["v"])


def _place(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return f"{host}:{parts.port or 6379}{parts.path}" if host else parts.path
    except ValueError:
        return "a URL that can't be read"


def _text(raw: object) -> str:
    return raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
