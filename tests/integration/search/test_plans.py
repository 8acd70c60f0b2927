"""A search reads its scope and nothing else: every row of every statement is found by an index that begins with the scope.

Times of a test machine prove nothing; the plans do, and they do not change with what other scopes hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from memline.ledger import postings as postings_module
from memline.ledger.migrate import open_ledger
from memline.ledger.schema import memories
from memline.ledger.session import Ledger
from memline.search import entity_leg as entity_leg_module
from memline.search import gather as gather_module
from tests.integration.search.world import World
from tests.parts import START

#: What is walked from end to end: lists that were given, and tables of a handful of rows.
WALKED = re.compile(r"SCAN (?:\w+ VIRTUAL TABLE|CONSTANT ROW|anon_\d+|\w+_given\b)")
#: A whole namespace, or all objects of a kind, is no scope; of removals there is one row for these.
TOO_WIDE = re.compile(r"^SEARCH (?!index_deletions).*\((?:namespace=\?|kind=\?|kind=\? AND namespace=\?|dimension=\?|model=\?|state=\?)\)")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("plans")
    ledger = Ledger(f"sqlite:///{folder / 'ledger.db'}")
    open_ledger(ledger)
    found = World(ledger, folder)
    for user in ("ann", "bob"):
        for run in ("r1", "r2"):
            found.say_all([f"Poppy drank tea in cup {n} of Fabrikam" for n in range(12)], user=user, run=run, metadata={"colour": "green"})
    yield found
    ledger.close()


@contextmanager
def plans(ledger: Ledger, explain: str = "EXPLAIN QUERY PLAN ") -> Iterator[dict[str, list[str]]]:
    """By statement, the lines of its plan; of those that read."""
    found: dict[str, list[str]] = {}
    seen: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        if statement.lstrip().startswith("SELECT"):
            seen.append((statement, parameters))

    sa.event.listen(ledger.engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        sa.event.remove(ledger.engine, "before_cursor_execute", note)
        with ledger.engine.connect() as connection:
            for statement, parameters in seen:
                found[statement] = [row[-1] for row in connection.exec_driver_sql(explain + statement, parameters)]


SEARCHES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"user_id": "ann"}, {}),
    ({"user_id": "ann", "run_id": "r1"}, {}),
    ({"run_id": "r1"}, {}),
    ({"user_id": "ann", "colour": "green"}, {}),
    ({"OR": [{"user_id": "ann"}, {"user_id": "bob"}]}, {}),
    ({"user_id": "ann"}, {"as_of": START}),
    ({"user_id": "ann"}, {"show_expired": True, "include_superseded": True}),
]


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(("filters", "options"), SEARCHES)
def test_every_row_is_found_by_an_index_within_the_scope(
    world: World, monkeypatch: pytest.MonkeyPatch, large: bool, filters: dict[str, Any], options: dict[str, Any]
) -> None:
    if large:  # the statements that large scopes and common names are asked with
        monkeypatch.setattr(postings_module, "WHOLE", 0)
        monkeypatch.setattr(gather_module, "ASKED_FIRST", 3)
        monkeypatch.setattr(entity_leg_module, "MAX_LINKS", 5)
    with plans(world.ledger) as found:
        assert world.find("When did Poppy drink tea in cup 7 of Fabrikam", filters, **options).results
    assert len(found) >= 10
    for statement, lines in found.items():
        for line in lines:
            if line.startswith("SCAN"):
                assert WALKED.match(line), f"{line}\n{statement}"
            assert not TOO_WIDE.match(line), f"{line}\n{statement}"
            assert "AUTOMATIC" not in line, f"{line}\n{statement}"


def test_the_vectors_of_other_scopes_are_not_looked_at(world: World) -> None:
    world.say("Poppy drank tea in cup 99 of Fabrikam")
    with plans(world.ledger) as found:
        world.find("When did Poppy drink tea")
    lines = [line for statement, plan in found.items() if "index_objects" in statement for line in plan]
    assert any("user_id=?" in line and "seq>?" in line for line in lines)


def test_postgres_looks_up_too_when_it_knows_that_one_scope_is_most_of_the_table(postgres_url: str, tmp_path: Path) -> None:
    """Statistics say then that a lane has thousands of rows; a search wants a few of another one."""
    ledger = Ledger(postgres_url)
    open_ledger(ledger)
    world = World(ledger, tmp_path)
    for user in ("ann", "bob"):
        world.say_all([f"Poppy drank tea in cup {n} of Fabrikam" for n in range(12)], user=user, infer=False)
    _multiply(ledger, 20_000)
    with ledger.engine.connect() as connection:
        connection.exec_driver_sql("ANALYZE")
        connection.commit()
    asked = "When did Poppy drink tea in cup 7 of Fabrikam"
    searches = ({"user_id": "ann"}, {"user_id": "bob"})
    for filters in searches:
        world.find(asked, filters)  # names of speakers are known afterwards
    with plans(ledger, "EXPLAIN ") as found:
        for filters in searches:
            assert len(world.find(asked, filters, threshold=0).results) >= 12
    ledger.close()
    for statement, lines in found.items():
        for line in lines:
            assert "Seq Scan on memories" not in line, f"{line}\n{statement}"


def _multiply(ledger: Ledger, number: int) -> None:
    """Gives bob's lane *number* memories more, each a copy of his first at a later place."""
    new = {"id": "md5(g::text)", "job_id": "'copy-' || g", "place": "1000 + g", "content_hash": "md5('hash' || g)"}
    names = [column.name for column in memories.c if column.name != "no"]
    values = ", ".join(new.get(name, f"m.{name}") for name in names)
    with ledger.write() as tx:
        tx.exec_driver_sql(
            f"INSERT INTO memories ({', '.join(names)}) SELECT {values} FROM generate_series(1, {number}) g, "
            "(SELECT * FROM memories WHERE user_id = 'bob' ORDER BY no LIMIT 1) m"
        )
