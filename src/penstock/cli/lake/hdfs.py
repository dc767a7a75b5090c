"""`penstock lake hdfs`: an HDFS on this machine, as a baseline for comparisons."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from penstock.cli import options
from penstock.cli.output import count, duration, plain_console, size
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lake.hdfs.servers import HdfsStatus


app = typer.Typer(
    help=(
        "An HDFS on this machine, as a baseline: a NameNode and DataNodes as processes on 127.0.0.1. It is a lake like "
        "the others: penstock run, sql and lab use it with --lake."
    ),
    no_args_is_help=True,
    add_completion=False,
)

Name = Annotated[str, typer.Option(help="Name of the HDFS and of its lake; addresses are hdfs://NAME/….")]
_USUAL = "hdfs"


@app.command()
def up(
    name: Name = _USUAL,
    datanodes: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Number of DataNodes, 3 by default; it can grow later."),
    ] = None,
    replication: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Replication of blocks written from now on.", show_default="3, or the number of DataNodes"),
    ] = None,
    remote: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option(
            "--remote/--colocated",
            help="Read blocks over TCP, without locality, or directly as local files (short-circuit).",
            show_default="colocated",
        ),
    ] = None,
) -> None:
    """Start the HDFS or its missing daemons; the first start formats it.

    Options that are not given keep their values. Maven downloads the servers' jar (40 MB) on first use.
    """
    from penstock.lake.hdfs.cluster import HdfsCluster
    from penstock.lake.hdfs.layout import ShapeRequest
    from penstock.lake.registry import Lakes

    home = Home.default()
    cluster = HdfsCluster(home, name)
    began = time.monotonic()
    with plain_console(sys.stderr).status(f"Starting the HDFS “{name}”") as progress:
        lake = cluster.up(
            ShapeRequest(datanodes, replication, remote), lambda step: progress.update(f"The HDFS “{name}”: {step}")
        )
    typer.echo(f"The lake “{lake.name}” is up: {lake.root} ({duration(time.monotonic() - began)})")
    _print(cluster.status())
    if Lakes(home).default() != name:
        typer.echo(f"It is not the default lake; select it with --lake, e.g. penstock sql --lake {name}")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Name of the lake; addresses are hdfs://NAME/….")],
    *,
    namenode: Annotated[str, typer.Option(metavar="HOST:PORT", help="RPC address of the NameNode, for Spark.")],
    web: Annotated[str, typer.Option(metavar="URL", help="Address of WebHDFS, for logs and results.")],
    replication: Annotated[int, typer.Option(min=1, help="Replication of written blocks.")] = 3,
) -> None:
    """Register an existing HDFS, or replace the lake of that name. HDFS with Kerberos is not supported.

    Penstock accesses it as the user who runs Penstock.
    """
    from penstock.lake import stores
    from penstock.lake.hdfs.layout import validate_name, validate_namenode
    from penstock.lake.hdfs.webhdfs import HdfsObjectStore
    from penstock.lake.model import NO_CREDENTIALS, HdfsClient, Lake
    from penstock.lake.registry import Lakes, validate_lake

    home = Home.default()
    stores.require_external(home, name)
    client = HdfsClient(validate_namenode(namenode), replication, short_circuit=False)
    lake = validate_lake(Lake(validate_name(name), (web,), name, NO_CREDENTIALS, hdfs=client))
    HdfsObjectStore(lake).require_reachable()
    Lakes(home).add(lake)
    typer.echo(f"Added the lake “{name}”: {lake.root} at {namenode}")


@app.command()
def down(name: Name = _USUAL) -> None:
    """Stop the HDFS. Its data is kept."""
    from penstock.lake.hdfs.cluster import HdfsCluster

    stopped = HdfsCluster(Home.default(), name).down()
    typer.echo(f"The HDFS “{name}” is down; its data is kept" if stopped else f"The HDFS “{name}” was not running")


@app.command()
def status(name: Name = _USUAL, as_json: options.Json = False) -> None:
    """Show the daemons, their memory and CPU time, and the capacity. The exit code is 1 if the HDFS is not ready."""
    from penstock.lake.hdfs.cluster import HdfsCluster

    seen = HdfsCluster(Home.default(), name).status()
    if as_json:
        typer.echo(json.dumps(seen.to_json(), indent=2))
    else:
        typer.echo(f"{seen.root} is {'ready' if seen.ready else 'not ready; penstock lake hdfs up starts it'}")
        _print(seen)
    raise typer.Exit(0 if seen.ready else 1)


@app.command()
def wipe(
    name: Name = _USUAL,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Stop the HDFS and delete all its data. Tables of the catalog that were stored in it lose their data."""
    from penstock.lake.hdfs.cluster import HdfsCluster

    if not yes:
        typer.confirm(f"Delete the HDFS “{name}” with all its data?", abort=True)
    HdfsCluster(Home.default(), name).wipe()
    typer.echo(f"The HDFS “{name}” is deleted")


def _print(seen: HdfsStatus) -> None:
    shape = seen.shape
    where = "remote: read over TCP" if shape.remote else "co-located: read as local files"
    typer.echo(f"  shape     {shape.datanodes} DataNodes, replication {shape.replication}, {where}")
    if health := seen.health:
        live = f"{health.live} of {shape.datanodes} DataNodes live" + (", safe mode" if health.safe_mode else "")
        typer.echo(f"  health    {live}; {health.under_replicated} under-replicated blocks, {health.missing} missing")
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
