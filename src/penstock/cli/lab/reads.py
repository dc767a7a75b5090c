"""`penstock lab reads`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.lab import options
from penstock.cli.lab.suites import suite_command

if TYPE_CHECKING:
    from penstock.lab.workloads.overhead import Reads


@suite_command("reads", scales=False)
def reads(
    *,
    size: Annotated[str, typer.Option(help="Of the large object.")] = "256m",
    small_objects: Annotated[int, typer.Option(help="How many small objects are read whole.", min=1)] = 256,
    small_size: Annotated[str, typer.Option(help="Of each small object.")] = "256k",
    threads: Annotated[str, typer.Option(help="Numbers of threads, each measured by itself.")] = "1,2",
    passes: Annotated[int, typer.Option(help="Of each pattern with each number of threads.", min=1)] = 3,
    source: Annotated[str, typer.Option(help="lake; local files; raw: those without Hadoop's checksums.")] = "lake",
    cache: Annotated[str, typer.Option(help="What a pass finds in the page cache: warm, cold, or none.")] = "warm",
    medium: Annotated[str, typer.Option(help="Of the page cache: memory or disk.")] = "memory",
) -> Reads:
    """Measure what reading costs a process: time, processor time and requests. Exit code 9 when a byte is wrong.

    Sequential, random, vectored as Parquet reads, and small objects, through Hadoop's file system without Spark.
    """
    from penstock.lab.workloads.overhead import Reads

    return Reads(
        size_bytes=options.size_bytes(size, "--size"),
        small_objects=small_objects,
        small_size_bytes=options.size_bytes(small_size, "--small-size"),
        threads=options.numbers(threads, "--threads", "of threads"),
        passes=passes,
        source=source,
        cache=cache,
        medium=medium,
    )
