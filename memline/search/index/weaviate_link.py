"""The line to a Weaviate: one gRPC channel a process, made at the first call and anew after a fork; REST only for a look at the schema.

Reads and writes are calls of Weaviate's own gRPC protocol, with the messages that its client ships. The client's query methods are not
used: they wait up to a minute for a server that is away, know no deadline of one call, and log the objects that a batch could not store.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memline.contracts.errors import ConfigurationError, MemlineError, MissingPackage, ServiceUnavailable
from memline.language.lazy import ForkLock
from memline.search.index.weaviate_fork import GATE
from memline.search.index.weaviate_place import Place

if TYPE_CHECKING:
    import grpc
    from weaviate import WeaviateClient

__all__ = ["EmbeddedServer", "Link", "Refused", "client_version", "first_line"]

#: Milliseconds: a channel whose server was away tries it again so often at least; gRPC's own pause grows to two minutes.
_RECONNECT = (200, 200, 1000)

#: Where the client's own server listens.
_EMBEDDED_PORT, _EMBEDDED_GRPC_PORT = 8079, 50050

#: Lines of a parent process: nothing closes them here, a close would tell the server that the parent has gone.
_of_the_parent: list[object] = []


class Refused(Exception):
    """The server answered, with an error: *code* (of gRPC, or of HTTP) and its first line."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


class Link:
    """Calls to the server at *place*. Thread-safe; a forked child has a channel of its own.

    *timeout*: seconds of a REST call. Raises ServiceUnavailable where the server does not answer in time or refuses the key, and, when it
    is made, MissingPackage without the package weaviate-client.
    """

    def __init__(self, place: Place, *, timeout: float) -> None:
        _import_client()  # a second of work: here, and not within the time of the first search
        self.place = place
        self._timeout = timeout
        self._lock = ForkLock()
        self._channel: _Channel | None = None

    def call(self, method: str, request: Any, *, timeout: float) -> Any:
        """The reply to one request. Raises Refused for an error that the server answered with."""
        import grpc

        channel = self._enter()
        try:
            with GATE.passing():
                return getattr(channel.stub, method)(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._told(error, timeout, channel) from None
        except ValueError:  # the channel was closed meanwhile
            raise self._closed() from None
        finally:
            channel.leave()

    def call_all(self, method: str, requests: Sequence[Any], *, timeout: float) -> list[Any]:
        """The replies to several requests that are on their way at once; an error of any of them is raised.

        In threads, and not by gRPC's own futures: those leave a thread inside gRPC for a moment, in which a fork would spoil the child.
        """
        if len(requests) == 1:
            return [self.call(method, requests[0], timeout=timeout)]
        with ThreadPoolExecutor(len(requests), thread_name_prefix="memline-weaviate") as pool:
            return list(pool.map(lambda request: self.call(method, request, timeout=timeout), requests))

    @contextmanager
    def rest(self) -> Iterator[WeaviateClient]:
        """The client, for what only REST can do; closed afterwards, also where it could not connect."""
        client = self._make_client()
        try:
            with self._named_errors():
                client.connect()
            yield client
        finally:
            client.close()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Around what is asked of the client: its errors become Refused or ServiceUnavailable."""
        with self._named_errors():
            yield

    def close(self) -> None:
        """Ends calls that are on their way; the next call opens it anew."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None and channel.pid == os.getpid():
            channel.close()

    @property
    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return () if self.place.api_key is None else (("authorization", f"Bearer {self.place.api_key}"),)

    def _enter(self) -> _Channel:
        with self._lock:
            channel = self._channel
            if channel is not None and channel.pid != os.getpid():
                _of_the_parent.append(channel)
                channel = None
            if channel is None:
                channel = self._channel = _Channel(self.place)
            channel.enter()
            return channel

    def _told(self, error: grpc.RpcError, timeout: float, channel: _Channel) -> Exception:
        import grpc

        code, details = error.code(), first_line(error.details() or "")
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            # A connection that was cut without a word answers no more, and nobody says so: the next call takes a new one.
            with self._lock:
                if self._channel is channel:
                    self._channel = None
            channel.retire()
            return ServiceUnavailable(f"Weaviate at {self.place.shown} (gRPC at {self.place.target}) did not answer within {timeout:g} s.")
        if code is grpc.StatusCode.UNAVAILABLE:
            return ServiceUnavailable(
                f"Weaviate at {self.place.shown} is not reached by gRPC at {self.place.target} ({details}): start it, or correct "
                "MEMLINE_WEAVIATE_URL and MEMLINE_WEAVIATE_GRPC_URL."
            )
        if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
            return self._wrong_key()
        if code is grpc.StatusCode.CANCELLED:
            return self._closed()
        return Refused(code.name, details)

    def _closed(self) -> ServiceUnavailable:
        return ServiceUnavailable(f"The line to Weaviate at {self.place.shown} was closed during a call.")

    def _wrong_key(self) -> ServiceUnavailable:
        given = "a key that it does not take" if self.place.api_key is not None else "no key"
        return ServiceUnavailable(f"Weaviate at {self.place.shown} was given {given}: correct MEMLINE_WEAVIATE_API_KEY.")

    def _make_client(self) -> WeaviateClient:
        import weaviate
        from weaviate.classes.init import AdditionalConfig, Auth, Timeout
        from weaviate.connect import ConnectionParams

        place = self.place
        return weaviate.WeaviateClient(
            ConnectionParams.from_params(place.host, place.port, place.secure, place.grpc_host, place.grpc_port, place.grpc_secure),
            auth_client_secret=Auth.api_key(place.api_key) if place.api_key is not None else None,
            additional_config=AdditionalConfig(timeout=Timeout(init=self._timeout, query=self._timeout, insert=self._timeout)),
            skip_init_checks=True,  # else it asks the package index for its newest version
        )

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        import httpx
        from weaviate.exceptions import AuthenticationFailedError, UnexpectedStatusCodeError, WeaviateBaseError

        try:
            yield
        except UnexpectedStatusCodeError as error:
            if error.status_code in (401, 403):
                raise self._wrong_key() from None
            if error.status_code >= 500 and error.status_code != 500:
                raise ServiceUnavailable(f"Weaviate at {self.place.shown} is not ready (HTTP {error.status_code}).") from None
            raise Refused(f"HTTP {error.status_code}", first_line(error.message)) from None
        except AuthenticationFailedError:
            raise self._wrong_key() from None
        except (WeaviateBaseError, httpx.HTTPError, OSError) as error:
            reason = first_line(str(error))
            if "is not supported" in reason:
                raise ConfigurationError(f"Weaviate at {self.place.shown} does not fit the client: {reason}") from None
            raise ServiceUnavailable(
                f"Weaviate at {self.place.shown} does not answer ({type(error).__name__}: {reason}): start it, or correct "
                "MEMLINE_WEAVIATE_URL."
            ) from None
        except (MemlineError, Refused):
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:  # the client takes an answer apart before it looks at it
            raise ServiceUnavailable(
                f"What answers at {self.place.shown} is no Weaviate, or a broken one ({type(error).__name__} while its answer was read): "
                "correct MEMLINE_WEAVIATE_URL."
            ) from None


class EmbeddedServer:
    """The server that weaviate-client downloads, starts and ends (`MEMLINE_WEAVIATE_URL=embedded`); program and data lie in *folder*."""

    place = Place("127.0.0.1", _EMBEDDED_PORT, False, "127.0.0.1", _EMBEDDED_GRPC_PORT, False)

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = ForkLock()
        self._client: tuple[WeaviateClient, int] | None = None

    def start(self) -> None:
        """Starts it, once, and again where it has ended. Raises ServiceUnavailable where it can't be had or does not start."""
        with self._lock:
            if self._client is None:
                self._client = (self._started(), os.getpid())
            elif self._client[1] == os.getpid():  # a forked child uses its parent's
                self._ask(self._client[0])

    def close(self) -> None:
        with self._lock:
            found, self._client = self._client, None
        if found is not None and found[1] == os.getpid():
            found[0].close()

    def _started(self) -> WeaviateClient:
        import weaviate
        from weaviate.embedded import EmbeddedOptions
        from weaviate.exceptions import WeaviateBaseError

        options = EmbeddedOptions(
            persistence_data_path=str(self._folder / "data"),
            binary_path=str(self._folder / "bin"),
            hostname=self.place.host,
            port=self.place.port,
            grpc_port=self.place.grpc_port,
            additional_env_vars={"DISABLE_TELEMETRY": "true", "AUTOSCHEMA_ENABLED": "false", "LOG_LEVEL": "warning"},
        )
        client = None
        try:
            client = weaviate.WeaviateClient(embedded_options=options, skip_init_checks=True)
            client.connect()
        except (WeaviateBaseError, OSError) as error:
            if client is not None:
                client.close()
            raise self._not_there(error) from None
        return client

    def _ask(self, client: WeaviateClient) -> None:
        import httpx
        from weaviate.exceptions import WeaviateBaseError

        try:
            client.get_meta()  # the client looks whether its server runs before it asks, and starts it
        except (WeaviateBaseError, httpx.HTTPError, OSError) as error:
            raise self._not_there(error) from None

    def _not_there(self, error: Exception) -> ServiceUnavailable:
        return ServiceUnavailable(
            "MEMLINE_WEAVIATE_URL=embedded: weaviate-client could not download or start a server of its own "
            f"({type(error).__name__}: {first_line(str(error))}). It needs a way to github.com once, and the ports {self.place.port} and "
            f"{self.place.grpc_port}. Or start Weaviate yourself and set MEMLINE_WEAVIATE_URL=http://host:8080."
        )


class _Channel:
    """A gRPC channel that is closed when it is retired and its last call has ended."""

    def __init__(self, place: Place) -> None:
        import grpc
        from weaviate.proto.v1 import weaviate_pb2_grpc

        smallest, first, longest = _RECONNECT
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.min_reconnect_backoff_ms", smallest),
            ("grpc.initial_reconnect_backoff_ms", first),
            ("grpc.max_reconnect_backoff_ms", longest),
            ("grpc.enable_http_proxy", 0),
        ]
        if place.grpc_secure:
            self._channel = grpc.secure_channel(place.target, _credentials(), options=options)
        else:
            self._channel = grpc.insecure_channel(place.target, options=options)
        self.stub: Any = weaviate_pb2_grpc.WeaviateStub(self._channel)  # type: ignore[no-untyped-call]
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._calls = 0
        self._retired = False

    def enter(self) -> None:
        with self._lock:
            self._calls += 1

    def leave(self) -> None:
        with self._lock:
            self._calls -= 1
            over = self._retired and self._calls == 0
        if over:
            self.close()

    def retire(self) -> None:
        with self._lock:
            self._retired = True

    def close(self) -> None:
        self._channel.close()


def _credentials() -> grpc.ChannelCredentials:
    """Trusts what the client's REST trusts: certifi's roots, or the file in GRPC_DEFAULT_SSL_ROOTS_FILE_PATH."""
    import certifi
    import grpc

    if os.environ.get("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"):
        return grpc.ssl_channel_credentials()
    return grpc.ssl_channel_credentials(root_certificates=Path(certifi.where()).read_bytes())


def _import_client() -> None:
    """Imports gRPC and the client. Raises MissingPackage where they are not installed.

    A forked child can't use gRPC at all unless this variable was set before gRPC's first import.
    """
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "1")
    try:
        import grpc  # noqa: F401
        import weaviate.classes.init
        import weaviate.proto.v1  # noqa: F401
    except ImportError as error:
        raise MissingPackage("The index weaviate needs weaviate-client: install memline[weaviate].") from error


def client_version() -> str:
    """The version of weaviate-client."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("weaviate-client")
    except PackageNotFoundError:
        return "missing"


def first_line(text: str, most: int = 300) -> str:
    """As much of what a server said as belongs into a message."""
    lines = text.strip().splitlines()
    return (lines[0] if lines else "no reason given")[:most]
