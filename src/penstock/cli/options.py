"""Options that several commands share, their parsing, and the service that commands work through."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Optional

import typer

from penstock import units
from penstock.errors import InvalidInput
from penstock.model import ClusterSize, ProcessSize

# Typer reads these at run time, where Python 3.10 has no `X | None` it understands.
DriverCores = Annotated[Optional[int], typer.Option(help="Cores of the driver.", show_default="1")]  # noqa: UP045
DriverMemory = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Heap of the driver.", show_default="an eighth of the machine, 512m to 4g"),
]
Executors = Annotated[Optional[int], typer.Option(help="Number of executors.", show_default="1")]  # noqa: UP045
ExecutorCores = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(help="Cores of each executor.", show_default="all of the machine"),
]
ExecutorMemory = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Heap of each executor.", show_default="a quarter of the machine, 512m to 8g"),
]
Lake = Annotated[Optional[str], typer.Option(help="Name of the lake.", show_default="the default lake")]  # noqa: UP045
ObjectSize = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Size of the table's objects.", show_default="32m"),
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
    """The requested cluster size, with `usual` values for sizes that are not given."""
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
    """Bytes of `512m`, `4g`, …; a bare number is MiB, as in Spark."""
    if text is None:
        return None
    found = units.parse_size(text, unit="m")
    if found is None or found <= 0:
        raise InvalidInput(
            f"{option} {text} is not a size", why="a size is a number with k, m, g or t", fix=f"{option} 4g"
        )
    return found


def layout_settings(object_size: str | None) -> dict[str, str]:
    """Spark settings of an application that writes a table's layout."""
    if object_size is None:
        return {}
    found = units.parse_size(object_size)
    if found is None or found <= 0:
        raise InvalidInput(
            f"--object-size {object_size} is not a size",
            why="a size is a number with k, m, g or t",
            fix="--object-size 32m",
        )
    return {"spark.penstock.skipping.layout.object.size": f"{found}b"}


def seconds(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    found = units.parse_seconds(text)
    if found is None:
        raise InvalidInput(
            f"{option} {text} is not a time", why="a time is a number with s, m, h or d", fix=f"{option} 90s, 15m, 2h"
        )
    return found


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """Parse the `KEY=VALUE` texts of a repeatable option; values may contain `=`."""
    found: dict[str, str] = {}
    for text in texts or ():
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise InvalidInput(f"{option} {text} is not KEY=VALUE", fix=f"{option} {key or 'KEY'}=VALUE")
        if key.strip() in found and found[key.strip()] != value:
            raise InvalidInput(f"{option} sets {key.strip()} twice", fix="give it once")
        found[key.strip()] = value
    return found


def paths(texts: Sequence[str] | None) -> tuple[str, ...]:
    """The paths of a repeatable option that also takes commas, as spark-submit does; file names may contain commas."""
    found: list[str] = []
    for text in texts or ():
        found += [text] if Path(text).exists() else [part for part in text.split(",") if part]
    return tuple(found)


SERVER_VARIABLE = "PENSTOCK_SERVER"


def server() -> str | None:
    """The service's address, from `--server` or the environment."""
    return os.environ.get(SERVER_VARIABLE) or None


def choose(url: str) -> None:
    """Select the service for this process and its children."""
    os.environ[SERVER_VARIABLE] = url
