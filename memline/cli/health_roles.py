"""What a role needs of the loops that beat in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from memline.cli.findings import Finding, State

if TYPE_CHECKING:
    from memline.ledger.heartbeats import Beat

__all__ = ["Role", "live_findings", "ready_findings"]


class Role(StrEnum):
    """What a process is there for."""

    WORKER = "worker"
    ACCEPT = "accept"
    RELAY = "relay"
    BEAT = "beat"
    ANY = "any"


#: The loops of a deployment, by role; those of `worker` are its stages.
_LOOPS: Mapping[Role, str] = {Role.ACCEPT: "accept", Role.RELAY: "relay", Role.BEAT: "sweep"}

#: The engine of the embedded mode does it all.
_ENGINE = "engine"

_START = "Start one: `memline worker`; it beats within seconds."
_EMBEDDED = "Without MEMLINE_REDIS_URL there are no workers: the application's own process beats while it is open."


def live_findings(beats: Sequence[Beat], role: Role, host: str, now: datetime, *, embedded: bool = False) -> list[Finding]:
    """Whether the processes of *role* among *beats*, those of *host*, live and none of their loops hangs. *embedded*: without Redis."""
    processes = _processes(beats, role)
    named = "of memline" if role is Role.ANY else f"with the role {role.value}"
    if not processes:
        hint = _EMBEDDED if embedded else _START
        return [Finding("process", State.BAD, f"no process {named} has beaten on {host} in the last minutes", hint)]
    alive = {name: loops for name, loops in processes.items() if loops[0].is_alive(now)}
    found = [_silent(loops[0], now, bad=not alive) for name, loops in processes.items() if name not in alive]
    for loops in alive.values():
        hanging = [loop.loop for loop in loops if loop.hangs(now)]
        shown = f"pid {loops[0].process.pid}, beat {_ago(loops[0].beat_at, now)}"
        if hanging:
            found.append(Finding("process", State.BAD, f"{shown}: {', '.join(hanging)} hangs, no round ends", "Restart it."))
        else:
            found.append(Finding("process", State.OK, f"{shown}: {', '.join(loop.loop for loop in loops)}"))
    return found


def ready_findings(beats: Sequence[Beat], role: Role, host: str, now: datetime, *, embedded: bool, stages: Iterable[str]) -> list[Finding]:
    """Whether the loops of *role* work: on *host*; for `any`, that every loop that a deployment needs works in some process."""
    if embedded:
        return _embedded(beats, now)
    if role is Role.ANY:
        wanted = [*_LOOPS.values(), *stages]
        return [_everywhere(loop, [beat for beat in beats if beat.loop == loop], now) for loop in wanted]
    own = [beat for beat in beats if beat.process.host == host and _fits(beat.loop, role)]
    if not own:
        return [Finding(role.value, State.BAD, f"no process with the role {role.value} has beaten on {host} in the last minutes", _START)]
    return [_everywhere(loop, [beat for beat in own if beat.loop == loop], now) for loop in dict.fromkeys(beat.loop for beat in own)]


def _embedded(beats: Sequence[Beat], now: datetime) -> list[Finding]:
    engines = [beat for beat in beats if beat.loop == _ENGINE and beat.is_alive(now)]
    if not engines:
        return [Finding("engine", State.OK, "embedded: a process runs its own engine while it is open; none is open for long now")]
    return [_everywhere(_ENGINE, engines, now)]


def _everywhere(loop: str, beats: Sequence[Beat], now: datetime) -> Finding:
    """How a loop is, over every process that runs it: one that works is enough, and the others are named."""
    working = [beat for beat in beats if beat.works(now)]
    wrong = [_told(beat, now) for beat in beats if not beat.works(now)]
    if not beats:
        return Finding(loop, State.BAD, "no process runs it", _START)
    if not working:
        return Finding(loop, State.BAD, "; ".join(wrong), "Its log says more; a process that hangs or is gone is to be started again.")
    detail = f"{len(working)} at work, the last round ended well {_ago(max(beat.good_at for beat in working if beat.good_at), now)}"
    return Finding(loop, State.WARN, f"{detail}; {'; '.join(wrong)}") if wrong else Finding(loop, State.OK, detail)


def _told(beat: Beat, now: datetime) -> str:
    who = f"pid {beat.process.pid} on {beat.process.host}"
    if not beat.is_alive(now):
        return f"{who} has said nothing for {_seconds(beat.beat_at, now)}"
    if beat.hangs(now):
        return f"{who} hangs: no round has ended for {_seconds(beat.round_at or beat.process.started_at, now)}"
    if beat.failures:
        return f"{who} fails, {beat.failures} times in a row: {beat.reason}"
    return f"{who} has not ended its first round yet"


def _processes(beats: Sequence[Beat], role: Role) -> dict[str, list[Beat]]:
    """The processes that have a loop of *role*, with all of their loops."""
    found: dict[str, list[Beat]] = {}
    for beat in beats:
        found.setdefault(beat.process.name, []).append(beat)
    return {name: loops for name, loops in found.items() if any(_fits(loop.loop, role) for loop in loops)}


def _fits(loop: str, role: Role) -> bool:
    if role is Role.ANY or loop == _ENGINE:
        return True
    if role is Role.WORKER:
        from memline.ledger.heartbeats import STAGE_LOOP

        return loop.startswith(STAGE_LOOP)
    return loop == _LOOPS[role]


def _silent(beat: Beat, now: datetime, *, bad: bool) -> Finding:
    detail = f"pid {beat.process.pid} has said nothing for {_seconds(beat.beat_at, now)}: it was stopped, killed, or can't reach the ledger"
    return Finding("process", State.BAD if bad else State.WARN, detail, "Restart it." if bad else "")


def _ago(at: datetime, now: datetime) -> str:
    return f"{_seconds(at, now)} ago"


def _seconds(at: datetime, now: datetime) -> str:
    return f"{max(0.0, (now - at).total_seconds()):.0f} s"
