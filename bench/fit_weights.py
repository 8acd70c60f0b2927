"""Fits the weights of search to questions with known answers, and measures them on conversations they were not fitted to.

    python -m bench.fit_weights DATA [--captions] [--only locomo|beam] [--cache FOLDER] [--fit] [--ablate] [--json FILE]
    python -m bench.fit_weights --questions FILE --home HOME [--namespace NAME] [--json FILE]

DATA is a folder with `locomo/*.json` and `beam/*.json`. Each turn (LoCoMo) or message (BEAM) becomes a verbatim memory of its
conversation's owner; questions are those with evidence (LoCoMo: categories 1 to 4). Without --fit it measures the published weights.

With --fit: a conditional logit over the candidates of each question (the evidence against the rest), penalties held negative and all
else positive, by gradient descent on standardised signals; every question counts once, whatever set it is from. Then leave one
conversation out: each is scored by weights fitted to all others, of both sets. `middle` and `slope` are such that a memory that nothing
speaks for scores 0.09, just below the default threshold, and half of the evidence above 0.8. --captions adds what a shared picture shows
to its turn's text.

FILE holds lines of {"query": …, "wanted": id or [ids], "filters": {…}}, as `memline calibrate` reads them, of memories in the ledger of
HOME. A few questions can't weigh twenty signals, so that the weights stay near those in use, the nearer the fewer questions there are;
`middle` and `slope` stay. --json writes what `memline weights set` reads.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from bench.remembered import RememberedAnalyser, RememberedEmbedder
from bench.search_data import Talk, load_beam, load_locomo, remember
from memline.cli.judged_lines import BadQuestion, read_judged
from memline.compose import House
from memline.contracts.clock import SystemClock
from memline.contracts.errors import InvalidInput, MemlineError
from memline.contracts.filters import parse
from memline.language.analysis import TextAnalyser
from memline.language.embedders.usem3 import LocalEmbedder
from memline.ledger.migrate import open_ledger
from memline.ledger.session import Ledger
from memline.search.index.embedded import EmbeddedIndex
from memline.search.namespace_weights import NamespaceWeights, weights_to_json
from memline.search.score import scores
from memline.search.searcher import Searcher
from memline.search.signals import SIGNALS
from memline.search.weights import DEFAULT, Weights
from memline.settings import load_settings

__all__ = ["Asked", "calibrated", "fit", "fit_near", "left_out", "load", "measure", "row_of"]

#: Signals that speak against a memory.
PENALTIES = frozenset({"other_actor", "assistant", "question", "short", "long", "superseded"})
#: Signals that these data can't weigh: conversations hold hardly a code, and nothing in them is superseded.
BY_HAND = frozenset({"code", "superseded", "entity"})
#: What a memory scores that nothing speaks for (below 0.1, the default threshold), and the median of the evidence.
NOTHING, MEDIAN, THRESHOLD = 0.09, 0.8, 0.1
#: Questions that speak as loud as the weights in use, where there are few.
NEAR = 20.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: the signals of its candidates, which of them are evidence, and how many turns are."""

    conversation: str
    signals: Floats
    wanted: NDArray[np.bool_]
    evidence: int
    kind: str = ""
    #: Of the same question put to another conversation, which can't know.
    elsewhere: Floats | None = None


def load(talks: Sequence[Talk], folder: Path, analyser: RememberedAnalyser, embedder: RememberedEmbedder) -> list[Asked]:
    """The questions of *talks* with the signals that search finds for them, in a ledger of their own."""
    ledger = Ledger(f"sqlite:///{folder / 'ledger.db'}")
    open_ledger(ledger)
    index = EmbeddedIndex(ledger, ledger)
    searcher = Searcher(ledger, index, analyser, embedder, SystemClock(), deadline=3600)
    turns = {talk.name: remember(talk, ledger, index, "default", analyser, embedder) for talk in talks}
    found: list[Asked] = []
    for number, talk in enumerate(talks):
        wanted, other = parse({"user_id": talk.name}), parse({"user_id": talks[number - 1].name})
        for question in talk.questions:
            rows, signals = searcher.signals("default", question.text, wanted)
            _, elsewhere = searcher.signals("default", question.text, other)
            evidence = [turns[talk.name].get(row.id) in question.evidence for row in rows]
            found.append(Asked(talk.name, signals, np.array(evidence, np.bool_), len(question.evidence), question.kind, elsewhere))
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


def row_of(weights: Weights) -> Floats:
    """The weights in the order of `SIGNALS`."""
    return np.array([weights.signals.get(name, 0.0) for name in SIGNALS])


def fit(asked: Sequence[Asked], *, without: frozenset[str] = frozenset(), decay: float = 1e-3, steps: int = 250) -> Floats:
    """Weights that make the evidence likely among the candidates of its question; 0 for signals *without*, `BY_HAND` as published."""
    by_hand = np.array([DEFAULT.signals[name] if name in BY_HAND - without else 0.0 for name in SIGNALS])
    free = np.array([name not in without and name not in BY_HAND for name in SIGNALS])
    return _descend(asked, by_hand, free, decay=decay, steps=steps)


def fit_near(asked: Sequence[Asked], start: Floats, *, steps: int = 250) -> Floats:
    """Weights for *asked* that stay near *start*, the nearer the fewer questions there are; no sign changes, and what is 0 stays 0."""
    used = sum(question.wanted.any() for question in asked)
    return _descend(asked, start, start != 0, decay=NEAR / (NEAR + used), steps=steps) if used else start


def _descend(asked: Sequence[Asked], start: Floats, free: NDArray[np.bool_], *, decay: float, steps: int) -> Floats:
    """*start* and what speaks better for the evidence, drawn back to it by *decay* (Adam, step 0.05, on standardised signals)."""
    used = [question for question in asked if question.wanted.any()]
    signals = np.vstack([question.signals for question in used])
    target = np.concatenate([question.wanted / question.wanted.sum() for question in used])
    sizes = [len(question.wanted) for question in used]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    group = np.repeat(np.arange(len(used)), sizes)
    deviation = signals.std(axis=0)
    free = free & (deviation > 1e-9)
    deviation = np.where(free, deviation, 1.0)
    scaled = signals / deviation
    sign = np.array([-1.0 if name in PENALTIES else 1.0 for name in SIGNALS])
    added, mean, square = np.zeros(len(SIGNALS)), np.zeros(len(SIGNALS)), np.zeros(len(SIGNALS))
    base = signals @ start
    for step in range(1, steps + 1):
        total = scaled @ added + base
        likely = np.exp(total - np.maximum.reduceat(total, starts)[group])
        likely /= np.add.reduceat(likely, starts)[group]
        gradient = -(scaled.T @ (target - likely)) / len(used) + decay * added
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        added -= 0.05 * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-9)
        added = np.where(free, added, 0.0)
        added = np.where((start * deviation + added) * sign < 0, -start * deviation, added)
    return np.asarray(start + added / deviation, np.float64)


def left_out(asked: Sequence[Asked], also: Sequence[Asked] = (), without: frozenset[str] = frozenset()) -> dict[str, tuple[float, float]]:
    """By conversation of *asked*, recall and nDCG by weights fitted to the others and to those of *also*."""
    found = {}
    for name in dict.fromkeys(question.conversation for question in asked):
        own = [question for question in asked if question.conversation == name]
        others = [question for question in (*asked, *also) if question.conversation != name]
        found[name] = measure(own, fit(others, without=without))
    return found


def calibrated(asked: Sequence[Asked], row: Floats) -> Weights:
    """*row* as weights, with the map to a score that `NOTHING` and `MEDIAN` ask for."""
    sums = np.concatenate([question.signals[question.wanted] @ row for question in asked])
    at_nothing, at_half = (float(np.log(score / (1 - score))) for score in (NOTHING, MEDIAN))
    slope = (at_half - at_nothing) / max(float(np.median(sums)), 1e-6)
    return Weights(MappingProxyType(dict(zip(SIGNALS, row.tolist(), strict=True))), -at_nothing / slope, slope)


def _mean(asked: Sequence[Asked], by_talk: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    numbers = [sum(question.conversation == name for question in asked) for name in by_talk]
    recall, ndcg = np.average(np.array(list(by_talk.values())), axis=0, weights=numbers)
    return float(recall), float(ndcg)


def _spread(asked: Sequence[Asked], weights: Weights) -> str:
    """How scores lie: of evidence, of each question's best, and of the best where the conversation can't know."""
    row = row_of(weights)

    def score(signals: Floats) -> Floats:
        return scores(signals * row, weights)

    evidence = np.concatenate([score(question.signals[question.wanted]) for question in asked])
    best = np.array([score(question.signals).max() for question in asked if len(question.signals)])
    elsewhere = np.array(
        [score(question.elsewhere).max() for question in asked if question.elsewhere is not None and len(question.elsewhere)]
    )
    lines = [f"    evidence below {THRESHOLD}: {100 * np.mean(evidence < THRESHOLD):.1f} %"]
    for name, values in (("evidence", evidence), ("best of a question", best), ("best of another conversation", elsewhere)):
        lines.append(f"    {name:30} " + " ".join(f"p{p} {np.percentile(values, p):.2f}" for p in (1, 10, 50, 90)))
    return "\n".join(lines)


def _shown(weights: Weights) -> str:
    lines = [f'            "{name}": {weight:.1f},' for name, weight in weights.signals.items()]
    return "\n".join([*lines, f"    middle={weights.middle:.1f},", f"    slope={weights.slope:.2f},"])


def _fit_data(options: argparse.Namespace) -> Weights | None:
    sets = _load_sets(options)
    for name, asked in sets.items():
        among = 100 * np.mean([question.wanted.sum() / question.evidence for question in asked])
        many = np.mean([len(question.wanted) for question in asked])
        print(f"{name}: {len(asked)} questions, {many:.0f} candidates each; evidence among them: {among:.1f} %")
        print("    published weights: recall@10 {:.1f}, nDCG@10 {:.1f}".format(*measure(asked, row_of(DEFAULT))))
        print(_spread(asked, DEFAULT))
        for kind in dict.fromkeys(question.kind for question in asked):
            own = [question for question in asked if question.kind == kind]
            print(f"    {kind:30} {len(own):4} questions: {{:.1f}} / {{:.1f}}".format(*measure(own, row_of(DEFAULT))))
    weights = None
    if options.fit:
        everything = [question for asked in sets.values() for question in asked]
        weights = calibrated(everything, np.round(fit(everything), 1))
        print("fitted to all:\n" + _shown(weights))
        for name, asked in sets.items():
            others = _without(sets, name)
            by_talk = left_out(asked, others)
            print(f"{name}, fitted to all: recall@10 {{:.1f}}, nDCG@10 {{:.1f}}".format(*measure(asked, row_of(weights))))
            print(f"{name}, each left out: recall@10 {{:.1f}}, nDCG@10 {{:.1f}}".format(*_mean(asked, by_talk)))
            print("    " + ", ".join(f"{talk} {recall:.1f}/{ndcg:.1f}" for talk, (recall, ndcg) in by_talk.items()))
            if others:
                print(f"{name}, each left out, fitted to {name} alone: {{:.1f}} / {{:.1f}}".format(*_mean(asked, left_out(asked))))
            print(_spread(asked, weights))
    for signal in SIGNALS if options.ablate else ():
        figures = []
        for name, asked in sets.items():
            found = _mean(asked, left_out(asked, _without(sets, name), frozenset({signal})))
            figures.append(f"{name} {found[0]:.1f} / {found[1]:.1f}")
        print(f"each left out, without {signal:14} " + "   ".join(figures))
    return weights


def _without(sets: Mapping[str, list[Asked]], name: str) -> list[Asked]:
    return [question for other, asked in sets.items() if other != name for question in asked]


def _load_sets(options: argparse.Namespace) -> dict[str, list[Asked]]:
    cache: Path | None = options.cache
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)
    analyser = RememberedAnalyser(TextAnalyser(True), cache and cache / "analyses.pickle")
    embedder = RememberedEmbedder(LocalEmbedder(), cache and cache / "vectors.pickle")
    talks = {"locomo": load_locomo(options.data, captions=options.captions), "beam": load_beam(options.data)}
    sets: dict[str, list[Asked]] = {}
    for name, some in talks.items():
        if some and options.only in (None, name):
            with tempfile.TemporaryDirectory(prefix="memline-fit-") as folder:
                sets[name] = load(some, Path(folder), analyser, embedder)
    analyser.save()
    embedder.save()
    if not sets:
        raise InvalidInput(f"{options.data} holds no locomo/*.json and no beam/*.json.")
    return sets


def _fit_questions(options: argparse.Namespace) -> Weights:
    settings = load_settings(home=options.home) if options.home else load_settings()
    namespace = options.namespace or settings.namespace
    with options.questions.open("rb") as file:
        lines = list(read_judged(file, {}))
    if bad := [line for line in lines if isinstance(line, BadQuestion)]:
        raise InvalidInput(" ".join(f"Line {line.number}: {line.reason}" for line in bad[:10]))
    house = House(settings)
    try:
        asked = []
        for line in lines:
            if not isinstance(line, BadQuestion):
                rows, signals = house.searcher.signals(namespace, line.query, line.filter)
                found = np.array([row.id in line.wanted for row in rows], np.bool_)
                asked.append(Asked(str(line.number), signals, found, len(line.wanted)))
        with house.ledger.read() as connection:
            used = NamespaceWeights().of(connection, namespace).weights
    finally:
        house.close(0)
    nobody = sum(not question.wanted.any() for question in asked)
    if not asked or nobody == len(asked):
        raise InvalidInput("No question finds what it wants among its candidates: there is nothing to fit to.")
    row = fit_near(asked, row_of(used))
    print(f"{len(asked)} questions; {nobody} do not find what they want among their candidates", file=sys.stderr)
    print("weights in use:    recall@10 {:.1f}, nDCG@10 {:.1f}".format(*measure(asked, row_of(used))), file=sys.stderr)
    print("fitted weights:    recall@10 {:.1f}, nDCG@10 {:.1f}".format(*measure(asked, row)), file=sys.stderr)
    rounded = dict(zip(SIGNALS, np.round(row, 2).tolist(), strict=True))
    return Weights(MappingProxyType(rounded), used.middle, used.slope)


def main() -> None:
    """Measures, fits, prints."""
    parser = argparse.ArgumentParser(prog="bench.fit_weights", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--captions", action="store_true")
    parser.add_argument("--only", choices=["locomo", "beam"])
    parser.add_argument("--cache", type=Path, metavar="FOLDER")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--ablate", action="store_true")
    parser.add_argument("--questions", type=Path, metavar="FILE")
    parser.add_argument("--home", type=Path)
    parser.add_argument("--namespace")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if (options.data is None) == (options.questions is None):
        parser.error("give DATA, or --questions FILE")
    try:
        weights = _fit_questions(options) if options.questions else _fit_data(options)
    except MemlineError as error:
        sys.exit(f"error: {error}")
    if weights is not None and options.json:
        options.json.write_text(json.dumps(weights_to_json(weights), indent=2) + "\n")
    elif weights is not None and options.questions:
        print(json.dumps(weights_to_json(weights), indent=2))


if __name__ == "__main__":
    main()
