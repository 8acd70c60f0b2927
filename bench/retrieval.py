"""Evidence recall on real conversations: turns imported with the CLI, questions asked through `Memory.search`.

    python -m bench.retrieval locomo DIR/locomo-dev.json
    python -m bench.retrieval beam DIR/100k-1.json

LoCoMo: each turn is a verbatim message with its speaker and its session's time. BEAM: user and assistant messages, extracted by the
rules. recall@k: the share of a question's evidence turns among those that the first k results come from, averaged over the questions
that have evidence (LoCoMo categories 1 to 4); nDCG@10 with binary gains.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from memline import Memory
from memline.settings import load_settings

__all__ = ["Conversation", "Question", "beam", "locomo"]


@dataclass
class Question:
    """A question and the turns that answer it."""

    text: str
    evidence: frozenset[str]
    kind: str


@dataclass
class Conversation:
    """A conversation as lines for `memline import`, each with its turn's name in the metadata, and its questions."""

    name: str
    lines: list[dict[str, Any]] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)


def locomo(path: Path, *, captions: bool = True) -> Iterator[Conversation]:
    """The conversations of a LoCoMo file. *captions*: what a shared picture shows is part of its turn's text."""
    for raw in json.loads(path.read_text()):
        found = Conversation(raw["sample_id"])
        talk = raw["conversation"]
        numbers = sorted(int(key.split("_")[1]) for key in talk if re.fullmatch(r"session_\d+", key))
        for number in numbers:
            said_at = datetime.strptime(talk[f"session_{number}_date_time"] + " +0000", "%I:%M %p on %d %B, %Y %z").isoformat()
            for turn in talk[f"session_{number}"]:
                text = turn["text"] + (f" [image: {turn['blip_caption']}]" if captions and turn.get("blip_caption") else "")
                found.lines.append(
                    {
                        "messages": [{"role": "user", "name": turn["speaker"], "content": text}],
                        "timestamp": said_at,
                        "metadata": {"turn": turn["dia_id"]},
                        "key": turn["dia_id"],
                    }
                )
        known = {line["key"] for line in found.lines}
        for asked in raw["qa"]:
            evidence = frozenset(name for given in asked.get("evidence", []) for name in re.findall(r"D\d+:\d+", given)) & known
            if evidence and asked["category"] in (1, 2, 3, 4):
                found.questions.append(Question(asked["question"], evidence, str(asked["category"])))
        yield found


def beam(path: Path) -> Iterator[Conversation]:
    """The one chat of a BEAM file."""
    raw = json.loads(path.read_text())
    found = Conversation(path.stem)
    for batch in raw["chat"]:
        for message in (message for turn in batch["turns"] for message in (turn if isinstance(turn, list) else [turn])):
            anchor = message.get("time_anchor") or batch.get("time_anchor")
            line: dict[str, Any] = {
                "messages": [{"role": message["role"], "content": message["content"]}],
                "metadata": {"turn": str(message["id"])},
                "key": f"m{message['id']}",
            }
            if anchor:
                line["timestamp"] = datetime.strptime(anchor + " +0000", "%B-%d-%Y %z").isoformat()
            found.lines.append(line)
    known = {line["metadata"]["turn"] for line in found.lines}
    for kind, asked in raw["probing_questions"].items():
        for one in asked:
            evidence = frozenset(_ids(one.get("source_chat_ids"))) & known
            if evidence:
                found.questions.append(Question(one["question"], evidence, kind))
    yield found


def _ids(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _ids(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _ids(inner)
    elif isinstance(value, int):
        yield str(value)


def main() -> None:
    """Imports, asks, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["locomo", "beam"])
    parser.add_argument("path", type=Path, nargs="+")
    parser.add_argument("--infer", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--json")
    given = parser.parse_args()
    read = locomo if given.kind == "locomo" else beam
    infer = given.kind == "beam" if given.infer is None else given.infer
    conversations = [conversation for path in given.path for conversation in read(path)]
    with tempfile.TemporaryDirectory() as folder:
        figures = _run(conversations, Path(folder), infer=infer)
    for key, value in figures.items():
        sys.stdout.write(f"{key:<40} {value:>10.2f}\n")
    if given.json:
        Path(given.json).write_text(json.dumps(figures, indent=2) + "\n")


def _run(conversations: list[Conversation], folder: Path, *, infer: bool) -> dict[str, float]:
    turns = 0
    started = time.perf_counter()
    for conversation in conversations:
        file = folder / f"{conversation.name}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in conversation.lines))
        command = [sys.executable, "-m", "memline", "--home", str(folder / "home"), "import", str(file), "--user-id", conversation.name]
        subprocess.run([*command, "--infer" if infer else "--no-infer", "--wait"], check=True, stdout=subprocess.DEVNULL)
        turns += len(conversation.lines)
    took = time.perf_counter() - started
    times: list[float] = []
    scores: dict[str, list[float]] = {}
    memories = 0
    with Memory(settings=load_settings(home=folder / "home")) as memory:
        for conversation in conversations:
            filters = {"user_id": conversation.name}
            memories += len(memory.get_all(filters=filters, top_k=1_000_000)["results"])
            memory.search("warm up", filters=filters)
            for question in conversation.questions:
                before = time.perf_counter()
                results = memory.search(question.text, filters=filters, top_k=50, threshold=0)["results"]
                times.append(time.perf_counter() - before)
                _score(scores, question, [item["metadata"]["turn"] for item in results])
    times.sort()
    return {
        "turns": turns,
        "turns/s (import, start-up included)": turns / took,
        "memories": memories,
        "questions": len(times),
        "search p50, ms": statistics.median(times) * 1000,
        "search p95, ms": times[int(len(times) * 0.95)] * 1000,
        **{name: statistics.mean(values) * 100 for name, values in sorted(scores.items())},
    }


def _score(scores: dict[str, list[float]], question: Question, found: list[str]) -> None:
    ranked = list(dict.fromkeys(found))  # several memories of one turn count once, at the best rank
    for k in (5, 10, 25):
        recall = len(question.evidence & set(ranked[:k])) / len(question.evidence)
        scores.setdefault(f"recall@{k:02}", []).append(recall)
        if k == 10:
            scores.setdefault(f"recall@10 of {question.kind}", []).append(recall)
    gain = sum(1 / math.log2(rank + 2) for rank, turn in enumerate(ranked[:10]) if turn in question.evidence)
    ideal = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(question.evidence))))
    scores.setdefault("nDCG@10", []).append(gain / ideal)


if __name__ == "__main__":
    main()
