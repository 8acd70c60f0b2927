"""Health's look at the parts: cheap, without a heavy package, and never waiting for one that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from memline.cli.findings import Finding, State
from memline.cli.health_roles import Role, live_findings, ready_findings
from memline.contracts.errors import EvictingRedis, MemlineError

if TYPE_CHECKING:
    from memline.ledger.session import Ledger
    from memline.settings import Settings

__all__ = ["Probe", "index", "ledger_live", "ledger_ready", "look", "redis"]

Probe = Callable[[], list[Finding]]

_OWN_TIMEOUT = 2.0


def look(probes: Mapping[str, Probe], seconds: float) -> list[Finding]:
    """What the probes find, each on a thread of its own; one that has not answered after *seconds* says so, and is left behind."""
    found: dict[str, list[Finding]] = {}

    def run(part: str, probe: Probe) -> None:
        try:
            found[part] = probe()
        except MemlineError as error:
            found[part] = [Finding(part, State.BAD, str(error))]
        except Exception as error:  # noqa: BLE001 - whatever a package raises: its words may hold a URL with a password
            found[part] = [Finding(part, State.BAD, f"it can't be looked at ({type(error).__name__})", "`memline doctor` says more.")]

    threads = {part: threading.Thread(target=run, args=(part, probe), daemon=True) for part, probe in probes.items()}
    deadline = time.monotonic() + seconds
    for thread in threads.values():
        thread.start()
    for thread in threads.values():
        thread.join(max(0.0, deadline - time.monotonic()))
    hangs = "Its server is reachable but hangs, or a firewall drops what is sent."
    return [
        finding
        for part in probes
        for finding in found.get(part, [Finding(part, State.BAD, f"it did not answer within {seconds:g} s", hangs)])
    ]


def ledger_live(settings: Settings, role: Role, host: str) -> list[Finding]:
    """Whether this host's processes of *role* live."""
    from memline.contracts.clock import SystemClock
    from memline.ledger.heartbeats import read_beats

    ledger = _open(settings)
    with closing(ledger):
        if (missing := _missing(ledger)) is not None:
            return [Finding("ledger", State.BAD, missing.detail, missing.hint)]
        with ledger.read() as connection:
            beats = read_beats(connection, host=host)
        return live_findings(beats, role, host, SystemClock().now(), embedded=settings.redis_url is None)


def ledger_ready(settings: Settings, role: Role, host: str) -> list[Finding]:
    """The ledger with its schema, its embedder, and the loops that beat in it."""
    from memline.contracts.clock import SystemClock
    from memline.ledger.heartbeats import STAGE_LOOP, read_beats
    from memline.ledger.jobs import STAGES
    from memline.ledger.meta import embedders

    ledger = _open(settings)
    embedded = settings.redis_url is None
    with closing(ledger):
        if (missing := _missing(ledger)) is not None:
            if embedded and missing.state is State.WARN:
                return [missing, *ready_findings([], role, host, SystemClock().now(), embedded=True, stages=())]
            return [Finding("ledger", State.BAD, missing.detail, missing.hint)]
        with ledger.read() as connection:
            known, beats = embedders(connection), read_beats(connection)
        found = [Finding("ledger", State.OK, f"{ledger.shown_url}, schema {_head()}"), _embedder(settings, known.own)]
        if known.move is not None:
            told = f"a move to {known.move.model} ({known.move.dimension} dimensions) is under way, or half done"
            found.append(Finding("embedder", State.WARN, told, "`memline index reembed` finishes it."))
        stages = [f"{STAGE_LOOP}{stage.value}" for stage in STAGES]
        return [*found, *ready_findings(beats, role, host, SystemClock().now(), embedded=embedded, stages=stages)]


def redis(settings: Settings) -> list[Finding]:
    """Redis and its policy; nothing where it is not set."""
    if settings.redis_url is None:
        return []
    from memline.producer import TurnStream

    with closing(TurnStream(settings.redis_url.get_secret_value(), prefix=settings.redis_prefix)) as stream:
        try:
            stream.ping()
            warning = stream.check_policy()
        except EvictingRedis as error:
            return [Finding("redis", State.BAD, str(error))]
        except MemlineError as error:
            return [Finding("redis", State.BAD, str(error), "Turns go to their machines' spools until it answers.")]
    if warning:
        return [Finding("redis", State.WARN, stream.place, warning)]
    return [Finding("redis", State.OK, f"{stream.place}, noeviction")]


def index(settings: Settings) -> list[Finding]:
    """Whether the index's server answers. One that does not is no reason to be unready: searches go on from the ledger."""
    backend = settings.index_backend()
    if backend != "weaviate" or settings.weaviate_url is None:
        return [Finding("index", State.OK, "embedded" if backend == "embedded" else f"{backend}: the application's own, not asked")]
    from memline.search.index.weaviate_place import EMBEDDED, place_of

    key = settings.weaviate_api_key
    url = settings.weaviate_url.get_secret_value()
    if url == EMBEDDED:
        return [Finding("index", State.OK, "Weaviate that a process of memline starts: not asked")]
    place = place_of(url, settings.weaviate_grpc_url, None if key is None else key.get_secret_value())
    wrong = _asked(place.host, place.port, place.secure)
    if wrong is None:
        return [Finding("index", State.OK, f"Weaviate at {place.shown}")]
    fallback = "Searches use the ledger's own words and vectors meanwhile; what is committed waits for it in the outbox."
    return [Finding("index", State.WARN, f"Weaviate at {place.shown} is not ready ({wrong})", fallback)]


def _asked(host: str, port: int, secure: bool) -> str | None:
    """None where the server says that it is ready; else what it said."""
    import http.client

    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    with closing(kind(host, port, timeout=_OWN_TIMEOUT)) as connection:
        try:
            connection.request("GET", "/v1/.well-known/ready")
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
    return None if status < 300 else f"HTTP {status}"


def _embedder(settings: Settings, stored: tuple[str, int] | None) -> Finding:
    """Whether the settings name the embedder that made the ledger's vectors; it is not loaded, and asked nothing."""
    from memline.compose import House

    try:
        found = House(settings).embedder
    except MemlineError as error:
        return Finding("embedder", State.BAD, str(error))
    model, dimension = found.model, found.dimension
    if stored is not None and stored != (model, dimension):
        detail = f"the settings name {model} ({dimension} dimensions), the ledger's vectors were made by {stored[0]} ({stored[1]})"
        return Finding("embedder", State.BAD, detail, "`memline index reembed` moves the ledger to it; or set the former one again.")
    return Finding("embedder", State.OK, f"{model}, {dimension} dimensions")


def _open(settings: Settings) -> Ledger:
    from memline.ledger.session import Ledger

    return Ledger(settings.ledger_location(), pool_size=1)


def _missing(ledger: Ledger) -> Finding | None:
    """What keeps a ledger from being read: a WARN where it is not there yet, which for who needs loops is bad."""
    from memline.ledger.migrate import HEAD, schema_revision

    made = "not made yet: the first process that opens it makes it"
    if ledger.path and not Path(ledger.path).exists():
        return Finding("ledger", State.WARN, f"{ledger.path}: {made}")
    with ledger.read() as connection:
        revision = schema_revision(connection)
    if revision is None:
        return Finding("ledger", State.WARN, f"{ledger.shown_url}: {made}")
    if revision != HEAD:
        hint = "Back it up, then run `memline migrate`." if revision < HEAD else "Upgrade memline."
        return Finding("ledger", State.BAD, f"{ledger.shown_url}: schema {revision}, this memline needs {HEAD}", hint)
    return None


def _head() -> str:
    from memline.ledger.migrate import HEAD

    return HEAD
