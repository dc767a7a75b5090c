"""Options that several lab commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lab.workloads.base import Suite
    from penstock.model import ClusterSize

# Typer reads these at run time, where Python 3.10 has no `X | None` it understands.
LakeName = Annotated[Optional[str], typer.Option("--lake", help="Name of the lake.", show_default="the default lake")]  # noqa: UP045
Profile = Annotated[Optional[str], typer.Option(help="Profile instead of the workload's own (penstock profile list).")]  # noqa: UP045
Settings = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--conf", help="KEY=VALUE, a Spark setting of every arm; repeatable."),
]
PenstockSettings = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--conf-penstock", help="KEY=VALUE, a Spark setting of Penstock's arm alone; repeatable."),
]
PlainSettings = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--conf-plain", help="KEY=VALUE, a Spark setting of plain Spark's arm alone; repeatable."),
]
DriverMemory = Annotated[Optional[str], typer.Option(help="Heap of the driver, e.g. 2g.")]  # noqa: UP045
SIZES = {
    "driver_memory": DriverMemory,
    "executors": Annotated[Optional[int], typer.Option(help="Number of executors.", min=1)],  # noqa: UP045
    "executor_cores": Annotated[Optional[int], typer.Option(help="Cores of each executor.", min=1)],  # noqa: UP045
    "executor_memory": Annotated[Optional[str], typer.Option(help="Heap of each executor, e.g. 4g.")],  # noqa: UP045
}
Repetitions = Annotated[int, typer.Option(help="Counted repetitions of each arm.", min=1)]
Warmup = Annotated[int, typer.Option(help="Uncounted repetitions before them.", min=0)]
DropCaches = Annotated[
    bool,
    typer.Option(
        "--drop-caches", help="Drop Penstock's and the operating system's caches before each repetition (needs root)."
    ),
]
RoundTrip = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Delay each request to the store by this time, to simulate distance, e.g. 5ms."),
]
AgainstPlain = Annotated[
    bool, typer.Option("--against-plain", help="Also measure plain spark-submit with S3A's defaults, in turns.")
]
Output = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--output", "-o", help="File to write.", show_default="standard output"),
]
Page = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--output", "-o", help="Also write the report as a page; .md and .json give Markdown and JSON."),
]
PriceFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--prices", help="YAML file of prices; penstock lab price --template prints one."),
]


def usual_size(suite: Suite | None = None) -> ClusterSize:
    """The size of the workload's clusters, or of those that applications usually get."""
    from penstock.clusters import choice
    from penstock.engine.policy import admission

    capacity = choice.capacity(Home.default())
    return suite.default_size(capacity) if suite else admission.usual_size(capacity)
