"""`penstock lab enrichment`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.lab import options
from penstock.cli.lab.suites import suite_command

if TYPE_CHECKING:
    from penstock.lab.workloads.pipelines import Enrichment


@suite_command("enrichment")
def enrichment(
    *,
    scale: Annotated[float, typer.Option(help="TPC-DS scale factor of the sales.", min=0.001)] = 1,
    clicks_per_line: Annotated[int, typer.Option(help="Before the purchase of each order line, mean.", min=1)] = 3,
    object_size: options.ObjectSize = "128m",
    seed: Annotated[int, typer.Option(help="Of the generated clicks.", min=0)] = 1,
    reload: options.Reload = False,
) -> Enrichment:
    """Join web sales with a click-stream log, write them back by month. Exit code 9 when a sale or click is wrong."""
    from penstock.lab.workloads.pipelines import Enrichment

    return Enrichment(
        scale=scale,
        clicks_per_line=clicks_per_line,
        object_size_bytes=options.size_bytes(object_size, "--object-size"),
        seed=seed,
        reload=reload,
    )
