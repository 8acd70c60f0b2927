"""The simulator: `Simulator` answers on threads of this process, `serve` holds the caller until it is stopped."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import math
import threading
from array import array
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, Self

from memline.cli.simulator.faults import Faults, MinuteLimit
from memline.cli.simulator.recorded import Dialect
from memline.cli.simulator.replies import embedding, extraction_reply, little_endian, token_count
from memline.cli.simulator.steps import Step
from memline.cli.simulator.transport import Answer, HttpServer, error_answer
from memline.contracts.errors import Closed, InvalidInput, ServiceUnavailable

__all__ = ["Call", "Simulator", "serve"]

CHAT, EMBEDDINGS, MODELS = "/v1/chat/completions", "/v1/embeddings", "/v1/models"
_ENDPOINTS = {"chat": CHAT, "embeddings": EMBEDDINGS}
#: Methods by path; anything else is a 404 or a 405.
_ROUTES = {CHAT: "POST", EMBEDDINGS: "POST", MODELS: "GET", "/_calls": "GET", "/_script": "POST"}
_MODELS = ("gpt-5-mini", "text-embedding-3-small")
#: OpenAI's limits: inputs an embeddings call.
_MAX_INPUTS = 2048
_MAX_DIMENSION = 8192
#: What takes which response formats.
_FORMATS: dict[bool | str, tuple[str, ...]] = {
    True: ("json_schema", "json_object"),
    False: (),
    "object": ("json_object",),
    "schema": ("json_schema",),
}
#: Seconds after which a hanging call is dropped.
_LONGEST_HANG = 600.0
#: A fixed time (2026-01-01T00:00:00Z, Unix seconds): the same request gets the same reply.
_CREATED = 1767225600

_log = logging.getLogger(__name__)

#: Which `response_format`s a simulator takes: both, json_object alone, json_schema alone, none.
Structured = bool | Literal["object", "schema"]


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it arrived: the path, and the body parsed (None where there was none)."""

    path: str
    body: Any = None


class _Refused(Exception):
    """The request ends in an error of OpenAI's shape."""

    def __init__(self, status: int, told: Any, param: str | None = None) -> None:
        """*told*: a message, or the whole body."""
        super().__init__(str(told))
        self.answer = error_answer(status, told, param) if isinstance(told, str) else Answer(status, told)


class Simulator:
    """An OpenAI-compatible server on loopback; use it with `with`, or `start()` and `close()`.

    *latency* is added to each chat and embeddings call (seconds; may be set at any time). *structured* says which `response_format` it
    takes: True both json_schema and json_object, "object" or "schema" one of them, False none (400, as older servers answer). *faults* meet
    calls at random, *limit* refuses those beyond it with 429; a scripted step goes before faults. *replay*: chat calls get the replies of a
    dialect in turn, for ever, and what that server does not take is refused as it does. *chat* makes the reply text from the parsed request
    body; without it the facts of memline's extraction prompt are found by `extraction_reply`. *dimension* is that of embeddings whose
    request names none.
    """

    def __init__(
        self,
        port: int = 0,
        latency: float = 0.0,
        structured: Structured = True,
        chat: Callable[[Mapping[str, Any]], str] | None = None,
        *,
        host: str = "127.0.0.1",
        dimension: int = 1536,
        record: bool = True,
        faults: Faults | None = None,
        limit: MinuteLimit | None = None,
        replay: Dialect | None = None,
    ) -> None:
        if structured not in (True, False, "object", "schema"):
            raise InvalidInput('structured must be True, False, "object" or "schema".')
        if not 1 <= dimension <= _MAX_DIMENSION:
            raise InvalidInput(f"dimension must be from 1 to {_MAX_DIMENSION}.")
        self.latency = latency
        self.structured = structured
        #: May be set at any time.
        self.faults = faults
        #: Calls by path that were answered with 200, whole.
        self.answered: Counter[str] = Counter()
        #: Every request to a /v1 path, in order of arrival; empty with record=False, for long runs.
        self.calls: list[Call] = []
        self._chat = chat or extraction_reply
        self._address = (host, port)
        self._dimension = dimension
        self._record = record
        self._limit, self._replay = limit, replay
        self._replayed = 0
        #: First messages that were seen, whose tokens a next call has cached.
        self._seen: set[str] = set()
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._scripts: dict[str, deque[Step]] = {path: deque() for path in _ENDPOINTS.values()}
        self._closing = threading.Event()
        self._server: HttpServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base URL for a client; ends with /v1."""
        if self._server is None:
            raise Closed("The simulator is not running: start it with `with Simulator() as simulator`.")
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    @property
    def counts(self) -> dict[str, int]:
        """Calls so far by path."""
        with self._lock:
            return dict(self._counts)

    def script(self, *steps: Step | str | Mapping[str, Any], endpoint: Literal["chat", "embeddings"] = "chat") -> None:
        """Queues behaviours for the next calls of *endpoint*: reply texts, or steps; one call uses up one step.

        Raises InvalidInput for what is no step, and for a reply to embeddings; nothing is queued then.
        """
        if endpoint not in tuple(_ENDPOINTS):
            raise InvalidInput(f"endpoint must be one of {', '.join(_ENDPOINTS)}.")
        queued = [Step.of(step) for step in steps]
        for step in queued:
            step.check_endpoint(endpoint)
        with self._lock:
            self._scripts[_ENDPOINTS[endpoint]].extend(queued)

    @property
    def unused(self) -> int:
        """Scripted steps that no call has used up yet."""
        with self._lock:
            return sum(map(len, self._scripts.values()))

    def start(self) -> Self:
        """Listens and returns; raises ServiceUnavailable where the address can't be bound."""
        if self._server is None:
            self._closing.clear()
            try:
                self._server = HttpServer(self._address, self.respond, self._closing)
            except OSError as error:
                where = f"{self._address[0]}:{self._address[1]}"
                raise ServiceUnavailable(
                    f"The simulator can't listen on {where} ({error.strerror}): give another port, or 0 for a free one."
                ) from error
            # A short poll: shutdown() waits for one.
            self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="memline-simulator", daemon=True)
            self._thread.start()
        return self

    def close(self) -> None:
        """Stops listening, lets answers that are being written finish, and closes every connection. May be called twice."""
        server, thread = self._server, self._thread
        if server is None or thread is None:
            return
        self._closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
        self._server = self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def respond(self, method: str, path: str, content: bytes) -> Answer | None:
        """The answer to one request; None drops the connection."""
        path = path.partition("?")[0].rstrip("/")
        try:
            if path not in _ROUTES:
                raise _Refused(404, f"Unknown path; this simulator has {', '.join(_ROUTES)}.")
            if method != _ROUTES[path]:
                raise _Refused(405, f"This path takes {_ROUTES[path]}.")
            body = _parsed(content) if method == "POST" else None
            if path == "/_calls":
                return Answer(200, self.counts)
            if path == "/_script":
                return self._queue(body)
            return self._model_call(path, body)
        except _Refused as refused:
            return refused.answer

    def _model_call(self, path: str, body: Any) -> Answer | None:
        with self._lock:
            self._counts[path] += 1
            number = self._counts[path]
            if self._record:
                self.calls.append(Call(path, body))
            queue = self._scripts.get(path)
            step = queue.popleft() if queue else self._unscripted(path)
        if path == MODELS:
            return Answer(
                200,
                {
                    "object": "list",
                    "data": [{"id": name, "object": "model", "created": _CREATED, "owned_by": "memline"} for name in _MODELS],
                },
            )
        headers: tuple[tuple[str, str], ...] = ()
        if self._limit is not None:
            wait, headers = self._limit.enter(token_count(json.dumps(body, ensure_ascii=False)))
            if wait > 0:
                refused = error_answer(429, "Rate limit reached. Try again later.")
                return replace(refused, headers=(("Retry-After", f"{wait:.3g}"), *headers))
        # Waits on the event and not by sleep, so that close() need not wait for it.
        if (pause := self.latency + step.delay) > 0:
            self._closing.wait(pause)
        if step.hang:
            self._closing.wait(_LONGEST_HANG)
        if step.drop or step.hang:
            return None
        if path == CHAT and isinstance(body, dict):
            if body.get("stream"):
                raise _Refused(400, "This simulator does not stream: leave stream out, or set it to false.", "stream")
            self._check_format(body.get("response_format"))
        answer = self._written(step) or (self._completion(body, step, number) if path == CHAT else self._embeddings(body, step))
        more = tuple((step.headers or {}).items())
        if answer.status == 200 and not step.cut:
            with self._lock:
                self.answered[path] += 1
        return replace(answer, headers=(*answer.headers, *headers, *more), cut=step.cut)

    def _unscripted(self, path: str) -> Step:
        """What a call does for which nothing is queued. Under the lock."""
        endpoint = next((name for name, of in _ENDPOINTS.items() if of == path), None)
        if endpoint is None:
            return Step()
        if self.faults is not None and (fault := self.faults.next(endpoint)) is not None:
            return fault
        if self._replay is not None and path == CHAT:
            replies = self._replay.of("chat")
            self._replayed += 1
            return replies[(self._replayed - 1) % len(replies)].step
        return Step()

    @staticmethod
    def _written(step: Step) -> Answer | None:
        """The answer that a step itself says; None: it says none."""
        if step.raw is not None or step.body is not None:
            return Answer(int(step.status or 200), step.body, raw=step.raw)
        if step.status is None:
            return None
        answer = error_answer(int(step.status), f"Scripted answer {int(step.status)}.")
        return answer if step.retry_after is None else replace(answer, headers=(("Retry-After", f"{step.retry_after:g}"),))

    def _completion(self, body: Any, step: Step, number: int) -> Answer:
        messages = body.get("messages") if isinstance(body, dict) else None
        if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
            raise _Refused(400, "messages must be a list with at least one message.", "messages")
        text = None if step.refusal is not None else self._chat(body) if step.reply is None else step.reply
        message = {"role": "assistant", "content": text, "refusal": step.refusal}
        if step.reasoning is not None:
            message["reasoning_content"] = step.reasoning
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": step.finish}
        return Answer(
            200,
            {
                "id": f"chatcmpl-sim-{number}",
                "object": "chat.completion",
                "created": _CREATED,
                "model": _model(body),
                "choices": [choice],
                "usage": self._usage(messages, (text or "") + (step.reasoning or "")) if step.usage == "counted" else step.usage,
            },
        )

    def _usage(self, messages: list[Any], said: str) -> dict[str, Any]:
        """Counted, and of the input cached what OpenAI's server would have: a first message of 1,024 tokens or more that it saw before, in
        steps of 128.
        """
        asked, answered = token_count(json.dumps(messages, ensure_ascii=False)), token_count(said)
        first = json.dumps(messages[0], ensure_ascii=False)
        size = token_count(first)
        key = hashlib.sha256(first.encode("utf-8", "replace")).hexdigest()
        with self._lock:
            seen = key in self._seen
            self._seen.add(key)
        return {
            "prompt_tokens": asked,
            "completion_tokens": answered,
            "total_tokens": asked + answered,
            "prompt_tokens_details": {"cached_tokens": size // 128 * 128 if seen and size >= 1024 else 0},
        }

    def _check_format(self, wanted: Any) -> None:
        kind = wanted.get("type") if isinstance(wanted, dict) else wanted
        if kind in (None, "text"):
            return
        taken = _FORMATS[self.structured] if self._replay is None else self._replay.response_formats
        if kind not in taken:
            if self._replay is not None and (told := self._replay.named("another reply form is refused")) is not None:
                raise _Refused(told.status, told.body)
            raise _Refused(400, f"response_format {kind!r} is not supported by this model.", "response_format")
        schema = wanted.get("json_schema") if isinstance(wanted, dict) else None
        if kind == "json_schema" and not (isinstance(schema, dict) and isinstance(schema.get("schema"), dict)):
            raise _Refused(400, "response_format.json_schema.schema must be an object.", "response_format")

    def _embeddings(self, body: Any, step: Step) -> Answer:
        texts = body.get("input") if isinstance(body, dict) else None
        texts = [texts] if isinstance(texts, str) else texts
        if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
            raise _Refused(400, "input must be a string or a list of strings, none of them empty.", "input")
        if not 1 <= len(texts) <= _MAX_INPUTS:
            raise _Refused(400, f"input must hold 1 to {_MAX_INPUTS} texts.", "input")
        dimension = self._dimension if body.get("dimensions") is None else body["dimensions"]
        if type(dimension) is not int or not 1 <= dimension <= _MAX_DIMENSION:
            raise _Refused(400, f"dimensions must be a whole number from 1 to {_MAX_DIMENSION}.", "dimensions")
        encoding = body.get("encoding_format") or "float"
        if encoding not in ("float", "base64"):
            raise _Refused(400, "encoding_format must be float or base64.", "encoding_format")
        dimension = dimension if step.dimension is None else step.dimension
        vectors = [embedding(text, dimension) for text in texts]
        if step.numbers is not None and vectors:
            vectors[0] = array("f", [math.nan if step.numbers == "nan" else 0.0] * dimension)
        if step.count is not None:
            vectors = [vectors[index % len(vectors)] for index in range(step.count)]
        coded = [base64.b64encode(little_endian(v)).decode("ascii") if encoding == "base64" else v.tolist() for v in vectors]
        used = sum(map(token_count, texts))
        return Answer(
            200,
            {
                "object": "list",
                "model": _model(body),
                "data": [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(coded)],
                "usage": {"prompt_tokens": used, "total_tokens": used},
            },
        )

    def _queue(self, body: Any) -> Answer:
        """`{"endpoint": "chat", "steps": […]}`; `replies` and `faults` are lists of steps too, queued after it in this order."""
        if not isinstance(body, dict) or (unknown := set(body) - {"endpoint", "steps", "replies", "faults"}):
            told = f" It has no {', '.join(sorted(unknown))}." if isinstance(body, dict) else ""
            raise _Refused(400, f"A script is an object with endpoint, steps, replies and faults.{told}")
        steps: list[Any] = []
        for name in ("steps", "replies", "faults"):
            part = body.get(name, [])
            if not isinstance(part, list):
                raise _Refused(400, f"{name} must be a list.", name)
            steps += part
        try:
            self.script(*steps, endpoint=body.get("endpoint", "chat"))
        except InvalidInput as error:
            raise _Refused(400, str(error)) from error
        return Answer(200, {"queued": len(steps)})


def serve(
    simulator: Simulator,
    *,
    ready: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
) -> dict[str, int]:
    """Runs *simulator* until *stop* is set or the process is interrupted (Ctrl-C); returns the calls by path.

    *ready* is told the base URL once it listens. Raises ServiceUnavailable where the address can't be bound.
    """
    stop = stop or threading.Event()
    with simulator:
        try:
            if ready is not None:  # inside: Ctrl-C may come as soon as the first line is out
                ready(simulator.url)
            stop.wait()
        except KeyboardInterrupt:
            _log.info("interrupted")
    return simulator.counts


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise _Refused(400, "The body is not JSON.") from error


def _model(body: Mapping[str, Any]) -> str:
    return str(body.get("model", "simulator"))
