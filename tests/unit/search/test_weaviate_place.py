"""Where a Weaviate is, as the settings say it."""

from __future__ import annotations

import pytest

from memline.contracts.errors import ConfigurationError
from memline.search.index.port import Space
from memline.search.index.weaviate_place import place_of
from memline.search.index.weaviate_schema import check_prefix, collection_name
from memline.settings import load_settings


@pytest.mark.parametrize(
    ("url", "grpc", "shown", "target", "grpc_secure"),
    [
        ("http://localhost:8080", None, "http://localhost:8080", "localhost:50051", False),
        ("https://weaviate.example", None, "https://weaviate.example:443", "weaviate.example:50051", True),
        ("http://10.0.0.1", "50052", "http://10.0.0.1:80", "10.0.0.1:50052", False),
        ("https://a.example/", "grpcs://grpc-a.example", "https://a.example:443", "grpc-a.example:443", True),
        ("https://a.example:8443", "grpc://inside:50051", "https://a.example:8443", "inside:50051", False),
        ("http://[::1]:8080", "grpc://[::1]:50055", "http://[::1]:8080", "[::1]:50055", False),
    ],
)
def test_a_place_is_read_from_one_url_or_two(url: str, grpc: str | None, shown: str, target: str, grpc_secure: bool) -> None:
    place = place_of(url, grpc, "s3cret")
    assert (place.shown, place.target, place.grpc_secure) == (shown, target, grpc_secure)
    assert "s3cret" not in repr(place)


@pytest.mark.parametrize(
    ("url", "grpc", "told"),
    [
        ("localhost:8080", None, "MEMLINE_WEAVIATE_URL is no URL"),
        ("ftp://host", None, "MEMLINE_WEAVIATE_URL is no URL"),
        ("http://", None, "MEMLINE_WEAVIATE_URL is no URL"),
        ("http://host:port", None, "MEMLINE_WEAVIATE_URL is no URL"),
        ("http://[::1", None, "MEMLINE_WEAVIATE_URL is no URL"),
        ("http://ann:hush@host:8080", None, "MEMLINE_WEAVIATE_API_KEY"),
        ("http://host:8080/v1", None, "has a path"),
        ("http://host:8080", "host:50051", "MEMLINE_WEAVIATE_GRPC_URL is no URL"),
        ("http://host:8080", "grpc://ann:hush@host:50051", "MEMLINE_WEAVIATE_API_KEY"),
        ("http://host:8080", "0", "is no port"),
        ("http://host:8080", "70000", "is no port"),
        ("http://host:8080", "8080", "the same port"),
    ],
)
def test_what_names_no_place_is_refused_and_no_password_is_shown(url: str, grpc: str | None, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as raised:
        place_of(url, grpc)
    assert "hush" not in str(raised.value)


def test_white_space_around_a_key_is_no_part_of_it() -> None:
    assert place_of("http://host:8080", None, "hush\n").api_key == "hush"
    assert place_of("http://host:8080", None, " ").api_key is None


@pytest.mark.parametrize("key", ["hu\nsh", "hush\u00e9", "hush\x00"])
def test_a_key_that_no_header_takes_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigurationError, match="MEMLINE_WEAVIATE_API_KEY") as raised:
        place_of("http://host:8080", None, key)
    assert "hu" not in str(raised.value)


def test_each_space_and_kind_has_a_collection_of_its_own() -> None:
    one, other, longer = Space("a", 8), Space("b", 8), Space("a", 16)
    names = {collection_name("Memline", kind, space) for kind in ("memory", "entity") for space in (one, other, longer)}  # type: ignore[arg-type]
    assert len(names) == 6
    assert collection_name("Memline", "memory", one) == f"Memline_Memory_{one.key}"


@pytest.mark.parametrize("prefix", ["", "memline", "Mem-line", "9", "Mem line", "M" * 65])
def test_a_prefix_that_a_collection_can_not_have_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigurationError, match="MEMLINE_WEAVIATE_PREFIX"):
        check_prefix(prefix)


def test_the_index_is_weaviate_where_it_has_a_url_unless_the_settings_say_otherwise() -> None:
    assert load_settings().index_backend() == "embedded"
    assert load_settings(weaviate_url="http://localhost:8080").index_backend() == "weaviate"
    assert load_settings(weaviate_url="http://localhost:8080", index="embedded").index_backend() == "embedded"
    assert load_settings(index="my.package:Index").index_backend() == "my.package:Index"
