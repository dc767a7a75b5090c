"""`penstock lab streams`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.lab import options
from penstock.cli.lab.suites import suite_command
from penstock.cli.lab.tpcds import Queries, QuerySet, Scale

if TYPE_CHECKING:
    from penstock.lab.workloads.concurrency import Streams

Seed = Annotated[int, typer.Option(help="Decides everyone's order; the same seed gives the same orders.")]
Alone = Annotated[bool, typer.Option(help="Measure the single user first, to know the slow-down.")]


@suite_command("streams")
def streams(
    *,
    users: Annotated[int, typer.Option(help="How many at once, each with a cluster of their own.", min=2)] = 5,
    scale: Scale = 1,
    queries: Queries = None,
    query_set: QuerySet = "all",
    seed: Seed = 1,
    alone: Alone = True,
    validate: Annotated[bool, typer.Option(help="Check every answer of every user against DuckDB.")] = True,
    object_size: options.ObjectSize = "32m",
) -> Streams:
    """Run TPC-DS as several users at once, each with all queries in a random order of their own.

    The users share the machine: where no size is given, each cluster gets an equal part of it. The single user's
    cluster has the size of everyone's, so the slow-down is what the company costs.
    """
    from penstock.lab.workloads import tpcds as known
    from penstock.lab.workloads.concurrency import Streams

    return Streams(
        scale=scale,
        object_size_bytes=options.size_bytes(object_size, "--object-size"),
        users=users,
        queries=known.select(queries, query_set),
        seed=seed,
        alone=alone,
        validate=validate,
    )
