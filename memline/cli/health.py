"""`memline health`: whether a process lives, and whether it, or the deployment, is ready. For compose, Kubernetes and load balancers."""

from __future__ import annotations

import socket
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from memline.cli.chosen import chosen
from memline.cli.errors import EXIT_UNHEALTHY
from memline.cli.findings import Finding, State
from memline.cli.health_roles import Role
from memline.cli.options import AsJson
from memline.cli.screen import print_json, screen, text

if TYPE_CHECKING:
    from memline.cli.health_parts import Probe
    from memline.settings import Settings

__all__ = ["health"]


class Question(StrEnum):
    """What is asked."""

    LIVE = "live"
    READY = "ready"


_MARKS = {State.OK: ("✓", "green"), State.WARN: ("!", "yellow"), State.BAD: ("✗", "red")}


def health(
    context: typer.Context,
    question: Annotated[Question, typer.Argument(metavar="live|ready", help="live: restart it otherwise. ready: send it work.")],
    role: Annotated[Role, typer.Option(help="What the process is there for; beat: sweep, prune, expire, reconcile.")] = Role.ANY,
    host: Annotated[str, typer.Option(metavar="NAME", help="The host whose process it is; by default this one.", show_default=False)] = "",
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Longest wait for a part that hangs.")] = 5.0,
    as_json: AsJson = False,
) -> None:
    """Say whether this host's process lives, or whether everything it needs is there. Ends with 4 where not.

    live: a process of the role has beaten on this host in the last half minute, and none of its loops hangs. ready: the ledger answers and
    has the right schema and embedder, Redis answers and evicts nothing, and the role's loops work on this host; for `any`, every loop that
    a deployment needs works somewhere. An index that is down is told and no reason to be unready: searches go on from the ledger.
    """
    from memline.cli import health_parts
    from memline.contracts.errors import MemlineError

    host = host or socket.gethostname()
    try:
        settings = chosen(context).settings()
    except MemlineError as error:
        found = [Finding("settings", State.BAD, str(error), "Correct it in the environment or the .env file.")]
    else:
        found = health_parts.look(_probes(question, settings, role, host), timeout)
    ok = all(finding.state is not State.BAD for finding in found)
    if as_json:
        document = {"ok": ok, "question": question.value, "role": role.value, "host": host}
        print_json({**document, "parts": [finding.document() for finding in found]})
    else:
        _show(found)
    if not ok:
        raise typer.Exit(EXIT_UNHEALTHY)


def _probes(question: Question, settings: Settings, role: Role, host: str) -> dict[str, Probe]:
    from memline.cli import health_parts

    if question is Question.LIVE:
        return {"ledger": lambda: health_parts.ledger_live(settings, role, host)}
    return {
        "ledger": lambda: health_parts.ledger_ready(settings, role, host),
        "redis": lambda: health_parts.redis(settings),
        "index": lambda: health_parts.index(settings),
    }


def _show(found: list[Finding]) -> None:
    """One line a finding, so that an orchestrator's log shows it whole."""
    console = screen()
    for finding in found:
        mark, style = _MARKS[finding.state]
        hint = f" → {finding.hint}" if finding.hint else ""
        console.print(text(f"{mark} {finding.part}: ", style) + text(f"{finding.detail}{hint}"), soft_wrap=True)
