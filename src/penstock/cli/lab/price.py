"""`penstock lab price`: what runs cost for what they did, and what a store costs over its life."""

from __future__ import annotations

import sys
from typing import Annotated, Optional

import typer

from penstock.cli.lab import options
from penstock.cli.lab.app import app
from penstock.cli.lab.runs import find
from penstock.cli.lab.show import present
from penstock.errors import InvalidInput


@app.command("price")
def price_command(
    runs: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(help="Runs: ids, unique parts of them, directories, or `last`.", show_default=False),
    ] = None,
    *,
    capacity: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Users' data that a store is to hold, e.g. 100t: adds its total cost of ownership."),
    ] = None,
    protection: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            help="Copies (3x) or data and parity chunks (4+2). Given once for each run: how its store "
            "was protected; time is then set against raw capacity.",
            show_default="3x and 4+2",
        ),
    ] = None,
    prices: options.PriceFile = None,
    template: Annotated[bool, typer.Option("--template", help="Print the packaged prices, to be edited.")] = False,
    output: options.Page = None,
) -> None:
    """Price/performance of runs, and the total cost of a store, from editable prices.

    Every packaged price names its source, or says that it is an assumption. Start from them:

    penstock lab price --template > prices.yaml
    """
    from penstock.lab import price
    from penstock.lab.report import price as report
    from penstock.prices import packaged_prices, read_prices

    if template:
        sys.stdout.write(packaged_prices())
        return
    if not runs and not capacity:
        raise InvalidInput(
            "There is nothing to price",
            why="neither a run nor a capacity is given",
            fix="penstock lab price last, or penstock lab price --capacity 100t",
        )
    try:
        kept = [price.protection(name) for name in protection or ("3x", "4+2")]
    except ValueError as error:
        raise InvalidInput(
            "--protection is not understood", why=str(error), fix="--protection 3x --protection 4+2"
        ) from error
    asked = report.Question(
        prices=read_prices(prices),
        protections=kept,
        capacity_bytes=options.size_bytes(capacity, "--capacity") if capacity else None,
    )
    found = find(runs or [])
    present(found, output, lambda: report.document(found, asked), unfit="These runs have no price")
