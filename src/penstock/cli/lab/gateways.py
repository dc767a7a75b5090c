"""`penstock lab gateways`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from penstock.cli.lab import options
from penstock.cli.lab.app import app
from penstock.cli.lab.measure import plan, run_arms
from penstock.cli.lab.reports import end_as, show
from penstock.cli.lab.suites import described_by_files
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lab.workloads.throughput import Gateways

Rate = Annotated[str, typer.Option(help="Bytes per second that each gateway lets pass.")]
Clients = Annotated[int, typer.Option(help="Streams at once.", min=1)]
FileSize = Annotated[str, typer.Option(help="Of each file.")]
Files = Annotated[int, typer.Option(help="Files in all; 0: two for each client.", min=0)]


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
    """Measure two gateways against one of the same bandwidth, and two of which one is killed. In turns.

    The gateways are the lab's own, before the lake's first endpoint. Exit code 9 when a byte read is wrong or a task
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
    kill: Annotated[bool, typer.Option("--kill", help="Kill one of them under load.")] = False,
    seed: Annotated[int, typer.Option(help="Of the contents.", min=0)] = 0,
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
