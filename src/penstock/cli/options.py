"""Options that several commands share, and reading their values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

from penstock import units
from penstock.errors import InvalidInput
from penstock.model import ClusterSize, ProcessSize

# Typer reads these at run time, where Python 3.10 has no `X | None` it understands.
DriverCores = Annotated[Optional[int], typer.Option(help="Cores of the driver. [1]", show_default=False)]  # noqa: UP045
DriverMemory = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Heap of the driver. [an eighth of the machine, 512m to 4g]", show_default=False),
]
Executors = Annotated[Optional[int], typer.Option(help="Number of executors. [1]", show_default=False)]  # noqa: UP045
ExecutorCores = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(help="Cores of each executor. [all of the machine]", show_default=False),
]
ExecutorMemory = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Heap of each executor. [a quarter of the machine, 512m to 8g]", show_default=False),
]
Lake = Annotated[Optional[str], typer.Option(help="Which lake; the default one if not given.", show_default=False)]  # noqa: UP045
ObjectSize = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="How large the table's objects are to be. [32m]", show_default=False),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def cluster_size(
    usual: ClusterSize,
    *,
    driver_cores: int | None,
    driver_memory: str | None,
    executors: int | None,
    executor_cores: int | None,
    executor_memory: str | None,
) -> ClusterSize:
    """What was asked for, and the `usual` for the rest."""
    return ClusterSize(
        driver=ProcessSize(
            usual.driver.cores if driver_cores is None else driver_cores,
            memory(driver_memory, "--driver-memory") or usual.driver.memory_bytes,
        ),
        executor=ProcessSize(
            usual.executor.cores if executor_cores is None else executor_cores,
            memory(executor_memory, "--executor-memory") or usual.executor.memory_bytes,
        ),
        executors=usual.executors if executors is None else executors,
    )


def memory(text: str | None, option: str) -> int | None:
    """`512m`, `4g`, …; a bare number is MiB, as Spark has it."""
    if text is None:
        return None
    found = units.parse_size(text, unit="m")
    if found is None or found <= 0:
        raise InvalidInput(f"{option} {text} is not understood", why="it should be a size", fix=f"{option} 4g")
    return found


def layout_settings(object_size: str | None) -> dict[str, str]:
    """The settings of an application that lays a table out."""
    if object_size is None:
        return {}
    found = units.parse_size(object_size)
    if found is None or found <= 0:
        raise InvalidInput(
            f"--object-size {object_size} is not understood", why="it should be a size", fix="--object-size 32m"
        )
    return {"spark.penstock.skipping.layout.object.size": f"{found}b"}


def seconds(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    found = units.parse_seconds(text)
    if found is None:
        raise InvalidInput(
            f"{option} {text} is not understood", why="it should be a time", fix=f"{option} 90s, 15m, 2h"
        )
    return found


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """`KEY=VALUE` of a repeatable option; the value may hold further `=`."""
    found: dict[str, str] = {}
    for text in texts or ():
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise InvalidInput(f"{option} {text} is not KEY=VALUE", fix=f"{option} {key or 'KEY'}=VALUE")
        if key.strip() in found and found[key.strip()] != value:
            raise InvalidInput(f"{option} gives {key.strip()} twice", fix="give it once")
        found[key.strip()] = value
    return found


def paths(texts: Sequence[str] | None) -> tuple[str, ...]:
    """Of a repeatable option that also takes commas between paths, as spark-submit does; a file's own comma wins."""
    found: list[str] = []
    for text in texts or ():
        found += [text] if Path(text).exists() else [part for part in text.split(",") if part]
    return tuple(found)
