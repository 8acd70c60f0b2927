"""Conversations with questions, from the folder that the user names, as memories put straight into a ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.filling import Item, fill
from bench.retrieval import Question, beam, locomo
from memline.contracts.index_object import Kind
from memline.contracts.scope import Scope
from memline.language.ports import Analyser, Embedder
from memline.ledger.session import Ledger
from memline.search.index.port import Index, Write

__all__ = ["Said", "Talk", "forget", "load_beam", "load_locomo", "remember"]


@dataclass(frozen=True, slots=True)
class Said:
    """One turn (LoCoMo) or message (BEAM), verbatim."""

    name: str
    text: str
    role: str
    actor: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation, and questions with the turns that answer them."""

    name: str
    said: tuple[Said, ...]
    questions: tuple[Question, ...]


def load_locomo(folder: Path, *, captions: bool) -> list[Talk]:
    """Every conversation of `locomo/*.json` (or of `*.json` in *folder* itself); questions of categories 1 to 4."""
    files = sorted((folder / "locomo").glob("*.json")) or sorted(folder.glob("locomo*.json"))
    return [_talk(found.name, found.lines, found.questions) for file in files for found in locomo(file, captions=captions)]


def load_beam(folder: Path) -> list[Talk]:
    """Every chat of `beam/*.json`; all questions that have evidence."""
    return [_talk(found.name, found.lines, found.questions) for file in sorted((folder / "beam").glob("*.json")) for found in beam(file)]


def remember(talk: Talk, ledger: Ledger, index: Index, namespace: str, analyser: Analyser, embedder: Embedder) -> dict[str, str]:
    """Puts a conversation where `infer=False` would have put it, as user *talk.name*; by memory id the name of its (first) turn."""
    texts = [said.text for said in talk.said]
    analyses, vectors = analyser.analyse(texts), embedder.embed(texts)
    mentions = {mention.normalised: mention.name for analysis in analyses for mention in analysis.entities}
    names = dict(zip(mentions, embedder.embed(list(mentions.values())), strict=True))
    items = [
        Item(said.text, analysis, vector, said.at, actor=said.actor, role=said.role, names=names)
        for said, analysis, vector in zip(talk.said, analyses, vectors, strict=True)
    ]
    ids = fill(ledger, index, Scope(namespace, user_id=talk.name), items, model=embedder.model)
    turn_of: dict[str, str] = {}
    for memory_id, said in zip(ids, talk.said, strict=True):
        turn_of.setdefault(memory_id, said.name)
    return turn_of


def forget(index: Index, namespace: str) -> None:
    """Removes a namespace of the bench from an index that is a server; a file goes with the bench's folder."""
    kinds: tuple[Kind, ...] = ("memory", "entity")
    for kind in kinds if index.remote else ():
        states = list(index.walk(kind, namespace))
        for start in range(0, len(states), 500):
            index.write([Write(state.key, None) for state in states[start : start + 500]])


def _talk(name: str, lines: Sequence[dict[str, object]], questions: Sequence[Question]) -> Talk:
    said: list[Said] = []
    at = datetime(2024, 1, 1, tzinfo=UTC)
    for line in lines:
        message = line["messages"][0]  # type: ignore[index]
        at = datetime.fromisoformat(str(line["timestamp"])) if "timestamp" in line else at  # else as the one before
        turn = str(line["metadata"]["turn"])  # type: ignore[index]
        said.append(Said(turn, message["content"], message["role"], message.get("name"), at))
    return Talk(name, tuple(said), tuple(questions))
