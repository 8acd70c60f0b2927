"""The signals of a candidate: what speaks for it and against it, each between 0 and 1, found without a look at other results.

What was said next to a verbatim memory is its context: a turn of talk is half of what it means. An extracted fact is made to stand
by itself, so its neighbourhood is the fact alone.

`measure` is a pure function of arrays. The same candidate has the same signals whatever else was nominated.

| signal | what it says |
|---|---|
| meaning | cosine of question and memory |
| meaning_run | cosine of the question, its speakers' names left out, and the mean of the memory and what the two turns before it left |
| meaning_near | best such cosine among the memories next to it, one turn each side; of a fact its own |
| words | BM25 of the memory, x / (x + 10) |
| coverage | share of the question's words in it, by idf |
| words_near | share of the question's words in it or within three neighbours each side, by idf; an assistant's texts are nobody's context |
| answers | BM25 of the memory right before it, as a share of the most it could be, if that is a question: this may be the answer |
| code | share of the question's codes and identifiers in it |
| entity | best match of an entity of the question, less the more memories name it |
| same_actor | the question names one speaker, and it is the speaker's, or it has none and names the speaker; of several the first, half |
| other_actor | the question names one speaker, and it is another's (penalty); of several the first, half |
| assistant | an assistant said it, and the question does not ask for what an assistant said (penalty) |
| standing | the question asks for help, and this says how somebody always wants something, or what is preferred |
| question | the memory is itself a question (penalty) |
| short | 10 / (10 + number of terms) (penalty); of a fact nothing |
| long | number of terms / (number of terms + 150): much text holds many words by chance (penalty) |
| time_words | the question asks when, and it holds words of time; half where it asks how many, and this holds a number |
| same_date | the question names a month, and it is from that month (and year, if one is named): 1/3; a day: up to 1, the nearer the more |
| superseded | a newer memory took its place (penalty) |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memline.language.blas import one_blas_thread
from memline.ledger.postings import K1, B

__all__ = ["BY_WORDS", "MEANINGS", "SATURATION", "SIGNALS", "Arrays", "idf", "measure"]

SIGNALS = (
    "meaning",
    "meaning_run",
    "meaning_near",
    "words",
    "coverage",
    "words_near",
    "answers",
    "code",
    "entity",
    "same_actor",
    "other_actor",
    "assistant",
    "standing",
    "question",
    "short",
    "long",
    "time_words",
    "same_date",
    "superseded",
)

#: Signals that need the question's vector.
MEANINGS = frozenset({"meaning", "meaning_run", "meaning_near"})
#: Signals that need postings.
BY_WORDS = frozenset({"words", "coverage", "words_near", "answers", "code"})

#: The BM25, and the number of terms, that count half.
SATURATION, LENGTHY = 10.0, 150.0
#: Memories that every owner is credited with, and how many real ones it takes to believe what share of them holds a term: in a scope
#: of five memories each word would seem common, and every word that is not there infinitely rare.
PRIOR, BELIEF = 100.0, 10.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Arrays:
    """A question (t terms) and n memories in the order of lane, turn and place in the turn, neighbours among them."""

    #: (n, t): how often each memory holds each term.
    counts: Floats
    #: (n,): terms of each memory; at least 1.
    lengths: Floats
    #: (t,): what each term is worth; 0 for one that does not count.
    worth: Floats
    #: (t,): the term is a code.
    codes: NDArray[np.bool_]
    #: Mean length of a memory of the owners.
    mean_length: float
    #: (n,) and (n,): first and, exclusive, last row of what lies within three turns and three memories; the row among them.
    low: NDArray[np.intp]
    high: NDArray[np.intp]
    #: (n,): it stands by itself: its neighbourhood is itself.
    alone: NDArray[np.bool_]
    #: (n,): number of the turn in its lane.
    places: NDArray[np.int64]
    #: (n, d) unit vectors, and the question's (d,); None without an embedder.
    vectors: NDArray[np.float32] | None
    query_vector: NDArray[np.float32] | None
    #: Of the question without its speakers' names; None where it names none.
    topic_vector: NDArray[np.float32] | None
    #: (n,), 0 to 1 each, as the table above says.
    entity: Floats
    same_actor: Floats
    other_actor: Floats
    assistant: Floats
    standing: Floats
    question: Floats
    time_words: Floats
    same_date: Floats
    superseded: Floats
    #: (n,): it may be another's context: no assistant said it.
    context: NDArray[np.bool_]


def idf(frequency: NDArray[np.float64], live: int) -> Floats:
    """ln(1 + (N - n + 0.5) / (n + 0.5)), with `PRIOR` memories more than there are, of which some hold the term, too.

    A term that no memory holds is worth what one that a single memory holds is.
    """
    frequency = np.maximum(frequency, 1.0)
    there = np.maximum(float(live), frequency)
    held = frequency + PRIOR * frequency / (there + BELIEF)
    return np.asarray(np.log(1 + (there + PRIOR - held + 0.5) / (held + 0.5)), np.float64)


def measure(arrays: Arrays) -> Floats:
    """(n, number of `SIGNALS`), each from 0 to 1."""
    count = len(arrays.lengths)
    columns: dict[str, Floats] = {
        "entity": arrays.entity,
        "same_actor": arrays.same_actor,
        "other_actor": arrays.other_actor,
        "assistant": arrays.assistant,
        "standing": arrays.standing,
        "question": arrays.question,
        "short": np.where(arrays.alone, 0.0, SATURATION / (SATURATION + arrays.lengths)),
        "long": arrays.lengths / (arrays.lengths + LENGTHY),
        "time_words": arrays.time_words,
        "same_date": arrays.same_date,
        "superseded": arrays.superseded,
    }
    columns |= _by_words(arrays) | _by_meaning(arrays)
    zeros = np.zeros(count)
    return np.clip(np.column_stack([columns.get(name, zeros) for name in SIGNALS]), 0.0, 1.0) if count else np.zeros((0, len(SIGNALS)))


def _by_words(arrays: Arrays) -> dict[str, Floats]:
    total = float(arrays.worth.sum())
    if total <= 0:
        return {}
    most = total * (K1 + 1)
    mean = arrays.mean_length or 1.0
    raw = _bm25(arrays.counts, arrays.lengths, mean) @ arrays.worth
    before = np.concatenate([[0.0], (raw / most * arrays.question)[:-1]]) if len(raw) else raw
    columns = {
        "words": raw / (raw + SATURATION),
        "coverage": (arrays.counts > 0) @ arrays.worth / total,
        "words_near": _held_near(arrays) @ arrays.worth / total,
        "answers": np.where(_follows(arrays), before, 0.0),
    }
    if arrays.codes.any():
        columns["code"] = (arrays.counts[:, arrays.codes] > 0).mean(axis=1)
    return columns


def _bm25(counts: Floats, lengths: Floats, mean: float) -> Floats:
    saturation = K1 * (1 - B + B * lengths / mean)
    return np.asarray(counts * (K1 + 1) / (counts + saturation[:, None]), np.float64)


def _held_near(arrays: Arrays) -> NDArray[np.bool_]:
    """(n, t): the memory holds the term, or one of its neighbourhood does that may be context."""
    held = arrays.counts > 0
    counted = np.zeros((len(held) + 1, held.shape[1]), np.int32)
    np.cumsum(held & arrays.context[:, None], axis=0, out=counted[1:])
    return np.asarray(held | (counted[arrays.high] > counted[arrays.low]), np.bool_)


def _follows(arrays: Arrays) -> NDArray[np.bool_]:
    """The row before lies in the same lane, in the same turn or the one before."""
    rows = np.arange(len(arrays.places))
    return (arrays.low < rows) & (arrays.places - np.roll(arrays.places, 1) <= 1)


def _by_meaning(arrays: Arrays) -> dict[str, Floats]:
    if arrays.vectors is None or arrays.query_vector is None or len(arrays.vectors) == 0:
        return {}
    with one_blas_thread():
        raw = (arrays.vectors @ arrays.query_vector).astype(np.float64)
        about = raw if arrays.topic_vector is None else (arrays.vectors @ arrays.topic_vector).astype(np.float64)
    cosine = np.clip(about, 0.0, 1.0)
    rows = np.arange(len(cosine))
    best = np.zeros(len(cosine))
    for step in range(1, 4):
        for other in (rows - step, rows + step):
            inside = (other >= arrays.low) & (other < arrays.high)
            inside[inside] = np.abs(arrays.places[other[inside]] - arrays.places[inside]) <= 1
            best[inside] = np.maximum(best[inside], cosine[other[inside]])
    return {
        "meaning": np.clip(raw, 0.0, 1.0),
        "meaning_run": _run(arrays, arrays.vectors, about),
        "meaning_near": np.where(arrays.alone, cosine, best),
    }


def _run(arrays: Arrays, vectors: NDArray[np.float32], raw: Floats) -> Floats:
    """Cosine of the question and the sum of each vector and those before it, at most three and at most two turns back.

    The sum is never made: its length follows from the products of the vectors in it.
    """
    rows = np.arange(len(raw))
    members = [np.ones(len(raw), np.bool_)]
    for step in range(1, 4):
        inside = rows - step >= arrays.low
        inside[inside] = arrays.places[inside] - arrays.places[rows[inside] - step] <= 2
        members.append(inside)
    products = [np.zeros(len(raw)) for _ in range(4)]  # products[step][i]: of vector i and the one *step* before it
    for step in range(min(4, len(raw))):
        products[step][step:] = np.einsum("ij,ij->i", vectors[step:], vectors[: len(vectors) - step])
    total, square = np.zeros(len(raw)), np.zeros(len(raw))
    for step, inside in enumerate(members):
        total[inside] += raw[rows[inside] - step]
        square[inside] += products[0][rows[inside] - step]
        for earlier in range(step):  # step and earlier steps are all inside: the places only rise
            square[inside] += 2 * products[step - earlier][rows[inside] - earlier]
    return np.asarray(total / np.sqrt(np.maximum(square, 1e-9)), np.float64)
