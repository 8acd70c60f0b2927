"""`memline index reembed`: moves the ledger to the embedder of the settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memline.cli.chosen import chosen
from memline.cli.options import AsJson
from memline.cli.screen import bar, facts, note, print_json, screen, text

if TYPE_CHECKING:
    from memline.compose import House
    from memline.ledger.meta import Embedders
    from memline.ledger.next_vectors import Amount
    from memline.outbox.reembed import Told

__all__ = ["reembed"]

EmbedderName = Annotated[str | None, typer.Option("--embedder", metavar="NAME", help="Instead of MEMLINE_EMBEDDER.", show_default=False)]
Model = Annotated[
    str | None, typer.Option("--embedding-model", metavar="MODEL", help="Instead of MEMLINE_EMBEDDING_MODEL.", show_default=False)
]
Dimension = Annotated[
    int | None,
    typer.Option("--embedding-dimension", metavar="NUMBER", help="Instead of MEMLINE_EMBEDDING_DIMENSION.", show_default=False),
]
Price = Annotated[
    float | None,
    typer.Option(metavar="PRICE", min=0, help="What a million tokens cost, to tell the cost beforehand.", show_default=False),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell count and cost, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Discard = Annotated[bool, typer.Option("--discard", help="Throw away what a half-done move to another embedder embedded.")]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a move would do."""

    model: str
    dimension: int
    paid: bool
    price: float | None
    amount: Amount
    embedders: Embedders

    @property
    def arrived(self) -> bool:
        return self.embedders.own == (self.model, self.dimension)

    @property
    def cost(self) -> float | None:
        """In the currency of the price; None where nobody named one."""
        if self.price is None:
            return None if self.paid else 0.0
        return self.amount.tokens * self.price / 1_000_000

    def to_json(self) -> dict[str, Any]:
        own = self.embedders.own
        return {
            "from": None if own is None else {"model": own[0], "dimension": own[1]},
            "to": {"model": self.model, "dimension": self.dimension},
            "memories": self.amount.memories,
            "entities": self.amount.entities,
            "tokens": self.amount.tokens,
            "cost": self.cost,
        }


def reembed(
    context: typer.Context,
    embedder: EmbedderName = None,
    embedding_model: Model = None,
    embedding_dimension: Dimension = None,
    price_per_million: Price = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    discard: Discard = False,
    as_json: AsJson = False,
) -> None:
    """Embed every memory and entity anew, by the embedder of the settings, and change over to it.

    Tells count and cost, then asks. The old vectors serve until the swap, while turns and searches go on. Stopped or killed, the same
    command goes on where it was. Afterwards restart what runs, with the new settings: until then it stores nothing and searches by words.
    """
    from memline.compose import House

    given = {"embedder": embedder, "embedding_model": embedding_model, "embedding_dimension": embedding_dimension}
    house = House(chosen(context).settings(**{name: value for name, value in given.items() if value is not None}), claims=False)
    with closing(_Closing(house)):
        plan = _plan(house, price_per_million)
        if not as_json:
            _show(plan)
        if dry_run:
            if as_json:
                print_json(plan.to_json())
            return
        if not (yes or plan.arrived):
            _ask(as_json)
        done = _go(house, discard=discard)
    if as_json:
        print_json({**plan.to_json(), **done})
        return
    console = screen()
    if done["moved"]:
        console.print(text(f"The ledger has vectors of {plan.model} now; {done['embedded']} texts were embedded by this run.", "green"))
        note(f"Restart what runs with the settings that name {plan.model}: until then it stores nothing and searches by words only.")
    else:
        console.print(text("Nothing to do: the ledger has this embedder already.", "green"))
    if done["refused"]:
        note(f"The new index refused {done['refused']} objects: `memline doctor` shows the outbox, `memline reconcile` tries again.")


def _plan(house: House, price: float | None) -> _Plan:
    from memline.ledger.meta import embedders
    from memline.ledger.next_vectors import Amount, without_next

    embedder = house.embedder
    with house.ledger.read() as connection:
        found = embedders(connection)
        arrived = found.own == (embedder.model, embedder.dimension)
        amount = Amount(0, 0, 0, 0) if arrived else without_next(connection, embedder.model)
    return _Plan(embedder.model, embedder.dimension, embedder.paid, price, amount, found)


def _show(plan: _Plan) -> None:
    if plan.arrived:
        return
    own, move = plan.embedders.own, plan.embedders.move
    cost = "unknown: give --price-per-million" if plan.cost is None else f"{plan.cost:.2f}" if plan.cost else "nothing"
    rows = [
        ("from", text("nothing yet" if own is None else f"{own[0]}, {own[1]} dimensions")),
        ("to", text(f"{plan.model}, {plan.dimension} dimensions")),
        ("to embed", text(f"{plan.amount.memories} memories, {plan.amount.entities} entities")),
        ("tokens", text(f"about {plan.amount.tokens}")),
        ("cost", text(cost if plan.cost is None or not plan.cost else f"about {cost}")),
    ]
    if move is not None and (move.model, move.dimension) == (plan.model, plan.dimension):
        rows.append(("goes on", text("where an earlier run stopped; what is embedded is not counted above")))
    screen().print(facts(rows))


def _ask(as_json: bool) -> None:
    if as_json:
        raise typer.BadParameter("with --json nothing is asked: add --yes.", param_hint="--json")
    typer.confirm("Embed them and change over?", abort=True)


def _go(house: House, *, discard: bool) -> dict[str, Any]:
    from memline.outbox.reembed import Reembedding, finish

    with _stoppable(), _progress() as told:
        moving = Reembedding(house.ledger, house.counted_embedder(), house.index_of, house.clock, house.ids.new(), told=told)
        moved = moving.run(discard=discard)
        finish(house.ledger, house.relay, house.reconciler, house.index, house.clock, house.index_of, told=told)
    return {"moved": moved, "embedded": moving.embedded, "refused": moving.refused}


@contextmanager
def _stoppable() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt("The same command goes on here; until then the former embedder serves.") from None


@contextmanager
def _progress() -> Iterator[Told]:
    with bar("Re-embedding", None) as shown:
        yield lambda what, done, total: shown.show(done, what, total)


class _Closing:
    """A house to be closed at the end of a block: it runs nothing that would have to be waited for."""

    def __init__(self, house: House) -> None:
        self._house = house

    def close(self) -> None:
        self._house.close(0)
