"""Counts of several processes are read as one; who is killed loses none, who is started again counts none twice, the folder stays small."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memline.contracts import metrics
from memline.contracts.metrics import Counter, Gauge, Histogram
from memline.observing import _count
from memline.settings import load_settings
from memline.telemetry.counts_file import CountsFile, read_counts, write_counts
from memline.telemetry.counts_folder import CountsFolder, port_group
from memline.telemetry.prometheus import OTHER, FileSink, install
from tests.services import in_child

SAID = Counter("test_said_total", "Said.", {"what": ("a", "b")})
BY_MODEL = Counter("test_models_total", "By model.", {"model": ()})
LEVEL = Gauge("test_level", "Level.")
TOOK = Histogram("test_took_seconds", "Took.", buckets=(1, 2, 5))

#: A process that counts, says so, and waits to be killed or to be told to end.
_PROGRAM = """
import sys
from pathlib import Path
from tests.unit.telemetry.test_counts import LEVEL, SAID, TOOK
from memline.telemetry.prometheus import install
install(Path(sys.argv[1]), sys.argv[2])
for _ in range(int(sys.argv[3])):
    SAID.add(1, what="a")
TOOK.observe(1.5)
LEVEL.set(float(sys.argv[3]))
print("counted", flush=True)
sys.stdin.read()
"""


#: One that writes two numbers in turns until it is killed.
_FLICKERING = """
import sys
from pathlib import Path
from memline.telemetry.counts_file import CountsFile
file = CountsFile(Path(sys.argv[1]))
place = file.place(("c", "x"), 1)
file.set(place, -1.0)
print("ready", flush=True)
while True:
    file.set(place, 3.141592653589793)
    file.set(place, -1.0)
"""


@pytest.fixture(autouse=True)
def _no_sink() -> Iterator[None]:
    before = metrics.installed()
    metrics.use(None)
    yield
    there = metrics.installed()
    if isinstance(there, FileSink):
        there.close()
    metrics.use(before)


class Counting:
    """One such process."""

    def __init__(self, folder: Path, times: int, group: str = "machine") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(folder), group, str(times)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None and self.process.stdout.readline() == "counted\n"

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.send_signal(number)
        self.process.wait(60)
        self.process.stdin.close()
        self.process.stdout.close()


def said(folder: Path, group: str | None = None) -> float:
    return CountsFolder(folder).read(group).get((("c", SAID.name, "a"), 1), (0.0,))[0]


def level(folder: Path) -> float | None:
    return CountsFolder(folder).read().get((("g", LEVEL.name), 1), (None,))[0]


def files(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir())


def test_processes_are_summed_while_they_live_and_after_they_are_killed(tmp_path: Path) -> None:
    first, second = Counting(tmp_path, 3), Counting(tmp_path, 4)
    assert said(tmp_path) == 7 and level(tmp_path) == 4
    first.end()
    assert said(tmp_path) == 7, "a killed process loses nothing, also before anybody has taken it in"
    second.end()
    assert said(tmp_path) == 7 and level(tmp_path) is None, "what a dead process set says nothing any more"
    CountsFolder(tmp_path).take_in_the_dead()
    assert said(tmp_path) == 7
    assert files(tmp_path) == ["", ".past"], "their files are gone"
    CountsFolder(tmp_path).take_in_the_dead()
    assert said(tmp_path) == 7
    assert CountsFolder(tmp_path).read()[("h", TOOK.name), 5] == (0, 2, 0, 0, 3)


def test_the_folder_is_bounded_however_often_a_process_starts(tmp_path: Path) -> None:
    for round_ in range(4):
        Counting(tmp_path, 2).end(signal.SIGKILL if round_ % 2 else signal.SIGTERM)
    assert said(tmp_path) == 8
    assert files(tmp_path).count(".counts") == 1, "who starts takes in who ended"


def test_a_process_that_dies_between_the_sums_and_the_removal_is_not_counted_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Counting(tmp_path, 5).end()

    def dies(self: Path, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", dies)
        with pytest.raises(KeyboardInterrupt):
            CountsFolder(tmp_path).take_in_the_dead()
    assert files(tmp_path) == ["", ".counts", ".past"]
    assert said(tmp_path) == 5
    Counting(tmp_path, 1).end()
    CountsFolder(tmp_path).take_in_the_dead()
    assert said(tmp_path) == 6 and files(tmp_path) == ["", ".past"]


def test_a_reader_that_began_before_the_dead_were_taken_in_sees_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Counting(tmp_path, 5).end()
    reader, other = CountsFolder(tmp_path), CountsFolder(tmp_path)
    plain = reader._names
    asked = []

    def names(pattern: object, group: str | None) -> list[str]:
        if asked:
            other.take_in_the_dead()  # between the files and the past
        asked.append(pattern)
        return plain(pattern, group)  # type: ignore[arg-type]

    monkeypatch.setattr(reader, "_names", names)
    assert reader.read()[("c", SAID.name, "a"), 1] == (5,)


def test_a_group_is_read_alone_and_all_groups_together(tmp_path: Path) -> None:
    group = port_group(9464)
    served, other = Counting(tmp_path, 3, group), Counting(tmp_path, 4)
    served.end()
    CountsFolder(tmp_path).take_in_the_dead()
    assert (said(tmp_path, group), said(tmp_path, port_group(None)), said(tmp_path)) == (3, 4, 7)
    other.end()


def test_workers_of_two_containers_that_share_folder_and_port_are_not_taken_for_one(tmp_path: Path) -> None:
    groups = []
    for host in ("worker-1", "worker-2"):
        groups.append(port_group(9465, host))
        Counting(tmp_path, len(groups), groups[-1]).end()
    CountsFolder(tmp_path).take_in_the_dead()
    assert [said(tmp_path, group) for group in groups] == [1, 2] and said(tmp_path) == 3


def test_the_past_of_a_container_that_does_not_come_back_is_removed_after_a_week(tmp_path: Path) -> None:
    gone, back = "port-9465-00000001", "port-9465-00000002"
    for group in (gone, back, "machine"):
        Counting(tmp_path, 1, group).end()
    CountsFolder(tmp_path).take_in_the_dead()
    there = Counting(tmp_path, 1, back)
    for path in tmp_path.glob("*.past"):
        os.utime(path, (time.time() - 8 * 86_400,) * 2)
    CountsFolder(tmp_path).take_in_the_dead()
    there.end()
    assert (said(tmp_path, gone), said(tmp_path, back), said(tmp_path, "machine")) == (0, 2, 1)


def test_a_child_that_is_forked_while_the_folder_is_locked_does_not_keep_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = CountsFolder(tmp_path)
    of_the_child: list[int] = []
    plain = os.open

    def opened(*given: Any) -> int:
        handle = plain(*given)
        of_the_child.append(os.dup(handle))  # the same open file, as in a child
        return handle

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opened)
        with folder._locked() as ours:
            assert ours
    with folder._locked() as ours:
        assert ours and of_the_child
    for handle in of_the_child:
        os.close(handle)


def test_who_holds_the_folder_and_is_stopped_holds_up_nobody(tmp_path: Path) -> None:
    Counting(tmp_path, 5).end()
    with CountsFolder(tmp_path)._locked() as ours:
        assert ours
        install(tmp_path)
        SAID.add(1, what="a")
        assert said(tmp_path) == 6


def test_what_a_kill_left_half_made_is_removed_one_day(tmp_path: Path) -> None:
    for name in ("machine.1-ab.new", "machine.2-cd.new"):
        (tmp_path / name).touch()
    os.utime(tmp_path / "machine.1-ab.new", (time.time() - 8 * 86_400,) * 2)
    CountsFolder(tmp_path).take_in_the_dead()
    assert [path.name for path in tmp_path.glob("*.new")] == ["machine.2-cd.new"], "the other may be under way"


def test_no_reader_sees_half_a_number(tmp_path: Path) -> None:
    """A counter that falls for a moment looks like a restart to Prometheus, which then adds all of it once more."""
    process = subprocess.Popen(
        [sys.executable, "-c", _FLICKERING, str(tmp_path / "machine.1-ab.counts")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    seen: set[tuple[float, ...]] = set()
    with (tmp_path / "machine.1-ab.counts").open("rb", buffering=0) as file:
        for _ in range(20_000):
            file.seek(0)
            seen |= {values for _, values in read_counts(file.read(64))}
    process.kill()
    process.wait(60)
    process.stdout.close()
    assert seen <= {(-1.0,), (3.141592653589793,)} and seen


def test_a_forked_child_counts_in_a_file_of_its_own(tmp_path: Path) -> None:
    install(tmp_path)
    SAID.add(2, what="a")

    def child() -> int:
        SAID.add(3, what="a")
        return os.getpid()

    assert in_child(child) != os.getpid()
    SAID.add(1, what="a")
    assert said(tmp_path) == 6
    CountsFolder(tmp_path).take_in_the_dead()
    assert said(tmp_path) == 6 and files(tmp_path).count(".counts") == 1, "the child's is taken in, the parent's is held"


def test_threads_lose_no_count(tmp_path: Path) -> None:
    install(tmp_path)

    def work() -> None:
        for _ in range(500):
            SAID.add(1, what="a")
            TOOK.observe(7)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = CountsFolder(tmp_path).read()
    assert said(tmp_path) == 4000
    assert counts[("h", TOOK.name), 5] == (0, 0, 0, 4000, 28000)


def test_a_value_on_a_bound_belongs_to_its_bucket(tmp_path: Path) -> None:
    install(tmp_path)
    for value in (1, 1.01, 5, 6, float("nan")):
        TOOK.observe(value)
    assert CountsFolder(tmp_path).read()[("h", TOOK.name), 5][:4] == (1, 1, 1, 1)


def test_the_series_stay_bounded_whatever_is_said(tmp_path: Path) -> None:
    install(tmp_path)
    SAID.add(1, what="the text of a message")
    for number in range(500):
        BY_MODEL.add(1, model=f"model-{number}" + "x" * 500)
    found = CountsFolder(tmp_path).read()
    assert (("c", SAID.name, OTHER), 1) in found
    models = [key[2] for key, _ in found if key[1] == BY_MODEL.name]
    assert len(models) <= 51 and OTHER in models and max(map(len, models)) <= 100
    assert sum(values[0] for (key, _), values in found.items() if key[1] == BY_MODEL.name) == 500
    assert b"the text" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_more_than_fits_into_the_first_room_is_kept(tmp_path: Path) -> None:
    file = CountsFile(tmp_path / "machine.1-ab.counts")
    for number in range(5_000):
        file.add(file.place(("c", f"name_{number}"), 1), number)
    found = {key: values for key, values in read_counts((tmp_path / "machine.1-ab.counts").read_bytes())}
    file.close()
    assert len(found) == 5_000 and found["c", "name_4999"] == (4999.0,)


def test_where_room_can_only_be_taken_by_writing_it_is_taken_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS has no posix_fallocate."""
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    path = tmp_path / "machine.1-ab.counts"
    file = CountsFile(path)
    assert path.stat().st_size == path.stat().st_blocks * 512 == 64 * 1024
    for number in range(5_000):
        file.add(file.place(("c", f"name_{number}"), 1), number)
    assert dict(read_counts(path.read_bytes()))["c", "name_4999"] == (4999.0,)
    assert path.stat().st_blocks * 512 >= path.stat().st_size
    file.close()


def test_without_locks_an_application_goes_on_and_nothing_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no fcntl, and runs the embedded mode."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    _count(load_settings(home=tmp_path), "application")
    assert metrics.installed() is None


def test_where_nothing_can_be_written_nothing_is_kept_and_nothing_breaks(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("no folder")
    install(tmp_path / "file" / "metrics")
    SAID.add(1, what="a")
    SAID.add(1, what="a")
    ours = [record for record in caplog.records if record.name == "memline.metrics"]  # a thread of another test may still speak
    assert [record.levelname for record in ours] == ["WARNING"]


def test_a_past_of_other_buckets_does_not_mix_with_ours(tmp_path: Path) -> None:
    (tmp_path / "machine.past").write_bytes(write_counts({(("h", TOOK.name), 3): (1.0, 1.0, 9.0)}))
    install(tmp_path)
    TOOK.observe(1)
    found = CountsFolder(tmp_path).read()
    assert found[("h", TOOK.name), 5] == (1, 0, 0, 0, 1) and found[("h", TOOK.name), 3] == (1, 1, 9)


_keys = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x1f"), max_size=20), min_size=1, max_size=4)


@given(st.dictionaries(_keys.map(tuple), st.lists(st.floats(allow_nan=False), max_size=6).map(tuple), max_size=8))
def test_what_is_written_is_read(counts: dict[tuple[str, ...], tuple[float, ...]]) -> None:
    raw = write_counts({(key, len(values)): values for key, values in counts.items()})
    assert dict(read_counts(raw)) == counts


@given(st.binary(max_size=200), st.integers(0, 200))
def test_no_bytes_break_the_reader(noise: bytes, cut: int) -> None:
    whole = write_counts({(("c", "one"), 1): (1.0,), (("h", "two"), 3): (1.0, 2.0, 3.0)})
    list(read_counts(noise))
    assert set(read_counts(whole[:cut])) <= set(read_counts(whole))
    list(read_counts(whole[:16] + noise))
