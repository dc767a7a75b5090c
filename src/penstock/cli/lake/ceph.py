"""`penstock lake ceph`: a real Ceph cluster on this machine, with two lakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from penstock import units
from penstock.cli import options
from penstock.cli.output import share, size, step
from penstock.errors import InvalidInput
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lake.ceph.cluster import Ceph
    from penstock.lake.ceph.status import CephStatus


app = typer.Typer(
    help="A real Ceph cluster on this machine: OSDs, several gateways, replicated and erasure-coded buckets.",
    no_args_is_help=True,
    add_completion=False,
)

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Name = Annotated[str, typer.Argument(help="Name of a daemon: mon.a, mgr.a, osd.0, rgw.0, …")]


@app.command()
def up(
    *,
    osds: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(help="Number of OSDs, each with its own disk; 6 by default."),
    ] = None,
    gateways: Annotated[Optional[int], typer.Option(help="Number of S3 gateways; 2 by default.")] = None,  # noqa: UP045
    replicated: Annotated[
        bool, typer.Option("--replicated", help="Store three copies in the lake “ceph” (the default).")
    ] = False,
    erasure: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="K+M", help="Store K data and M parity chunks in the lake “ceph”, e.g. 4+2."),
    ] = None,
    disk_size: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--size", metavar="SIZE", help="Size of each OSD's disk, a sparse file; 8g by default."),
    ] = None,
    data_dir: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Directory of the OSDs' disks.", show_default="the state directory", file_okay=False, resolve_path=True
        ),
    ] = None,
    metadata_dir: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Directory of the OSDs' metadata and journals (block.db, block.wal), for a faster device.",
            file_okay=False,
            resolve_path=True,
        ),
    ] = None,
    quota: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="SIZE", help="Quota of each lake.", show_default="fills the OSDs to 80 %"),
    ] = None,
) -> None:
    """Create a Ceph cluster, or resume an existing one with its data. Creation takes about half a minute.

    The cluster has two lakes: “ceph”, and one with the other kind of protection (“ceph-erasure”).

    The options apply to creation; only --gateways can be changed later.
    """
    if replicated and erasure:
        raise InvalidInput(
            "--replicated and --erasure exclude each other",
            why="each chooses the protection of the lake “ceph”; the other kind is a second lake",
            fix="use one of them",
        )
    given = {
        "osds": osds,
        "gateways": gateways,
        "erasure": erasure,
        "osd_bytes": _bytes(disk_size, "--size"),
        "data_directory": data_dir,
        "metadata_directory": metadata_dir,
    }
    asked: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if replicated:
        asked["erasure"] = None
    ceph = _ceph()
    for lake in ceph.up(asked, quota_bytes=_bytes(quota, "--quota"), step=step):
        placement = ceph.placement(lake.name)
        typer.echo(f"The lake “{lake.name}” is up: {lake.root}, {placement.protection}, at {' '.join(lake.endpoints)}")


@app.command()
def status(as_json: options.Json = False) -> None:
    """Show health, capacity and the resource usage of each daemon. The exit code is 1 if a daemon does not serve."""
    from penstock.lake.ceph.status import read_status

    seen = read_status(_ceph())
    if as_json:
        typer.echo(json.dumps(seen.to_json() if seen else {"state": "none"}))
    elif seen is None:
        typer.echo("There is no Ceph cluster in this home; penstock lake ceph up creates one")
    else:
        for line in _lines(seen):
            typer.echo(line)
    raise typer.Exit(0 if seen and seen.state == "up" else 1)


@app.command()
def start(name: Name) -> None:
    """Start one daemon and wait until it serves."""
    _ceph().start(name)
    typer.echo(f"{name} serves")


@app.command()
def stop(
    name: Name,
    kill: Annotated[bool, typer.Option("--kill", help="Kill the daemon, as a lost machine would.")] = False,
) -> None:
    """Stop one daemon, to test failures. `penstock lake ceph start NAME` restarts it."""
    ceph = _ceph()
    ended = ceph.kill(name) if kill else ceph.stop(name)
    typer.echo(f"{name} is stopped" if ended else f"{name} was not running")


@app.command()
def down() -> None:
    """Stop every daemon. The data is kept."""
    typer.echo("Ceph is down; its data is kept" if _ceph().down(step=step) else "Ceph was not running")


@app.command()
def wipe(yes: Yes = False) -> None:
    """Stop every daemon and delete all data of both lakes."""
    ceph = _ceph()
    if not yes:
        typer.confirm("Delete this home's Ceph cluster with all its data?", abort=True)
    ceph.wipe()
    typer.echo("The Ceph cluster is deleted")


@app.command()
def install(yes: Yes = False) -> None:
    """Install Ceph's packages with the distribution's package manager. Needs root; starts nothing."""
    from penstock.lake.ceph import daemons

    lacking = daemons.missing_packages()
    if not lacking:
        typer.echo(f"Ceph {daemons.version()} is already installed")
        return
    daemons.require_installable()
    if not yes:
        typer.confirm(f"Install {', '.join(lacking)} with apt-get?", abort=True)
    daemons.install()
    typer.echo(f"Installed Ceph {daemons.version()}; penstock lake ceph up creates a cluster")


def _ceph() -> Ceph:
    from penstock.lake.ceph.cluster import Ceph

    return Ceph(Home.default())


def _bytes(text: str | None, option: str) -> int | None:
    return None if text is None else units.require_size(text, option, unit="b", example="8g")


def _lines(seen: CephStatus) -> Iterator[str]:
    cluster = seen.cluster
    if seen.state == "down":
        yield "down; penstock lake ceph up resumes it with its data"
    elif cluster is None:
        yield f"{seen.state}; the monitor does not respond: {seen.silence}"
    if cluster is not None:
        yield f"{seen.state}, {cluster.health}" + "".join(f"\n  {finding}" for finding in cluster.findings)
        groups = ", ".join(f"{count} {state}" for state, count in cluster.groups.items())
        osds = sum(daemon.kind == "osd" for daemon in seen.daemons)
        yield f"  OSDs      {cluster.osds_up} of {osds} up, {cluster.osds_in} in; placement groups: {groups}"
        yield (
            f"  capacity  {size(cluster.raw_used_bytes)} of {size(cluster.raw_bytes)} raw "
            f"({share(cluster.raw_used_bytes / (cluster.raw_bytes or 1))}), {size(seen.free_bytes)} free "
            "on the disk below"
        )
        for kept in cluster.stored:
            factor = f", {kept.raw_bytes / kept.stored_bytes:.2f} raw per stored byte" if kept.stored_bytes else ""
            yield (
                f"  lake      {kept.lake} ({kept.protection}): {size(kept.stored_bytes)} stored in {kept.objects} "
                f"objects, {size(kept.raw_bytes)} raw{factor}; quota {size(kept.quota_bytes)}"
            )
    yield f"  gateways  {' '.join(seen.endpoints)}"
    yield f"  files     {seen.directory}"
    places = seen.devices
    if places["block"].parent != seen.directory:
        yield f"  disks     {places['block']}"
    if places.get("block.db", places["block"]) != places["block"]:
        yield f"  metadata  {places['block.db']}"
    yield ""
    yield f"{'daemon':<8} {'state':<16} {'process':>8} {'core':>6} {'core time':>10} {'memory':>10}"
    for daemon in seen.daemons:
        uses = (
            f"{daemon.pid:>8} {share(daemon.cores):>6} {daemon.core_seconds:>8.1f} s {size(daemon.resident_bytes):>10}"
            if daemon.pid is not None
            else ""
        )
        yield f"{daemon.name:<8} {daemon.state:<16} {uses}".rstrip()
    cores, seconds, memory = (
        sum(getattr(daemon, name) for daemon in seen.daemons) for name in ("cores", "core_seconds", "resident_bytes")
    )
    yield f"{'all':<8} {'':<16} {'':>8} {share(cores):>6} {seconds:>8.1f} s {size(memory):>10}"
