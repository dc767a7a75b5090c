"""`penstock lab blocks|dfsio|gateways|objects|reads|startup`: measure stores, devices and starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.console import Console

from penstock.cli import options as shared
from penstock.cli.lab import options
from penstock.cli.lab.app import app
from penstock.cli.lab.measure import plan, run_arms
from penstock.cli.lab.reports import end_as, show
from penstock.cli.lab.workloads import described_by_files, suite_command
from penstock.errors import InvalidInput
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lab.workloads.blocks import Blocks
    from penstock.lab.workloads.objects import Objects
    from penstock.lab.workloads.overhead import Reads
    from penstock.lab.workloads.throughput import Dfsio, Gateways


@suite_command("blocks", scales=False, spark=False)
def blocks(
    *,
    directory: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Directory on the device.", show_default="the state directory"),
    ] = None,
    size: Annotated[str, typer.Option(help="Size of each worker's file, larger than the device's cache.")] = "1g",
    seconds: Annotated[int, typer.Option(help="Seconds for each of the four patterns.", min=1)] = 10,
    depth: Annotated[int, typer.Option(help="Requests in flight per worker.", min=1, max=1024)] = 1,
    workers: Annotated[int, typer.Option(help="Worker processes, each with its own file.", min=1, max=256)] = 1,
    device: Annotated[
        str,
        typer.Option(help="RADOS block device in the Ceph of --lake: rbd (fio's client) or krbd (the kernel's)."),
    ] = "",
) -> Blocks:
    """Measure a block device with fio: 4 KiB random and 64 KiB sequential I/O, without the page cache.

    The device is that of --directory, or a temporary one in the Ceph of --lake, protected like the lake's data.
    """
    from penstock.lab.workloads.blocks import Blocks

    return Blocks(
        directory=str(directory.absolute()) if directory else "",
        size_bytes=options.size_bytes(size, "--size"),
        seconds=seconds,
        depth=depth,
        workers=workers,
        device=device,
    )


@suite_command("dfsio")
def dfsio(
    *,
    clients: Annotated[str, typer.Option(help="Numbers of clients, one for each point of the curve.")] = "1,2,4,8",
    file_size: Annotated[str, typer.Option(help="Size of each file.")] = "64m",
    files: Annotated[
        int,
        typer.Option(
            help="Total files, divided among the clients; 0: as many as the largest number of clients.", min=0
        ),
    ] = 0,
    write: Annotated[bool, typer.Option(help="Measure writing.")] = True,
    read: Annotated[bool, typer.Option(help="Measure reading. All data is read and verified in any case.")] = True,
    shuffle: Annotated[bool, typer.Option("--shuffle", help="Measure the numbers of clients in random order.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the contents and of the order.", min=0)] = 0,
) -> Dfsio:
    """Measure read and write throughput by number of clients. Exit code 9 if a byte read is wrong.

    A client is an executor thread with one stream to the lake at a time. Each number of clients writes and reads the
    same files, so the curve compares equal work.
    """
    from penstock.lab.workloads.throughput import Dfsio

    return Dfsio(
        clients=options.numbers(clients, "--clients", "of clients"),
        file_size_bytes=options.size_bytes(file_size, "--file-size"),
        files=files,
        write=write,
        read=read,
        shuffle=shuffle,
        seed=seed,
    )


Rate = Annotated[str, typer.Option(help="Bandwidth limit of each gateway, in bytes per second.")]
Clients = Annotated[int, typer.Option(help="Concurrent streams.", min=1)]
FileSize = Annotated[str, typer.Option(help="Size of each file.")]
Files = Annotated[int, typer.Option(help="Total files; 0: two per client.", min=0)]


@app.command("gateways")
def gateways_command(
    *,
    rate: Rate = "16m",
    clients: Clients = 4,
    file_size: FileSize = "32m",
    files: Files = 0,
    repetitions: options.Repetitions = 3,
    warmup: options.Warmup = 0,
    lake: options.LakeName = None,
    profile: options.Profile = None,
    conf: options.Settings = None,
    driver_memory: options.DriverMemory = None,
    executors: options.Executors = None,
    executor_cores: options.ExecutorCores = None,
    executor_memory: options.ExecutorMemory = None,
) -> None:
    """Compare, in turns, one gateway with two of the same bandwidth each, and with two of which one is killed.

    The gateways are proxies of the lab before the lake's first endpoint. Exit code 9 if a byte read is wrong or a task
    failed.
    """
    from penstock.clusters import choice
    from penstock.lab.experiment import Arm

    def arm(name: str, gateways: int, *, kill: bool = False) -> Arm:
        suite = _suite(gateways=gateways, rate=rate, clients=clients, file_size=file_size, files=files, kill=kill)
        default = suite.default_size(choice.capacity(Home.default()))
        size = options.cluster_size(driver_memory, executors, executor_cores, executor_memory, default=default)
        return Arm(name, suite, size, lake, profile, options.spark_settings(conf))

    arms = [arm("one gateway", 1), arm("two gateways", 2), arm("one of two killed", 2, kill=True)]
    runs = run_arms(arms, plan(repetitions, warmup, drop_caches=False))
    show(Console(), runs)
    end_as(runs)


def _suite(
    *,
    gateways: Annotated[int, typer.Option(help="How many.", min=1)] = 2,
    rate: Rate = "16m",
    clients: Clients = 4,
    file_size: FileSize = "32m",
    files: Files = 0,
    kill: Annotated[bool, typer.Option("--kill", help="Kill one gateway under load.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the contents.", min=0)] = 0,
) -> Gateways:
    from penstock.lab.workloads.throughput import Gateways

    return Gateways(
        gateways=gateways,
        rate=options.size_bytes(rate, "--rate"),
        clients=clients,
        file_size_bytes=options.size_bytes(file_size, "--file-size"),
        files=files,
        kill=kill,
        seed=seed,
    )


described_by_files("gateways", _suite)


_LOAD = "The load"
_HOW = "Load generator"


@suite_command("objects", scales=False, spark=False)
def objects(
    *,
    operation: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Operation: put, get, range, list or delete.", show_default="get", rich_help_panel=_LOAD),
    ] = None,
    mix: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Mix of operations by shares: get=80,put=15,list=4,delete=1.", rich_help_panel=_LOAD),
    ] = None,
    stage: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            help="Stage with an operation or a mix; repeat the option for several stages.", rich_help_panel=_LOAD
        ),
    ] = None,
    size: Annotated[
        str, typer.Option(help="Size of the objects: 1m, 4k-1m, or u(1,64)KB as in COSBench.", rich_help_panel=_LOAD)
    ] = "1m",
    range_size: Annotated[str, typer.Option(help="Size of each range GET.", rich_help_panel=_LOAD)] = "64k",
    objects: Annotated[int, typer.Option(help="Number of objects to read, and to write.", rich_help_panel=_LOAD)] = 200,
    containers: Annotated[
        int, typer.Option(help="Key prefixes that the objects are spread over.", rich_help_panel=_LOAD)
    ] = 1,
    workers: Annotated[
        str,
        typer.Option(
            help="Requests in flight; several numbers with commas are measured in turn.", rich_help_panel=_LOAD
        ),
    ] = "16",
    duration: Annotated[str, typer.Option(help="Duration of each stage: 30s, 5m.", rich_help_panel=_LOAD)] = "30s",
    rampup: Annotated[str, typer.Option(help="Uncounted load before each stage.", rich_help_panel=_LOAD)] = "0s",
    rate: Annotated[
        float,
        typer.Option(
            help="Scheduled requests per second, with latency measured from the scheduled time. 0: closed loop, "
            "each worker sends one request after another.",
            rich_help_panel=_LOAD,
        ),
    ] = 0.0,
    cosbench: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="COSBench workload file, instead of these options. Its storage and auth are not used.",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    ceiling: Annotated[
        bool,
        typer.Option(
            "--ceiling",
            help="First measure the generator's own ceiling against a null store.",
            rich_help_panel=_HOW,
        ),
    ] = False,
    processes: Annotated[
        int, typer.Option(help="Processes of the generator. 0: one per core.", min=0, max=256, rich_help_panel=_HOW)
    ] = 0,
    seed: Annotated[int, typer.Option(help="Seed of contents, sizes and order.", rich_help_panel=_HOW)] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the objects in the lake.", rich_help_panel=_HOW)] = False,
) -> Objects:
    """Load the object store directly: rates, latencies up to the 99.99th percentile, errors by kind, verified contents.

    The workers are spread over the lake's gateways. Without --rate, a worker that waits for a slow response sends no
    requests meanwhile, so stalls show in the rate over time rather than in the percentiles.
    """
    from penstock.lab.workloads.objects import Objects

    chosen = [name for name, value in (("--operation", operation), ("--mix", mix), ("--stage", stage)) if value]
    if cosbench:
        chosen.append("--cosbench")
    if len(chosen) > 1:
        raise InvalidInput(
            f"{' and '.join(chosen)} exclude each other", fix="for several stages: --stage get --stage put"
        )
    return Objects(
        cosbench=str(cosbench.absolute()) if cosbench else "",
        mixes=tuple(stage or [mix or operation or "get"]),
        size=size,
        objects=objects,
        containers=containers,
        workers=_counts(workers),
        seconds=shared.seconds(duration, "--duration") or 0.0,
        range_size=range_size,
        rampup=shared.seconds(rampup, "--rampup") or 0.0,
        rate=rate,
        processes=processes,
        seed=seed,
        ceiling=ceiling,
        keep=keep,
    )


def _counts(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts):
        raise InvalidInput(f"--workers {text} is not a list of numbers", fix="--workers 1,4,16")
    return tuple(map(int, parts))


@suite_command("reads", scales=False)
def reads(
    *,
    size: Annotated[str, typer.Option(help="Size of the large object.")] = "256m",
    small_objects: Annotated[int, typer.Option(help="Number of small objects, each read completely.", min=1)] = 256,
    small_size: Annotated[str, typer.Option(help="Size of each small object.")] = "256k",
    threads: Annotated[str, typer.Option(help="Numbers of threads to measure, one at a time.")] = "1,2",
    passes: Annotated[int, typer.Option(help="Passes of each pattern with each number of threads.", min=1)] = 3,
    source: Annotated[
        str, typer.Option(help="lake, local (files), or raw (local files without Hadoop's checksums).")
    ] = "lake",
    cache: Annotated[
        str, typer.Option(help="State of the page cache before a pass: warm, cold or none (disabled).")
    ] = "warm",
    medium: Annotated[str, typer.Option(help="Tier of the page cache: memory or disk.")] = "memory",
) -> Reads:
    """Measure the cost of reads in one process: time, CPU time and requests. Exit code 9 if a byte is wrong.

    Patterns are sequential, random, vectored (like Parquet's) and small objects, through Hadoop's file system without
    Spark.
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


@app.command("startup")
def startup_command(
    *,
    repetitions: options.Repetitions = 10,
    lake: options.LakeName = None,
    profile: Annotated[str, typer.Option(help="Workload profile (penstock profile list).")] = "default",
    driver_memory: options.DriverMemory = None,
    executors: options.Executors = None,
    executor_cores: options.ExecutorCores = None,
    executor_memory: options.ExecutorMemory = None,
) -> None:
    """Measure the time from submission to the first task: Penstock against plain spark-submit, in turns."""
    from penstock.lab.environment import Bench
    from penstock.lab.progress import Terminal
    from penstock.lab.workloads import overhead

    console = Console()
    size = options.cluster_size(driver_memory, executors, executor_cores, executor_memory)
    bench = Bench.open(Home.default(), lake)
    with Terminal(console).showing() as listener:
        runs = overhead.measure(bench, size=size, repetitions=repetitions, profile=profile, listener=listener)
    show(console, runs)
    end_as(runs)
