"""What search finds and how long it takes, on data that the user names: `make bench-search DATA=FOLDER`.

    python -m bench.search_bench [FOLDER] [--sizes 1k,50k] [--total 1M] [--index embedded|weaviate] [--embedder NAME]… [--json FILE]

FOLDER holds `locomo/*.json` and `beam/*.json` as published. Every turn (LoCoMo) or message (BEAM) is a verbatim memory, as
`infer=False` keeps it, put straight into a ledger of the bench's own; questions are LoCoMo's of categories 1 to 4 and BEAM's with
evidence. Nothing is fitted here but for the line that says so. An embedder is `local`, `openai` (MEMLINE_OPENAI_*), `simulator`
(memline's own server of the protocol, which hashes words and is no model) or an import path; by default the local one and an
OpenAI-compatible one, for which the simulator stands in where no key is set. Signals are looked at by setting a weight to 0, legs by
letting one nominate nothing. Speed is measured on memories made from the turns (without FOLDER: from made sentences), with the time of
the question's analysis and embedding in it. mem0 is asked the same where it can be imported. What was not run is named, with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from bench.bulk import made_texts, material_of
from bench.mem0_beside import NotThere, measure_mem0
from bench.remembered import RememberedAnalyser, RememberedEmbedder
from bench.search_data import Talk, forget, load_beam, load_locomo
from bench.search_quality import figures, left_out, measure_talks, without_legs, without_signals
from bench.search_speed import measure_speed, time_searches
from bench.search_table import table
from memline import __version__
from memline.cli.simulator import Simulator
from memline.compose import House
from memline.contracts.filters import parse
from memline.language.analysis import TextAnalyser
from memline.language.ports import Embedder
from memline.search.namespace_weights import weights_to_json
from memline.search.weights import DEFAULT
from memline.settings import Settings, load_settings

__all__ = ["main"]

#: Base texts of the made memories, and questions that are timed.
BASE_TEXTS, TIMED = 4_000, 200
SEED = 7


class Bench:
    """One run: what it measured, and what it did not run."""

    def __init__(self, options: argparse.Namespace, folder: Path, stack: ExitStack) -> None:
        self.options, self.folder, self._stack = options, folder, stack
        self.not_run: dict[str, str] = {}
        self.report: dict[str, Any] = {}
        self._analyser = TextAnalyser(True)
        self.remembered = RememberedAnalyser(self._analyser, self._cache("analyses"))
        self._simulator: Simulator | None = None
        self._number = uuid4().hex[:8]

    def run(self) -> dict[str, Any]:
        """Everything that the options ask for."""
        options = self.options
        embedders = {name: self._embedder(name) for name in options.embedder or self._default_embedders()}
        first = next(iter(embedders.values()))
        talks = self._talks()
        self.report |= self._about(embedders)
        self.report["not_run"] = self.not_run
        if not options.no_quality:
            quality = self.report["quality"] = []
            for name, embedder in embedders.items():
                for data, some in talks.items():
                    if some:
                        quality.append(self._quality(data, some, name, embedder, full=embedder is first))
                        self._save()
        if options.sizes:
            self.report["speed"] = self._speed(talks, first)
            self._save()
        self.report["mem0"] = self._mem0(talks.get("locomo", []), first)
        self._save()
        return self.report

    def _save(self) -> None:
        """What there is so far: a whole run takes long."""
        self.remembered.save()
        if self.options.json is not None:
            self.options.json.write_text(json.dumps(self.report, indent=2, ensure_ascii=False) + "\n")

    def _about(self, embedders: dict[str, Embedder]) -> dict[str, Any]:
        with self._house(first := next(iter(embedders.values())), "about") as (house, _):
            house.index.namespaces()  # a server says its version when it is asked something
            index = house.index.name
        return {
            "memline": __version__,
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "machine": f"{platform.machine()}, {os.cpu_count()} CPUs",
            "ledger": "SQLite",
            "index": index,
            "legs": ["vector", "words (BM25)", "entity"],
            "analyser": self.remembered.name,
            "embedders": {name: f"{embedder.model}, {embedder.dimension} dimensions" for name, embedder in embedders.items()},
            "speed_embedder": first.model,
            "weights": {"source": "default", **weights_to_json(DEFAULT)},
        }

    def _talks(self) -> dict[str, list[Talk]]:
        if self.options.data is None:
            self.not_run["quality"] = "no folder with data was named (DATA=…)"
            return {}
        found = {"locomo": load_locomo(self.options.data, captions=self.options.captions), "beam": load_beam(self.options.data)}
        for data, talks in found.items():
            if not talks:
                self.not_run[f"quality of {data}"] = f"no {data}/*.json lies in the folder that was named"
        most = self.options.conversations
        return {data: talks[:most] if most else talks for data, talks in found.items()}

    def _quality(self, data: str, talks: list[Talk], name: str, embedder: Embedder, *, full: bool) -> dict[str, Any]:
        self._tell(f"{data} with {name}: {sum(len(talk.questions) for talk in talks)} questions")
        remembered = RememberedEmbedder(embedder, self._cache(f"vectors-{embedder.model}-{embedder.dimension}"))
        ablate = full and not self.options.no_ablations
        settings = self._settings(f"{data}-{name}")
        measured = measure_talks(talks, settings, self.remembered, remembered, legs=ablate)
        remembered.save()
        self.remembered.save()
        kinds = sorted({each.question.kind for each in measured.answered})
        found: dict[str, Any] = {
            "data": data,
            "kept_as": "verbatim turns (infer=False)" + (", with captions" if data == "locomo" and self.options.captions else ""),
            "embedder": embedder.model,
            "conversations": len(talks),
            "memories": sum(len(talk.said) for talk in talks),
            "questions": len(measured.answered),
            "candidates": round(sum(len(each.wanted) for each in measured.asked) / len(measured.asked), 1),
            "evidence_among_candidates": round(
                100 * sum(each.wanted.sum() / each.evidence for each in measured.asked) / len(measured.asked), 2
            ),
            "published_weights": figures(measured.answered),
            "by_kind": {kind: figures([each for each in measured.answered if each.question.kind == kind]) for kind in kinds},
        }
        if missing := sorted({part for each in measured.answered for part in each.missing}):
            self.not_run[f"{data} with {name}, in part"] = f"{', '.join(missing)} did not answer every question"
        if ablate:
            found["without_signal"] = without_signals(measured.asked)
            found["without_leg"] = without_legs(measured)
        if full and data == "locomo" and len(talks) > 1 and not self.options.no_fit:
            self._tell("fitting weights, each conversation left out once")
            found["left_out_weights"] = left_out(measured.asked)
        return found

    def _speed(self, talks: dict[str, list[Talk]], embedder: Embedder) -> dict[str, Any]:
        turns = [said.text for talk in talks.get("locomo", []) for said in talk.said][:BASE_TEXTS]
        questions = [question.text for talk in talks.get("locomo", []) for question in talk.questions]
        texts, asked = (turns, questions[:: max(1, len(questions) // TIMED)][:TIMED]) if questions else (made_texts(BASE_TEXTS, SEED), [])
        asked = asked or [" ".join(text.split()[:5]) + "?" for text in made_texts(TIMED, SEED + 1)]
        remembered = RememberedEmbedder(embedder, self._cache(f"vectors-{embedder.model}-{embedder.dimension}"))
        self._tell(f"speed: analysing and embedding {len(texts)} texts")
        material = material_of(texts, self.remembered, remembered)
        with self._house(embedder, "speed") as (house, settings):
            measured = measure_speed(self.options.sizes, self.options.total or 0, settings, house, material, asked, self._tell)
        return {"made_from": "turns of the data" if questions else "made sentences", "questions": len(asked), "seed": SEED, **measured}

    def _mem0(self, talks: list[Talk], embedder: Embedder) -> dict[str, Any] | None:
        some = talks[: self.options.mem0_conversations]
        if not some:
            self.not_run["mem0"] = "no LoCoMo conversation was named to compare on"
            return None
        self._tell(f"mem0 on {', '.join(talk.name for talk in some)}")
        try:
            theirs = {
                "mem0": measure_mem0(some, embedder, self.folder / "mem0", speakers=False),
                "mem0_with_speakers": measure_mem0(some, embedder, self.folder / "mem0-speakers", speakers=True),
            }
        except NotThere as error:
            self.not_run["mem0"] = str(error)
            return None
        settings = self._settings("beside-mem0")
        ours = measure_talks(some, settings, self.remembered, embedder, legs=False, keep=True)
        with self._house(embedder, "beside-mem0") as (house, _):
            wanted = parse({"user_id": some[0].name})
            timed = time_searches(
                lambda text: house.searcher.search(settings.namespace, text, wanted, top_k=10, threshold=0),
                [each.text for each in some[0].questions],
            )
        beside = {"embedder": embedder.model, "questions": len(ours.answered), **figures(ours.answered), "search": timed}
        return {"conversations": [talk.name for talk in some], **theirs, "memline": beside}

    # Parts

    def _default_embedders(self) -> list[str]:
        if load_settings().openai_api_key is not None:
            return ["local", "openai"]
        self.not_run["openai"] = "no MEMLINE_OPENAI_API_KEY: the simulator of the protocol stands in, which hashes words and is no model"
        return ["local", "simulator"]

    def _embedder(self, name: str) -> Embedder:
        if name == "simulator":
            from memline.language.embedders.openai import OpenAIEmbedder

            self._simulator = self._simulator or self._stack.enter_context(Simulator(record=False))
            return OpenAIEmbedder("simulator (hashed words)", 1536, api_key="none", base_url=self._simulator.url, send_dimension=True)
        house = House(load_settings(embedder=name, ledger_url=f"sqlite:///{self.folder / 'none.db'}"))
        return house.embedder

    def _settings(self, name: str) -> Settings:
        """Settings of a house of the bench's own: nothing is read from or written to where the environment points, but for the index."""
        home = self.folder / "".join(c if c.isalnum() or c == "-" else "_" for c in name)
        home.mkdir(exist_ok=True)
        ledger = f"sqlite:///{home / 'ledger.db'}"
        return load_settings(
            home=home,
            ledger_url=ledger,
            redis_url=None,
            index=self.options.index,
            extractor="rules",
            namespace=f"bench-{name}-{self._number}"[:200],
        )

    @contextmanager
    def _house(self, embedder: Embedder, name: str) -> Iterator[tuple[House, Settings]]:
        settings = self._settings(name)
        house = House(settings, embedder=embedder)
        try:
            yield house, settings
        finally:
            forget(house.index, settings.namespace)
            house.close(0)

    def _cache(self, name: str) -> Path | None:
        if self.options.cache is None:
            return None
        self.options.cache.mkdir(parents=True, exist_ok=True)
        return Path(self.options.cache) / ("".join(c if c.isalnum() or c in "-." else "_" for c in name) + ".pickle")

    def _tell(self, what: str) -> None:
        print(what, file=sys.stderr, flush=True)


def main() -> None:
    """Runs the bench, prints the table, writes the JSON."""
    options = _options()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memline-bench-", dir=options.scratch)))
        report = Bench(options, folder, stack).run()
    sys.stdout.write(table(report))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="folder with locomo/ and beam/")
    parser.add_argument("--embedder", action="append", metavar="NAME", help="may be repeated; the first one is measured in full")
    parser.add_argument("--index", default="embedded", help="embedded, weaviate (MEMLINE_WEAVIATE_URL), or an import path")
    parser.add_argument("--sizes", type=_sizes, default="1k,50k", metavar="N,N", help="memories of the scopes that are timed; 0 for none")
    parser.add_argument("--total", type=_size, metavar="N", help="fill the namespace up to this and measure again, such as 1M")
    parser.add_argument("--conversations", type=int, metavar="N", help="of each data set only the first N")
    parser.add_argument("--captions", action="store_true", help="what a shared picture shows is part of its turn (LoCoMo)")
    parser.add_argument("--mem0-conversations", type=int, default=1, metavar="N", help="LoCoMo conversations that mem0 is asked, too")
    parser.add_argument("--no-quality", action="store_true")
    parser.add_argument("--no-ablations", action="store_true")
    parser.add_argument("--no-fit", action="store_true", help="no leave-one-out figure")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="keeps analyses and vectors there")
    parser.add_argument("--scratch", type=Path, metavar="FOLDER", help="where the bench's ledgers lie; a million memories take 8 GB")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def _size(text: str) -> int:
    units = {"k": 1_000, "m": 1_000_000}
    unit = units.get(text[-1:].lower())
    return int(float(text[:-1]) * unit) if unit else int(text)


def _sizes(text: str) -> list[int]:
    return [size for part in text.split(",") if (size := _size(part.strip()))]


if __name__ == "__main__":
    main()
