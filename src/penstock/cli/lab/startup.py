"""`penstock lab startup`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from penstock.cli.lab import options
from penstock.cli.lab.app import app
from penstock.cli.lab.reports import end_as, show
from penstock.home import Home


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
    """Measure from submission to the first task: Penstock against plain spark-submit, in turns."""
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
