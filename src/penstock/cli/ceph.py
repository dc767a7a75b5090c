"""`penstock lake ceph`: a real Ceph on this machine, and the two lakes on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from penstock.cli import options
from penstock.cli.console import share, size
from penstock.cli.steps import step
from penstock.errors import InvalidInput
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lake.ceph.cluster import Ceph
    from penstock.lake.ceph.status import Status

app = typer.Typer(
    help="A real Ceph on this machine: OSDs, several gateways, replicated and erasure-coded buckets.",
    no_args_is_help=True,
    add_completion=False,
)

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
Name = Annotated[str, typer.Argument(help="A daemon: mon.a, mgr.a, osd.0, rgw.0, …")]


@app.command()
def up(
    *,
    osds: Annotated[Optional[int], typer.Option(help="How many OSDs, each with a disk of its own (6).")] = None,  # noqa: UP045
    gateways: Annotated[Optional[int], typer.Option(help="How many S3 gateways (2).")] = None,  # noqa: UP045
    replicated: Annotated[
        bool, typer.Option("--replicated", help="The lake “ceph” keeps everything three times (the default).")
    ] = False,
    erasure: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="K+M", help="The lake “ceph” keeps K chunks of data and M of parity, such as 4+2."),
    ] = None,
    disk_size: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--size", metavar="SIZE", help="How large an OSD's disk is, a sparse file (8g)."),
    ] = None,
    data_dir: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(help="Where the OSDs' disks are (the state directory).", file_okay=False, resolve_path=True),
    ] = None,
    metadata_dir: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            help="Where the OSDs' metadata and journals are (block.db, block.wal), on a faster medium.",
            file_okay=False,
            resolve_path=True,
        ),
    ] = None,
    quota: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="SIZE", help="What each lake may hold (what fills the OSDs to 80 %)."),
    ] = None,
) -> None:
    """Make a Ceph, or resume the one that is there with its data. Takes about half a minute the first time.

    Two lakes are on it: “ceph”, and one with the other kind of protection (“ceph-erasure”).

    The options are for the first time; later only --gateways can be changed.
    """
    if replicated and erasure:
        raise InvalidInput(
            "--replicated and --erasure exclude each other",
            why="they say what the lake “ceph” is; the other kind is a lake of its own beside it",
            fix="give one of them",
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
    """Show health, capacity, and what each daemon uses. The exit code is 1 where something does not serve."""
    from penstock.lake.ceph.status import look

    seen = look(_ceph())
    if as_json:
        typer.echo(json.dumps(seen.as_json() if seen else {"state": "none"}))
    elif seen is None:
        typer.echo("There is no Ceph in this home; penstock lake ceph up makes one")
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
    kill: Annotated[bool, typer.Option("--kill", help="End it without asking, as a lost machine would.")] = False,
) -> None:
    """End one daemon, to see what happens. `penstock lake ceph start NAME` brings it back."""
    ceph = _ceph()
    ended = ceph.kill(name) if kill else ceph.stop(name)
    typer.echo(f"{name} has ended" if ended else f"{name} was not running")


@app.command()
def down() -> None:
    """End every daemon. The data stay."""
    typer.echo("Ceph is down; its data stay" if _ceph().down(step=step) else "Ceph was not running")


@app.command()
def wipe(yes: Yes = False) -> None:
    """End every daemon and remove all data of both lakes."""
    ceph = _ceph()
    if not yes:
        typer.confirm("Remove this home's Ceph with all data in it?", abort=True)
    ceph.wipe()
    typer.echo("There is no Ceph in this home any more")


@app.command()
def install(yes: Yes = False) -> None:
    """Install Ceph's packages by the distribution's package manager. Needs root; nothing is started."""
    from penstock.lake.ceph import control

    lacking = control.missing()
    if not lacking:
        typer.echo(f"There is nothing to install: Ceph {control.version()} is here")
        return
    control.require_installable()
    if not yes:
        typer.confirm(f"Install {', '.join(lacking)} with apt-get?", abort=True)
    control.install()
    typer.echo(f"Installed Ceph {control.version()}; penstock lake ceph up makes a Ceph")


def _ceph() -> Ceph:
    from penstock.lake.ceph.cluster import Ceph

    return Ceph(Home.default())


def _bytes(text: str | None, option: str) -> int | None:
    from penstock.units import parse_size

    found = parse_size(text) if text is not None else None
    if text is not None and (found is None or found <= 0):
        raise InvalidInput(f"{option} {text} is not understood", why="it should be a size", fix=f"{option} 8g")
    return found


def _lines(seen: Status) -> Iterator[str]:
    cluster = seen.cluster
    if seen.state == "down":
        yield "down; penstock lake ceph up resumes it with its data"
    elif cluster is None:
        yield f"{seen.state}; the monitor tells nothing: {seen.silence}"
    if cluster is not None:
        yield f"{seen.state}, {cluster.health}" + "".join(f"\n  {finding}" for finding in cluster.findings)
        groups = ", ".join(f"{count} {state}" for state, count in cluster.groups.items())
        osds = sum(daemon.kind == "osd" for daemon in seen.daemons)
        yield f"  OSDs      {cluster.osds_up} of {osds} up, {cluster.osds_in} in; placement groups: {groups}"
        yield (
            f"  capacity  {size(cluster.raw_used_bytes)} of {size(cluster.raw_bytes)} raw "
            f"({share(cluster.raw_used_bytes / (cluster.raw_bytes or 1))}), of the disk under it "
            f"{size(seen.free_bytes)} are free"
        )
        for kept in cluster.stored:
            factor = f", {kept.raw_bytes / kept.stored_bytes:.2f} raw for each stored" if kept.stored_bytes else ""
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
