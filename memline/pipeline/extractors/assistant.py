"""What is worth keeping of an assistant's message: a few short sentences with something in them that the user did not say."""

from __future__ import annotations

import re

from memline.pipeline.extractors.requests_english import is_request
from memline.pipeline.extractors.rules_chinese import is_chinese, is_request_chinese
from memline.pipeline.extractors.sentences import passages, sentences
from memline.pipeline.extractors.spans import bare
from memline.pipeline.extractors.word_list import words

__all__ = ["MAX_KEPT", "worth_keeping"]

#: At most this many sentences of an assistant's message are kept: long answers would drown what the user said.
MAX_KEPT = 3

_LONGEST = 240
_ECHO = 0.7
#: Above this many characters an answer explains: then only what was recommended, done or agreed is kept.
_LONG_ANSWER = 800

_DID = re.compile(
    r"\bi(?:'d| would|'ve)? (?:(?:strongly|highly|also|just|definitely|still) )?(?:recommend|suggest|advise|propose)\b|"
    r"\b(?:recommended|my recommendation|my suggestion|the plan is|we agreed|as agreed)\b|"
    r"\b(?:i|we)(?:'ve| have)? (?:just |also |now |already )?(?:booked|reserved|scheduled|ordered|sent|found|cancel+ed|confirmed|"
    r"arranged|moved|"
    r"called|contacted|put|saved|noted)\b|"
    r"\bi(?:'ve| have) (?:just |also |now |already )?(?:set|added|created|updated|changed|prepared|checked)\b|\bi(?:'ll|"
    r" will) (?:remind|book|call|send)\b|"
    r"\b(?:is|are|has been|have been|was|were) (?:now )?(?:booked|scheduled|confirmed|moved|cancel+ed|reserved|rescheduled)\b",
    re.IGNORECASE,
)
_DID_CHINESE = re.compile(
    r"推荐|建议|已(?:经)?(?:为你|帮你|预订|预约|安排|发送|设置|添加|取消|确认|改)|预订了|帮你(?:订|约|安排|找到)|计划是|我们约定"
)
_NAMED = re.compile(r"(?<=[a-z,;:)] )[A-Z][^\W\d_]+|\d{2,}|[\"“「《]")
_BOILERPLATE = re.compile(
    r"(?:here(?:'s| is| are)|below|above|this (?:code|example|function|script|section|approach|will|should|is|way)|to (?:do|create|"
    r"use|fix|implement|help)|by |in this|the following|"
    r"you(?:'re| are) |if |let me|let's|i hope|feel free|make sure|first|next|then|finally|remember|note|sure|certainly|of course|"
    r"great|it(?:'s| is)|as an ai|i'm sorry|"
    r"i apologi[sz]e|i can(?:not|'t)|i don't)\b|.*:$",
    re.IGNORECASE,
)
_ADVICE = re.compile(
    r"\b(?:you (?:can|could|should|may|might|need|want|will|have to|must)|your)\b|^(?:\w+ing|ensure|use|consider|"
    r"try)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*|[\u4e00-\u9fff]")
_COMMON = words("the a an and or of to in on at for is are was were be it that this with your you i my as by from have has will can so but")


def worth_keeping(text: str, said_before: str) -> list[str]:
    """At most MAX_KEPT sentences of *text*, in order: what was recommended, done or agreed, and named results.

    Lists, headings, code, questions, long sentences and echoes of *said_before* are never kept.
    """
    known = set(_words(said_before))
    ranked: list[tuple[int, int, str]] = []
    prose = [
        sentence for passage in passages(text) if not passage.is_list and not passage.is_heading for sentence in sentences(passage.text)
    ]
    for position, sentence in enumerate(prose):
        if (score := _score(sentence, known, long=len(text) > _LONG_ANSWER)) > 0:
            ranked.append((-score, position, sentence))
    chosen = sorted(ranked)[:MAX_KEPT]
    return [sentence for _, _, sentence in sorted(chosen, key=lambda one: one[1])]


def _score(sentence: str, known: set[str], *, long: bool) -> int:
    """0 for what is not kept, more for what says more."""
    chinese = is_chinese(sentence)
    plain = sentence.replace("’", "'")
    if (
        len(sentence) > _LONGEST
        or "`" in sentence
        or (is_request_chinese(sentence) if chinese and "推荐" not in sentence else is_request(sentence))
    ):
        return 0
    words = _words(plain)
    if not words or sum(word in known for word in words) / len(words) > _ECHO:
        return 0
    did = bool((_DID_CHINESE if chinese else _DID).search(plain))
    if not did and (long or _BOILERPLATE.match(plain) or _ADVICE.search(plain)):
        return 0
    named = bool(_NAMED.search(bare(plain, ' "" ')))
    return 2 * did + named


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text.lower()) if word not in _COMMON]
