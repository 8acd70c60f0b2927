"""`memline weights`: how much each signal counts in the searches of one namespace."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Annotated, Any

import typer

from memline.cli.chosen import chosen
from memline.cli.houses import open_house
from memline.cli.options import AsJson
from memline.cli.screen import fresh_table, local_time, note, print_json, screen, text
from memline.contracts.errors import InvalidInput

__all__ = ["app"]

app = typer.Typer(help="The weights of search in one namespace.", no_args_is_help=True)

WeightsFile = Annotated[
    typer.FileText, typer.Argument(metavar="FILE", encoding="utf-8", help='{"signals": {…}, "middle": …, "slope": …}; - reads stdin.')
]


@app.callback()
def weights() -> None:
    """The weights of search in one namespace: the published ones, unless it has its own."""


@app.command()
def show(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the weights in use. `--json` writes what `memline weights set` reads."""
    from memline.ledger.namespace_options import WEIGHTS, option_of
    from memline.search.namespace_weights import weights_from_json, weights_to_json
    from memline.search.weights import DEFAULT

    with closing(open_house(chosen(context))) as opened:
        with opened.house.ledger.read() as connection:
            option = option_of(connection, opened.namespace, WEIGHTS)
        namespace = opened.namespace
    used = DEFAULT if option is None else weights_from_json(option.value)
    if as_json:
        print_json({"namespace": namespace, "source": "default" if option is None else "namespace", **weights_to_json(used)})
        return
    table = fresh_table(("signal", {}), ("weight", {"justify": "right"}), ("published", {"justify": "right"}))
    published = dict(DEFAULT.signals) | {"middle": DEFAULT.middle, "slope": DEFAULT.slope}
    for name, value in (dict(used.signals) | {"middle": used.middle, "slope": used.slope}).items():
        before = published.get(name, 0.0)
        table.add_row(text(name), text(f"{value:g}", "" if value == before else "bold"), text(f"{before:g}", "dim"))
    screen().print(table)
    if option is None:
        note(f"Namespace {namespace} has no weights of its own: these are the published ones.")
    else:
        note(f"Namespace {namespace} has its own weights since {local_time(option.set_at)}; `memline weights clear` removes them.")


@app.command("set")
def set_weights(context: typer.Context, file: WeightsFile, as_json: AsJson = False) -> None:
    """Give the namespace weights of its own. What the file leaves out counts as published; running searches use them in seconds."""
    from memline.ledger.namespace_options import WEIGHTS, set_option
    from memline.search.namespace_weights import FRESH_FOR, weights_from_json, weights_to_json

    found = weights_to_json(weights_from_json(_object_in(file)))
    with closing(open_house(chosen(context))) as opened:
        with opened.house.ledger.write() as tx:
            set_option(tx, opened.namespace, WEIGHTS, found, now=opened.house.clock.now())
        namespace = opened.namespace
    if as_json:
        print_json({"namespace": namespace, "source": "namespace", **found})
    else:
        screen().print(text(f"Namespace {namespace} has its own weights; searches that run use them within {FRESH_FOR:g} s."))


@app.command()
def clear(context: typer.Context, as_json: AsJson = False) -> None:
    """Remove the namespace's own weights: the published ones count again."""
    from memline.ledger.namespace_options import WEIGHTS, clear_option

    with closing(open_house(chosen(context))) as opened:
        with opened.house.ledger.write() as tx:
            had = clear_option(tx, opened.namespace, WEIGHTS)
        namespace = opened.namespace
    if as_json:
        print_json({"namespace": namespace, "cleared": had})
    elif had:
        screen().print(text(f"Namespace {namespace} searches with the published weights again."))
    else:
        note(f"Namespace {namespace} has no weights of its own.")


def _object_in(file: typer.FileText) -> Any:
    """The JSON of *file*, without the names that `show --json` adds. Raises InvalidInput."""
    try:
        found = json.loads(file.read())
    except UnicodeDecodeError:
        raise InvalidInput("The file is no text in UTF-8.") from None
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidInput(f"The file is not JSON{where}.") from None
    return {name: value for name, value in found.items() if name not in ("namespace", "source")} if isinstance(found, dict) else found
