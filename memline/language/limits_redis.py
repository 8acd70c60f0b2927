"""The limit of a server that all workers share, in Redis: one hash a server and model, moved by one script, with a time to live.

Redis away: each process goes on with its share, as many as were seen in the last two minutes, and counts that it did
(`memline_limit_fallbacks_total`). The times are Redis's own, so that clocks of workers do not matter; where that clock is set back, or
another server takes over whose clock is behind, the times in the hash go back with it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from memline.contracts import metrics
from memline.language.lazy import Lazy
from memline.language.limits import DEBT, Granted, LocalLimiter, Rates

if TYPE_CHECKING:
    import redis

__all__ = ["RedisLimiter"]

_log = logging.getLogger("memline.limits")

#: Seconds that a question to Redis may take, and for which it is left alone after it did not answer.
_TIMEOUT, _LEFT_ALONE = 0.5, 5.0

#: KEYS: the bucket, the processes. ARGV: verb, process, tokens, milliseconds a request, its tolerance, milliseconds a token, its
#: tolerance, patience (all in ms), first, and the most that such calls put off others (ms). Answers: reserved, wait in ms, number of
#: processes.
_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local got = redis.call('HMGET', KEYS[1], 'requests', 'tokens', 'held', 'at')
local back = math.max(0, (tonumber(got[4] or '0') or 0) - now)
local requests = math.max((tonumber(got[1] or '0') or 0) - back, now)
local tokens = math.max((tonumber(got[2] or '0') or 0) - back, now)
local held = (tonumber(got[3] or '0') or 0) - back
local verb, amount = ARGV[1], tonumber(ARGV[3])
local wait, reserved = 0, 1
if verb == 'hold' then
  held = math.max(held, now + amount)
elseif verb == 'correct' then
  tokens = tokens + amount * tonumber(ARGV[6])
else
  wait = math.max(0, held - now)
  if ARGV[9] == '0' then
    wait = math.max(wait, requests - now - tonumber(ARGV[5]), tokens - now - tonumber(ARGV[7]))
  end
  if wait > tonumber(ARGV[8]) then
    reserved = 0
  else
    local before, used = requests, tokens
    requests = requests + tonumber(ARGV[4])
    tokens = tokens + amount * tonumber(ARGV[6])
    if ARGV[9] == '1' then
      requests = math.max(before, math.min(requests, now + tonumber(ARGV[10])))
      tokens = math.max(used, math.min(tokens, now + tonumber(ARGV[10])))
    end
  end
end
local f = function(n) return string.format('%.3f', n) end
redis.call('HSET', KEYS[1], 'requests', f(requests), 'tokens', f(tokens), 'held', f(held), 'at', f(now))
redis.call('PEXPIRE', KEYS[1], math.ceil(math.max(requests, tokens, held) - now) + 120000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], 0, f(now - 120000))
redis.call('ZADD', KEYS[2], f(now), ARGV[2])
redis.call('PEXPIRE', KEYS[2], 240000)
return {reserved, math.ceil(wait), redis.call('ZCARD', KEYS[2])}
"""


class RedisLimiter:
    """A `Limiter` that every process with the same Redis and prefix shares. A forked child opens its own connection.

    *process* names this process among the others: whatever no other one has (the process id is added).
    """

    def __init__(self, url: str, prefix: str, process: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._prefix, self._process, self._clock = prefix, process, clock
        self._client: Lazy[tuple[redis.Redis, Any]] = Lazy(lambda: _connect(url), per_process=True)
        self._local = LocalLimiter(clock)
        self._processes = 1
        self._away_until = 0.0

    def reserve(self, server: str, rates: Rates, tokens: int, *, patience: float, first: bool = False) -> Granted:
        answer = self._ask("reserve", server, rates, tokens, patience, first)
        if answer is None:
            return self._local.reserve(server, rates.of(1 / self._processes), tokens, patience=patience, first=first)
        return Granted(answer[1] / 1000, reserved=answer[0] == 1)

    def correct(self, server: str, rates: Rates, tokens: int) -> None:
        if rates.tokens is not None and self._ask("correct", server, rates, tokens) is None:
            self._local.correct(server, rates.of(1 / self._processes), tokens)

    def hold(self, server: str, seconds: float) -> None:
        self._local.hold(server, seconds)
        self._ask("hold", server, Rates(), round(seconds * 1000))

    def close(self) -> None:
        """Closes the connection; the next question opens another."""
        if (made := self._client.drop()) is not None:
            made[0].close()

    def _ask(
        self, verb: str, server: str, rates: Rates, amount: int, patience: float = 0.0, first: bool = False
    ) -> tuple[int, int, int] | None:
        if self._clock() < self._away_until:
            metrics.LIMIT_FALLBACKS.add()
            return None
        import redis

        numbers = [
            f"{1000 * number:.6f}"
            for number in (
                rates.interval(rates.requests),
                rates.tolerance(rates.requests),
                rates.interval(rates.tokens),
                rates.tolerance(rates.tokens),
                patience,
            )
        ]
        keys = [f"{self._prefix}:limit:{server}", f"{self._prefix}:limit-processes"]
        try:
            script = self._client.get()[1]
            reserved, wait, self._processes = script(
                keys=keys, args=[verb, f"{self._process}-{os.getpid()}", amount, *numbers, int(first), DEBT * 1000]
            )
        except redis.RedisError as error:
            self._away_until = self._clock() + _LEFT_ALONE
            metrics.LIMIT_FALLBACKS.add()
            _log.warning(
                "Redis does not answer the limit of calls (%s): this process goes on with 1/%d of it", type(error).__name__, self._processes
            )
            return None
        return reserved, wait, self._processes


def _connect(url: str) -> tuple[redis.Redis, Any]:
    import redis

    client = redis.Redis.from_url(url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT)
    return client, client.register_script(_SCRIPT)
