"""Options that several commands share: a cluster's size, settings, and the service that commands work through."""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Optional, TypeVar, get_type_hints
from urllib.parse import urlsplit

import typer

from penstock import units
from penstock.errors import InvalidInput
from penstock.model import ClusterSize, ProcessSize

T = TypeVar("T")

# Typer reads these at run time, where Python 3.10 has no `X | None` it understands.
Lake = Annotated[Optional[str], typer.Option(help="Name of the lake.", show_default="the default lake")]  # noqa: UP045
Instance = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Instance (queue) to submit to.", show_default="the token's only one, or default"),
]
ObjectSize = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(help="Size of the table's objects; 32m by default."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


Sized = Callable[[ClusterSize], ClusterSize]
"""The requested cluster size, given the usual one."""

EVERY_SIZE = {
    "driver_cores": Annotated[Optional[int], typer.Option(help="Cores of the driver; 1 by default.")],  # noqa: UP045
    "driver_memory": Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Heap of the driver.", show_default="an eighth of the machine, 512m to 4g"),
    ],
    "executors": Annotated[Optional[int], typer.Option(help="Number of executors; 1 by default.")],  # noqa: UP045
    "executor_cores": Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Cores of each executor.", show_default="all of the machine"),
    ],
    "executor_memory": Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Heap of each executor.", show_default="a quarter of the machine, 512m to 8g"),
    ],
}
SIZES = {name: option for name, option in EVERY_SIZE.items() if name != "driver_cores"}
"""The options of commands whose driver needs one core."""


def sized(sizes: Mapping[str, Any]) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """Replace a command's parameter `sized: Sized` by these options of the cluster size."""

    def decorate(command: Callable[..., T]) -> Callable[..., T]:
        @functools.wraps(command)
        def with_size(*args: Any, **given: Any) -> T:
            chosen = {name: given.pop(name) for name in sizes}
            return command(*args, **given, sized=lambda usual: _size(usual, **chosen))

        own = parameters(command)
        place = next(index for index, parameter in enumerate(own) if parameter.name == "sized")
        own[place : place + 1] = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
            for name, option in sizes.items()
        ]
        return with_parameters(with_size, own)

    return decorate


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters with resolved annotations, as Typer needs them; types that are imported late stay names."""
    return [
        parameter.replace(annotation=_resolved(parameter.annotation, function.__globals__))
        for parameter in inspect.signature(function).parameters.values()
    ]


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    try:
        only = types.SimpleNamespace(__annotations__={"it": annotation})
        return get_type_hints(only, globalns=names, include_extras=True)["it"]
    except NameError:
        return annotation


def with_parameters(function: Callable[..., T], own: Sequence[inspect.Parameter]) -> Callable[..., T]:
    """The function with the parameters that Typer makes options of."""
    function.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in own}
    return function


def _size(
    usual: ClusterSize,
    *,
    driver_cores: int | None = None,
    driver_memory: str | None = None,
    executors: int | None = None,
    executor_cores: int | None = None,
    executor_memory: str | None = None,
) -> ClusterSize:
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
    return None if text is None else units.require_size(text, option, unit="m", example="4g")


def layout_settings(object_size: str | None) -> dict[str, str]:
    """Spark settings of an application that writes a table's layout."""
    if object_size is None:
        return {}
    found = units.require_size(object_size, "--object-size", unit="b")
    return {"spark.penstock.skipping.layout.object.size": f"{found}b"}


def seconds(text: str | None, option: str) -> float | None:
    return None if text is None else units.require_seconds(text, option)


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


def unwritable(path: Path, error: OSError, *, fix: str) -> InvalidInput:
    """The error of a file of the user's choice that a command cannot write."""
    return InvalidInput(f"{path} cannot be written", why=error.strerror or str(error), fix=fix)


def paths(texts: Sequence[str] | None) -> tuple[str, ...]:
    """The paths of a repeatable option that also takes commas, as spark-submit does; file names may contain commas."""
    found: list[str] = []
    for text in texts or ():
        # A long list is no file name: Path.exists raises an error for it.
        found += [text] if os.path.exists(text) else [part for part in text.split(",") if part]  # noqa: PTH110
    return tuple(found)


SERVICE = "http://127.0.0.1:8440"
"""The default address of `penstock serve`."""


def service_url(text: str) -> str:
    """Return the URL of a service without a trailing slash; raise `InvalidInput` for another text."""
    try:
        parts = urlsplit(text)
        # The port is parsed when it is read.
        _ = parts.port
    except ValueError as error:
        raise InvalidInput(f"--service {text} is not a URL", why=str(error), fix=f"--service {SERVICE}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"--service {text} is not a URL", fix=f"--service {SERVICE}")
    return text.rstrip("/")


SERVER_VARIABLE = "PENSTOCK_SERVER"


def server() -> str | None:
    """The service's address, from `--server` or the environment."""
    return os.environ.get(SERVER_VARIABLE) or None


def choose(url: str) -> None:
    """Select the service for this process and its children."""
    os.environ[SERVER_VARIABLE] = url
