"""The policy at work on what a caller gave: messages, metadata, a text. Each place has a path, which is all that an error tells of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memline.contracts.errors import PolicyRefused
from memline.contracts.message import Image, Message
from memline.contracts.metrics import WRITES_REFUSED
from memline.contracts.policy import Action, Kind
from memline.producer.policy.found import Found, is_stand_in
from memline.producer.policy.masking import find, masked, placeholder

__all__ = ["Hits", "Screen"]

#: How often something of a kind was masked.
Hits = Counter[Kind]

#: A key of metadata that says of a short value what it is, whatever it looks like.
_SECRET_NAME = re.compile(
    r"(?:.*(?:[_.\- ]|(?-i:(?<=[a-z0-9])(?=[A-Z]))))?(?:(?P<password>password|passwd|pwd|passphrase|passcode)"
    r"|(?P<key>secret|api[_.\- ]?key|apikey|access[_.\- ]?(?:key|token)|auth[_.\- ]?token|client[_.\- ]?secret|secret[_.\- ]?key"
    r"|private[_.\- ]?key|bearer|refresh[_.\- ]?token))",
    re.IGNORECASE,
)
_USERINFO = re.compile(r"(https?://)[^\s/?#@]{1,400}@", re.IGNORECASE)
#: Parameters that a pre-signed address names its key by: no secret, and without it nobody can fetch the image.
_SIGNER = re.compile(r"(?:X-Amz-Credential|AWSAccessKeyId|GoogleAccessId)=[^&]*", re.IGNORECASE)


@dataclass(slots=True)
class Screen:
    """Looks through what enters one namespace, and counts. For one call; not safe for threads.

    Every method returns what may be stored, and raises PolicyRefused where a kind is refused.
    """

    actions: Mapping[Kind, Action]
    hits: Hits = field(default_factory=Counter)
    _kinds: frozenset[Kind] = frozenset()

    def __post_init__(self) -> None:
        self._kinds = frozenset(kind for kind, action in self.actions.items() if action is not Action.KEEP)

    def text(self, path: str, text: str) -> str:
        """A text, masked."""
        found = self._found(path, text)
        return masked(text, found) if found else text

    def optional(self, path: str, text: str | None) -> str | None:
        return None if text is None else self.text(path, text)

    def messages(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Messages with their names and the addresses of their images."""
        return tuple(self._message(f"messages[{index}]", message) for index, message in enumerate(messages))

    def metadata(self, metadata: Mapping[str, Any], path: str = "metadata") -> dict[str, Any]:
        """Metadata: its keys, its strings however deep, and whole numbers that are as long as a card's."""
        kept: dict[str, Any] = {}
        for key, value in metadata.items():
            name = masked_name = self.text(f"a key of {path}", key)
            while name in kept or (name is not key and name in metadata):  # two keys that were masked alike
                name = f"{masked_name} {len(kept) + 1}"
            kept[name] = self._value(f"{path}.{name[:64]}", value, key)
        return kept

    def report(self, before: Mapping[str, int] | None = None) -> dict[str, int]:
        """What was masked, by kind, with what was *before*."""
        total = Counter(before or {})
        total.update({kind.value: number for kind, number in self.hits.items()})
        return dict(sorted(total.items()))

    def _found(self, path: str, text: str) -> list[Found]:
        found = find(text, self._kinds) if self._kinds else []
        if found:
            self._count(path, [each.kind for each in found])
        return found

    def _count(self, path: str, kinds: Iterable[Kind]) -> None:
        for kind in kinds:
            if self.actions[kind] is Action.REFUSE:
                WRITES_REFUSED.add(1, kind=kind.value)
                raise PolicyRefused(
                    f"{path} holds what the write policy refuses ({kind.label}): nothing was changed. Take it out, or have "
                    f"MEMLINE_WRITE_POLICY say {kind.value}=mask.",
                    kind=kind.value,
                    path=path,
                )
            self.hits[kind] += 1

    def _message(self, path: str, message: Message) -> Message:
        text = self.text(f"{path}.content", message.text)
        name = self.optional(f"{path}.name", message.name)
        images = tuple(self._image(f"{path}.content.image_url", image) for image in message.images)
        if text is message.text and name is message.name and images == message.images:
            return message
        return Message(message.role, text, name, images)

    def _image(self, path: str, image: Image) -> Image:
        """An image's address without user and password, and without keys that have a provider's shape. A data: URL is the image itself."""
        if image.url[:5].lower() == "data:":
            return image
        url = image.url
        if Kind.PASSWORD in self._kinds and _USERINFO.match(url):
            self._count(path, [Kind.PASSWORD])
            url = _USERINFO.sub(r"\1", url, count=1)
        plain = _SIGNER.sub(lambda match: " " * len(match.group()), url)
        found = [each for each in find(plain, self._kinds & {Kind.API_KEY, Kind.PRIVATE_KEY}) if each.kind is Kind.API_KEY]
        self._count(path, [each.kind for each in found])
        for each in reversed(found):
            url = f"{url[: each.start]}masked{url[each.end :]}"
        return image if url == image.url else replace(image, url=url)

    def _value(self, path: str, value: Any, key: str) -> Any:
        if isinstance(value, str):
            return self._named(path, value, key)
        if isinstance(value, Mapping):
            return self.metadata(value, path)
        if isinstance(value, list):
            return [self._value(f"{path}[{index}]", item, key) for index, item in enumerate(value)]
        if isinstance(value, int) and not isinstance(value, bool):
            text = str(value) if value < 10**40 else ""  # longer than any number of a card
            kept = self._named(path, text, key) if value >= 1000 else text
            return value if kept == text else kept
        return value

    def _named(self, path: str, value: str, key: str) -> str:
        """A string of metadata; under a name such as "password" the whole of it is one."""
        text = self.text(path, value)
        name = _SECRET_NAME.fullmatch(key)
        if text is not value or name is None or not value.strip() or is_stand_in(value):
            return text
        kind = Kind.PASSWORD if name["password"] else Kind.API_KEY
        if kind not in self._kinds:
            return text
        self._count(path, [kind])
        return placeholder(kind)
