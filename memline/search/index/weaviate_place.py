"""Where a Weaviate is: read from the settings, shown without secrets."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from memline.contracts.errors import ConfigurationError

__all__ = ["EMBEDDED", "Place", "place_of"]

#: The value of MEMLINE_WEAVIATE_URL that has the client start a server of its own.
EMBEDDED = "embedded"

#: Where Weaviate listens for gRPC unless it is told otherwise.
_GRPC_PORT = 50051
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Place:
    """Hosts, ports and TLS of both protocols, and the key."""

    host: str
    port: int
    secure: bool
    grpc_host: str
    grpc_port: int
    grpc_secure: bool
    api_key: str | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        """The place as messages name it; it holds no secret."""
        return f"{'https' if self.secure else 'http'}://{_in_url(self.host)}:{self.port}"

    @property
    def target(self) -> str:
        """The address of gRPC."""
        return f"{_in_url(self.grpc_host)}:{self.grpc_port}"


def place_of(url: str, grpc: str | None = None, api_key: str | None = None) -> Place:
    """The place that MEMLINE_WEAVIATE_URL (*url*) and MEMLINE_WEAVIATE_GRPC_URL (*grpc*, a URL or a port) name.

    Without *grpc*: the same host, port 50051, TLS as in *url*. White space around the key, such as the line break at the end of a file,
    is no part of it. Raises ConfigurationError, which shows nothing of a key, or of a URL that may hold a password.
    """
    api_key = _key(api_key)
    http = _split(url, "MEMLINE_WEAVIATE_URL", "http://host:8080 or https://host", schemes=("http", "https"))
    if http.path.strip("/") or http.query or http.fragment:
        raise ConfigurationError("MEMLINE_WEAVIATE_URL has a path: the client knows none. Name the host and the port only.")
    host, secure = http.hostname or "", http.scheme == "https"
    port = http.port or _PORTS[http.scheme]
    if grpc is None or grpc.isdecimal():
        grpc_port = _GRPC_PORT if grpc is None else int(grpc)
        if not 0 < grpc_port < 65536:
            raise ConfigurationError(f"MEMLINE_WEAVIATE_GRPC_URL ({grpc_port}) is no port: use 1 to 65535, or grpc://host:port.")
        found = Place(host, port, secure, host, grpc_port, secure, api_key)
    else:
        other = _split(grpc, "MEMLINE_WEAVIATE_GRPC_URL", "grpc://host:50051, grpcs://host:443, or a port", schemes=("grpc", "grpcs"))
        grpc_secure = other.scheme == "grpcs"
        found = Place(host, port, secure, other.hostname or "", other.port or (443 if grpc_secure else _GRPC_PORT), grpc_secure, api_key)
    if (found.host, found.port) == (found.grpc_host, found.grpc_port):
        raise ConfigurationError(
            f"MEMLINE_WEAVIATE_URL and MEMLINE_WEAVIATE_GRPC_URL name the same port ({found.port}): Weaviate listens for gRPC on another, "
            "50051 by default."
        )
    return found


def _split(url: str, setting: str, shape: str, *, schemes: tuple[str, ...]) -> SplitResult:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket that is not closed
        fits = False
    if not fits:
        raise ConfigurationError(f"{setting} is no URL of a Weaviate: use {shape}.")
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(f"{setting} holds a user or a password, which Weaviate does not take: set MEMLINE_WEAVIATE_API_KEY.")
    return parts


def _key(api_key: str | None) -> str | None:
    """The key as a header takes it; else the client's own error would quote it."""
    key = (api_key or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError("MEMLINE_WEAVIATE_API_KEY holds a character that no key has (a line break, or none of ASCII): correct it.")
    return key or None


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host
