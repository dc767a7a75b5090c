"""`penstock lake hdfs`: an HDFS of this machine, to compare with."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from penstock.cli import options
from penstock.cli.console import count, duration, size
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lake.hdfs.servers import Status

app = typer.Typer(
    help=(
        "An HDFS of this machine, as the baseline: a NameNode and DataNodes, each a process of its own, on 127.0.0.1. "
        "It is a lake like the others: penstock run, sql and lab take it by --lake."
    ),
    no_args_is_help=True,
    add_completion=False,
)

Name = Annotated[str, typer.Option(help="Which HDFS; it is the lake's name, and its addresses begin with it.")]
_USUAL = "hdfs"


@app.command()
def up(
    name: Name = _USUAL,
    datanodes: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="How many DataNodes. More may be added later. [3]", show_default=False),
    ] = None,
    replication: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            help="On how many DataNodes each block is that is written from now on. [3, or all]", show_default=False
        ),
    ] = None,
    remote: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option(
            "--remote/--colocated",
            help="Blocks are read over TCP, and no task is near one; or as local files, past the DataNode. [colocated]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Start it, or what of it does not run; the first time it is formatted.

    What is not said stays as it was. The servers' jar (40 MB) is fetched by Maven when it is first needed.
    """
    from rich.console import Console

    from penstock.lake.hdfs.cluster import HdfsCluster
    from penstock.lake.hdfs.layout import Asked
    from penstock.lake.registry import Lakes

    home = Home.default()
    cluster = HdfsCluster(home, name)
    began = time.monotonic()
    with Console(stderr=True).status(f"Starting the HDFS “{name}”") as progress:
        lake = cluster.up(
            Asked(datanodes, replication, remote), lambda told: progress.update(f"The HDFS “{name}”: {told}")
        )
    typer.echo(f"The lake “{lake.name}” is up: {lake.root} ({duration(time.monotonic() - began)})")
    _print(cluster.status())
    if Lakes(home).default() != name:
        typer.echo(f"It is not the default lake: name it, as in penstock sql --lake {name}")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="The name this lake will have here; its addresses begin with it.")],
    *,
    namenode: Annotated[str, typer.Option(metavar="HOST:PORT", help="The NameNode's RPC, which Spark uses.")],
    web: Annotated[str, typer.Option(metavar="URL", help="Its WebHDFS, which Penstock uses for logs and results.")],
    replication: Annotated[int, typer.Option(min=1, help="Copies of each block that is written.")] = 3,
) -> None:
    """Add an HDFS that somebody else runs, or replace the one of that name. It must not ask for Kerberos.

    Requests are made as the user who runs Penstock.
    """
    from penstock.lake import stores
    from penstock.lake.hdfs.layout import checked_name, checked_namenode
    from penstock.lake.hdfs.webhdfs import HdfsObjectStore
    from penstock.lake.model import NO_CREDENTIALS, HdfsClient, Lake
    from penstock.lake.registry import Lakes, checked

    home = Home.default()
    stores.require_others(home, name)
    client = HdfsClient(checked_namenode(namenode), replication, short_circuit=False)
    lake = checked(Lake(checked_name(name), (web,), name, NO_CREDENTIALS, hdfs=client))
    HdfsObjectStore(lake).require_reachable()
    Lakes(home).add(lake)
    typer.echo(f"Added the lake “{name}”: {lake.root} at {namenode}")


@app.command()
def down(name: Name = _USUAL) -> None:
    """Stop it. Its data stays."""
    from penstock.lake.hdfs.cluster import HdfsCluster

    stopped = HdfsCluster(Home.default(), name).down()
    typer.echo(f"The HDFS “{name}” is down; its data stays" if stopped else f"The HDFS “{name}” was not running")


@app.command()
def status(name: Name = _USUAL, as_json: options.Json = False) -> None:
    """Show its daemons, their memory and processor time, and its capacity. The exit code is 1 where it is not ready."""
    from penstock.lake.hdfs.cluster import HdfsCluster

    seen = HdfsCluster(Home.default(), name).status()
    if as_json:
        typer.echo(json.dumps(seen.as_json(), indent=2))
    else:
        typer.echo(f"{seen.root} is {'ready' if seen.ready else 'not ready; penstock lake hdfs up starts it'}")
        _print(seen)
    raise typer.Exit(0 if seen.ready else 1)


@app.command()
def wipe(
    name: Name = _USUAL,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Stop it and remove it with all its data. The catalog's tables that were in it are left without any."""
    from penstock.lake.hdfs.cluster import HdfsCluster

    if not yes:
        typer.confirm(f"Remove the HDFS “{name}” with all data in it?", abort=True)
    HdfsCluster(Home.default(), name).wipe()
    typer.echo(f"The HDFS “{name}” is gone")


def _print(seen: Status) -> None:
    shape = seen.shape
    where = "remote: read over TCP" if shape.remote else "co-located: read as local files"
    typer.echo(f"  shape     {shape.datanodes} DataNodes, replication {shape.replication}, {where}")
    if health := seen.health:
        live = f"{health.live} of {shape.datanodes} DataNodes live" + (", safe mode" if health.safe_mode else "")
        typer.echo(f"  health    {live}; {health.under_replicated} blocks short of copies, {health.missing} missing")
        typer.echo(
            f"  content   {count(health.files)} files and directories, {count(health.blocks)} blocks, "
            f"{size(health.used_bytes)} with all copies; {size(health.remaining_bytes)} free"
        )
    for daemon in seen.daemons:
        if daemon.process_id is None:
            typer.echo(f"  {daemon.name:<12} not running")
        else:
            taken = f"{size(daemon.memory_bytes or 0)}, {daemon.core_seconds or 0:.1f} core-seconds"
            typer.echo(f"  {daemon.name:<12} {taken} ({daemon.process_id})")
    typer.echo(f"  pages     {seen.web}\n  data      {seen.directory}")
