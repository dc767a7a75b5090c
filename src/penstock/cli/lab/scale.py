"""`penstock lab scale`: one workload on clusters of several sizes."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.console import Console

from penstock.cli.lab import app as lab
from penstock.cli.lab import options
from penstock.cli.lab.measuring import plan, run_arms
from penstock.cli.lab.show import end_as, show_and_save
from penstock.errors import InvalidInput
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lab.suites.base import Suite
    from penstock.model import ClusterSize

app = typer.Typer(
    help="Right-sizing: measure a workload on several sizes of cluster, and say which is fastest, which cheapest, and "
    "where more cores harm.",
    no_args_is_help=True,
    add_completion=False,
)
lab.app.add_typer(app, name="scale")

_LARGEST_EXECUTOR = 8
"""Cores: beyond it one heap holds more than its collector likes."""

Cores = Annotated[str, typer.Option(help="Executor cores of each cluster, e.g. 1,2,4. A curve needs three sizes.")]
ExecutorCores = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        help="Cores of each executor; if not given, the most, up to 8, that divide every size.",
        min=1,
        show_default=False,
    ),
]
ExecutorMemory = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        help="Heap of each executor; if not given, its cores' share of a quarter of the memory.", show_default=False
    ),
]


def measure_curve(
    suite: Suite,
    *,
    cores: Cores,
    repetitions: options.Repetitions = 3,
    warmup: options.Warmup = 0,
    drop_caches: options.DropCaches = False,
    lake: options.LakeName = None,
    profile: options.Profile = None,
    conf: options.Settings = None,
    driver_memory: options.DriverMemory = None,
    executor_cores: ExecutorCores = None,
    executor_memory: ExecutorMemory = None,
    prices: options.PriceFile = None,
    output: options.Page = None,
) -> None:
    """Measure the arms in turns, show the curve, and exit as the workload's own command does."""
    from penstock.lab.experiment import Arm
    from penstock.lab.report import scale
    from penstock.prices import read_prices

    paid = read_prices(prices) if prices else None
    sizes = cluster_sizes(cores, executor_cores, executor_memory, driver_memory)
    settings = options.spark_settings(conf)
    arms = [Arm(_name(size), suite, size, lake, profile, settings) for size in sizes]
    runs = run_arms(arms, plan(repetitions, warmup, drop_caches))
    console = Console()
    try:
        document = scale.document(runs, paid)
    except ValueError as error:
        console.print(f"[bold red]There is no curve: {error}.[/]", highlight=False)
    else:
        show_and_save(console, document, runs, output)
        names = " ".join(run.description.id for run in runs)
        command = f"price --prices {shlex.quote(str(prices))}" if prices else "report"
        console.print(f"Report: penstock lab {command} {names} -o report.html", highlight=False, soft_wrap=True)
    end_as(runs)


def cluster_sizes(
    cores: str, executor_cores: int | None, executor_memory: str | None, driver_memory: str | None
) -> list[ClusterSize]:
    """Smallest first. Raises `InvalidInput`, or `ClusterError` where the largest could never start here."""
    from penstock.clusters import choice
    from penstock.engine.policy import admission
    from penstock.errors import ClusterError
    from penstock.lab import rightsizing
    from penstock.model import ProcessSize

    wanted = _sizes(cores)
    each = executor_cores or _executor_cores(wanted)
    capacity = choice.capacity(Home.default())
    default = admission.usual_size(capacity)
    heap = max(512 << 20, default.executor.memory_bytes * each // default.executor.cores)
    if executor_memory:
        heap = options.size_bytes(executor_memory, "--executor-memory")
    driver = default.driver
    if driver_memory:
        driver = ProcessSize(driver.cores, options.size_bytes(driver_memory, "--driver-memory"))
    try:
        sizes = rightsizing.sizes_for(wanted, ProcessSize(each, heap), driver)
    except ValueError as error:
        raise InvalidInput(
            f"--cores {cores} cannot be had", why=str(error), fix="choose multiples, or another --executor-cores"
        ) from error
    if too_large := admission.too_large(sizes[-1], capacity):
        raise ClusterError(
            f"A cluster of {wanted[-1]} executor cores does not fit here",
            why=too_large.message,
            fix="leave it out of --cores, or give executors less memory with --executor-memory",
        )
    return sizes


def _sizes(text: str) -> list[int]:
    found = sorted(set(options.numbers(text, "--cores", "of cores")))
    if len(found) < 2:
        raise InvalidInput("One size is no curve", why="--cores names a single size", fix="--cores 1,2,4")
    return found


def _executor_cores(cores: list[int]) -> int:
    common = math.gcd(*cores)
    return max(each for each in range(1, _LARGEST_EXECUTOR + 1) if common % each == 0)


def _name(size: ClusterSize) -> str:
    return f"{size.executor_cores} cores" if size.executor_cores > 1 else "1 core"
