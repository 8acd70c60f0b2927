"""After a restore of a backup that is older than its tombstones: what they erased is erased again, and what came after them stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from memline.contracts.errors import ConfigurationError
from memline.ledger.erase_rows import Whose
from memline.ledger.meta import check_embedder
from memline.ledger.schema import jobs, memories, subjects, tombstones
from memline.ledger.session import Ledger
from memline.ledger.tenants import ledger_name
from memline.ledger.tombstones import keyed_hash
from memline.outbox.erase_replay import missing, replay
from memline.outbox.tombstone_file import EraseKey, FiledStone, TombstoneFile
from memline.outbox.verify import verify
from memline.pipeline.parts import Parts
from tests.integration.outbox.erasing import ANN, KEY, SECRET, eraser, holders, rows_of_others, say
from tests.parts import HandClock, MemoryIndex, accept, make_parts, make_relay, make_turn, run_all, table


@pytest.fixture
def parts(ledger: Ledger) -> Parts:
    found = make_parts(ledger)
    with ledger.write() as tx:
        check_embedder(tx, found.embedder.model, found.embedder.dimension)
        ledger_name(tx, "this-ledger")
    return found


def stone(parts: Parts, **given: object) -> FiledStone:
    """A tombstone of Ann's that the ledger has never seen, of now."""
    filed = FiledStone(
        id="erasure-lost",
        ledger="this-ledger",
        namespace="default",
        kind="user",
        hash=keyed_hash(KEY.secret, ANN.key),
        sealed=KEY.seal("erasure-lost", ANN.key),
        key_id=KEY.id,
        epoch=1,
        place="0-0",
        at=parts.clock.now(),
        finished=True,
    )
    return replace(filed, **given)  # type: ignore[arg-type]


def test_what_was_committed_before_it_goes_and_what_was_added_after_it_stays(parts: Parts, tmp_path: Path) -> None:
    say(parts, f"Anna keeps {SECRET}", user="bob")
    before = rows_of_others(parts.ledger)
    say(parts, f"Anna keeps {SECRET}m", idempotency_key="old", metadata={"pin": f"{SECRET}m"})
    accept(parts, make_turn(f"on its way {SECRET}m", user=ANN.value, id="old"))
    file = TombstoneFile(tmp_path / "tombstones.jsonl")
    file.append(stone(parts))
    clock = parts.clock
    assert isinstance(clock, HandClock)
    clock.advance(60)
    accept(parts, make_turn("ann likes new tea", user=ANN.value, id="new"))
    stones = missing(parts.ledger, file)
    assert replay(parts.ledger, stones, KEY, now=clock.now()) >= 2
    assert holders(parts.ledger, f"{SECRET}m") == set()
    run_all(parts)
    make_relay(parts).drain()
    assert [row.text for row in table(parts.ledger, memories, memories.c.user_id == ANN.value)] == ["ann likes new tea"]
    assert [row.id for row in table(parts.ledger, jobs, jobs.c.id.in_(["old", "new"]))] == ["new"]
    assert verify(parts.ledger, parts.index, deep=True).to_json() == {"sound": True, "findings": [], "lag": 0}
    assert missing(parts.ledger, file) == []
    eraser(parts, tmp_path).erase(ANN)
    assert rows_of_others(parts.ledger) == before
    assert isinstance(parts.index, MemoryIndex)
    assert {found.user_id for found in parts.index.objects.values()} == {"bob"}


def test_one_of_another_ledger_or_of_a_subject_that_is_not_there_changes_nothing(parts: Parts, tmp_path: Path) -> None:
    say(parts, "tea", user="bob")
    before = rows_of_others(parts.ledger)
    file = TombstoneFile(tmp_path / "tombstones.jsonl")
    file.append(stone(parts, ledger="another"))
    assert missing(parts.ledger, file) == []
    file.append(stone(parts))
    assert replay(parts.ledger, missing(parts.ledger, file), KEY, now=parts.clock.now()) == 0
    assert rows_of_others(parts.ledger) == before
    assert [(row.phase, row.epoch) for row in table(parts.ledger, tombstones)] == [("replayed", 1)]
    assert [row.epoch for row in table(parts.ledger, subjects, subjects.c.key == ANN.key)] == [1]


def test_without_its_key_or_with_changed_halves_nothing_is_done(parts: Parts, tmp_path: Path) -> None:
    say(parts, f"Anna keeps {SECRET}")
    with pytest.raises(ConfigurationError, match="MEMLINE_ERASE_KEY"):
        replay(parts.ledger, [stone(parts)], None, now=parts.clock.now())
    with pytest.raises(ConfigurationError, match="another one"):
        replay(parts.ledger, [stone(parts)], EraseKey(b"other", "x"), now=parts.clock.now())
    with pytest.raises(ConfigurationError, match="changed by somebody"):
        replay(parts.ledger, [stone(parts, sealed="0" * 32)], KEY, now=parts.clock.now())
    assert len(table(parts.ledger, memories)) == 1


def test_a_replay_that_was_interrupted_goes_on(parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    say(parts, f"Anna keeps {SECRET}")
    file = TombstoneFile(tmp_path / "tombstones.jsonl")
    file.append(stone(parts))

    def broken(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("killed")

    stones = missing(parts.ledger, file)
    with monkeypatch.context() as patch:
        patch.setattr("memline.outbox.erase_replay.remove_rows", broken)
        with pytest.raises(RuntimeError):
            replay(parts.ledger, stones, KEY, now=parts.clock.now())
    assert len(table(parts.ledger, memories)) == 1
    replay(parts.ledger, missing(parts.ledger, file), KEY, now=parts.clock.now())
    assert table(parts.ledger, memories) == [] and missing(parts.ledger, file) == []


def test_a_torn_line_of_the_file_is_passed_over_and_the_next_one_is_whole(parts: Parts, tmp_path: Path) -> None:
    file = TombstoneFile(tmp_path / "tombstones.jsonl")
    file.append(stone(parts, id="first"))
    with file.path.open("ab") as handle:
        handle.write(b'{"v": 1, "id": "to')
    file.append(stone(parts, id="second"))
    assert list(file.read()) == ["first", "second"]
    with file.path.open("ab") as handle:
        handle.write(b'{"v": 2}\n')
    with pytest.raises(ConfigurationError, match="newer"):
        file.read()


def test_the_rows_of_a_subject_can_be_told_by_time(parts: Parts) -> None:
    say(parts, "one")
    now = parts.clock.now()
    with parts.ledger.read() as connection:
        for before, number in ((None, 1), (now, 1), (now.replace(year=2020), 0)):
            whose = Whose("default", "user", ANN.value, before)
            assert connection.execute(sa.select(sa.func.count()).select_from(memories).where(whose.memories)).scalar_one() == number
