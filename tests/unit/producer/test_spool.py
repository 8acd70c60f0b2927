"""The spool keeps turns on disk, in order, and gives each back at least once."""

from __future__ import annotations

import json
import logging
import resource
import stat
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memline.contracts.errors import Closed, ConfigurationError, ServiceUnavailable
from memline.contracts.ids import TimeOrderedIds
from memline.contracts.scope import Scope
from memline.contracts.turn import Message, Turn
from memline.producer import Spool
from memline.producer import spool_file as spool_file_module
from tests.services import in_child

IDS = TimeOrderedIds()
ANN = Scope.of("default", user_id="ann")
BOB = Scope.of("other-app", user_id="bob")


def turn(number: int = 1, scope: Scope = ANN, text: str = "I moved to Lyon.") -> Turn:
    return Turn(IDS.new(), scope, (Message("user", text),), datetime(2026, 5, 1, tzinfo=UTC), producer="p", number=number)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def spool(folder: Path) -> Iterator[Spool]:
    made = Spool(folder, "p1")
    yield made
    made.close()


def left_behind(folder: Path, turns: list[Turn], name: str = "p0", tail: bytes = b"") -> Path:
    """A file as a producer that was killed leaves it."""
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{name}.jsonl"
    path.write_bytes(b"".join(each.as_spooled().to_wire().encode() + b"\n" for each in turns) + tail)
    return path


def test_turns_come_back_in_order_marked_as_spooled(spool: Spool) -> None:
    turns = [turn(number, scope) for number in (1, 2, 3) for scope in (ANN, BOB)]
    for each in turns:
        spool.append(each)
    sent: list[str] = []
    assert spool.drain(sent.append) == 6
    assert [Turn.from_wire(line) for line in sent] == [replace(each, spooled=True) for each in turns]
    assert spool.drain(sent.append) == 0


def test_a_lane_is_held_until_its_last_turn_was_sent(spool: Spool) -> None:
    for each in (turn(1), turn(1, BOB), turn(2)):
        spool.append(each)
    assert spool.lanes() == {ANN.lane, BOB.lane}
    held = []
    spool.drain(lambda line: held.append((spool.holds(ANN.lane), spool.holds(BOB.lane))))
    assert held == [(True, True), (True, True), (True, False)]
    assert spool.lanes() == frozenset()


def test_nobody_else_may_read_the_spool(folder: Path, spool: Spool) -> None:
    spool.append(turn())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "p1.jsonl").stat().st_mode) == 0o600


def test_what_failed_to_be_sent_stays_and_comes_next(spool: Spool) -> None:
    for number in range(1, 6):
        spool.append(turn(number))
    sent: list[int] = []

    def send(line: str) -> None:
        if len(sent) == 2:
            raise ServiceUnavailable("away")
        sent.append(json.loads(line)["number"])

    with pytest.raises(ServiceUnavailable):
        spool.drain(send)
    assert spool.pending() == 3
    spool.append(turn(6))
    sent.clear()
    spool.drain(lambda line: sent.append(json.loads(line)["number"]))
    assert sent == [3, 4, 5, 6]


def test_an_own_turn_is_found_until_it_was_sent(folder: Path, spool: Spool) -> None:
    first, second = turn(1), turn(2, text=f"they told me {IDS.new()}")
    spool.append(first)
    spool.append(second)
    seen = []
    spool.drain(lambda line: seen.append((spool.find(first.id), spool.find(second.id))))
    assert seen == [(True, True), (False, True)]
    assert not spool.find(second.id)


def test_an_id_that_is_only_mentioned_is_not_found(spool: Spool) -> None:
    mentioned = IDS.new()
    spool.append(replace(turn(), metadata={"id": mentioned}))
    assert not spool.find(mentioned)


def test_a_turn_in_another_file_of_the_folder_is_found(folder: Path, spool: Spool) -> None:
    other = turn()
    left_behind(folder, [other])
    assert spool.find(other.id)


def test_the_file_is_gone_after_everything_was_sent_and_the_spool_closed(folder: Path) -> None:
    spool = Spool(folder, "p1")
    spool.append(turn())
    spool.drain(lambda line: None)
    spool.close()
    assert list(folder.iterdir()) == []
    with pytest.raises(Closed):
        spool.append(turn())


def test_a_closed_spool_leaves_exactly_what_was_not_sent(folder: Path) -> None:
    spool = Spool(folder, "p1")
    for number in range(1, 6):
        spool.append(turn(number))
    spool.drain(lambda line: None, stop=lambda: spool.pending() == 2)
    spool.close()
    sent: list[int] = []
    assert Spool(folder).adopt(lambda line: sent.append(json.loads(line)["number"])) == 2
    assert sent == [4, 5]


def test_a_dead_producers_file_is_adopted_and_removed(folder: Path, spool: Spool) -> None:
    turns = [turn(1), turn(1, BOB), turn(2)]
    path = left_behind(folder, turns)
    assert spool.orphans() == [path]
    sent: list[str] = []
    assert spool.adopt(sent.append) == 3
    assert [json.loads(line)["id"] for line in sent] == [each.id for each in turns]
    assert not path.exists()
    assert spool.orphans() == []


def test_a_living_producers_file_is_left_alone(folder: Path, spool: Spool) -> None:
    spool.append(turn())
    sent: list[str] = []
    other = Spool(folder, "p2")
    assert other.orphans() == []
    assert other.adopt(sent.append) == 0
    assert sent == []
    assert spool.pending() == 1


def test_an_adoption_that_fails_leaves_the_rest_to_the_next(folder: Path, spool: Spool) -> None:
    path = left_behind(folder, [turn(number) for number in (1, 2, 3)])
    sent: list[int] = []

    def send(line: str) -> None:
        if len(sent) == 1:
            raise ServiceUnavailable("away")
        sent.append(json.loads(line)["number"])

    with pytest.raises(ServiceUnavailable):
        spool.adopt(send)
    assert [json.loads(line)["number"] for line in path.read_bytes().splitlines()] == [2, 3]
    assert spool.orphans() == [path]


@pytest.mark.parametrize("lines", [0, 2])
def test_a_torn_last_line_is_set_aside_and_reported(folder: Path, lines: int, caplog: pytest.LogCaptureFixture) -> None:
    path = left_behind(folder, [turn(number) for number in range(lines)], tail=b'{"v":1,"id":"x","messages":[{"text":"my sec')
    sent: list[str] = []
    with caplog.at_level(logging.WARNING, logger="memline.producer"):
        assert Spool(folder).adopt(sent.append) == lines
    assert path.with_suffix(".torn").read_bytes() == b'{"v":1,"id":"x","messages":[{"text":"my sec\n'
    assert not path.exists()
    assert "43 bytes" in caplog.text
    assert "my sec" not in caplog.text


@pytest.mark.parametrize("damage", [b"\x00\x00\x00", b"{}", b"[1]", b'"text"', b"\xff\xfe", b""])
def test_a_damaged_line_does_not_hold_back_the_rest(folder: Path, damage: bytes) -> None:
    first, last = turn(1), turn(2)
    path = left_behind(folder, [first], tail=damage + b"\n" + last.to_wire().encode() + b"\n")
    sent: list[str] = []
    assert Spool(folder).adopt(sent.append) == 2
    assert [json.loads(line)["id"] for line in sent] == [first.id, last.id]
    assert path.with_suffix(".torn").read_bytes() == damage + b"\n"


def test_a_turn_of_a_newer_memline_is_sent_on_as_it_is(folder: Path) -> None:
    newer = turn().to_wire().replace('"v":1', '"v":2,"added":"later"', 1)
    folder.mkdir()
    (folder / "p0.jsonl").write_text(newer + "\n")
    sent: list[str] = []
    Spool(folder).adopt(sent.append)
    assert sent == [newer]


def test_the_leftover_of_a_rewrite_that_was_cut_short_is_removed(folder: Path) -> None:
    path = left_behind(folder, [turn()])
    path.with_suffix(".new").write_bytes(path.read_bytes())
    assert Spool(folder).adopt(lambda line: None) == 1
    assert list(folder.iterdir()) == []


def test_the_status_tells_files_turns_bytes_and_owners(folder: Path, spool: Spool) -> None:
    dead = left_behind(folder, [turn(), turn()])
    spool.append(turn())
    found = spool.status()
    assert [(each.file, each.turns, each.owner_alive) for each in found] == [(dead, 2, False), (folder / "p1.jsonl", 1, True)]
    assert [each.bytes for each in found] == [each.file.stat().st_size for each in found]
    assert Spool(folder / "nowhere").status() == []


def test_a_spool_opened_without_a_producer_is_not_written(folder: Path) -> None:
    with pytest.raises(ConfigurationError):
        Spool(folder).append(turn())
    assert not folder.exists()


def test_a_full_disk_refuses_the_turn_and_keeps_nothing_of_it(folder: Path) -> None:
    """The limit on a file's size fails a write in its middle, as a full disk does."""

    def fill() -> dict[str, Any]:
        spool = Spool(folder, "child")
        spool.append(turn(1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        refused = turn(2, text="x" * 2000)
        try:
            spool.append(refused)
            return {"error": None}
        except ServiceUnavailable as error:
            shown = str(error)
        whole = (folder / "child.jsonl").read_bytes().count(b"\n") == 1 and (folder / "child.jsonl").read_bytes().endswith(b"}\n")
        spool.append(turn(3))
        sent: list[str] = []
        spool.drain(sent.append)
        return {"error": shown, "id": refused.id, "whole": whole, "numbers": [json.loads(line)["number"] for line in sent]}

    found = in_child(fill)
    assert "NOT taken" in found["error"]
    assert found["id"] in found["error"]
    assert found["whole"]
    assert found["numbers"] == [1, 3]


def test_a_folder_that_can_not_be_made_refuses_the_turn(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    spool = Spool(tmp_path / "file" / "spool", "p1")
    with pytest.raises(ServiceUnavailable, match="NOT taken"):
        spool.append(turn())
    assert spool.pending() == 0
    spool.close()


def test_a_forked_child_leaves_its_parents_file_to_the_parent(folder: Path, spool: Spool) -> None:
    spool.append(turn(1))

    def child() -> list[int]:
        spool.abandon()
        own = Spool(folder, "child")
        own.append(turn(9))
        sent: list[int] = []
        own.drain(lambda line: sent.append(json.loads(line)["number"]))
        assert own.adopt(lambda line: sent.append(0)) == 0
        own.close()
        return sent

    assert in_child(child) == [9]
    spool.append(turn(2))
    sent: list[int] = []
    spool.drain(lambda line: sent.append(json.loads(line)["number"]))
    assert sent == [1, 2]


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(st.one_of(st.integers(1, 400), st.just("drain"), st.just("crash")), max_size=40),
    compact_from=st.sampled_from([1, 300, 5000]),
)
def test_every_turn_comes_back_in_order_whatever_is_cut_short(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int | str], compact_from: int
) -> None:
    """Appends, drains that stop after two turns, and crashes, with the file rewritten early, late or never."""
    folder = tmp_path_factory.mktemp("spool")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool_file_module, "_COMPACT_FROM", compact_from)
        spool, born, kept, sent = Spool(folder, "p00"), 0, 0, []
        for step in steps:
            if isinstance(step, int):
                kept += 1
                spool.append(turn(kept, text="x" * step))
            elif step == "drain":
                some = islice(repeat(False), 2)
                spool.drain(lambda line: sent.append(json.loads(line)["number"]), stop=partial(next, some, True))
            else:
                spool.abandon()  # the lock ends as with its process
                born += 1
                spool = Spool(folder, f"p{born:02}")
                spool.adopt(lambda line: sent.append(json.loads(line)["number"]))
        spool.drain(lambda line: sent.append(json.loads(line)["number"]))
        spool.close()
    firsts = list(dict.fromkeys(sent))
    assert firsts == list(range(1, kept + 1))
    assert list(folder.iterdir()) == []
