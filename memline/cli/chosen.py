"""What the global options chose, and the settings they lead to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from memline.memory import Memory
    from memline.settings import Settings

__all__ = ["Chosen", "chosen"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """`--namespace` and `--home`; None where the environment decides."""

    namespace: str | None = None
    home: Path | None = None

    def settings(self, **given: Any) -> Settings:
        """The settings of this command; *given* ones go before the environment. Raises ConfigurationError."""
        from memline.settings import load_settings

        if self.namespace is not None:
            given["namespace"] = self.namespace
        if self.home is not None:
            given["home"] = self.home
        return load_settings(**given)

    def memory(self, namespace: str | None = None) -> Memory:
        """A `Memory` on these settings; *namespace* stands in where none was chosen."""
        from memline.memory import Memory

        return Memory(self.namespace or namespace, settings=self.settings())


def chosen(context: typer.Context) -> Chosen:
    """What the global options of this call chose."""
    found = context.find_object(Chosen)
    return Chosen() if found is None else found
