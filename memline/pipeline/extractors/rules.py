"""The extractor without a model: it keeps what is stated, word for word, in the third person, with dates behind "yesterday" and its like.

It needs no key, no network and no language model, is deterministic, and runs in time linear in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memline.contracts.errors import ReplyUnreadable
from memline.contracts.fact import Fact
from memline.contracts.message import Message, without_marks
from memline.pipeline.extractors.assistant import worth_keeping
from memline.pipeline.extractors.pleasantries import (
    is_pleasantry_chinese,
    is_pleasantry_english,
    without_opening_chinese,
    without_opening_english,
)
from memline.pipeline.extractors.port import Request
from memline.pipeline.extractors.procedure import steps_of
from memline.pipeline.extractors.quoted import Spans
from memline.pipeline.extractors.relative_dates import with_dates
from memline.pipeline.extractors.requests_english import asked, is_request, said_in_request, without_lead_in
from memline.pipeline.extractors.rules_chinese import (
    clauses_with_subject,
    depends_chinese,
    is_chinese,
    is_request_chinese,
    said_in_request_chinese,
    third_person_chinese,
    without_lead_in_chinese,
)
from memline.pipeline.extractors.rules_english import in_third_person
from memline.pipeline.extractors.said import Said
from memline.pipeline.extractors.sentences import MAX_FACT, passages, pieces, sentences
from memline.pipeline.extractors.slots import slot_of
from memline.pipeline.extractors.spans import bare

__all__ = ["RuleExtractor"]

#: A sentence that hangs on the one before is joined to it up to this length together, in characters.
_MAX_JOINED = 280

_DEPENDS = re.compile(
    r"(?:(?:and|but|so|also|because|plus|then)[, ]+)?(?:it|it's|its|it'll|they|they're|they've|their|them|he|he's|he'll|his|she|she's|"
    r"she'll|her|that|that's|"
    r"this|these|those|there|which|one|both|same)\b",
    re.IGNORECASE,
)
_SPECIFIC = re.compile(r"\d|(?<=[\w,;)] )[A-Z][^\W\d_]|[\"“「《]")
_SHOWS = re.compile(r"here(?:['’]s| is| are)\b.{0,100}:$", re.IGNORECASE | re.DOTALL)
_IMAGE = re.compile(r"^\[image: (.+)\]$", re.MULTILINE)
#: What the write policy leaves of a secret: alone it says nothing.
_MASKED = re.compile(r"\[masked: [a-z ]{1,40}\]")
_CODE = re.compile(r"\d{5}|(?=\S*\d)(?=\S*[A-Za-z])\S{4}")
_ABBREVIATED = re.compile(r"(?:\b[A-Za-z]\.(?:[A-Za-z]\.)*|\b(?:Inc|Ltd|Co|Corp|Jr|Sr|etc|St|Ave|Blvd)\.|\.\.)$")


@dataclass(frozen=True, slots=True)
class _Speaker:
    """Who a message is about: in English, in Chinese, and who "you" is in it."""

    english: str
    chinese: str
    addressee: str | None = None


@dataclass(frozen=True, slots=True)
class _Statement:
    text: str
    slot: str | None
    depends: bool
    chinese: bool
    #: The sentences of the message that it was made of, as they stand there.
    source: tuple[str, ...] = ()


class RuleExtractor:
    """Port `Extractor`: finds facts by rules for English and Chinese; other languages are kept as they are said."""

    @property
    def name(self) -> str:
        return "rules-5"

    @property
    def paid(self) -> bool:
        return False

    @property
    def wants_context(self) -> bool:
        return False

    def ask(self, request: Request) -> str:
        """The facts as JSON: {"memory": [{"text", "attributed_to", "slot", "message", "span"}]}."""
        if request.procedural:
            steps = steps_of(request.messages)
            found_steps = [{"text": steps, "attributed_to": "assistant", "slot": None, "message": None}] if steps else []
            return json.dumps({"memory": found_steps}, ensure_ascii=False)
        seen: set[tuple[str, str]] = set()
        found: list[dict[str, Any]] = []
        for index, message in enumerate(request.messages):
            spans = Spans(message.text)
            for statement in _statements(message, request.messages, of_agent=request.of_agent):
                if (key := (message.role, statement.text)) in seen:
                    continue
                seen.add(key)
                text = with_dates(statement.text, request.said_at)
                said = {"attributed_to": message.role, "slot": statement.slot, "message": index, "span": spans.of(statement.source)}
                found.append({"text": text, **said})
        return json.dumps({"memory": found}, ensure_ascii=False)

    def read(self, reply: str, request: Request) -> Sequence[Fact]:
        """The facts in what `ask` returned; raises ReplyUnreadable for anything else."""
        try:
            return [
                Fact(item["text"], item["attributed_to"], slot=item["slot"], message=item["message"], span=_span(item.get("span")))
                for item in json.loads(reply)["memory"]
            ]
        except (ValueError, TypeError, KeyError) as error:
            raise ReplyUnreadable(
                f"This is no reply of the rule-based extractor ({type(error).__name__}, {len(reply)} characters): extract the turn again.",
                reply=reply,
            ) from None


def _span(raw: Any) -> tuple[int, int] | None:
    return None if raw is None else (int(raw[0]), int(raw[1]))


def _statements(message: Message, turn: Sequence[Message], *, of_agent: bool) -> list[_Statement]:
    """What one message states, in order; *of_agent*: the memories are the agent's own, so what it says of itself counts in full."""
    text = without_marks(message.text)
    shown = [found.group(1) for found in _IMAGE.finditer(text)]
    if shown:
        text = _IMAGE.sub("", text)
    if message.role == "user":
        speaker = _Speaker(message.name or "User", message.name or "用户")
        return [*_of_person(text, speaker), *_of_images(shown, speaker)]
    if message.role != "assistant":
        return []
    names = {other.name for other in turn if other.role == "user"}
    person = names.pop() if len(names) == 1 else None
    speaker = _Speaker(message.name or "Assistant", message.name or "助手", person or "User")
    if (message.name or of_agent) and len(text) <= MAX_FACT:  # a named speaker in a conversation of people, or whose memories they are
        return [*_of_person(text, replace(speaker, addressee=None)), *_of_images(shown, speaker)]
    said_before = " ".join(other.text for other in turn if other.role == "user")
    kept = worth_keeping(text, said_before)
    return [*(statement for sentence in kept for statement in _of_sentence(sentence, speaker)), *_of_images(shown, speaker)]


def _of_images(shown: Sequence[str], speaker: _Speaker) -> Iterator[_Statement]:
    """An image was described by a model: who shared it, and what is on it, in its words."""
    for text in shown:
        chinese = is_chinese(text)
        told = f"{speaker.chinese}分享了一张图片：" if chinese else f"{speaker.english} shares an image: "
        for piece in pieces(text, MAX_FACT):
            yield _Statement(told + piece, None, False, chinese)


def _of_person(text: str, speaker: _Speaker) -> list[_Statement]:
    found: list[_Statement] = []
    for passage in passages(text):
        # A list is one statement; a heading is one if it is a sentence.
        parts = [passage.text] if passage.is_list else sentences(passage.text)
        joinable = False
        dropped = ""
        for sentence in parts:
            statements = list(_of_sentence(sentence, speaker))
            if dropped and statements and statements[0].depends and _tells_of(statements[0], speaker):
                # "Can you book a table at Luigi's? It's our anniversary.": now the request is worth its place.
                found.extend(_asked_whole(dropped, speaker))
                joinable = True
            dropped = "" if statements or not _is_request(sentence) else sentence
            for statement in statements:
                if joinable and statement.depends and _fit(found[-1], statement):
                    _join(found, statement)
                else:
                    found.append(statement)
                joinable = True
            joinable = bool(statements)
    return found


def _is_request(sentence: str) -> bool:
    if is_chinese(sentence):
        return is_request_chinese(sentence) and not is_pleasantry_chinese(sentence)
    return is_request(sentence) and not is_pleasantry_english(sentence)


def _tells_of(statement: _Statement, speaker: _Speaker) -> bool:
    """The statement says something of the speaker, or names something."""
    return speaker.english in statement.text or speaker.chinese in statement.text or bool(_SPECIFIC.search(statement.text))


def _asked_whole(sentence: str, speaker: _Speaker) -> Iterator[_Statement]:
    chinese = is_chinese(sentence)
    for piece in pieces("：" + sentence if chinese else asked(without_opening_english(sentence)), MAX_FACT):
        yield from (replace(statement, source=(sentence,)) for statement in _facts(piece, True, speaker, chinese))


def _fit(before: _Statement, statement: _Statement) -> bool:
    return before.chinese == statement.chinese and len(before.text) + len(statement.text) <= _MAX_JOINED


def _join(found: list[_Statement], statement: _Statement) -> None:
    """Joins a sentence that hangs on the one before ("It's blue.").

    What has a slot may be closed by a newer answer: then a sentence that tells more than the slot's own does not go with it.
    """
    before = found[-1]
    gap = "" if before.chinese else " "
    end = "。" if before.chinese else "."
    head = before.text if before.text.endswith((".", "!", "?", "…", "。", "！", "？", '"', "”")) else before.text + end
    joined = _Statement(head + gap + statement.text, before.slot, False, before.chinese, before.source + statement.source)
    if before.slot is not None and _SPECIFIC.search(statement.text):
        found.append(replace(joined, slot=None))
    else:
        found[-1] = joined


def _of_sentence(sentence: str, speaker: _Speaker) -> Iterator[_Statement]:
    """The statements of one sentence: none for a pleasantry or a bare question."""
    chinese = is_chinese(sentence)
    for said in _said_chinese(sentence) if chinese else _said_english(sentence):
        for piece in pieces(said.text, MAX_FACT):
            yield from (replace(statement, source=(sentence,)) for statement in _facts(piece, said.asked, speaker, chinese))


def _said_english(sentence: str) -> list[Said]:
    if is_pleasantry_english(sentence):
        return []
    rest = without_lead_in(without_opening_english(sentence))
    found = said_in_request(rest) if is_request(rest) else [Said(rest)]
    # what is the whole sentence still was found to be no pleasantry
    return [
        said
        for said in found
        if said.asked or (_says_something(said.text) and (said.text == sentence or not is_pleasantry_english(said.text)))
    ]


def _says_something(text: str) -> bool:
    if not any(character.isalnum() for character in _MASKED.sub("", text)):
        return False
    if _SHOWS.match(text) or (text.endswith(":") and text.count(" ") < 6):
        return False
    found = [word for word in text.split() if any(character.isalnum() for character in word)]
    if len(found) >= 2:
        return any(character.isalpha() for character in text)
    # A word alone is an answer to a question that is not here; a code, an address or a long word speaks for itself.
    return bool(found) and (bare(text, "") != text or len(found[0]) > 20 or bool(_CODE.search(found[0])))


def _said_chinese(sentence: str) -> list[Said]:
    if is_pleasantry_chinese(sentence):
        return []
    rest = without_lead_in_chinese(without_opening_chinese(sentence))
    if is_request_chinese(rest):
        return said_in_request_chinese(rest)
    return [Said(rest)] if len(rest) >= 3 and (rest == sentence or not is_pleasantry_chinese(rest)) else []


def _facts(text: str, asked: bool, speaker: _Speaker, chinese: bool) -> Iterator[_Statement]:
    if chinese:
        text = third_person_chinese(
            text, speaker.chinese, addressee=speaker.addressee and ("用户" if speaker.addressee == "User" else speaker.addressee)
        ).rstrip("。")
        if asked:
            yield _Statement(f"{speaker.chinese}问{text}", None, False, True)
            return
        depends = depends_chinese(text)
        clauses = clauses_with_subject(text, speaker.chinese) if len(text) <= 120 else []
        parts = clauses if any(slot_of(clause) for clause in clauses) else [text]
    else:
        text = text if _ABBREVIATED.search(text) else text.rstrip(".") or text
        if asked:
            plain = in_third_person(text, speaker.english, addressee=speaker.addressee)
            yield _Statement(
                f"{speaker.english} asks{plain}" if plain.startswith(":") else f"{speaker.english} asks {plain}", None, False, False
            )
            return
        depends = bool(_DEPENDS.match(text.replace("’", "'")))
        text = in_third_person(text, speaker.english, addressee=speaker.addressee)
        parts = _clauses_english(text, speaker.english)
    for part in parts:
        yield _Statement(part, slot_of(part), depends, chinese)


def _clauses_english(text: str, speaker: str) -> list[str]:
    """The main clauses of a sentence about *speaker*, taken apart only where one of them fills a slot."""
    if len(text) > 240 or not text.startswith(speaker) or bare(text) != text:
        return [text]
    name = re.escape(speaker)
    parts = re.split(rf"(?:,? and |, but |, )(?={name}(?:'s|’s)? )", text)
    verb = re.compile(r"(?:,? and |, )(?=(?:lives in|works (?:at|for)|has an?|likes|loves|moved to) )")
    apart: list[str] = []
    for part in parts:
        pieces_ = verb.split(part)
        apart.append(pieces_[0])
        apart.extend(f"{speaker} {piece}" for piece in pieces_[1:])
    return apart if len(apart) > 1 and any(slot_of(part) for part in apart) else [text]
