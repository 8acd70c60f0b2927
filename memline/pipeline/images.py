"""Images of a turn: each is described once, by a vision model, and the description is a line of the message's text from then on.

A description is a paid reply: it is stored under the job before anything is made of it, and a retry or a replay never asks for it again.
The URL of an image goes to the model's provider, which fetches it; memline opens no URL. An image that the provider refuses is marked as
unread, counted, and does not take the text of its turn with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from memline.contracts import failpoints
from memline.contracts.errors import ConfigurationError, ProviderRefused
from memline.contracts.message import Image, Message, cut, without_marks
from memline.language.ports import ChatModel
from memline.language.usage import asked
from memline.ledger.counters import count
from memline.ledger.jobs import Job
from memline.ledger.results import keep_replies, load_replies
from memline.ledger.schema import jobs
from memline.pipeline.extractors.rules_files import sections_of
from memline.pipeline.paid import paid_call
from memline.pipeline.parts import Parts

__all__ = ["MAX_DESCRIPTION", "UNREAD", "ImageReader", "described", "has_images", "keep_descriptions", "stored_descriptions"]

#: Most characters of a description.
MAX_DESCRIPTION = 2000

#: What stands for an image that the provider refused.
UNREAD = "[image]"

#: Name of the descriptions among the replies that are stored for a job, numbered as the images of its turn are.
_STAGE = "image"


class ImageReader:
    """Describes images by a chat model that sees. Thread-safe where the model is."""

    def __init__(self, chat: ChatModel) -> None:
        self._chat = chat

    @property
    def model(self) -> str:
        return self._chat.model

    def describe(self, image: Image, said: str) -> str:
        """What is on *image*, sent with the text *said*, in one line of at most `MAX_DESCRIPTION` characters.

        Raises ProviderUnavailable where another try may help, ProviderRefused where it won't, also where nothing was said of it.
        """
        shown: dict[str, object] = {"type": "image_url", "image_url": image.to_json()}
        rules = sections_of("vision.md")["image"] + "\n" + json.dumps(cut(said, MAX_DESCRIPTION), ensure_ascii=False)
        reply = asked(self._chat, [{"role": "user", "content": [{"type": "text", "text": rules}, shown]}])
        text = reply.text.replace("\x00", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        text = " ".join(text.split())
        if not text:
            raise ProviderRefused(f"The vision model {self.model} described nothing ({reply.finish}): leave the image out.")
        return cut(text, MAX_DESCRIPTION)


def has_images(job: Job) -> bool:
    """Something in its turn is still to be described."""
    return any(message.images for message in job.messages)


def stored_descriptions(connection: Connection, found: Sequence[Job]) -> dict[str, dict[int, str]]:
    """By job, what is known of its images already: the number of the image in its turn -> its description."""
    wanted = [job.id for job in found if has_images(job)]
    if not wanted:
        return {}
    replies = load_replies(connection, _STAGE, wanted)
    return {job_id: {number: text for body in bodies for number, text in [json.loads(body)]} for job_id, bodies in replies.items()}


def described(parts: Parts, job: Job, known: Mapping[int, str]) -> Job:
    """*job* with every image of its turn described, in its messages' texts; asks for those that are not *known* yet.

    Raises ConfigurationError where no vision model is set here, what the model raises, and its refusal of an image
    where the turn has no text beside.
    """
    if not has_images(job):
        return job
    found = dict(known)
    number = 0
    for message in job.messages:
        for image in message.images:
            if number not in found:
                _ask(parts, job, number, image, message.text, found)
            number += 1
    return replace(job, messages=_with_descriptions(job.messages, found))


def keep_descriptions(tx: Connection, found: Sequence[Job]) -> None:
    """Puts the descriptions in place of the images in the turns of *found*: later stages, and the window, read text only."""
    known = stored_descriptions(tx, found)
    unread = 0
    for job in found:
        if has_images(job):
            messages = _with_descriptions(job.messages, known.get(job.id, {}))
            unread += sum(len(message.images) for message in job.messages) - len(known.get(job.id, {}))
            tx.execute(sa.update(jobs).where(jobs.c.no == job.no).values(messages=[message.to_json() for message in messages]))
    count(tx, "images_unread", unread)


def _ask(parts: Parts, job: Job, number: int, image: Image, said: str, found: dict[int, str]) -> None:
    if parts.vision is None:
        raise ConfigurationError(
            "The turn has an image, and this worker has no MEMLINE_VISION_MODEL: set it here as where the turn was handed over."
        )
    try:
        failpoints.hit("extract.before_ask")
        with paid_call(parts, "vision", [job], model=parts.vision.model) as paid:
            text = parts.vision.describe(image, said)
            failpoints.hit("extract.after_ask")
    except ProviderRefused as error:
        # a key or a model that is refused is no word on this image: the job fails visibly, and a replay sees it
        if not error.of_content or not any(without_marks(message.text).strip() for message in job.messages):
            raise
        return
    found[number] = text
    with parts.ledger.write() as tx:
        keep_replies(tx, _STAGE, {job.id: (number, json.dumps([number, text], ensure_ascii=False))}, now=parts.clock.now())
        paid.settle(tx)
    failpoints.hit("extract.after_store")


def _with_descriptions(messages: Sequence[Message], found: Mapping[int, str]) -> tuple[Message, ...]:
    number = 0
    shown: list[Message] = []
    for message in messages:
        lines = [message.text] if message.text else []
        for _ in message.images:
            lines.append(f"[image: {found[number]}]" if number in found else UNREAD)
            number += 1
        shown.append(replace(message, text="\n".join(lines), images=()))
    return tuple(shown)
