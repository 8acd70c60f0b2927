"""`memline sim`: a server that speaks OpenAI's protocol, for trying the model path without a key."""

from __future__ import annotations

from typing import Annotated

import typer

from memline.cli.screen import note, screen, text

__all__ = ["sim"]


def sim(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8008,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    latency: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Added to every answer.")] = 0.0,
    dimension: Annotated[int, typer.Option(min=1, max=8192, help="Of embeddings whose request names none.")] = 1536,
) -> None:
    """Serve a small OpenAI-compatible simulator until Ctrl-C. It is no model: what it says is made by rules."""
    from memline.cli.simulator import serve

    def ready(url: str) -> None:
        console = screen()
        console.print(text(f"The simulator answers at {url}"), soft_wrap=True)
        console.print(text("Point memline at it with:", "dim"))
        console.print(text(f"  export MEMLINE_OPENAI_BASE_URL={url}"), soft_wrap=True)
        console.print(text("  export MEMLINE_OPENAI_API_KEY=anything"))
        console.file.flush()

    calls = serve(host, port, latency, dimension=dimension, ready=ready)
    note("Stopped. Calls: " + (", ".join(f"{path} {number}" for path, number in sorted(calls.items())) or "none") + ".")
