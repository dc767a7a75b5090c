"""`penstock lab mixed`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from penstock.cli.lab.streams import Seed
from penstock.cli.lab.suites import suite_command
from penstock.cli.lab.tpcds import Queries, Scale

if TYPE_CHECKING:
    from penstock.lab.workloads.concurrency import Mixed


@suite_command("mixed")
def mixed(
    *,
    users: Annotated[int, typer.Option(help="How many users beside the single one.", min=1)] = 10,
    scale: Scale = 1,
    queries: Queries = None,
    query_set: Annotated[str, typer.Option("--set", help="Of the single user: all, io54 or nine.")] = "io54",
    users_queries: Annotated[Optional[str], typer.Option(help="Those of the other users, e.g. q3,q7.")] = None,  # noqa: UP045
    users_set: Annotated[str, typer.Option(help="Of the other users: all, io54 or nine.")] = "io54",
    clicks_per_line: Annotated[int, typer.Option(help="Of the enrichment: clicks for each order line.", min=1)] = 3,
    seed: Seed = 1,
    alone: Annotated[bool, typer.Option(help="Measure each part by itself first, to know the slow-down.")] = True,
    validate: Annotated[bool, typer.Option(help="Check every answer of every user against DuckDB.")] = True,
) -> Mixed:
    """Run one user's queries, several users' queries and the enrichment at the same time.

    Each user and the enrichment have a cluster of their own. All of them share the machine: where no size is given,
    each cluster gets an equal part of it.
    """
    from penstock.lab.workloads import tpcds as known
    from penstock.lab.workloads.concurrency import Mixed

    return Mixed(
        scale=scale,
        queries=known.select(queries, query_set),
        users=users,
        users_queries=known.select(users_queries, users_set),
        clicks_per_line=clicks_per_line,
        seed=seed,
        alone=alone,
        validate=validate,
    )
