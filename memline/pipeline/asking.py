"""What the extractor finds in one job's turn: from replies that are stored, and from new ones.

A long turn is asked in windows, one after the other, each with replies of its own. A reply that can't be read is asked for again, with a
word of what was wrong; one that breaks off is asked for with half as much text, where there is enough to halve. A paid reply is stored
before it is read, under the number of the ask, with the memories that were shown (short ids mean nothing without them) and the place of its
window.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memline.contracts import failpoints, tracing
from memline.contracts.content_hash import content_hash
from memline.contracts.errors import ReplyUnreadable
from memline.contracts.fact import Fact
from memline.language.ports import Vectors
from memline.ledger.jobs import Job
from memline.ledger.results import keep_replies
from memline.pipeline.contexts import plain_request, with_context
from memline.pipeline.extractors.long_turns import START, Place, between, end_of, tokens_between, window_end
from memline.pipeline.extractors.port import Known, Request, UnitExtractor
from memline.pipeline.paid import paid_call
from memline.pipeline.parts import Parts

__all__ = ["STAGE", "Extraction", "StoredReply", "extracted"]

#: Name of the stage's replies in the ledger.
STAGE = "extract"

#: A window of fewer tokens is not halved: a reply that breaks off there does so for another reason.
_LEAST_WINDOW = 500


@dataclass(frozen=True, slots=True)
class Extraction:
    """The facts of a turn, who found them (None: nobody was asked), and what there is to tell of it."""

    facts: Sequence[Fact]
    by: str | None = None
    windows: int = 1
    #: Of one of several turns that were asked of together: the texts of its facts by the short ids that later turns link to.
    named: Mapping[str, str] = field(default_factory=dict)
    #: Links to memories that were not shown, facts that only repeat memories which the application had pasted in, and facts of the
    #: assistant beyond what a turn may have.
    links_dropped: int = 0
    pasted: int = 0
    #: Blocks of such memories that nobody was shown.
    blanked: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply with what is needed to read it again."""

    reply: str
    known: tuple[Known, ...] = ()
    #: Who was asked; None: a memline that did not note it.
    by: str | None = None
    start: Place = START
    #: None: the end of the turn.
    end: Place | None = None

    def to_body(self) -> str:
        body: dict[str, Any] = {"reply": self.reply, "known": [[known.short_id, known.memory_id] for known in self.known], "by": self.by}
        if self.end is not None:
            body |= {"start": [self.start.message, self.start.offset], "end": [self.end.message, self.end.offset]}
        return json.dumps(body, ensure_ascii=False)

    @classmethod
    def of(cls, body: str) -> StoredReply:
        raw = json.loads(body)
        known = tuple(Known(short_id, memory_id, "") for short_id, memory_id in raw["known"])
        start, end = (Place(*raw["start"]), Place(*raw["end"])) if "end" in raw else (START, None)
        return cls(raw["reply"], known, raw.get("by"), start, end)


@dataclass(slots=True)
class _Asking:
    parts: Parts
    job: Job
    plain: Request
    #: Of what was said in the whole turn, where it was embedded already.
    vectors: Vectors | None
    replies: list[StoredReply]
    by: str | None = None
    links_dropped: int = 0
    named: dict[str, str] = field(default_factory=dict)


def extracted(parts: Parts, job: Job, bodies: Sequence[str], vectors: Vectors | None) -> Extraction:
    """What the extractor finds in the turn of *job*; *bodies*: the replies that are stored for it.

    For a readable reply it is asked `RetryPolicy.asks` times in all, a window; a job that failed so and is replayed asks as often anew.
    Raises ReplyUnreadable, and what `ask` raises.
    """
    work = _Asking(parts, job, plain_request(job), vectors, [StoredReply.of(body) for body in bodies])
    whole = end_of(work.plain.messages)
    found: list[Sequence[Fact]] = []
    place = START
    while True:
        facts, place = _window(work, place, whole)
        found.append(facts)
        if place >= whole:
            break
    return Extraction(_merged(found), work.by, len(found), work.named, work.links_dropped)


def _window(work: _Asking, start: Place, whole: Place) -> tuple[Sequence[Fact], Place]:
    """The facts of the window that begins at *start*, and where it ends."""
    parts = work.parts
    failed = cut = 0
    unreadable = ReplyUnreadable()
    for stored in work.replies:
        if stored.start != start:
            continue
        end = stored.end or whole
        try:
            return _read(work, stored, end), end
        except ReplyUnreadable as error:
            unreadable, failed, cut = error, failed + 1, cut + error.cut
    asks = parts.retry.asks
    for _ in range(failed, (failed // asks + 1) * asks):
        end = _end(work, start, whole, cut)
        asked = _ask(work, start, end, (unreadable.why or "it can't be read") if failed else None)
        try:
            return _read(work, asked, end), end
        except ReplyUnreadable as error:
            unreadable, failed, cut = error, failed + 1, cut + error.cut
    raise unreadable


def _end(work: _Asking, start: Place, whole: Place, cut: int) -> Place:
    extractor = work.parts.extractor
    if not isinstance(extractor, UnitExtractor):
        return whole
    messages = work.plain.messages
    budget = extractor.window_tokens
    if start == START and not cut and tokens_between(messages, START, whole) <= budget:
        return whole
    if cut:
        first = tokens_between(messages, start, window_end(messages, start, budget))
        budget = min(budget, max(_LEAST_WINDOW, first >> cut))
    return window_end(messages, start, budget)


def _ask(work: _Asking, start: Place, end: Place, corrects: str | None) -> StoredReply:
    """A new reply, stored where it was paid for."""
    parts, job = work.parts, work.job
    plain = between(work.plain, start, end)
    request = replace(with_context(parts, job, work.vectors if plain is work.plain else None, plain), corrects=corrects)
    number = len(work.replies)
    failpoints.hit("extract.before_ask")
    with paid_call(parts, "extract", [job], model=parts.extractor.name, paid=parts.extractor.paid) as paid:
        with tracing.span_of(job.id, "memline ask model", ask=number):
            reply = parts.extractor.ask(request)
        failpoints.hit("extract.after_ask")
    whole = plain is work.plain
    stored = StoredReply(reply, request.known, parts.extractor.name, start, None if whole else end)
    if parts.extractor.paid:
        with parts.ledger.write() as tx:
            keep_replies(tx, STAGE, {job.id: (number, stored.to_body())}, now=parts.clock.now())
            paid.settle(tx)
        failpoints.hit("extract.after_store")
    work.replies.append(stored)
    return stored


def _read(work: _Asking, stored: StoredReply, end: Place) -> Sequence[Fact]:
    """The facts of a reply, read as it was asked: the short ids in it are those of the memories that were shown then."""
    request = replace(between(work.plain, stored.start, end), known=stored.known)
    facts = work.parts.extractor.read(stored.reply, request)
    links_dropped = getattr(facts, "links_dropped", 0)
    work.named |= getattr(facts, "named", {})
    if stored.start.offset:  # a place in the window is one further on in the turn
        facts = [_moved(fact, stored.start) for fact in facts]
    work.by = stored.by or work.by
    work.links_dropped += links_dropped
    return facts


def _moved(fact: Fact, start: Place) -> Fact:
    if fact.span is None or fact.message != start.message:
        return fact
    return replace(fact, span=(fact.span[0] + start.offset, fact.span[1] + start.offset))


def _merged(windows: Sequence[Sequence[Fact]]) -> list[Fact]:
    """The facts of all windows: each text once, and of the answers to one question that stand in different windows the last."""
    if len(windows) == 1:
        return list(windows[0])
    last = {fact.slot: number for number, facts in enumerate(windows) for fact in facts if fact.slot is not None}
    found: dict[str, Fact] = {}
    for number, facts in enumerate(windows):
        for fact in facts:
            if fact.slot is None or last[fact.slot] == number:
                found.setdefault(content_hash(fact.text), fact)
    return list(found.values())
