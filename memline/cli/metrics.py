"""`memline metrics`: all metrics once, or served for Prometheus."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Annotated

import typer

from memline.cli.chosen import chosen
from memline.cli.screen import note

__all__ = ["metrics"]


def metrics(
    context: typer.Context,
    serve: Annotated[
        int | None,
        typer.Option("--serve", min=0, max=65535, metavar="PORT", help="Serve them at /metrics until Ctrl-C.", show_default=False),
    ] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
) -> None:
    """Print all metrics once in Prometheus's text format: those of the ledger, of Redis, and of the processes of this machine."""
    from memline.exporting import Exporter

    settings = chosen(context).settings()
    if serve is None:
        with closing(Exporter(settings, everything=True)) as exporter:
            sys.stdout.write(exporter.page())
        return
    from memline.observing import log_lines
    from memline.telemetry.metrics_server import MetricsServer

    log_lines(settings)
    with closing(Exporter(settings)) as exporter, closing(MetricsServer(exporter.figures, host=host, port=serve)) as server:
        note(f"metrics: http://{host}:{server.port}/metrics")
        server.wait()
