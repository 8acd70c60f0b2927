"""How a frame of `memline top` looks on a terminal: numbers first, whatever is wrong in colour and in words, no text of a memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from memline.cli.screen import facts, fresh_table, local_time, text
from memline.cli.top_reading import state_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from memline.cli.top_reading import Frame
    from memline.ledger.heartbeats import Beat

__all__ = ["picture"]

#: Columns from which two blocks stand side by side.
_WIDE = 100

#: The index should not lag more than that, in seconds; nor a turn wait longer for its commit.
_LONG = 60.0

_STAGES = ("extract", "embed", "dedup", "persist", "link", "save")
_STYLES = {"working": "green", "starts": "yellow", "fails": "bold red", "hangs": "bold red", "gone": "red"}


def picture(frame: Frame, *, width: int, live: bool) -> RenderableType:
    """The whole frame for a terminal of *width* columns; *live*: with the line that says how to end."""
    left = Group(_turns(frame), text(""), _stages(frame))
    right = Group(_workers(frame), text(""), _failures(frame), _moved(frame))
    body: RenderableType = Group(left, text(""), right)
    if width >= _WIDE:
        grid = Table.grid(padding=(0, 4, 0, 0), expand=True)
        grid.add_column(ratio=4)
        grid.add_column(ratio=5)
        grid.add_row(left, right)
        body = grid
    parts: list[RenderableType] = [_head(frame, live=live), *_away(frame), text(""), body]
    return Group(*parts)


def _head(frame: Frame, *, live: bool) -> Text:
    head = text("memline top  ", "bold") + text(local_time(frame.at), "dim")
    return head + text("   q ends", "dim") if live else head


def _away(frame: Frame) -> Iterable[RenderableType]:
    for part, why in frame.away.items():
        yield text(f"✗ {part}: {why}", "bold red")


def _turns(frame: Frame) -> RenderableType:
    rows: list[tuple[str, RenderableType]] = []
    flow = frame.flow
    if flow is not None:
        rates = f"{flow.accepted:,.1f} accepted  {flow.committed:,.1f} committed  {flow.searchable:,.1f} shown"
        rows.append(("turns/s", text(rates, "bold")))
    if frame.latency is not None:
        p50, p95, number = frame.latency
        rows.append(("searchable", text(f"p50 {_time(p50)}  p95 {_time(p95)}  of {number:,}")))
    else:
        rows.append(("searchable", text("no turn in the last minute", "dim")))
    oldest, held = frame.gauge("oldest_turn_seconds"), frame.gauge("jobs_held")
    rows.append(("oldest turn", text(_time(oldest), _warn(oldest > _LONG)) + text(f"   {held:,.0f} held" if held else "")))
    rows.append(
        (
            "lanes",
            text("   ".join(f"{frame.gauge('lanes', name):,.0f} {name}" for name in ("busy", "ready", "delayed"))),
        )
    )
    waiting, parked, age = frame.gauge("outbox_rows", "waiting"), frame.gauge("outbox_rows", "parked"), frame.gauge("outbox_oldest_seconds")
    shown = text(f"{waiting:,.0f} waiting, {_time(age)}", _warn(age > _LONG))
    rows.append(("outbox", shown + (text(f"   {parked:,.0f} parked", "bold red") if parked else text(""))))
    if "stream_entries" in frame.gauges:
        rows.append(
            ("stream", text(f"{frame.gauge('stream_entries', 'all'):,.0f} turns   {frame.gauge('stream_entries', 'pending'):,.0f} read"))
        )
        used, most = frame.gauge("redis_memory_bytes", "used"), frame.gauge("redis_memory_bytes", "max")
        full = bool(most) and used > 0.8 * most
        rows.append(("redis", text(f"{_size(used)} of {_size(most) if most else 'no limit'}", _warn(full))))
    failed = frame.gauge("failed_jobs")
    if failed:
        rows.append(("failed", text(f"{failed:,.0f} jobs", "bold red")))
    return facts(rows)


def _stages(frame: Frame) -> RenderableType:
    queues = "celery_messages" in frame.gauges
    columns = [("stage", {"no_wrap": True}), ("turns", {"justify": "right"})]
    table = fresh_table(*columns, *([("queued", {"justify": "right"})] if queues else []))  # type: ignore[arg-type]
    for stage in _STAGES:
        row = [text(stage), text(f"{frame.gauge('jobs_unfinished', stage):,.0f}")]
        if queues:
            row.append(text(f"{frame.gauge('celery_messages', stage):,.0f}"))
        table.add_row(*row)
    batches = text(f"batches  {frame.gauge('batches', 'running'):,.0f} running, {frame.gauge('batches', 'waiting'):,.0f} waiting", "dim")
    return Group(table, batches)


def _workers(frame: Frame) -> RenderableType:
    if not frame.beats:
        return text("No process has said that it works in the last minutes.", "yellow")
    processes: dict[str, list[Beat]] = {}
    for beat in frame.beats:
        processes.setdefault(beat.process.name, []).append(beat)
    table = fresh_table(("process", {"no_wrap": True}), ("loops", {"ratio": 1}), ("beat", {"justify": "right", "no_wrap": True}))
    for loops in processes.values():
        process, newest = loops[0].process, max(beat.beat_at for beat in loops)
        alike: dict[tuple[str, str], list[str]] = {}
        for beat in loops:
            alike.setdefault((state_of(beat, frame.at), beat.reason or ""), []).append(beat.loop.removeprefix("stage."))
        told = Text("\n").join(
            text(" ".join(names) + ("" if state == "working" else f" {state}") + (f": {why}" if why else ""), _STYLES[state])
            for (state, why), names in sorted(alike.items(), key=lambda each: each[0][0] == "working")
        )
        table.add_row(text(f"{process.host} {process.pid}"), told, text(_time((frame.at - newest).total_seconds())))
    return table


def _failures(frame: Frame) -> RenderableType:
    if not frame.failures:
        return text("No job is failed.", "dim")
    table = fresh_table(("newest failures", {"no_wrap": True}), ("why", {"ratio": 1}))
    for one in frame.failures:
        table.add_row(text(one.id, "dim"), text(f"{one.stage}: {one.reason.removeprefix(f'{one.stage}: ')}"))
    return Group(table, text("memline jobs retry ID replays one.", "dim"))


def _moved(frame: Frame) -> RenderableType:
    if not frame.moved:
        return text("")
    return Group(text(""), text("since the start   " + "   ".join(f"{name} {number:+,}" for name, number in frame.moved.items()), "dim"))


def _time(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _size(count: float) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.1f} MiB"


def _warn(wrong: bool) -> str:
    return "bold yellow" if wrong else ""
