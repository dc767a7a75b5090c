"""`penstock lab scale`: one workload on clusters of several sizes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Optional

import typer
from typer.core import TyperCommand

from penstock import units
from penstock.cli import options as shared
from penstock.cli.lab import options
from penstock.cli.lab.app import WorkloadGroup
from penstock.cli.lab.app import app as lab
from penstock.cli.lab.measure import plan, run_arms
from penstock.cli.lab.reports import end_as, show_and_save
from penstock.cli.output import plain_console
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lab.workloads.options import parse_numbers
from penstock.lab.workloads.registry import WORKLOADS

if TYPE_CHECKING:
    from penstock.lab.workloads.base import Suite
    from penstock.model import ClusterSize


class _ScaleGroup(WorkloadGroup):
    """The workloads that are faster on a cluster with more cores."""

    def workloads(self) -> Iterable[str]:
        return [name for name, workload in WORKLOADS.items() if workload.scales]

    def made(self, workload: str) -> TyperCommand:
        from penstock.cli.lab import commands

        return commands.command(workload, measure_curve)


app = typer.Typer(
    cls=_ScaleGroup,
    help="Right-sizing: measure a workload on clusters of several sizes and find the fastest, the cheapest, and the "
    "size beyond which more cores slow it down.",
    no_args_is_help=True,
    add_completion=False,
)
lab.add_typer(app, name="scale")

_LARGEST_EXECUTOR = 8
"""Cores per executor: a larger heap strains the garbage collector."""

Cores = Annotated[str, typer.Option(help="Executor cores of each cluster, e.g. 1,2,4. A curve needs three sizes.")]
ExecutorCores = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(
        help="Cores of each executor; by default the largest common divisor of the sizes, up to 8.",
        min=1,
        show_default=False,
    ),
]
ExecutorMemory = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        help="Heap of each executor; by default its cores' share of a quarter of the memory.", show_default=False
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
    """Measure the arms in turns, show the curve, and exit like the workload's own command."""
    from penstock.lab.experiment import Arm
    from penstock.lab.report import scaling
    from penstock.prices import read_prices

    paid = read_prices(prices) if prices else None
    sizes = cluster_sizes(cores, executor_cores, executor_memory, driver_memory)
    settings = shared.pairs(conf, "--conf")
    arms = [Arm(_name(size), suite, size, lake, profile, settings) for size in sizes]
    runs = run_arms(arms, plan(repetitions, warmup, drop_caches))
    console = plain_console()
    try:
        document = scaling.document(runs, paid)
    except ValueError as error:
        console.print(f"There is no curve: {error}.", style="bold red")
    else:
        show_and_save(console, document, runs, output)
        names = " ".join(run.description.id for run in runs)
        command = f"price --prices {shlex.quote(str(prices))}" if prices else "report"
        console.print(f"Report: penstock lab {command} {names} -o report.html", soft_wrap=True)
    end_as(runs)


def cluster_sizes(
    cores: str, executor_cores: int | None, executor_memory: str | None, driver_memory: str | None
) -> list[ClusterSize]:
    """The cluster sizes, smallest first. Raises `InvalidInput`, or `ClusterError` if the largest cannot start here."""
    from penstock.clusters import choice
    from penstock.engine.policy import admission
    from penstock.errors import ClusterError
    from penstock.lab.analysis import cost
    from penstock.model import ProcessSize

    wanted = _sizes(cores)
    each = executor_cores or _executor_cores(wanted)
    capacity = choice.capacity(Home.default())
    default = admission.usual_size(capacity)
    heap = max(512 << 20, default.executor.memory_bytes * each // default.executor.cores)
    if executor_memory:
        heap = units.require_size(executor_memory, "--executor-memory")
    driver = default.driver
    if driver_memory:
        driver = ProcessSize(driver.cores, units.require_size(driver_memory, "--driver-memory"))
    try:
        sizes = cost.cluster_sizes(wanted, ProcessSize(each, heap), driver)
    except ValueError as error:
        raise InvalidInput(
            f"--cores {cores} is not possible", why=str(error), fix="choose multiples, or another --executor-cores"
        ) from error
    if too_large := admission.too_large(sizes[-1], capacity):
        raise ClusterError(
            f"A cluster of {wanted[-1]} executor cores does not fit here",
            why=too_large.message,
            fix="remove it from --cores, or reduce --executor-memory",
        )
    return sizes


def _sizes(text: str) -> list[int]:
    found = sorted(set(parse_numbers(text, "--cores", "of cores")))
    if len(found) < 2:
        raise InvalidInput("A curve needs several sizes", why="--cores has only one", fix="--cores 1,2,4")
    return found


def _executor_cores(cores: list[int]) -> int:
    common = math.gcd(*cores)
    return max(each for each in range(1, _LARGEST_EXECUTOR + 1) if common % each == 0)


def _name(size: ClusterSize) -> str:
    return f"{size.executor_cores} cores" if size.executor_cores > 1 else "1 core"
