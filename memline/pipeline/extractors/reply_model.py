"""An item of a chat model's reply as pydantic reads it: what it may say, and nothing else.

An item says a text, who said it, where, and what it has to do with. Whatever else a model writes (a user, a namespace, metadata, a date) is
not looked at: identity and options come from the caller alone (G11). Of what may be said, a value of another kind counts as not said.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from memline.contracts.fact import Relation
from memline.pipeline.extractors.reply_json import TEXTS, text_in

__all__ = ["HalfCharacter", "ReplyItem", "ReplyLink", "item_of"]

_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SHORT = re.compile(r"[0-9]{1,4}", re.ASCII)


class HalfCharacter(Exception):
    """A text holds half of a surrogate pair: something of it is lost. Caught by `reply`, never seen outside."""


def _number(raw: object) -> int | None:
    """A whole number of at most 4 digits; "3" and 3.0 are 3; else None."""
    if isinstance(raw, str) and _SHORT.fullmatch(raw.strip()):
        return int(raw)
    if isinstance(raw, float) and raw.is_integer():
        raw = int(raw)
    return raw if isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw < 10_000 else None


def _speaker(raw: object) -> str:
    return "assistant" if isinstance(raw, str) and raw.strip().lower() == "assistant" else "user"


def _relation(raw: object) -> Relation:
    try:
        return Relation(raw.strip().lower()) if isinstance(raw, str) else Relation.RELATES
    except ValueError:
        return Relation.RELATES


def _short_id(raw: object) -> str:
    if isinstance(raw, bool) or not isinstance(raw, (str, int)):
        raise ValueError("an id is a string or a number")
    return str(raw).strip()


_Index = Annotated[int | None, BeforeValidator(_number)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, hide_input_in_errors=True)


class ReplyLink(_Strict):
    """A known memory by the short id that it was shown under; an unknown relation is "relates"."""

    id: Annotated[str, BeforeValidator(_short_id)]
    relation: Annotated[Relation, BeforeValidator(_relation)] = Relation.RELATES

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, raw: object) -> object:
        return raw if isinstance(raw, dict) else {"id": raw}


def _links(raw: object) -> list[ReplyLink]:
    found: list[ReplyLink] = []
    for link in raw if isinstance(raw, list) else []:
        try:
            found.append(ReplyLink.model_validate(link))
        except ValidationError:
            continue
    return found


class ReplyItem(_Strict):
    """One memory of a reply."""

    text: str
    attributed_to: Annotated[Literal["user", "assistant"], BeforeValidator(_speaker)] = "user"
    links: Annotated[list[ReplyLink], BeforeValidator(_links)] = Field(
        default_factory=list, validation_alias=AliasChoices("links", "linked_memory_ids")
    )
    message: _Index = None
    #: Of which turn it is, where several were asked of at once.
    turn: _Index = None
    #: Its place in that reply, from 0; set when the reply is divided.
    number: _Index = None


def item_of(raw: Any) -> ReplyItem | None:
    """*raw* as an item; None where it has no text. Raises HalfCharacter."""
    text = text_in(raw)
    if text is None:
        return None
    if _SURROGATE.search(text):
        raise HalfCharacter
    said = {key: value for key, value in raw.items() if key not in TEXTS} if isinstance(raw, dict) else {}
    return ReplyItem.model_validate(said | {"text": text})
