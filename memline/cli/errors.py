"""Exit codes, and how an error of memline ends a command: one message on stderr, no traceback."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from memline.contracts.errors import MemlineError, NotFound

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_NOT_FOUND", "EXIT_UNHEALTHY", "EXIT_UNSOUND", "Commands"]

#: An error of memline; what is wrong and what to do stand on stderr.
EXIT_FAILED = 1
#: 2 is the parser's: an unknown option, a missing argument, a value of the wrong type.
#: No memory, job or turn has the id that was given.
EXIT_NOT_FOUND = 3
#: `doctor`, `health` or `check` found something that does not work.
EXIT_UNHEALTHY = 4
#: `verify` found a store that contradicts the committed set.
EXIT_UNSOUND = 5
#: Ctrl-C.
EXIT_INTERRUPTED = 130


class Commands(TyperGroup):
    """The root of the commands: turns what they raise into a message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        from memline.cli.screen import complain

        try:
            return super().invoke(ctx)
        except MemlineError as error:
            complain(str(error))
            raise typer.Exit(EXIT_NOT_FOUND if isinstance(error, NotFound) else EXIT_FAILED) from None
        except KeyboardInterrupt as error:  # a command that can say how to go on gives it a text
            complain(str(error) or "Interrupted.", label="Stopped:")
            raise typer.Exit(EXIT_INTERRUPTED) from None
