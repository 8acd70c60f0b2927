"""A ledger that moves to another embedder with Weaviate as its index: two spaces side by side, and one afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from memline.ledger.session import Ledger
from memline.search.index.port import Space
from memline.search.index.weaviate import WeaviateIndex
from tests.integration.outbox.moving import Letters, Town, WideLetters
from tests.integration.search.backends import weaviate_index
from tests.weaviate_server import Reached


@pytest.mark.parametrize("embedder", [Letters, WideLetters], ids=["of equal dimension", "of another dimension"])
def test_a_move_fills_the_next_space_while_the_former_serves_and_drops_it_then(
    weaviate_server: Reached, ledger: Ledger, tmp_path: Path, embedder: type[Letters]
) -> None:
    made: list[WeaviateIndex] = []

    def make(space: Space) -> WeaviateIndex:
        made.append(weaviate_index(weaviate_server, ledger, prefix=f"Move{tmp_path.name[-6:].translate(_LETTERS)}", space=space))
        return made[-1]

    town = Town(ledger, tmp_path, make)  # type: ignore[arg-type]
    town.old.say(*(f"User likes tea {n} with Poppy" for n in range(5)))

    def meanwhile(what: str, done: int, total: int | None) -> None:
        if what == "Filling the new index" and town.old.found("tea 1 with Poppy"):
            assert town.old.found("User likes tea 4 with Poppy")[0] == "User likes tea 4 with Poppy"
            assert not town.old.search("tea").missing
            town.old.say("User likes cocoa with Anna")

    new = town.side(embedder())
    assert new.move(told=meanwhile)
    town.check(new)
    assert new.found("User likes tea 3 with Poppy")[0] == "User likes tea 3 with Poppy"
    assert "User likes cocoa with Anna" in new.found("cocoa")
    found = town.old.search("User likes tea 3 with Poppy")
    assert "embedder" in found.missing and found.results[0].row.text == "User likes tea 3 with Poppy"
    assert list(make(Space("trigrams", 64)).walk("memory", "default")) == []
    for index in made:
        index.drop()
        index.close()


_LETTERS = {ord(c): ord("x") for c in "_-."}
