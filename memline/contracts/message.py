"""A message of a turn: any that OpenAI's chat API takes, checked and in one form.

What of it can be read is text: text parts, refusals, the transcript of an assistant's audio. An image stays beside the text until a
vision model has described it. Audio and files can't be read: where they stood, the text has a mark of one line (`[audio]`,
`[file: report.pdf]`), so that nothing is left out unseen. Tool calls and ids of tools are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from memline.contracts.errors import InvalidMessage, TurnTooLarge

__all__ = [
    "CONTEXT",
    "CONTEXT_LIMIT",
    "ROLES",
    "SOURCES",
    "Image",
    "Message",
    "check_messages",
    "check_text",
    "cut",
    "without_marks",
]

#: Roles that OpenAI's chat API knows.
ROLES = ("system", "developer", "user", "assistant", "tool", "function")

#: Roles whose messages are a source of memories. Those of `CONTEXT` are shown for understanding, the rest (system and developer, the
#: application's own orders) is neither.
SOURCES = ("user", "assistant")
CONTEXT = ("tool", "function")

#: Most characters of a message of `CONTEXT` that a model is shown and the window keeps: tools answer with whole pages.
CONTEXT_LIMIT = 2000

_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
_IMAGE_PARTS = ("image_url", "input_image")
#: What can't be read, and the mark that stands for it.
_UNREAD_PARTS = {"input_audio": "audio", "audio": "audio", "file": "file", "input_file": "file"}

_MARK = re.compile(r"\[(?:audio|image|file|file: [^\n]*)\]")
_IMAGE_URL = re.compile(r"https?://\S+|data:image/[\w.+-]+;base64,[A-Za-z0-9+/=_\s-]+", re.IGNORECASE)
_DETAIL = re.compile(r"[a-z]{1,16}")
_LONGEST_FILE_NAME = 100


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is still to be described: an http(s) or data: URL, which the provider of the vision model fetches, never memline."""

    url: str
    #: OpenAI's "low", "high" or "auto".
    detail: str | None = None

    def to_json(self) -> dict[str, str]:
        found = {"url": self.url}
        return found if self.detail is None else found | {"detail": self.detail}


@dataclass(frozen=True, slots=True)
class Message:
    """One message: who said it in which role, its text, and the images in it that are not described yet."""

    role: str
    text: str
    name: str | None = None
    images: tuple[Image, ...] = ()

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"role": self.role, "text": self.text}
        if self.name is not None:
            found["name"] = self.name
        if self.images:
            found["images"] = [image.to_json() for image in self.images]
        return found

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Message:
        images = tuple(Image(image["url"], image.get("detail")) for image in raw.get("images", ()))
        return cls(raw["role"], raw["text"], raw.get("name"), images)


def check_text(path: str, text: str) -> str:
    """*text* if every store can keep it: no NUL, no lone surrogate."""
    if "\x00" in text:
        raise InvalidMessage(
            f"{path} contains a NUL character (at {text.index(chr(0))} of {len(text)}), which no store can keep: remove it."
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidMessage(
            f"{path} contains a lone surrogate (at {error.start} of {len(text)}): decode the text with errors='replace' first."
        ) from None
    return text


def cut(text: str, limit: int) -> str:
    """*text* in at most *limit* characters, with an ellipsis where something is missing."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def without_marks(text: str) -> str:
    """*text* without the lines that stand for audio and files: what somebody said."""
    return text if "[" not in text else "\n".join(line for line in text.split("\n") if not _MARK.fullmatch(line))


def check_messages(messages: object, *, max_bytes: int, vision: bool = False) -> tuple[Message, ...]:
    """A string, a message or a list of messages as a tuple of `Message`. *vision*: there is a model that describes images.

    A message is a mapping in the shape of OpenAI's chat API, or an object with `model_dump()` that makes one, such as its client returns.
    Raises InvalidMessage with the path of what is wrong, TurnTooLarge above *max_bytes* of UTF-8 text, image URLs counted.
    """
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    elif isinstance(messages, Mapping) or _dump_of(messages) is not None:
        messages = [messages]
    elif not isinstance(messages, Sequence) or isinstance(messages, (bytes, bytearray)):
        raise InvalidMessage(f"messages must be a string, a message or a list of messages, not {type(messages).__name__}.")
    found = tuple(_check_message(f"messages[{index}]", message, vision) for index, message in enumerate(messages))
    size = sum(_bytes(message.text) + _bytes(message.name or "") + sum(_bytes(image.url) for image in message.images) for message in found)
    if size > max_bytes:
        raise TurnTooLarge(f"The turn has {size} bytes of text, MEMLINE_MAX_TURN allows {max_bytes}: hand it over in parts.")
    if not any(message.images or without_marks(message.text).strip() for message in found):
        raise InvalidMessage("messages hold no text: there is nothing to remember. Give at least one message with content.")
    return found


def _bytes(text: str) -> int:
    return len(text.encode("utf-8"))


def _dump_of(raw: object) -> Callable[[], object] | None:
    dump = getattr(type(raw), "model_dump", None)
    return cast("Callable[[], object]", raw.model_dump) if callable(dump) else None  # type: ignore[attr-defined]


def _check_message(path: str, raw: object, vision: bool) -> Message:
    if (dump := _dump_of(raw)) is not None:
        raw = dump()
    if not isinstance(raw, Mapping):
        raise InvalidMessage(f"{path} must be a message with role and content, not {type(raw).__name__}.")
    role = raw.get("role")
    if role not in ROLES:
        shown = f"{type(role).__name__} of length {len(role)}" if isinstance(role, str) else type(role).__name__
        raise InvalidMessage(f"{path}.role must be one of {', '.join(ROLES)}; it is {'missing' if role is None else 'a ' + shown}.")
    name = raw.get("name")
    if name is not None and not isinstance(name, str):
        raise InvalidMessage(f"{path}.name must be a string, not {type(name).__name__}.")
    texts, images = _content(f"{path}.content", raw.get("content"), cast(str, role), vision)
    if not any(texts):
        texts = [text for text in (_said_otherwise(path, raw),) if text]
    text = check_text(f"{path}.content", "\n".join(texts))
    return Message(cast(str, role), text, check_text(f"{path}.name", name) if name else None, images)


def _said_otherwise(path: str, raw: Mapping[str, Any]) -> str:
    """What an assistant's message without content says: its refusal, or the transcript of its audio."""
    audio = raw.get("audio")
    transcript = audio.get("transcript") if isinstance(audio, Mapping) else None
    for key, text in (("refusal", raw.get("refusal")), ("audio.transcript", transcript)):
        if isinstance(text, str) and text:
            return check_text(f"{path}.{key}", text)
    return "[audio]" if isinstance(audio, Mapping) else ""


def _content(path: str, content: object, role: str, vision: bool) -> tuple[list[str], tuple[Image, ...]]:
    """The texts in a message's content, in order, and its images."""
    if content is None:  # an assistant message that only calls tools
        return [], ()
    if isinstance(content, str):
        return [content], ()
    parts = [(path, content)]  # one part alone, as mem0's users write an image
    if not isinstance(content, Mapping):
        if not isinstance(content, Sequence) or isinstance(content, (bytes, bytearray)):
            raise InvalidMessage(f"{path} must be a string or a list of parts, not {type(content).__name__}.")
        parts = [(f"{path}[{index}]", part) for index, part in enumerate(content)]
    texts: list[str] = []
    images: list[Image] = []
    for where, part in parts:
        found = _part(where, part, role, vision)
        if isinstance(found, Image):
            images.append(found)
        else:
            texts.append(found)
    return texts, tuple(images)


def _part(path: str, part: object, role: str, vision: bool) -> str | Image:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise InvalidMessage(f"{path} must be a content part, not {type(part).__name__}.")
    kind = part.get("type")
    if not isinstance(kind, str):
        raise InvalidMessage(f"{path}.type must be a string, not {type(kind).__name__}.")
    if kind in _TEXT_PARTS:
        key = "refusal" if kind == "refusal" else "text"
        text = part.get(key)
        if not isinstance(text, str):
            raise InvalidMessage(f"{path}.{key} must be a string, not {type(text).__name__}.")
        return text
    if kind in _IMAGE_PARTS:
        if role not in SOURCES:
            return "[image]"  # context is not worth a model's call
        if not vision:
            raise InvalidMessage(f"{path} is an image: set MEMLINE_VISION_MODEL to a model that describes it, or leave it out.")
        return _image(path, part)
    if kind in _UNREAD_PARTS:
        return _unread(_UNREAD_PARTS[kind], part)
    raise InvalidMessage(
        f"{path}.type (a string of length {len(kind)}) is no part of a message that OpenAI's chat API knows: "
        "text, refusal, image_url, input_audio and file are."
    )


def _image(path: str, part: Mapping[str, Any]) -> Image:
    raw = part.get("image_url")
    if isinstance(raw, str):  # the shape of OpenAI's responses
        raw = {"url": raw, "detail": part.get("detail")}
    url = raw.get("url") if isinstance(raw, Mapping) else None
    if not isinstance(raw, Mapping) or not isinstance(url, str):
        raise InvalidMessage(f"{path}.image_url.url must be a string, not {type(url).__name__}: an http(s) or data:image URL.")
    check_text(f"{path}.image_url.url", url)
    if not _IMAGE_URL.fullmatch(url):
        raise InvalidMessage(f"{path}.image_url.url (a string of length {len(url)}) must be an http(s) URL, or data:image/…;base64,….")
    detail = raw.get("detail")
    if detail is not None and not (isinstance(detail, str) and _DETAIL.fullmatch(detail)):
        raise InvalidMessage(f"{path}.image_url.detail must be low, high or auto.")
    return Image(url, detail)


def _unread(mark: str, part: Mapping[str, Any]) -> str:
    inner = part.get("file")
    name = inner.get("filename") if isinstance(inner, Mapping) else part.get("filename")
    shown = cut(" ".join(name.split()), _LONGEST_FILE_NAME) if isinstance(name, str) else ""
    return f"[file: {shown}]" if mark == "file" and shown else f"[{mark}]"
