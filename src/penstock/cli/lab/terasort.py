"""`penstock lab terasort`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.lab import options
from penstock.cli.lab.suites import suite_command

if TYPE_CHECKING:
    from penstock.lab.workloads.sort import TeraSort


@suite_command("terasort")
def terasort(
    *,
    size: Annotated[str, typer.Option(help="Of the records to sort, e.g. 10g.")] = "1g",
    object_size: options.ObjectSize = "128m",
    partitions: Annotated[
        int, typer.Option(help="Objects of the sorted data; 0 for as many as --object-size makes.", min=0)
    ] = 0,
    skew: Annotated[bool, typer.Option("--skew", help="Skewed keys, as gensort -s makes them.")] = False,
    concurrent: Annotated[int, typer.Option(help="Sorts at once, each on a cluster of its own.", min=1)] = 1,
    limit: Annotated[
        bool, typer.Option("--limit", help="Sort the same records in one local process too: the least it can cost.")
    ] = False,
    reload: options.Reload = False,
) -> TeraSort:
    """Generate, sort and validate the sort benchmark's records. Exit code 9 when the result is not right."""
    from penstock.lab.workloads.sort import TeraSort

    return TeraSort(
        size_bytes=options.size_bytes(size, "--size"),
        object_size_bytes=options.size_bytes(object_size, "--object-size"),
        partitions=partitions,
        skewed=skew,
        concurrent=concurrent,
        limit=limit,
        reload=reload,
    )
