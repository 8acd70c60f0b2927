"""Real workers, a real exporter and a real Prometheus: the figures are right, and every panel and every alert has something to ask."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from memline import Memory, observing
from memline.settings import load_settings
from tests.integration.path.stacks import be_patient
from tests.prometheus import ROOT, Prometheus
from tests.services import PostgresServer, RedisServer, free_port
from tests.workers import Worker

pytestmark = pytest.mark.services

#: Nothing of these may stand in a page of metrics.
USER, WORD = "zzuserzz", "marmalade"
TURNS = 5

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def eventually(holds: Callable[[], object], what: str, timeout: float = 300) -> None:
    """Waits until it holds: what was counted last may be told a moment later, and a scrape on a busy machine may miss a part."""
    deadline = time.monotonic() + timeout
    while not holds():
        assert time.monotonic() < deadline, f"not yet {what}"
        time.sleep(0.2)


class Exporter:
    """`memline metrics --serve` in a process of its own."""

    def __init__(self, settings: dict[str, str]) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMLINE_", "OPENAI_"))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "memline", "metrics", "--serve", "0"], env=kept | settings, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        line = self._process.stderr.readline()
        assert line.startswith("metrics: http://127.0.0.1:"), line
        self.port = int(line.rsplit(":", 1)[1].split("/")[0])
        self._reader = threading.Thread(target=self._process.stderr.read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *told: object) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._reader.join(60)
        assert self._process.stderr is not None
        self._process.stderr.close()


@dataclass
class Running:
    """All of it, after some turns and searches."""

    settings: dict[str, str]
    main: int
    pool: int
    exporter: int
    workers: dict[str, Worker]
    pages: list[str] = field(default_factory=list)
    rounds: int = 0

    @property
    def turns(self) -> int:
        """How many were handed over so far."""
        return self.rounds * TURNS

    def work(self) -> None:
        """Turns, one of them twice, one without a memory, and a search; all their stages have ended, and are counted."""
        fields = {name.removeprefix("MEMLINE_").lower(): value for name, value in self.settings.items()}
        with Memory(settings=load_settings(**fields)) as memory:
            be_patient(memory)
            for number in range(TURNS - 2):
                memory.add(f"I like {WORD} number {number} very much", user_id=USER, wait=True, timeout=300)
            memory.add(f"I like {WORD} number 0 very much", user_id=USER, wait=True, timeout=300)
            memory.add("Hello!", user_id=USER, wait=True, timeout=300)
            assert memory.search(f"What about {WORD}?", filters={"user_id": USER})["results"]
        self.rounds += 1
        eventually(self._is_through, f"{self.turns} turns through all stages")

    def _is_through(self) -> bool:
        """Whether each stage has counted every turn, what was written is shown, and nothing is on its way."""
        main, pool, found = self.scrape(self.main), self.scrape(self.pool), self.scrape(self.exporter)
        ended = [
            total(main, "memline_stage_seconds_count", stage=stage, outcome="done") for stage in ("extract", "persist", "link", "save")
        ]
        ended += [total(pool, "memline_stage_batch_jobs_sum", stage=stage) for stage in ("embed", "dedup")]
        ended += [total(main, f"memline_turn_{event}_seconds_count") for event in ("committed", "searchable")]
        waiting = ("memline_jobs_unfinished", "memline_outbox_oldest_seconds", "memline_stream_entries")
        return min(ended) >= self.turns and total(found, "memline_up") == 2 and not any(total(found, name) for name in waiting)

    def scrape(self, port: int) -> Samples:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=120) as response:
            assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            page = response.read().decode()
        self.pages.append(page)
        return samples_of(page)


def samples_of(page: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def total(samples: Samples, name: str, **labels: str) -> float:
    return sum(value for (found, there), value in samples.items() if found == name and labels.items() <= dict(there).items())


def loops_at_work(samples: Samples) -> dict[str, float]:
    """How many loops of each kind work."""
    loops = ("accept", "relay", "sweep", "stage.extract", "stage.dedup")
    return {loop: total(samples, "memline_loops", loop=loop, state="working") for loop in loops}


@contextmanager
def running(folder: Path, redis: RedisServer, postgres: PostgresServer) -> Iterator[Running]:
    database = postgres.create_database()
    settings = {
        "MEMLINE_HOME": str(folder),
        "MEMLINE_REDIS_URL": redis.url,
        "MEMLINE_REDIS_PREFIX": f"metrics-{database}",
        "MEMLINE_LEDGER_URL": postgres.url(database),
        "MEMLINE_HEARTBEAT_EVERY": "1",
        "MEMLINE_SEARCH_DEADLINE": "30",  # a slow machine is no part that is missing
    }
    main, pool = free_port(), free_port()
    workers = {
        "main": Worker(settings, "--stages", "extract,persist,link,save", "--metrics-port", str(main)),
        "pool": Worker(
            settings,
            *("--no-accept", "--no-relay", "--no-sweep", "--stages", "embed,dedup", "--pool", "prefork", "--concurrency", "2"),
            *("--metrics-port", str(pool)),
        ),
    }
    started: list[Worker] = []
    try:
        for worker in workers.values():
            started.append(worker.start())
        with Exporter(settings) as exporter:
            found = Running(settings, main, pool, exporter.port, workers)
            found.scrape(exporter.port)
            observing.forget()  # what this process counts belongs to this home, whatever other tests opened before
            found.work()
            yield found
    finally:
        observing.forget()
        for worker in started:
            worker.stop()
        postgres.drop_database(database)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer, postgres_server: PostgresServer) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("home"), redis_server, postgres_server) as found:
        yield found


def test_a_worker_serves_what_it_and_its_children_count(stack: Running) -> None:
    main, pool = stack.scrape(stack.main), stack.scrape(stack.pool)
    assert total(main, "memline_turns_accepted_total", outcome="new") == stack.turns
    assert total(main, "memline_turn_committed_seconds_count") == stack.turns
    assert total(main, "memline_turn_searchable_seconds_count") == stack.turns
    assert total(main, "memline_turn_committed_seconds_bucket", le="+Inf") == stack.turns
    assert 0 < total(main, "memline_turn_committed_seconds_sum") <= total(main, "memline_turn_searchable_seconds_sum")
    assert total(main, "memline_duplicates_total") >= 1
    for stage in ("extract", "persist", "link", "save"):
        assert total(main, "memline_stage_batch_jobs_sum", stage=stage) == stack.turns
        assert total(main, "memline_stage_seconds_count", stage=stage, outcome="done") == stack.turns
    assert total(main, "memline_relay_rows_total", answer="taken") > 0
    # the pool's children count in files of their own, and are served together, by their parent
    for stage in ("embed", "dedup"):
        assert total(pool, "memline_stage_batch_jobs_sum", stage=stage) == stack.turns
        assert total(main, "memline_stage_batch_jobs_sum", stage=stage) == 0
    assert total(pool, "memline_turn_committed_seconds_count") == 0


def test_the_exporter_says_what_the_ledger_and_redis_hold_and_what_applications_count(stack: Running) -> None:
    found: Samples = {}

    def answers() -> bool:
        """Every part in time, and, if another test killed a worker, its loops' beats overdue by now."""
        found.clear()
        found.update(stack.scrape(stack.exporter))
        return total(found, "memline_up") == 2 and set(loops_at_work(found).values()) == {1}

    eventually(answers, "both parts, and one loop of each kind at work")
    assert total(found, "memline_up", part="ledger") == total(found, "memline_up", part="redis") == 1
    assert total(found, "memline_oldest_turn_seconds") == total(found, "memline_outbox_oldest_seconds") == 0
    assert total(found, "memline_jobs_unfinished") == total(found, "memline_failed_jobs") == total(found, "memline_stream_entries") == 0
    assert total(found, "memline_redis_memory_bytes", what="used") > 0
    assert total(found, "memline_turns_handed_over_total", receipt="queued") == stack.turns
    assert total(found, "memline_search_seconds_count", outcome="whole") == stack.rounds
    assert total(found, "memline_search_phase_seconds_count", phase="nominate") == stack.rounds
    assert total(found, "memline_stage_seconds_count") == 0, "what a worker serves itself is not here once more"


def test_the_command_prints_everything_once(stack: Running) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMLINE_", "OPENAI_"))}
    found: Samples = {}

    def answers() -> bool:
        command = [sys.executable, "-m", "memline", "metrics"]
        done = subprocess.run(command, env=kept | stack.settings, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        stack.pages.append(done.stdout)
        found.clear()
        found.update(samples_of(done.stdout))
        return total(found, "memline_up") == 2

    eventually(answers, "both parts")
    assert total(found, "memline_stage_batch_jobs_sum") == 6 * stack.turns
    assert total(found, "memline_search_seconds_count") == stack.rounds and total(found, "memline_up") == 2


def test_metrics_are_read_and_nothing_can_be_sent(stack: Running) -> None:
    with pytest.raises(HTTPError, match="405") as caught:
        urlopen(f"http://127.0.0.1:{stack.exporter}/metrics", data=b"", timeout=120)
    caught.value.close()


def test_every_panel_shows_something_and_every_alert_can_be_asked(stack: Running) -> None:
    exporter, workers = [f"127.0.0.1:{stack.exporter}"], [f"127.0.0.1:{stack.main}", f"127.0.0.1:{stack.pool}"]
    with Prometheus({"memline": exporter, "memline-workers": workers}) as prometheus:
        eventually(lambda: prometheus.query('min(count_over_time(up{job=~"memline.*"}[1m])) >= 3'), "scraped")
        stack.work()  # rates want a change
        eventually(lambda: prometheus.value("sum(memline_turn_committed_seconds_count)") == stack.turns, "scraped again")
        eventually(lambda: prometheus.value('min(up{job=~"memline.*"})') == 1, "all of them scraped")
        shown = [
            (path.stem, panel["title"], target["expr"])
            for path in sorted((ROOT / "ops/grafana/dashboards").glob("*.json"))
            for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]
            for target in panel.get("targets", ())
        ]
        empty, until = shown, time.monotonic() + 300
        # each once: a rate wants two scrapes, and what missed a scrape shows nothing until the next
        while empty := [target for target in empty if not prometheus.query(target[2].replace("$__rate_interval", "5m"))]:
            assert time.monotonic() < until, empty
            time.sleep(0.5)
        rules = yaml.safe_load((ROOT / "ops/prometheus/rules/memline.yml").read_text(encoding="utf-8"))
        for group in rules["groups"]:
            for rule in group["rules"]:
                prometheus.query(rule["expr"])
        loaded = prometheus.ask("rules")["groups"]
        assert all(rule["health"] != "err" for group in loaded for rule in group["rules"])
        firing = {sample["metric"]["alertname"] for sample in prometheus.query('ALERTS{alertstate="firing"}')}
        assert firing == set(), "all is well"


def test_a_worker_that_is_killed_and_started_again_goes_on_counting(stack: Running) -> None:
    before = total(stack.scrape(stack.main), "memline_turn_committed_seconds_count")
    assert before == stack.turns
    stack.workers["main"].kill()
    stack.workers["main"].start()
    after = stack.scrape(stack.main)
    assert total(after, "memline_turn_committed_seconds_count") == before, "none lost, none counted twice"
    files = [path.name for path in (Path(stack.settings["MEMLINE_HOME"]) / "metrics").iterdir() if path.suffix == ".counts"]
    assert len([name for name in files if name.startswith(f"port-{stack.main}-")]) <= 1


def test_no_id_and_no_text_is_in_any_page(stack: Running) -> None:
    for port in (stack.main, stack.pool, stack.exporter):
        stack.scrape(port)
    for page in stack.pages:
        assert USER not in page and WORD not in page
    for path in (Path(stack.settings["MEMLINE_HOME"]) / "metrics").iterdir():
        raw = path.read_bytes()
        assert USER.encode() not in raw and WORD.encode() not in raw
