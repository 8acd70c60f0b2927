"""The composition root: builds the parts that the settings name, each when it is first needed, each once."""

from __future__ import annotations

import logging
import random
import re
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from memline.contracts.clock import Clock, SystemClock
from memline.contracts.errors import ConfigurationError, EvictingRedis, MemlineError, ServiceUnavailable
from memline.contracts.ids import IdSource, TimeOrderedIds
from memline.observing import observe, observe_counts
from memline.producer.policy import read_policy
from memline.provider_links import build_calls, build_link, tell_of
from memline.settings import Settings, sqlite_url

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memline.language.calls import Calls
    from memline.language.chat.forms import Forms
    from memline.language.ports import Analyser, ChatModel, Embedder
    from memline.language.usage import Use
    from memline.ledger.session import Ledger
    from memline.outbox.erase import Eraser
    from memline.outbox.reconcile import Reconciler
    from memline.outbox.relay import Relay
    from memline.outbox.tombstone_file import EraseKey, TombstoneFile
    from memline.pipeline.extractors.port import Extractor
    from memline.pipeline.parts import Parts, Vision
    from memline.producer import Producer, TurnStream
    from memline.search.index.embedded import EmbeddedIndex
    from memline.search.index.port import Index, Space, SpacedIndex
    from memline.search.index.weaviate import WeaviateIndex
    from memline.search.rerank.port import Reranker
    from memline.search.searcher import Searcher
    from memline.workers.engine import Engine
    from memline.workers.expirer import Expirer
    from memline.workers.pruner import Pruner
    from memline.workers.pulse import Pulse
    from memline.workers.reconcile_loop import ReconcileTurns

__all__ = ["House"]

_log = logging.getLogger("memline")

#: Of a chat model's setting: package.module:name; all else names a model.
_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)+:[^\W\d]\w*(\.[^\W\d]\w*)*")

#: The ports that a part of the application's own has to fit; loaded only where there is one.
_PORTS = {
    "embedder": "memline.language.ports:Embedder",
    "chat_model": "memline.language.ports:ChatModel",
    "vision_model": "memline.language.ports:ChatModel",
    "extractor": "memline.pipeline.extractors.port:Extractor",
    "index": "memline.search.index.port:Index",
    "reranker": "memline.search.rerank.port:Reranker",
}


class House:
    """The parts of one process. Handing a turn over to Redis builds the producer and nothing else."""

    def __init__(
        self,
        settings: Settings,
        *,
        embedder: Embedder | None = None,
        chat_model: ChatModel | None = None,
        extractor: Extractor | None = None,
        index: Index | None = None,
        reranker: Reranker | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        write_policy: object = None,
        claims: bool = True,
    ) -> None:
        """*write_policy*: in place of the setting. *claims* False: the ledger is opened although it has another embedder."""
        self.settings = settings
        observe_counts(settings, role="application")  # a worker has installed its own before
        self.write_policy = read_policy(settings.write_policy if write_policy is None else write_policy)
        self._claims = claims
        self.clock: Clock = clock or SystemClock()
        self.ids: IdSource = ids or TimeOrderedIds(self.clock)
        self._given_embedder, self._given_chat_model = embedder, chat_model
        self._given_extractor, self._given_index, self._given_reranker = extractor, index, reranker
        self._building = threading.RLock()
        given = {"embedder": embedder, "chat_model": chat_model, "extractor": extractor, "index": index, "reranker": reranker}
        for name, part in given.items():
            if part is not None:
                _check_part(name, part, f"{name}=")

    def built(self, name: str) -> Any:
        """A part, if it was built already."""
        return self.__dict__.get(name)

    def after_fork(self) -> None:
        """In a forked child: locks of the parent mean nothing here, and its engine thread did not come along."""
        self._building = threading.RLock()
        self.__dict__.pop("engine", None)

    @property
    def uses_redis(self) -> bool:
        return self.settings.redis_url is not None

    @property
    def producer(self) -> Producer:
        return cast("Producer", self._once("_producer", self._build_producer))

    def _build_producer(self) -> Producer:
        from memline.producer import Producer

        if self.settings.redis_url is None:
            raise ConfigurationError("A producer needs MEMLINE_REDIS_URL.")
        producer = Producer(
            self.settings.redis_url.get_secret_value(),
            self.settings.home_folder() / "spool",
            self.ids,
            self.clock,
            prefix=self.settings.redis_prefix,
            max_turn=self.settings.max_turn,
            vision=self.settings.vision_model is not None,
            policy=self.write_policy,
        )
        try:
            warning = producer.stream.check_policy()
        except ServiceUnavailable:
            return producer  # away at start: turns go to the spool, and the workers check it before they begin
        except EvictingRedis:
            producer.close(0)
            raise
        if warning is not None:
            _log.warning("%s", warning)
        return producer

    @property
    def stream(self) -> TurnStream:
        return self.producer.stream

    @property
    def ledger(self) -> Ledger:
        return cast("Ledger", self._once("_ledger", self._build_ledger))

    def _build_ledger(self) -> Ledger:
        from memline.ledger.meta import check_embedder
        from memline.ledger.migrate import open_ledger
        from memline.ledger.session import Ledger
        from memline.ledger.tenants import ledger_name

        ledger = Ledger(self.settings.ledger_location())
        try:
            ledger.make_file()
            open_ledger(ledger)
            if self._claims:
                with ledger.write() as tx:
                    check_embedder(tx, self.embedder.model, self.embedder.dimension)
                    ledger_name(tx, self.ids.new())
            self._replay_tombstones(ledger)
        except MemlineError:
            ledger.close()
            raise
        return ledger

    @property
    def tombstone_file(self) -> TombstoneFile:
        from memline.outbox.tombstone_file import TombstoneFile

        return TombstoneFile(self.settings.home_folder() / "tombstones.jsonl")

    def _replay_tombstones(self, ledger: Ledger) -> None:
        """A ledger that was put back from a backup forgets nothing that was erased since: before anything of it is served."""
        file = self.tombstone_file
        if not file.path.exists():
            return
        from memline.outbox.erase_replay import missing, replay

        stones = missing(ledger, file)
        if stones:
            removed = replay(ledger, stones, self._erase_key(make=False), now=self.clock.now())
            _log.warning("The ledger lacked %d tombstones: %d memories and turns that it had were erased again.", len(stones), removed)

    def _erase_key(self, *, make: bool) -> EraseKey | None:
        from memline.outbox.tombstone_file import load_key

        given = self.settings.erase_key
        return load_key(self.settings.home_folder(), None if given is None else given.get_secret_value(), make=make)

    @property
    def eraser(self) -> Eraser:
        """Made anew for each erasure: which indexes there are changes while the ledger moves to another embedder."""
        return self._build_eraser()

    def _build_eraser(self) -> Eraser:
        from memline.contracts.erasing import TurnStore
        from memline.ledger.meta import embedders
        from memline.outbox.erase import Eraser, Stores
        from memline.producer.erase_spool import SpoolEraser
        from memline.producer.erase_stream import StreamEraser
        from memline.search.index.embedded import EmbeddedIndex
        from memline.search.index.port import OfSpace, Space

        settings = self.settings
        indexes: list[Index] = [self.index]
        own = self.index.space if isinstance(self.index, OfSpace) else None
        with self.ledger.read() as connection:
            known = embedders(connection)
        spaces = [Space(*found) for found in known.known]
        if known.former is not None and settings.index_backend() == "weaviate":  # the embedded one goes when another is opened
            spaces.append(Space(*known.former))
        others = [self.index_of(space) for space in dict.fromkeys(spaces) if space != own]
        indexes += [index for index in others if index is not None]
        files = [self.ledger] if self.ledger.is_sqlite else []
        files += [index.store for index in indexes if isinstance(index, EmbeddedIndex) and index.store not in files]
        redis = StreamEraser(self.stream) if self.uses_redis else None
        spool = SpoolEraser(settings.home_folder() / "spool")
        turns: list[TurnStore] = [spool] if redis is None else [redis, spool]
        outside = []
        if not self.ledger.is_sqlite and any(isinstance(index, EmbeddedIndex) for index in indexes):
            outside.append("the embedded index that other machines keep beside this ledger, in index.db of their home folders")
        key = self._erase_key(make=True)
        assert key is not None  # it was made
        return Eraser(
            self.ledger,
            Stores(indexes, turns, files, [settings.home_folder()], redis, outside),
            self.clock,
            self.ids,
            key,
            self.tombstone_file,
            grace=max(settings.model_timeout, settings.weaviate_timeout),
        )

    @property
    def analyser(self) -> Analyser:
        from memline.language.analysis import TextAnalyser

        return cast("Analyser", self._once("_analyser", TextAnalyser))

    @property
    def embedder(self) -> Embedder:
        return cast("Embedder", self._once("_embedder", self._build_embedder))

    def _build_embedder(self) -> Embedder:
        settings = self.settings
        if self._given_embedder is not None:
            return self._given_embedder
        if settings.uses_openai_embedder():
            from memline.language.embedders.openai import OpenAIEmbedder

            return OpenAIEmbedder(
                settings.embedding_model,
                settings.embedding_dimension,
                api_key=self._openai_key("MEMLINE_EMBEDDER"),
                base_url=settings.openai_base_url,
                timeout=min(20.0, settings.model_timeout),
                link=build_link(settings, self.calls, settings.embedding_model, "embed"),
            )
        if settings.embedder in ("auto", "local"):
            from memline.language.embedders.usem3 import LocalEmbedder

            return LocalEmbedder()
        return cast("Embedder", self._loaded("embedder", settings.embedder))

    def _build_search_embedder(self) -> Embedder:
        """What embeds questions: the embedder, told to the metrics; one behind a server does not wait, as a search does not."""
        from memline.language.metered import MeteredEmbedder

        settings = self.settings
        if not self.embedder.paid:
            return self.embedder
        embedder = self.embedder
        if self._given_embedder is None and settings.uses_openai_embedder():
            from memline.language.embedders.openai import OpenAIEmbedder

            embedder = OpenAIEmbedder(
                settings.embedding_model,
                settings.embedding_dimension,
                api_key=self._openai_key("MEMLINE_EMBEDDER"),
                base_url=settings.openai_base_url,
                timeout=min(20.0, settings.model_timeout),
                link=build_link(settings, self.calls, settings.embedding_model, "search", timeout=min(20.0, settings.model_timeout)),
            )
        return MeteredEmbedder(embedder, tell_of(settings, "search"))

    def counted_embedder(self) -> Embedder:
        """The embedder, whose calls are written to the ledger as they are made, for a command that embeds for all namespaces (`*`)."""
        from memline.language.metered import MeteredEmbedder
        from memline.pipeline.paid import settle_uses

        def told(uses: Sequence[Use]) -> None:
            with self.ledger.write() as tx:
                settle_uses(tx, self.parts, "embed", "*", uses)

        return MeteredEmbedder(self.embedder, told) if self.embedder.paid else self.embedder

    @property
    def calls(self) -> Calls:
        """What the calls of models' servers share: limits and breaker."""
        return cast("Calls", self._once("_calls", lambda: build_calls(self.settings, self.ids)))

    @property
    def extractor(self) -> Extractor:
        return cast("Extractor", self._once("_extractor", self._build_extractor))

    def _build_extractor(self) -> Extractor:
        settings = self.settings
        if self._given_extractor is not None:
            return self._given_extractor
        if settings.uses_model() or self._given_chat_model is not None:
            from memline.pipeline.extractors.model import ModelExtractor

            return ModelExtractor(self._build_chat_model(), window_tokens=settings.model_window)
        if settings.extractor in ("auto", "rules"):
            from memline.pipeline.extractors.rules import RuleExtractor

            return RuleExtractor()
        return cast("Extractor", self._loaded("extractor", settings.extractor))

    @property
    def vision(self) -> Vision | None:
        """What describes images; None where nothing is set."""
        return None if self.settings.vision_model is None else cast("Vision", self._once("_vision", self._build_vision))

    def _build_vision(self) -> Vision:
        from memline.pipeline.images import ImageReader

        model = cast("str", self.settings.vision_model)
        return ImageReader(self._chat_model_of(model, "vision_model", "vision", asks="MEMLINE_VISION_MODEL"))

    def _build_chat_model(self) -> ChatModel:
        if self._given_chat_model is not None:
            return self._given_chat_model
        return self._chat_model_of(self.settings.chat_model, "chat_model", "extract", asks="MEMLINE_EXTRACTOR")

    def _chat_model_of(self, model: str, setting: str, call: str, *, asks: str, timeout: float | None = None) -> ChatModel:
        """The model of a setting, by its name or its import path. *timeout*: somebody waits for its answer, for so long."""
        if _IMPORT_PATH.fullmatch(model):  # not the name of a model, such as llama3.1:8b
            return cast("ChatModel", self._loaded(setting, model))
        from memline.language.chat.openai import OpenAIChat

        settings = self.settings
        link = build_link(settings, self.calls, model, call, timeout=timeout)
        key, limit = self._openai_key(asks), timeout or settings.model_timeout
        return OpenAIChat(model, api_key=key, base_url=settings.openai_base_url, timeout=limit, link=link, forms=self._forms)

    @property
    def _forms(self) -> Forms:
        return cast("Forms", self._once("_chat_forms", self._build_forms))

    def _build_forms(self) -> Forms:
        from memline.language.chat.forms import Forms
        from memline.ledger.chat_forms import LedgerForms

        return Forms(LedgerForms(lambda: self.ledger, self.clock))

    def _openai_key(self, setting: str) -> str:
        if self.settings.openai_api_key is None:
            raise ConfigurationError(
                f"{setting} asks for an OpenAI-compatible server: set MEMLINE_OPENAI_API_KEY (any value, where it wants none)."
            )
        return self.settings.openai_api_key.get_secret_value()

    @property
    def index(self) -> Index:
        return cast("Index", self._once("_index", self._build_index))

    def _build_index(self) -> Index:
        if self._given_index is not None:
            return self._given_index
        backend = self.settings.index_backend()
        if backend == "weaviate":
            return self._build_weaviate()
        if backend != "embedded":
            return cast("Index", self._loaded("index", backend))
        from memline.search.index.port import Space

        index = self._build_embedded(Space(self.embedder.model, self.embedder.dimension))
        if index.needs_rebuild:
            self._fill(index)
        return cast("Index", index)

    def index_of(self, space: Space) -> SpacedIndex | None:
        """An index of *space*, as the settings name it, unfilled where it is new; None for one of the application's own."""
        backend = self.settings.index_backend()
        if self._given_index is not None or backend not in ("embedded", "weaviate"):
            return None
        return cast("SpacedIndex", self._build_weaviate(space) if backend == "weaviate" else self._build_embedded(space))

    def _build_embedded(self, space: Space) -> EmbeddedIndex:
        from memline.ledger.session import Ledger
        from memline.search.index.embedded import EmbeddedIndex

        store = self.ledger
        if not store.is_sqlite:
            store = Ledger(sqlite_url(self.settings.home_folder() / "index.db"))
            store.make_file()
        return EmbeddedIndex(store, self.ledger, space=space)

    def _build_weaviate(self, space: Space | None = None) -> WeaviateIndex:
        """The index in Weaviate, of *space* or of the embedder's; nothing is connected yet."""
        from memline.search.index.port import Space
        from memline.search.index.weaviate import WeaviateIndex
        from memline.search.index.weaviate_link import EmbeddedServer
        from memline.search.index.weaviate_place import EMBEDDED, place_of

        settings = self.settings
        if settings.weaviate_url is None:
            raise ConfigurationError("MEMLINE_INDEX=weaviate needs MEMLINE_WEAVIATE_URL, such as http://localhost:8080.")
        url, key = settings.weaviate_url.get_secret_value(), settings.weaviate_api_key
        server = (
            self._once("_weaviate_server", lambda: EmbeddedServer(settings.home_folder() / "weaviate"))
            if url == EMBEDDED
            else place_of(url, settings.weaviate_grpc_url, None if key is None else key.get_secret_value())
        )
        return WeaviateIndex(
            server,
            self.ledger,
            space or Space(self.embedder.model, self.embedder.dimension),
            prefix=settings.weaviate_prefix,
            timeout=settings.weaviate_timeout,
            read_timeout=settings.search_deadline,
            ids=self.ids,
        )

    def _fill(self, index: EmbeddedIndex) -> None:
        """The index is new and the ledger is not: the relay shows it everything, from the ledger's own vectors."""
        from memline.outbox.reconcile import refill

        number = refill(self.ledger, self.clock)
        index.mark_rebuilt()
        _log.warning("The index was empty and the ledger is not: %d objects were written to the outbox and are on their way.", number)

    @property
    def parts(self) -> Parts:
        return cast("Parts", self._once("_parts", self._build_parts))

    def _build_parts(self) -> Parts:
        from memline.language.prices import Prices
        from memline.ledger.claim import ClaimLimits
        from memline.ledger.history import HistoryMode
        from memline.ledger.leases import LeaseTimes
        from memline.pipeline.extractors.port import UnitExtractor
        from memline.pipeline.parts import Parts, RetryPolicy

        settings = self.settings
        observe(settings, role="application")  # whose parts these are, runs stages; a command that only looks imports no Sentry
        return Parts(
            ledger=self.ledger,
            index=self.index,
            analyser=self.analyser,
            embedder=self.embedder,
            extractor=self.extractor,
            clock=self.clock,
            ids=self.ids,
            times=LeaseTimes(lease=settings.lease, resend=settings.resend),
            limits=ClaimLimits(
                in_flight=settings.in_flight,
                batch=settings.batch,
                unit=settings.batch,
                # an extractor of the application's own that takes one turn at a time is given one
                paid_unit=settings.coalesce if isinstance(self.extractor, UnitExtractor) else 1,
                unit_size=4 * settings.model_window,
            ),
            retry=RetryPolicy(max_attempts=settings.max_attempts, jitter=random.random),
            prices=Prices.of(settings.prices),
            order_wait=settings.order_wait,
            clock_margin=settings.clock_margin,
            history=HistoryMode(settings.history),
            default_lifetime=settings.default_lifetime,
            vision=self.vision,
        )

    @property
    def relay(self) -> Relay:
        from memline.outbox.relay import Relay, RelayLimits

        limits = RelayLimits(lease=self.settings.lease)
        return cast("Relay", self._once("_relay", lambda: Relay(self.ledger, self.index, self.clock, self.ids, limits)))

    @property
    def reconciler(self) -> Reconciler:
        from memline.outbox.reconcile import Reconciler

        return cast("Reconciler", self._once("_reconciler", lambda: Reconciler(self.ledger, self.index, self.clock)))

    def reconcile_turns(self) -> ReconcileTurns | None:
        """New ones, for a process that is about to run; None where MEMLINE_RECONCILE_EVERY is 0."""
        from memline.workers.reconcile_loop import ReconcileTurns

        settings = self.settings
        if not settings.reconcile_every:
            return None
        return ReconcileTurns(
            self.reconciler, self.ledger, self.clock, self.ids.new(), every=settings.reconcile_every, budget=settings.reconcile_budget
        )

    def pulse(self) -> Pulse:
        """A new one, for a process that is about to run loops: its heartbeats in the ledger."""
        import os
        import socket

        from memline import __version__
        from memline.ledger.heartbeats import Process
        from memline.workers.pulse import Pulse

        host, pid = socket.gethostname(), os.getpid()
        name = f"{host}-{pid}-{self.ids.new()[-6:]}"
        process = Process(name, host, pid, __version__, self.clock.now())
        return Pulse(self.ledger, self.clock, process, every=self.settings.heartbeat_every)

    @property
    def expirer(self) -> Expirer:
        return cast("Expirer", self._once("_expirer", self._build_expirer))

    def _build_expirer(self) -> Expirer:
        from memline.ledger.history import HistoryMode
        from memline.workers.expirer import Expirer

        settings = self.settings
        return Expirer(
            self.ledger,
            self.clock,
            grace=settings.expired_grace,
            every=settings.prune_every,
            budget=10.0 if self.uses_redis else 0.2,  # as the pruner: the engine's thread has turns to run
            keep=HistoryMode(settings.history),
        )

    @property
    def pruner(self) -> Pruner:
        return cast("Pruner", self._once("_pruner", self._build_pruner))

    def _build_pruner(self) -> Pruner:
        from memline.ledger.prune import Retention
        from memline.workers.pruner import Pruner

        settings = self.settings
        keep = Retention(
            payloads=timedelta(days=settings.keep_payloads),
            failed=timedelta(days=settings.keep_failed),
            keys=timedelta(days=settings.key_retention),
            jobs=timedelta(days=settings.keep_jobs),
            changes=timedelta(days=settings.keep_changes),
        )
        # the engine's thread runs turns, too: they wait no longer than that for it
        budget = 10.0 if self.uses_redis else 0.2
        return Pruner(self.ledger, self.clock, keep, every=settings.prune_every, budget=budget)

    @property
    def searcher(self) -> Searcher:
        from memline.search.searcher import Searcher

        return cast(
            "Searcher",
            self._once(
                "_searcher",
                lambda: Searcher(
                    self.ledger,
                    self.index,
                    self.analyser,
                    self._build_search_embedder(),
                    self.clock,
                    deadline=self.settings.search_deadline,
                    reranker=self.reranker,
                ),
            ),
        )

    @property
    def reranker(self) -> Reranker | None:
        """What reranks where a search asks for it; None where nothing is set."""
        if self._given_reranker is None and self.settings.reranker is None:
            return None
        return cast("Reranker", self._once("_reranker", self._build_reranker))

    def _build_reranker(self) -> Reranker:
        settings = self.settings
        if self._given_reranker is not None:
            return self._given_reranker
        if settings.reranker == "http":
            from memline.search.rerank.http import HttpReranker

            if settings.rerank_url is None:
                raise ConfigurationError("MEMLINE_RERANKER=http needs MEMLINE_RERANK_URL, such as https://api.example.com/v1/rerank.")
            key = settings.rerank_api_key
            return HttpReranker(settings.rerank_url, settings.rerank_model, None if key is None else key.get_secret_value())
        if settings.reranker == "llm":
            from memline.language.metered import MeteredChat
            from memline.search.rerank.llm import LlmReranker

            # a call that nobody waits for any more should not be paid for much longer
            timeout = min(settings.search_deadline, settings.model_timeout)
            chat = self._given_chat_model or self._chat_model_of(
                settings.chat_model, "chat_model", "rerank", asks="MEMLINE_RERANKER", timeout=timeout
            )
            return LlmReranker(MeteredChat(chat, tell_of(settings, "rerank")))
        return cast("Reranker", self._loaded("reranker", cast("str", settings.reranker)))

    @property
    def engine(self) -> Engine:
        """The engine thread of the embedded mode, started."""
        from memline.workers.engine import Engine

        def started() -> Engine:
            engine = Engine(self.parts, self.relay, self.pruner, self.reconcile_turns(), self.expirer, self.pulse())
            engine.start()
            return engine

        return cast("Engine", self._once("engine", started))

    def close(self, timeout: float) -> None:
        """Stops what runs and closes what is open; waits at most *timeout* seconds for work that was accepted."""
        with self._building:
            engine, producer = self.__dict__.pop("engine", None), self.built("_producer")
            if engine is not None:
                engine.stop(timeout)
            if producer is not None:
                producer.close(timeout)
            if (close := getattr(self.built("_reranker"), "close", None)) is not None:
                close()
            if (close := getattr(getattr(self.built("_calls"), "limiter", None), "close", None)) is not None:
                close()
            for name in ("_index", "_weaviate_server", "_ledger"):
                part = self.built(name)
                if part is not None:
                    part.close()

    def _once(self, name: str, build: Any) -> Any:
        found = self.__dict__.get(name)
        if found is None:
            with self._building:
                found = self.__dict__.get(name)
                if found is None:
                    found = self.__dict__[name] = build()
        return found

    def _loaded(self, name: str, path: str) -> Any:
        from memline.language.loading import load_object

        setting = f"MEMLINE_{name.upper()}"
        found = load_object(path, setting)
        if isinstance(found, type):
            try:
                found = found()
            except Exception as error:  # whatever the application's class does
                raise ConfigurationError(
                    f"{setting} names a class that can't be made without arguments: {type(error).__name__}."
                ) from error
        _check_part(name, found, setting)
        return found


def _check_part(name: str, part: object, where: str) -> None:
    """Raises ConfigurationError where *part*, which *where* gave, does not fit the port of its *name*."""
    from memline.language.loading import check_fits, load_object

    check_fits(part, cast("type", load_object(_PORTS[name], where)), where)
