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
Queries = Annotated[Optional[str], typer.Option(help="Queries to run, e.g. q3,q7.")]  # noqa: UP045
QuerySet = Annotated[str, typer.Option("--set", help="all (104), io54 (the I/O-intensive ones), or nine.")]


@suite_command("tpcds")
def tpcds(
    *,
    scale: Scale = 1,
    queries: Queries = None,
    query_set: QuerySet = "all",
    iterations: Annotated[int, typer.Option(help="Executions of each query in one repetition.", min=1)] = 1,
    warm_iterations: Annotated[
        int, typer.Option(help="Uncounted rounds before those, in the same cluster.", min=0)
    ] = 0,
    validate: Annotated[bool, typer.Option(help="Verify every answer against DuckDB.")] = True,
    object_size: options.ObjectSize = "32m",
    location: Annotated[
        str, typer.Option(help="Location of the tables: lake, or local (a copy on this machine's disk).")
    ] = "lake",
    layout: Annotated[
        str,
        typer.Option(
            help="Layout of the fact tables: by-size (Hive partitions by date that fill their objects), by-day (by "
            "date key), by-range (ranges of dates and items only), or advised (from the queries recorded on by-size)."
        ),
    ] = "by-size",
    index: Annotated[bool, typer.Option("--index", help="Build the skipping index of every table.")] = False,
    reload: options.Reload = False,
) -> Tpcds:
    """Run TPC-DS on a dedicated cluster. Exit code 9 if an answer is wrong, 1 if a query failed."""
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


Seed = Annotated[int, typer.Option(help="Seed of the random query orders.")]
Alone = Annotated[bool, typer.Option(help="Measure a single user first, as the baseline of the slow-down.")]


@suite_command("streams")
def streams(
    *,
    users: Annotated[int, typer.Option(help="Concurrent users, each with a dedicated cluster.", min=2)] = 5,
    scale: Scale = 1,
    queries: Queries = None,
    query_set: QuerySet = "all",
    seed: Seed = 1,
    alone: Alone = True,
    validate: Annotated[bool, typer.Option(help="Verify every answer of every user against DuckDB.")] = True,
    object_size: options.ObjectSize = "32m",
) -> Streams:
    """Run TPC-DS as several concurrent users, each with all queries in a different random order.

    The users share the machine: unless a size is given, each cluster gets an equal part of it. The single user's
    cluster has the same size, so the slow-down is the cost of concurrency.
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
    users: Annotated[int, typer.Option(help="Concurrent users, in addition to the single one.", min=1)] = 10,
    scale: Scale = 1,
    queries: Queries = None,
    query_set: Annotated[str, typer.Option("--set", help="Query set of the single user: all, io54 or nine.")] = "io54",
    users_queries: Annotated[Optional[str], typer.Option(help="Queries of the other users, e.g. q3,q7.")] = None,  # noqa: UP045
    users_set: Annotated[str, typer.Option(help="Query set of the other users: all, io54 or nine.")] = "io54",
    clicks_per_line: Annotated[int, typer.Option(help="Clicks for each order line of the enrichment.", min=1)] = 3,
    seed: Seed = 1,
    alone: Annotated[
        bool, typer.Option(help="Measure each part alone first, as the baseline of the slow-down.")
    ] = True,
    validate: Annotated[bool, typer.Option(help="Verify every answer of every user against DuckDB.")] = True,
) -> Mixed:
    """Run one user's queries, several users' queries and the enrichment at the same time.

    Each user and the enrichment have a dedicated cluster. All share the machine: unless a size is given, each cluster
    gets an equal part of it.
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
    size: Annotated[Optional[str], typer.Option(help="Approximate size of the text instead, e.g. 1g.")] = None,  # noqa: UP045
    bad_share: Annotated[float, typer.Option(help="Share of malformed lines, from 0 to 1.")] = 0.001,
    formats: Annotated[str, typer.Option(help="Formats to convert to, in this order.")] = "parquet,orc",
    object_size: options.ObjectSize = "128m",
    seed: Annotated[int, typer.Option(help="Seed of the generated lines.", min=0)] = 1,
    reload: options.Reload = False,
) -> Etl:
    """Convert delimited text to monthly Parquet and ORC, and set bad lines aside. Exit code 9 if a row is wrong."""
    from penstock.lab.workloads.pipelines import LINE_BYTES, Etl

    if rows is not None and size is not None:
        raise InvalidInput("--rows and --size exclude each other", fix="use one of them")
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
    clicks_per_line: Annotated[
        int, typer.Option(help="Mean number of clicks before the purchase of each order line.", min=1)
    ] = 3,
    object_size: options.ObjectSize = "128m",
    seed: Annotated[int, typer.Option(help="Seed of the generated clicks.", min=0)] = 1,
    reload: options.Reload = False,
) -> Enrichment:
    """Join web sales with a click-stream log and write them by month. Exit code 9 if a sale or click is wrong."""
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
    points: Annotated[str, typer.Option(help="Number of points, e.g. 1m.")] = "1m",
    dimensions: Annotated[int, typer.Option(help="Dimensions of a point, four bytes each.", min=2)] = 20,
    clusters: Annotated[int, typer.Option(help="Number of clusters to generate and to find.", min=1)] = 10,
    iterations: Annotated[int, typer.Option(help="Iterations of the training, a fixed number.", min=1)] = 20,
    passes: Annotated[
        int, typer.Option(help="Passes over the points to choose the initial centres (k-means||).", min=1)
    ] = 5,
    object_size: options.ObjectSize = "64m",
    seed: Annotated[int, typer.Option(help="Seed of the generated points.", min=0)] = 1,
    reload: options.Reload = False,
) -> KMeans:
    """Train k-means on points from the store. Exit code 9 if the centres found are not the generated ones."""
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
    size: Annotated[str, typer.Option(help="Total size of the records, e.g. 10g.")] = "1g",
    object_size: options.ObjectSize = "128m",
    partitions: Annotated[
        int, typer.Option(help="Objects of the sorted data; 0 derives the number from --object-size.", min=0)
    ] = 0,
    skew: Annotated[bool, typer.Option("--skew", help="Skewed keys, as gensort -s makes them.")] = False,
    concurrent: Annotated[int, typer.Option(help="Concurrent sorts, each on a dedicated cluster.", min=1)] = 1,
    limit: Annotated[
        bool, typer.Option("--limit", help="Also sort the records in one local process, as a lower bound of the cost.")
    ] = False,
    reload: options.Reload = False,
) -> TeraSort:
    """Generate, sort and validate the sort benchmark's records. Exit code 9 if the result is wrong."""
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
    duration: Annotated[str, typer.Option(help="Time of writing, e.g. 60s, 30m or 24h.")] = "60s",
    writers: Annotated[int, typer.Option(help="Concurrent writers.", min=1)] = 8,
    object_size: options.ObjectSize = "16m",
    rate: Annotated[Optional[str], typer.Option(help="Total bytes per second of all writers, e.g. 100m.")] = None,  # noqa: UP045
    keep: Annotated[bool, typer.Option("--keep", help="Keep the objects in the lake.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the contents.", min=0)] = 0,
) -> Ingest:
    """Write objects with many writers for a set time, then read all back. Exit code 9 if an object is wrong.

    Without --rate the writers run at full speed. Missing, unexpected and different objects are listed.
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
