"""A text as the rest of this room sees it: words with offsets, whatever read them.

spaCy gives lemma, part of speech and labels; the plain reader below gives words alone. Terms and entities are made from these and know
neither. Chinese, Japanese and Korean are not words here: they stand in runs of their own (`CJK_RUN`).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

__all__ = [
    "CJK_RUN",
    "HAN_RUN",
    "Reading",
    "Word",
    "composed",
    "has_cjk",
    "narrow",
    "read_plain",
    "split_words",
    "starts_sentence",
    "without_cjk",
]

_HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_KANA_HANGUL = "\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u1100-\u11ff\uac00-\ud7a3"
#: A stretch in one kind of script: Han (segmented into words), or kana and Hangul (cut in pairs).
HAN_RUN = re.compile(f"[{_HAN}]+")
CJK_RUN = re.compile(f"[{_HAN}]+|[{_KANA_HANGUL}]+")
_CJK_STRETCH = re.compile(f"[{_HAN}{_KANA_HANGUL}]+")

_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20}
_WIDTH_OF_LETTERS = {code: plain for code, plain in _WIDTH.items() if chr(plain).isalnum()}
#: What stands between words: space, ASCII and general punctuation, CJK punctuation. All else is kept together, combining marks too.
_WORD = re.compile(
    r"\d+\.\d+(?![\w.])|[^\s!-&(-/:-@\[-`{-~\u00a1-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u2000-\u2018\u201a-\u206f\u3000-\u303f'’]+(?:['’][^\W\d_]+)*"
)
_SENTENCE_END = re.compile(r"[.!?:;。\n•]|(?:^|\n)\s*[-*]")
_TITLE = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Prof|St)$")
_CLITIC = re.compile(r"['’](?:s|m|d|re|ve|ll)$", re.IGNORECASE)
#: "don't", "can't": an auxiliary and a negation, stop words both.
_NEGATED = re.compile(r"n['’]t$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Word:
    """A token of a text. `pos` and `label` are spaCy's (universal part of speech, entity label), empty where nothing knows."""

    text: str
    start: int
    end: int
    #: What is indexed: the base form, lower-cased; the lower-cased word where no lemma is known.
    lemma: str
    #: The first word of a sentence, or after a colon, where a capital says nothing.
    first: bool
    pos: str = ""
    label: str = ""
    #: The model's dictionary knows it as a word of the language.
    common: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """A text and its words in order; `names` and `chunks` are spaCy's entities (start, end, label) and noun chunks (start, end)."""

    text: str
    words: tuple[Word, ...]
    names: tuple[tuple[int, int, str], ...] = ()
    chunks: tuple[tuple[int, int], ...] = ()


def composed(text: str) -> str:
    """*text* in composed form (NFC), full-width letters and digits made ASCII, full-width punctuation as it is: how names are shown."""
    return unicodedata.normalize("NFC", text).translate(_WIDTH_OF_LETTERS)


def narrow(text: str) -> str:
    """*text* as it is read: `composed`, with full-width punctuation made ASCII too; both have the same length."""
    return composed(text).translate(_WIDTH)


def has_cjk(text: str) -> bool:
    return _CJK_STRETCH.search(text) is not None


def without_cjk(text: str) -> str:
    """*text* with each CJK stretch blanked out behind an ellipsis: same length, and what stood at its two sides stays apart."""
    return _CJK_STRETCH.sub(lambda found: "…" + " " * (len(found.group()) - 1), text)


def starts_sentence(text: str, previous_end: int, start: int) -> bool:
    """Nothing, or the end of a sentence, stands between the word before and this one."""
    if previous_end and text[previous_end:start] == ". " and _TITLE.search(text, max(0, previous_end - 5), previous_end):
        return False
    return previous_end == 0 or _SENTENCE_END.search(text, previous_end, start) is not None


def read_plain(text: str) -> Reading:
    """The words of *text* (narrow) without a model: lower-cased instead of lemmas, no part of speech, no labels."""
    bare = without_cjk(text)
    words: list[Word] = []
    end = 0
    for found in _WORD.finditer(bare):
        token = _CLITIC.sub("", found.group())
        start = found.start()
        if any(character.isalnum() for character in token) and not _NEGATED.search(token):
            words.append(Word(token, start, start + len(token), token.lower(), starts_sentence(text, end, start)))
        end = found.end()
    return Reading(text, tuple(words))


def split_words(token: str) -> list[str]:
    """A token of spaCy's as the plain reader cuts it ("he/she", "u.s."), so that both find the same parts; a clitic stays whole."""
    if token.isalnum() or token[0] in "'’" or token == "n't":
        return [token.replace("’", "'")]
    return [part for part in _WORD.findall(token) if any(character.isalnum() for character in part)]
