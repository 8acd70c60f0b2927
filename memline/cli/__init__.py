"""The command line: `memline`. One module a command group; each loads what it needs when it runs."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Entry point of the program `memline`; ends the process with one of the codes of `memline.cli.errors`."""
    if sys.argv[1:] == ["--version"]:
        from memline import __version__

        sys.stdout.write(f"memline {__version__}\n")
        return
    from memline.cli.app import app

    app(prog_name="memline")
