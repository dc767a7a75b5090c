"""`penstock profile`: the tuned settings, and where each value came from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock import units
from penstock.errors import InvalidInput
from penstock.profiles import workloads

if TYPE_CHECKING:
    from penstock.model import ClusterSize
    from penstock.profiles.layers import Resolved, ResolvedSetting

app = typer.Typer(
    name="profile",
    help="The tuned settings, and where each value came from.",
    no_args_is_help=True,
    add_completion=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_profiles(as_json: AsJson = False) -> None:
    """The workload profiles, and the layers each is made of."""
    rows = [
        {
            "name": name,
            "summary": workloads.summary_of(name),
            "layers": [layer.name for layer in workloads.layers_of(name)],
        }
        for name in workloads.names()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("profile", "for", "layers", box=None, header_style="bold")
    for row in rows:
        table.add_row(str(row["name"]), str(row["summary"]), " < ".join(row["layers"]))
    Console().print(table)


@app.command("show")
def show_profile(
    name: Annotated[str, typer.Argument(help="A profile of `penstock profile list`.")],
    *,
    executors: Annotated[int, typer.Option(min=1, help="Number of executors.")] = 1,
    executor_cores: Annotated[int, typer.Option(min=1, help="Cores of each executor.")] = 2,
    executor_memory: Annotated[str, typer.Option(help="Heap of each executor, such as 4g.")] = "4g",
    driver_cores: Annotated[int, typer.Option(min=1, help="Cores of the driver.")] = 1,
    driver_memory: Annotated[str, typer.Option(help="Heap of the driver, such as 2g.")] = "2g",
    conf: Annotated[
        list[str] | None, typer.Option("--conf", help="KEY=VALUE of your own, to see what it does.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The settings of one profile on a cluster of a given size: value, layer, reason, source, and what it replaced."""
    from penstock.model import ClusterSize, ProcessSize
    from penstock.profiles.check import check, refuse
    from penstock.profiles.known import bundled
    from penstock.profiles.layers import resolve

    size = ClusterSize(
        driver=ProcessSize(driver_cores, _memory("--driver-memory", driver_memory)),
        executor=ProcessSize(executor_cores, _memory("--executor-memory", executor_memory)),
        executors=executors,
    )
    layers = workloads.layers_of(name)
    user = dict(_pair(text) for text in conf or ())
    if user:
        problems = check(user, bundled(), size=size, beneath=resolve(layers, size).values())
        refuse(problems)
        for problem in problems:
            typer.echo(f"{problem.severity.value}: {problem}", err=True)
    resolved = resolve(layers, size, user)
    if as_json:
        typer.echo(json.dumps([_as_json(setting) for setting in resolved], indent=2))
    else:
        _print(name, size, resolved)


def _memory(option: str, text: str) -> int:
    amount = units.parse_size(text)
    if amount is None or amount <= 0:
        raise InvalidInput(f"{option} {text} is no size", fix=f"give a number and a unit, such as {option} 4g")
    return amount


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InvalidInput(f"--conf {text} is no setting", fix="give --conf KEY=VALUE")
    return key.strip(), value


def _as_json(setting: ResolvedSetting) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "key": setting.key,
        "value": setting.value,
        "layer": setting.origin.layer,
        "reason": setting.origin.reason,
        "source": setting.origin.source,
        "origins": [asdict(origin) for origin in setting.origins],
        "overrode": [asdict(origin) for origin in setting.overrode],
    }


def _print(name: str, size: ClusterSize, resolved: Resolved) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True)
    console.print(
        f"Profile [bold]{name}[/bold] on {size.executors} executor(s) of {size.executor.cores} core(s) and "
        f"{size.executor.memory_bytes >> 20} MiB, driver of {size.driver.cores} core(s) and "
        f"{size.driver.memory_bytes >> 20} MiB\n",
        highlight=False,
    )
    for setting in resolved:
        console.print(Text.assemble((setting.key, "bold"), " = ", (setting.value, "green")))
        # A list under one key has a reason for each part.
        for origin in setting.origins if not setting.overrode else (setting.origin,):
            console.print(Text(f"    {origin.layer}: {origin.reason}"))
            console.print(Text(f"    source: {origin.source}", style="dim"))
        for gone in reversed(setting.overrode):
            console.print(Text(f"    instead of {gone.value} ({gone.layer})", style="yellow"))
