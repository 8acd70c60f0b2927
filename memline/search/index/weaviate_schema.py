"""The two collections of a space in Weaviate: made when they are missing, compared when they are there, and completed.

Ids are kept whole (`field`: `ann.lee`, `Ann_Lee` and `ann` are three people), terms are split at white space only, as our own analysis
has split the text already (`whitespace`). No text is stored. What can't be changed in place, and differs, is refused with what to do; a
collection without an object is made anew instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memline.contracts.errors import ConfigurationError
from memline.contracts.index_object import Kind
from memline.search.index.port import Space
from memline.search.index.weaviate_link import Link, Refused

if TYPE_CHECKING:
    from weaviate import WeaviateClient

__all__ = ["PARTS", "check_prefix", "collection_name", "drop", "drop_tenant", "ensure"]

#: Parts of equal size into which `part` cuts a tenant: a ranking that is deeper than the server's cap is asked for part by part.
PARTS = 16

_PREFIX = re.compile(r"[A-Z][A-Za-z0-9_]{0,63}")


def check_prefix(prefix: str) -> str:
    """*prefix* as the beginning of a collection's name; raises ConfigurationError where Weaviate would not take it, or change it."""
    if not _PREFIX.fullmatch(prefix):
        raise ConfigurationError(
            "MEMLINE_WEAVIATE_PREFIX must begin with a capital letter and have at most 64 letters, digits and underscores, as in Memline."
        )
    return prefix


def collection_name(prefix: str, kind: Kind, space: Space) -> str:
    """`Memline_Memory_1a2b3c4d`: vectors of another embedder lie in collections of their own."""
    return f"{prefix}_{kind.capitalize()}_{space.key}"


def ensure(link: Link, prefix: str, space: Space) -> tuple[str, bool]:
    """Both collections are there and as they should be; the server's version, and whether one of them had to be made.

    Raises ConfigurationError where one is otherwise, ServiceUnavailable where the server does not answer.
    """
    made = False
    with link.rest() as client, link.asking():
        version = str(client.get_meta().get("version", "unknown"))
        for kind in _KINDS:
            made = _ensure_one(client, link, _wanted(collection_name(prefix, kind, space), kind)) or made
    return version, made


def drop(link: Link, prefix: str, space: Space) -> None:
    """Removes both collections and all they hold."""
    with link.rest() as client, link.asking():
        for kind in _KINDS:
            client.collections.delete(collection_name(prefix, kind, space))


def drop_tenant(link: Link, prefix: str, space: Space, tenant: str) -> None:
    """Removes a tenant from both collections, with all it holds; nothing where it is not there."""
    with link.rest() as client, link.asking():
        for kind in _KINDS:
            client.collections.use(collection_name(prefix, kind, space)).tenants.remove([tenant])


_KINDS: tuple[Kind, ...] = ("memory", "entity")


def _wanted(name: str, kind: Kind) -> dict[str, Any]:
    return {
        "class": name,
        "description": "Made by memline from its ledger; changes made here are undone by its reconciler.",
        # A tenant is made by its first write, and woken by whoever needs it: to put it to sleep saves memory and costs no answer.
        "multiTenancyConfig": {"enabled": True, "autoTenantCreation": True, "autoTenantActivation": True},
        "vectorizer": "none",
        "vectorIndexType": "hnsw",
        # Below `flatSearchCutoff` objects in scope every distance is computed and the ranking is exact. Above it the graph is searched,
        # `ef` wide: between 100 and 500, eight times as wide as what is asked for (Weaviate's own choice, written down). Measured for the
        # best 60 of 512 dimensions: the graph costs 5 ms of CPU and finds 99.4 to 99.9 % of them, and 9,000 distances cost as much.
        "vectorIndexConfig": {"distance": "cosine", "flatSearchCutoff": 10_000, "ef": -1},
        "invertedIndexConfig": {"stopwords": {"preset": "none"}, "bm25": {"k1": 1.2, "b": 0.75}},
        "properties": [
            *(_property(name, "text", "field", filterable=True) for name in ("user_id", "agent_id", "run_id")),
            _property("part", "int", filterable=True),
            _property("terms", "text", "whitespace" if kind == "memory" else "field", searchable=kind == "memory"),
            _property("namespace", "text", "field"),
            _property("digest", "text", "field"),
            _property("version", "int"),
        ],
    }


def _property(
    name: str, kind: str, tokenization: str | None = None, *, filterable: bool = False, searchable: bool = False
) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "dataType": [kind], "indexFilterable": filterable, "indexSearchable": searchable}
    return found if tokenization is None else {**found, "tokenization": tokenization}


def _ensure_one(client: WeaviateClient, link: Link, wanted: Mapping[str, Any]) -> bool:
    name = wanted["class"]
    if not client.collections.exists(name):
        return _make(client, link, wanted)
    there = client.collections.export_config(name).to_dict()
    differing = _differences(wanted, there)
    if differing and _is_empty(client, name, there):
        client.collections.delete(name)
        return _make(client, link, wanted)
    if differing:
        raise ConfigurationError(
            f"The collection {name} in Weaviate at {link.place.shown} does not fit: {'; '.join(differing)}. Nothing was changed. Delete it "
            "and run `memline index rebuild`, which fills it from the ledger, or set another MEMLINE_WEAVIATE_PREFIX."
        )
    _complete(client, wanted, there)
    return False


def _make(client: WeaviateClient, link: Link, wanted: Mapping[str, Any]) -> bool:
    try:
        with link.asking():
            client.collections.create_from_dict(dict(wanted))
    except Refused as error:
        if not client.collections.exists(wanted["class"]):  # else another process was faster
            raise ConfigurationError(
                f"The collection {wanted['class']} can't be made in Weaviate at {link.place.shown} ({error.reason})."
            ) from None
    return True


def _complete(client: WeaviateClient, wanted: Mapping[str, Any], there: Mapping[str, Any]) -> None:
    """Adds the properties that an older memline did not have; objects get their values when they are written again."""
    from weaviate.classes.config import DataType, Property, Tokenization

    names = {each["name"] for each in there.get("properties", ())}
    for each in wanted["properties"]:
        if each["name"] in names:
            continue
        client.collections.use(wanted["class"]).config.add_property(
            Property(
                name=each["name"],
                data_type=DataType(each["dataType"][0]),
                index_filterable=each["indexFilterable"],
                index_searchable=each["indexSearchable"],
                tokenization=Tokenization(each["tokenization"]) if "tokenization" in each else None,
            )
        )


def _is_empty(client: WeaviateClient, name: str, there: Mapping[str, Any]) -> bool:
    collection = client.collections.use(name)
    if _at(there, "multiTenancyConfig", "enabled"):
        return not collection.tenants.get()
    return collection.aggregate.over_all(total_count=True).total_count == 0


_COMPARED = (
    ("multiTenancyConfig", "enabled"),
    ("multiTenancyConfig", "autoTenantCreation"),
    ("multiTenancyConfig", "autoTenantActivation"),
    ("vectorizer",),
    ("vectorIndexType",),
    ("invertedIndexConfig", "stopwords", "preset"),
)


def _differences(wanted: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """What differs and matters, in words."""
    found = [
        f"{'.'.join(path)} is {_at(there, *path)}, not {_at(wanted, *path)}"
        for path in _COMPARED
        if _at(wanted, *path) != _at(there, *path)
    ]
    config = there.get("vectorIndexConfig") or {}
    distance = config.get("distance", config.get("distanceMetric"))
    if distance != "cosine":
        found.append(f"the distance is {distance}, not cosine")
    properties = {each["name"]: each for each in there.get("properties", ())}
    for each in wanted["properties"]:
        stored = properties.get(each["name"], each)
        found += [
            f"{key} of {each['name']} is {_shown(stored.get(key))}, not {_shown(each[key])}"
            for key in ("dataType", "tokenization", "indexFilterable", "indexSearchable")
            if key in each and stored.get(key) != each[key]
        ]
    return found


def _at(document: Mapping[str, Any], *path: str) -> Any:
    found: Any = document
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _shown(value: Any) -> str:
    return value[0] if isinstance(value, list) and len(value) == 1 else str(value)
