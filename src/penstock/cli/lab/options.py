"""What the options of the lab's commands mean, in one place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from penstock.errors import InvalidInput
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.model import ClusterSize

# Typer reads these at run time, where Python 3.10 has no `X | None` it understands.
LakeName = Annotated[Optional[str], typer.Option("--lake", help="Which lake; the default one if not given.")]  # noqa: UP045
Profile = Annotated[Optional[str], typer.Option(help="Workload profile instead of its own (penstock profile list).")]  # noqa: UP045
Settings = Annotated[Optional[list[str]], typer.Option("--conf", help="KEY=VALUE, a Spark setting.")]  # noqa: UP045
DriverMemory = Annotated[Optional[str], typer.Option(help="Heap of the driver, e.g. 2g.")]  # noqa: UP045
Executors = Annotated[Optional[int], typer.Option(help="Number of executors.", min=1)]  # noqa: UP045
ExecutorCores = Annotated[Optional[int], typer.Option(help="Cores of each executor.", min=1)]  # noqa: UP045
ExecutorMemory = Annotated[Optional[str], typer.Option(help="Heap of each executor, e.g. 4g.")]  # noqa: UP045
Repetitions = Annotated[int, typer.Option(help="How often each arm is measured.", min=1)]
Warmup = Annotated[int, typer.Option(help="Repetitions before the counted ones.", min=0)]
DropCaches = Annotated[
    bool,
    typer.Option(
        "--drop-caches", help="Drop Penstock's and the operating system's caches before each repetition (needs root)."
    ),
]
RoundTrip = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Wait so long before each request to the store, as if it were that far away: 5ms."),
]
AgainstPlain = Annotated[
    bool, typer.Option("--against-plain", help="Measure plain spark-submit with S3A's defaults too, in turns.")
]
ObjectSize = Annotated[str, typer.Option(help="Size of the objects, e.g. 32m.")]
Reload = Annotated[bool, typer.Option("--reload", help="Generate the data again even where the lake has it.")]
Output = Annotated[Optional[Path], typer.Option("--output", "-o", help="Where to write; else standard output.")]  # noqa: UP045
Page = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--output", "-o", help="Write the page there; .md and .json give Markdown and JSON."),
]
PriceFile = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--prices", help="A YAML file of your own prices; see penstock lab price --template."),
]


def cluster_size(
    driver_memory: str | None = None,
    executors: int | None = None,
    executor_cores: int | None = None,
    executor_memory: str | None = None,
    *,
    default: ClusterSize | None = None,
) -> ClusterSize:
    """What was asked for; the rest as `default` has it, or as any application gets it."""
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
    """`32m` in bytes; `InvalidInput` names the option."""
    units = {"k": 10, "m": 20, "g": 30, "t": 40}
    number, unit = text[:-1], text[-1:].lower()
    if unit not in units or not number.isdigit() or int(number) == 0:
        raise InvalidInput(
            f"{option} {text} is not a size", why="it is a number with k, m, g or t", fix=f"{option} 32m"
        )
    return int(number) << units[unit]


def count(text: str, option: str) -> int:
    """`1m` as a million; `InvalidInput` names the option."""
    powers = {"k": 3, "m": 6, "b": 9}
    number, power = (text[:-1], powers[text[-1].lower()]) if text[-1:].lower() in powers else (text, 0)
    if not number.isdigit() or int(number) == 0:
        raise InvalidInput(
            f"{option} {text} is not a number of things",
            why="it is a whole number, with k, m or b for thousands, millions and billions",
            fix=f"{option} 10m",
        )
    return int(number + "0" * power)


def numbers(text: str, option: str, of: str) -> tuple[int, ...]:
    """`1,2,4`, each at least 1; `InvalidInput` names the option."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise InvalidInput(f"{option} {text} are not numbers {of}", fix=f"{option} 1,2,4,8")
    return tuple(int(part) for part in parts)


def seconds(text: str, option: str) -> int:
    """`30m` in seconds; `InvalidInput` names the option."""
    units = {"s": 1, "m": 60, "h": 3600}
    number, unit = text[:-1], text[-1:].lower()
    if unit not in units or not (number.isascii() and number.isdigit()) or int(number) == 0:
        raise InvalidInput(f"{option} {text} is no time", why="it is a number with s, m or h", fix=f"{option} 60s")
    return int(number) * units[unit]


def spark_settings(conf: list[str] | None) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in conf or []]
    for key, equals, _ in pairs:
        if not equals or not key:
            raise InvalidInput(f"--conf {key} has no value", fix="--conf KEY=VALUE")
    return {key.strip(): value for key, _, value in pairs}
