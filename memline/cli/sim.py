"""`memline sim`: a server that speaks OpenAI's protocol, for trying the model path without a key, with faults where they are asked for."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memline.cli.screen import note, screen, text

if TYPE_CHECKING:
    from memline.cli.simulator.server import Structured

__all__ = ["sim"]

_OF = "What goes wrong"


class Formats(StrEnum):
    """What `--structured` takes."""

    ON = "on"
    SCHEMA = "schema"
    OBJECT = "object"
    OFF = "off"


def sim(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8008,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    latency: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Added to every answer.")] = 0.0,
    dimension: Annotated[int, typer.Option(min=1, max=8192, help="Of embeddings whose request names none.")] = 1536,
    structured: Annotated[Formats, typer.Option(help="Which response_format it takes: both, one of them, none.")] = Formats.ON,
    replay: Annotated[
        str | None, typer.Option(metavar="NAME", help="Answer chats as this server's users saw it: openai, ollama, vllm, lmstudio.")
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help='What to answer first: {"chat": [steps], "embeddings": [steps]}.'),
    ] = None,
    fail: Annotated[float, typer.Option(min=0, max=1, metavar="SHARE", help="Share of calls that fail.", rich_help_panel=_OF)] = 0.0,
    faults: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="How they fail, with commas: 500, 503, 429, drop, cut, hang, garbage, truncated, prose, dimension, count, nan.",
            rich_help_panel=_OF,
        ),
    ] = "500,429,drop",
    seed: Annotated[int, typer.Option(help="The same seed, the same faults.", rich_help_panel=_OF)] = 1,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="More are answered 429 with Retry-After.", rich_help_panel=_OF)
    ] = None,
    tokens_per_minute: Annotated[int | None, typer.Option(min=1, metavar="N", help="Likewise.", rich_help_panel=_OF)] = None,
) -> None:
    """Serve a small OpenAI-compatible simulator until Ctrl-C. It is no model: what it says is made by rules."""
    from memline.cli.simulator import Faults, MinuteLimit, Simulator, dialect, read_script, serve

    limited = requests_per_minute is not None or tokens_per_minute is not None
    takes: dict[Formats, Structured] = {Formats.ON: True, Formats.OFF: False, Formats.SCHEMA: "schema", Formats.OBJECT: "object"}
    simulator = Simulator(
        port,
        latency,
        takes[structured],
        host=host,
        dimension=dimension,
        record=False,
        faults=Faults(fail, tuple(name.strip() for name in faults.split(",") if name.strip()), seed) if fail else None,
        limit=MinuteLimit(requests_per_minute, tokens_per_minute) if limited else None,
        replay=None if replay is None else dialect(replay),
    )
    for endpoint, steps in ({} if script is None else read_script(script)).items():
        simulator.script(*steps, endpoint="chat" if endpoint == "chat" else "embeddings")

    def ready(url: str) -> None:
        console = screen()
        console.print(text(f"The simulator answers at {url}"), soft_wrap=True)
        console.print(text("Point memline at it with:", "dim"))
        console.print(text(f"  export MEMLINE_OPENAI_BASE_URL={url}"), soft_wrap=True)
        console.print(text("  export MEMLINE_OPENAI_API_KEY=anything"))
        console.file.flush()

    calls = serve(simulator, ready=ready)
    note("Stopped. Calls: " + (", ".join(f"{path} {number}" for path, number in sorted(calls.items())) or "none") + ".")
