"""The workloads by name. A suite is imported on its first use."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidInput
from penstock.lab.workloads.options import options_of, suite_of

if TYPE_CHECKING:
    from penstock.lab.workloads.base import Suite


@dataclass(frozen=True)
class Workload:
    """A workload as `penstock lab` lists it."""

    suite: str
    """Its module and class."""
    help: str
    scales: bool = True
    """True if it is faster on a cluster with more cores, so that `penstock lab scale` has it."""
    spark: bool = True
    """False if it runs without Spark and has none of its options."""


WORKLOADS = {
    "tpcds": Workload(
        "tpcds:Tpcds",
        "Run TPC-DS on a dedicated cluster. Exit code 9 if an answer is wrong, 1 if a query failed.",
    ),
    "streams": Workload(
        "concurrency:Streams",
        """Run TPC-DS as several concurrent users, each with all queries in a different random order.

        The users share the machine: unless a size is given, each cluster gets an equal part of it. The single user's
        cluster has the same size, so the slowdown is the cost of concurrency.
        """,
    ),
    "mixed": Workload(
        "concurrency:Mixed",
        """Run one user's queries, several users' queries and the enrichment at the same time.

        Each user and the enrichment have a dedicated cluster. All share the machine: unless a size is given, each
        cluster gets an equal part of it.
        """,
    ),
    "etl": Workload(
        "pipelines:Etl",
        "Convert delimited text to monthly Parquet and ORC, and set bad lines aside. Exit code 9 if a row is wrong.",
    ),
    "enrichment": Workload(
        "pipelines:Enrichment",
        "Join web sales with a click-stream log and write them by month. Exit code 9 if a sale or click is wrong.",
    ),
    "kmeans": Workload(
        "pipelines:KMeans",
        "Train k-means on points from the store. Exit code 9 if the centres found are not the generated ones.",
    ),
    "merge": Workload(
        "pipelines:Merge",
        """Merge small, wide and late-arriving changes into an Iceberg table. Exit code 9 if a row is wrong.

        Late changes carry versions older than those of rows changed before, and must not win.
        """,
    ),
    "terasort": Workload(
        "sort:TeraSort",
        "Generate, sort and validate the sort benchmark's records. Exit code 9 if the result is wrong.",
    ),
    "ingest": Workload(
        "throughput:Ingest",
        """Write objects with many writers for a set time, then read all back. Exit code 9 if an object is wrong.

        Without --rate the writers run at full speed. Missing, unexpected and different objects are listed.
        """,
    ),
    "blocks": Workload(
        "blocks:Blocks",
        """Measure a block device with fio: 4 KiB random and 64 KiB sequential I/O, without the page cache.

        The device is that of --directory, or a temporary one in the Ceph of --lake, protected like the lake's data.
        """,
        scales=False,
        spark=False,
    ),
    "dfsio": Workload(
        "throughput:Dfsio",
        """Measure read and write throughput by number of clients. Exit code 9 if a byte read is wrong.

        A client is an executor thread with one stream to the lake at a time. Each number of clients writes and reads
        the same files, so the curve compares equal work.
        """,
    ),
    "gateways": Workload(
        "throughput:Gateways",
        """Compare, in turns, one gateway with two of the same bandwidth each, and with two of which one is killed.

        The gateways are proxies of the lab before the lake's first endpoint. Exit code 9 if a byte read is wrong or a
        task failed.
        """,
        scales=False,
    ),
    "objects": Workload(
        "objects:Objects",
        "Load the object store directly: rates, latencies up to the 99.99th percentile, errors by kind, "
        """verified contents.

        The workers are spread over the lake's gateways. Without --rate, a worker that waits for a slow response sends
        no requests meanwhile, so stalls show in the rate over time rather than in the percentiles.
        """,
        scales=False,
        spark=False,
    ),
    "reads": Workload(
        "overhead:Reads",
        """Measure the cost of reads in one process: time, CPU time and requests. Exit code 9 if a byte is wrong.

        Patterns are sequential, random, vectored (like Parquet's) and small objects, through Hadoop's file system
        without Spark.
        """,
        scales=False,
    ),
}

NAMES = tuple(sorted(WORKLOADS))


def suite_class(workload: str) -> type[Suite]:
    """Import a workload's suite. Raises `InvalidInput` with the known names."""
    if workload not in WORKLOADS:
        raise InvalidInput(f"There is no workload {workload}", fix=f"choose one of {', '.join(NAMES)}")
    module, _, name = WORKLOADS[workload].suite.partition(":")
    found: type[Suite] = getattr(importlib.import_module(f"penstock.lab.workloads.{module}"), name)
    return found


def restore_suite(workload: str, options: Mapping[str, Any]) -> Suite:
    """Restore the suite of a recorded run."""
    as_tuples = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    return suite_class(workload)(**as_tuples)


class FileWorkloads:
    """The workloads of lab files: `--object-size 32m` of a command is `object_size: 32m` in a file."""

    def names(self) -> Sequence[str]:
        return NAMES

    def options(self, workload: str) -> Sequence[str]:
        return sorted(option.key for option in options_of(suite_class(workload)))

    def suite(self, workload: str, options: Mapping[str, Any]) -> Suite:
        return suite_of(suite_class(workload), options)
