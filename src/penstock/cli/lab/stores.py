"""`penstock lab stores`: the same workloads on several stores, time against the price of raw capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from penstock.cli.lab import options
from penstock.cli.lab.app import app
from penstock.cli.lab.runs import find
from penstock.cli.lab.show import present
from penstock.errors import InvalidInput
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lab.price import Protection
    from penstock.lab.records import Run
    from penstock.prices import Prices


@app.command("stores")
def stores_command(
    runs: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(
            help="Runs: ids, unique parts of them, directories, or `last`. Each stands for all its command measured.",
            show_default="last",
        ),
    ] = None,
    *,
    baseline: Annotated[Optional[str], typer.Option(help="The arm to set the others against; else the first.")] = None,  # noqa: UP045
    protection: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            help="ARM=3x or ARM=4+2: copies, or data and parity chunks, of a store that Penstock did not start.",
            show_default="as recorded",
        ),
    ] = None,
    medium: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="What the raw capacity is bought as, one of the prices' media.", show_default="the first"),
    ] = None,
    prices: options.PriceFile = None,
    output: options.Page = None,
) -> None:
    """Set stores against each other over several workloads: time, raw capacity, and price × time.

    The arms of the experiments are the stores. Measure them with a lab file, and have the page:

    penstock lab run examples/stores.yaml && penstock lab stores -o stores.html
    """
    from penstock.lab.report import stores
    from penstock.lab.stores import Choices
    from penstock.prices import read_prices

    paid = read_prices(prices)
    asked = stores.Question(Choices(baseline, _protections(protection or [])), paid, _medium(medium, paid))
    found = _with_all_of_its_batch(runs or ["last"])
    present(found, output, lambda: stores.document(found, asked), unfit="These runs are no comparison of stores")


def _with_all_of_its_batch(names: list[str]) -> list[Run]:
    """Each run once, in the order measured; of a run that is not of this machine only itself is known."""
    from penstock.lab import records, resuming

    home = Home.default()
    here = set(records.runs(home))
    found: dict[str, Run] = {}
    for run in find(names):
        if run.description.id not in here:
            found[run.description.id] = run
            continue
        for described in resuming.begun_with(home, run.description):
            found[described.id] = records.find(home, described.id)
    return list(found.values())


def _protections(given: list[str]) -> dict[str, Protection]:
    from penstock.lab import price

    told = {}
    for text in given:
        arm, _, kept = text.rpartition("=")
        try:
            told[arm] = price.protection(kept)
        except ValueError as error:
            raise InvalidInput(
                f"--protection {text} is not understood", why=str(error), fix="--protection 'Ceph 4+2=4+2'"
            ) from error
    return told


def _medium(name: str | None, prices: Prices) -> str | None:
    if name is not None and name not in prices.media:
        raise InvalidInput(f"The prices have no medium {name}", fix=f"choose one of {', '.join(prices.media)}")
    return name
