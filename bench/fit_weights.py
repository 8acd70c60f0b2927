"""Fits the weights of search to questions with known answers, and measures them on conversations they were not fitted to.

    python -m bench.fit_weights DIR/locomo-dev.json [--captions] [--cache FILE] [--fit] [--ablate]

Each turn becomes a verbatim memory with its speaker and its session's time, one owner a conversation; questions of categories 1 to 4.
Without --fit it measures the published weights. With --fit: a conditional logit over the candidates of each question (the evidence
against the rest), penalties held negative and all else positive, by gradient descent on standardised signals; then leave one
conversation out. --captions adds the caption of a shared picture to the turn's text. --cache keeps analyses and vectors.
"""

from __future__ import annotations

import argparse
import json
import pickle
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.filling import Item, fill
from memline.contracts.clock import SystemClock
from memline.contracts.fact import Analysis
from memline.contracts.filters import parse
from memline.contracts.scope import Scope
from memline.language.analysis import TextAnalyser
from memline.language.embedders.usem3 import LocalEmbedder
from memline.ledger.migrate import open_ledger
from memline.ledger.session import Ledger
from memline.search.index.embedded import EmbeddedIndex
from memline.search.searcher import Searcher
from memline.search.signals import SIGNALS
from memline.search.weights import DEFAULT

__all__ = ["Asked", "fit", "load", "measure"]

#: Signals that speak against a memory.
PENALTIES = frozenset({"other_actor", "question", "short", "superseded"})
#: Signals that these data can't weigh: conversations hold hardly a code, and nothing in them is superseded.
BY_HAND = frozenset({"code", "superseded", "entity"})

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: the signals of its candidates, which of them are evidence, and how many turns are."""

    conversation: str
    signals: Floats
    wanted: NDArray[np.bool_]
    evidence: int


class _Remembered:
    """An analyser and an embedder that look each text up before they work."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._analyser, self._embedder = TextAnalyser(True), LocalEmbedder()
        self.name, self.model, self.dimension, self.paid = "remembered", self._embedder.model, self._embedder.dimension, False
        self._analyses: dict[str, Analysis] = {}
        self._vectors: dict[str, NDArray[np.float32]] = {}
        if path is not None and path.exists():
            self._analyses, self._vectors = pickle.loads(path.read_bytes())

    def analyse(self, texts: Sequence[str]) -> list[Analysis]:
        new = [text for text in dict.fromkeys(texts) if text not in self._analyses]
        if new:
            self._analyses |= dict(zip(new, self._analyser.analyse(new), strict=True))
        return [self._analyses[text] for text in texts]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors |= dict(zip(new, self._embedder.embed(new), strict=True))
        return np.stack([self._vectors[text] for text in texts])

    def save(self) -> None:
        if self._path is not None:
            self._path.write_bytes(pickle.dumps((self._analyses, self._vectors)))


def load(path: Path, folder: Path, *, captions: bool, cache: Path | None) -> list[Asked]:
    """The questions of a LoCoMo file with the signals that search finds for them."""
    texts = _Remembered(cache)
    ledger = Ledger(f"sqlite:///{folder / 'ledger.db'}")
    open_ledger(ledger)
    index = EmbeddedIndex(ledger, ledger)
    searcher = Searcher(ledger, index, texts, texts, SystemClock())
    found: list[Asked] = []
    for raw in json.loads(path.read_text()):
        scope = Scope("default", user_id=raw["sample_id"])
        turns = _turns(raw["conversation"], captions=captions)
        items = _items(texts, turns)
        ids = dict(zip([turn[0] for turn in turns], fill(ledger, index, scope, items, model=texts.model), strict=True))
        wanted = parse({"user_id": raw["sample_id"]})
        for question in raw["qa"]:
            evidence = {turn for each in question.get("evidence", []) for turn in re.findall(r"D\d+:\d+", each)}
            if question["category"] == 5 or not evidence:
                continue
            rows, signals = searcher.signals("default", question["question"], wanted)
            answers = {ids[turn] for turn in evidence if turn in ids}
            found.append(Asked(raw["sample_id"], signals, np.array([row.id in answers for row in rows], np.bool_), len(evidence)))
    texts.save()
    ledger.close()
    return found


def measure(asked: Sequence[Asked], weights: Floats) -> tuple[float, float]:
    """recall@10 and nDCG@10 (binary gains) in percent, averaged over questions."""
    recall, ndcg = [], []
    for question in asked:
        best = np.argsort(-(question.signals @ weights), kind="stable")[:10]
        gains = question.wanted[best].astype(float)
        recall.append(gains.sum() / question.evidence)
        ideal = (1 / np.log2(np.arange(min(question.evidence, 10)) + 2)).sum()
        ndcg.append((gains / np.log2(np.arange(len(gains)) + 2)).sum() / ideal)
    return 100 * float(np.mean(recall)), 100 * float(np.mean(ndcg))


def fit(asked: Sequence[Asked], *, without: frozenset[str] = frozenset(), decay: float = 1e-3, steps: int = 250) -> Floats:
    """Weights that make the evidence likely among the candidates of its question (Adam, step 0.05); 0 for signals *without*."""
    used = [question for question in asked if question.wanted.any()]
    signals = np.vstack([question.signals for question in used])
    target = np.concatenate([question.wanted / question.wanted.sum() for question in used])
    sizes = [len(question.wanted) for question in used]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    group = np.repeat(np.arange(len(used)), sizes)
    deviation = signals.std(axis=0) + 1e-9
    scaled = signals / deviation
    fixed = np.array([name in without or name in BY_HAND for name in SIGNALS])
    sign = np.array([-1.0 if name in PENALTIES else 1.0 for name in SIGNALS])
    weights, mean, square = np.zeros(len(SIGNALS)), np.zeros(len(SIGNALS)), np.zeros(len(SIGNALS))
    by_hand = np.array([DEFAULT.signals[name] if name in BY_HAND - without else 0.0 for name in SIGNALS])
    base = signals @ by_hand
    for step in range(1, steps + 1):
        total = scaled @ weights + base
        likely = np.exp(total - np.maximum.reduceat(total, starts)[group])
        likely /= np.add.reduceat(likely, starts)[group]
        gradient = -(scaled.T @ (target - likely)) / len(used) + decay * weights
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        weights -= 0.05 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-9)
        weights = np.where(fixed | (weights * sign < 0), 0.0, weights)
    return np.asarray(weights / deviation + by_hand, np.float64)


def _left_out(asked: Sequence[Asked], without: frozenset[str] = frozenset()) -> tuple[float, float]:
    """Recall and nDCG where each conversation is scored by weights fitted to the others, averaged over questions."""
    found, numbers = [], []
    for name in dict.fromkeys(question.conversation for question in asked):
        own = [question for question in asked if question.conversation == name]
        found.append(measure(own, fit([question for question in asked if question.conversation != name], without=without)))
        numbers.append(len(own))
    recall, ndcg = np.average(np.array(found), axis=0, weights=numbers)
    return float(recall), float(ndcg)


def _turns(talk: dict[str, Any], *, captions: bool) -> list[tuple[str, str, str, datetime]]:
    numbers = sorted(int(key.split("_")[1]) for key in talk if re.fullmatch(r"session_\d+", key))
    turns = []
    for number in numbers:
        said_at = datetime.strptime(talk[f"session_{number}_date_time"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for turn in talk[f"session_{number}"]:
            caption = f" [shares a photo: {turn['blip_caption']}]" if captions and turn.get("blip_caption") else ""
            turns.append((turn["dia_id"], turn["speaker"], turn["text"] + caption, said_at))
    return turns


def _items(texts: _Remembered, turns: Sequence[tuple[str, str, str, datetime]]) -> list[Item]:
    analyses = texts.analyse([text for _, _, text, _ in turns])
    vectors = texts.embed([text for _, _, text, _ in turns])
    mentions = {mention.normalised: mention.name for analysis in analyses for mention in analysis.entities}
    names = dict(zip(mentions, texts.embed(list(mentions.values())), strict=True))
    return [
        Item(text, analysis, vector, said_at, actor=speaker, role="user", names=names)
        for (_, speaker, text, said_at), analysis, vector in zip(turns, analyses, vectors, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--captions", action="store_true")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--ablate", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memline-fit-") as folder:
        asked = load(options.path, Path(folder), captions=options.captions, cache=options.cache)
    nominated = 100 * np.mean([question.wanted.sum() / question.evidence for question in asked])
    candidates = np.mean([len(question.wanted) for question in asked])
    print(f"{len(asked)} questions, {candidates:.0f} candidates each; evidence among them: {nominated:.1f} %")
    published = np.array([DEFAULT.signals.get(name, 0.0) for name in SIGNALS])
    print("published weights: recall@10 {:.1f}, nDCG@10 {:.1f}".format(*measure(asked, published)))
    if options.fit:
        weights = fit(asked)
        print("fitted weights:    recall@10 {:.1f}, nDCG@10 {:.1f}".format(*measure(asked, weights)))
        print("left out:          recall@10 {:.1f}, nDCG@10 {:.1f}".format(*_left_out(asked)))
        for name, weight in zip(SIGNALS, weights, strict=True):
            print(f'    "{name}": {weight:.2f},')
    for name in SIGNALS if options.ablate else ():
        print(f"without {name:14} recall@10 {{:.1f}}, nDCG@10 {{:.1f}}".format(*_left_out(asked, frozenset({name}))))


if __name__ == "__main__":
    main()
