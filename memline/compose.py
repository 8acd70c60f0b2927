"""The composition root: builds the parts that the settings name, each when it is first needed, each once."""

from __future__ import annotations

import logging
import random
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from memline.compose_base import check_part
from memline.compose_erase import EraseParts
from memline.contracts.clock import Clock, SystemClock
from memline.contracts.errors import ConfigurationError, EvictingRedis, MemlineError, ServiceUnavailable
from memline.contracts.ids import IdSource, TimeOrderedIds
from memline.observing import observe, observe_counts
from memline.producer.policy import read_policy
from memline.settings import Settings

if TYPE_CHECKING:
    from memline.language.ports import Analyser, ChatModel, Embedder
    from memline.ledger.session import Ledger
    from memline.outbox.reconcile import Reconciler
    from memline.outbox.relay import Relay
    from memline.pipeline.extractors.port import Extractor
    from memline.pipeline.parts import Parts
    from memline.producer import Producer, TurnStream
    from memline.search.index.port import Index
    from memline.search.rerank.port import Reranker
    from memline.search.searcher import Searcher
    from memline.workers.engine import Engine
    from memline.workers.expirer import Expirer
    from memline.workers.pruner import Pruner
    from memline.workers.pulse import Pulse
    from memline.workers.reconcile_loop import ReconcileTurns

__all__ = ["House"]

_log = logging.getLogger("memline")


class House(EraseParts):
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
                check_part(name, part, f"{name}=")

    def after_fork(self) -> None:
        """In a forked child: locks of the parent mean nothing here, and its engine thread did not come along."""
        self._building = threading.RLock()
        self.__dict__.pop("engine", None)

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
    def analyser(self) -> Analyser:
        from memline.language.analysis import TextAnalyser

        return cast("Analyser", self._once("_analyser", TextAnalyser))

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
