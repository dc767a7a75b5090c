"""`penstock lab tpcds`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from penstock.cli.lab import options
from penstock.cli.lab.suites import suite_command

if TYPE_CHECKING:
    from penstock.lab.workloads.tpcds import Tpcds

Scale = Annotated[float, typer.Option(help="TPC-DS scale factor: about this many GB of raw data.", min=0.001)]
Queries = Annotated[Optional[str], typer.Option(help="Only these, e.g. q3,q7.")]  # noqa: UP045
QuerySet = Annotated[str, typer.Option("--set", help="all (104), io54 (the I/O-intensive ones), or nine.")]


@suite_command("tpcds")
def tpcds(
    *,
    scale: Scale = 1,
    queries: Queries = None,
    query_set: QuerySet = "all",
    iterations: Annotated[int, typer.Option(help="How often each query runs in one repetition.", min=1)] = 1,
    warm_iterations: Annotated[int, typer.Option(help="Rounds in the same cluster before those.", min=0)] = 0,
    validate: Annotated[bool, typer.Option(help="Check every answer against DuckDB.")] = True,
    object_size: options.ObjectSize = "32m",
    location: Annotated[
        str, typer.Option(help="Of the tables: lake, or local: a copy on this machine's disk.")
    ] = "lake",
    layout: Annotated[
        str,
        typer.Option(
            help="Of the fact tables: by-size (Hive partitions by date that fill their objects), by-day (by the date "
            "key), by-range (ranges of dates and items alone), or advised (by what was asked of the first)."
        ),
    ] = "by-size",
    index: Annotated[bool, typer.Option("--index", help="Build the skipping index of every table.")] = False,
    reload: options.Reload = False,
) -> Tpcds:
    """Run TPC-DS on a dedicated cluster. Exit code 9 when an answer differs, 1 when a query failed."""
    from penstock.lab.workloads import tpcds as known
    from penstock.lab.workloads.tpcds import Tpcds

    return Tpcds(
        scale=scale,
        object_size_bytes=options.size_bytes(object_size, "--object-size"),
        queries=known.select(queries, query_set),
        iterations=iterations,
        warm_iterations=warm_iterations,
        validate=validate,
        location=location,
        layout=layout,
        index=index,
        reload=reload,
    )
