"""`penstock lab tpcds|streams|mixed|etl|enrichment|kmeans|terasort|ingest`: queries and pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Optional

import typer

from penstock.cli.lab import options
from penstock.cli.lab.workloads import suite_command
from penstock.errors import InvalidInput

if TYPE_CHECKING:
    from penstock.lab.workloads.concurrency import Mixed, Streams
    from penstock.lab.workloads.pipelines import Enrichment, Etl, KMeans
    from penstock.lab.workloads.sort import TeraSort
    from penstock.lab.workloads.throughput import Ingest
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


@suite_command("etl")
def etl(
    *,
    rows: Annotated[Optional[str], typer.Option(help="Lines of text, e.g. 1m (the default).")] = None,  # noqa: UP045
    size: Annotated[Optional[str], typer.Option(help="Instead: about this much text, e.g. 1g.")] = None,  # noqa: UP045
    bad_share: Annotated[float, typer.Option(help="Of the lines that cannot be read, from 0 to 1.")] = 0.001,
    formats: Annotated[str, typer.Option(help="What to convert to, one after the other.")] = "parquet,orc",
    object_size: options.ObjectSize = "128m",
    seed: Annotated[int, typer.Option(help="Of the generated lines.", min=0)] = 1,
    reload: options.Reload = False,
) -> Etl:
    """Convert delimited text to Parquet and ORC by month; bad lines are kept aside. Exit code 9 when a row is wrong."""
    from penstock.lab.workloads.pipelines import LINE_BYTES, Etl

    if rows is not None and size is not None:
        raise InvalidInput("--rows and --size say the same thing twice", fix="give one of them")
    count = options.count(rows or "1m", "--rows")
    return Etl(
        rows=options.size_bytes(size, "--size") // LINE_BYTES if size else count,
        bad_share=bad_share,
        formats=tuple(name.strip() for name in formats.split(",") if name.strip()),
        object_size_bytes=options.size_bytes(object_size, "--object-size"),
        seed=seed,
        reload=reload,
    )


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


@suite_command("kmeans")
def kmeans(
    *,
    points: Annotated[str, typer.Option(help="How many, e.g. 1m.")] = "1m",
    dimensions: Annotated[int, typer.Option(help="Numbers a point has, four bytes each.", min=2)] = 20,
    clusters: Annotated[int, typer.Option(help="Centres to generate, and to find.", min=1)] = 10,
    iterations: Annotated[int, typer.Option(help="Of the training: always so many.", min=1)] = 20,
    passes: Annotated[int, typer.Option(help="Over the points to find where to start (k-means||).", min=1)] = 5,
    object_size: options.ObjectSize = "64m",
    seed: Annotated[int, typer.Option(help="Of the generated points.", min=0)] = 1,
    reload: options.Reload = False,
) -> KMeans:
    """Train k-means on points from the store. Exit code 9 when the centres found are not those generated."""
    from penstock.lab.workloads.pipelines import KMeans

    return KMeans(
        points=options.count(points, "--points"),
        dimensions=dimensions,
        clusters=clusters,
        iterations=iterations,
        passes=passes,
        object_size_bytes=options.size_bytes(object_size, "--object-size"),
        seed=seed,
        reload=reload,
    )


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


@suite_command("ingest")
def ingest(
    *,
    duration: Annotated[str, typer.Option(help="How long they write, e.g. 60s, 30m or 24h.")] = "60s",
    writers: Annotated[int, typer.Option(help="Writers at once.", min=1)] = 8,
    object_size: options.ObjectSize = "16m",
    rate: Annotated[Optional[str], typer.Option(help="Bytes a second of all together, e.g. 100m.")] = None,  # noqa: UP045
    keep: Annotated[bool, typer.Option("--keep", help="Leave the objects in the lake.")] = False,
    seed: Annotated[int, typer.Option(help="Of the contents.", min=0)] = 0,
) -> Ingest:
    """Let many writers put objects for a set time, then read every one back. Exit code 9 when any is not right.

    Without --rate they write as fast as it goes. An object that is missing, too many or different is named.
    """
    from penstock.lab.workloads.throughput import Ingest

    return Ingest(
        seconds=options.seconds(duration, "--duration"),
        writers=writers,
        object_size_bytes=options.size_bytes(object_size, "--object-size"),
        bytes_per_second=options.size_bytes(rate, "--rate") if rate else 0,
        keep=keep,
        seed=seed,
    )
