"""Options that several lab commands share, and their parsing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from penstock.errors import InvalidInput
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.model import ClusterSize

# Typer reads these at run time, where Python 3.10 has no `X | None` it understands.
LakeName = Annotated[Optional[str], typer.Option("--lake", help="Name of the lake.", show_default="the default lake")]  # noqa: UP045
Profile = Annotated[Optional[str], typer.Option(help="Profile instead of the workload's own (penstock profile list).")]  # noqa: UP045
Settings = Annotated[Optional[list[str]], typer.Option("--conf", help="KEY=VALUE, a Spark setting; repeatable.")]  # noqa: UP045
DriverMemory = Annotated[Optional[str], typer.Option(help="Heap of the driver, e.g. 2g.")]  # noqa: UP045
Executors = Annotated[Optional[int], typer.Option(help="Number of executors.", min=1)]  # noqa: UP045
ExecutorCores = Annotated[Optional[int], typer.Option(help="Cores of each executor.", min=1)]  # noqa: UP045
ExecutorMemory = Annotated[Optional[str], typer.Option(help="Heap of each executor, e.g. 4g.")]  # noqa: UP045
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
ObjectSize = Annotated[str, typer.Option(help="Size of the objects, e.g. 32m.")]
Reload = Annotated[bool, typer.Option("--reload", help="Generate the data again even if the lake has it.")]
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


def cluster_size(
    driver_memory: str | None = None,
    executors: int | None = None,
    executor_cores: int | None = None,
    executor_memory: str | None = None,
    *,
    default: ClusterSize | None = None,
) -> ClusterSize:
    """The requested size; missing values come from `default`, or from the size that applications usually get."""
    from penstock.clusters import choice
    from penstock.engine.policy import admission
    from penstock.model import ClusterSize, ProcessSize

    default = default or admission.usual_size(choice.capacity(Home.default()))
    driver, executor = default.driver.memory_bytes, default.executor.memory_bytes
    return ClusterSize(
        driver=ProcessSize(
            default.driver.cores, size_bytes(driver_memory, "--driver-memory") if driver_memory else driver
        ),
        executor=ProcessSize(
            executor_cores or default.executor.cores,
            size_bytes(executor_memory, "--executor-memory") if executor_memory else executor,
        ),
        executors=executors or default.executors,
    )


def size_bytes(text: str, option: str) -> int:
    """Bytes of `32m`. Raises `InvalidInput`, which names the option."""
    units = {"k": 10, "m": 20, "g": 30, "t": 40}
    number, unit = text[:-1], text[-1:].lower()
    if unit not in units or not number.isdigit() or int(number) == 0:
        raise InvalidInput(
            f"{option} {text} is not a size", why="a size is a number with k, m, g or t", fix=f"{option} 32m"
        )
    return int(number) << units[unit]


def count(text: str, option: str) -> int:
    """A million for `1m`. Raises `InvalidInput`, which names the option."""
    powers = {"k": 3, "m": 6, "b": 9}
    number, power = (text[:-1], powers[text[-1].lower()]) if text[-1:].lower() in powers else (text, 0)
    if not number.isdigit() or int(number) == 0:
        raise InvalidInput(
            f"{option} {text} is not a number",
            why="a number is whole, with k, m or b for thousands, millions and billions",
            fix=f"{option} 10m",
        )
    return int(number + "0" * power)


def numbers(text: str, option: str, of: str) -> tuple[int, ...]:
    """The numbers of `1,2,4`, each at least 1. Raises `InvalidInput`, which names the option."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise InvalidInput(f"{option} {text} is not a list of numbers {of}", fix=f"{option} 1,2,4,8")
    return tuple(int(part) for part in parts)


def seconds(text: str, option: str) -> int:
    """Seconds of `30m`. Raises `InvalidInput`, which names the option."""
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = text[:-1], text[-1:].lower()
    if unit not in units or not (number.isascii() and number.isdigit()) or int(number) == 0:
        raise InvalidInput(
            f"{option} {text} is not a time", why="a time is a number with s, m or h", fix=f"{option} 60s"
        )
    return int(number) * units[unit]


def spark_settings(conf: list[str] | None) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in conf or []]
    for key, equals, _ in pairs:
        if not equals or not key:
            raise InvalidInput(f"--conf {key} has no value", fix="--conf KEY=VALUE")
    return {key.strip(): value for key, _, value in pairs}
