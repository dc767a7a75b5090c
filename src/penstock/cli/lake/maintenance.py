"""`penstock lake export|sweep`: a lake for Kubernetes and other clients, and clean-up after killed jobs."""

from __future__ import annotations

import json
import re
import socket
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional
from urllib.parse import urlsplit

import typer

from penstock import units
from penstock.cli import options
from penstock.cli.output import count, moment, plain_console, size
from penstock.errors import InvalidInput, LakeError
from penstock.formats import certificates
from penstock.home import Home, write_atomically
from penstock.lake.clients.configuration import METASTORE, VENDED, Access, LakeClient, configuration
from penstock.lake.credentials import CredentialsFile
from penstock.lake.model import Lake, require_s3
from penstock.lake.registry import Lakes

if TYPE_CHECKING:
    from penstock.lake.sweep import SweepReport
    from penstock.model import Application


Output = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--output", "-o", help="File to write.", show_default="standard output"),
]

app = typer.Typer(help="Export a lake for other systems.", no_args_is_help=True, add_completion=False)


@app.callback()
def _group() -> None:
    """Export a lake for other systems."""


@app.command()
def kubernetes(
    *,
    lake: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--lake", help="Name of the lake.", show_default="the default lake"),
    ] = None,
    name: Annotated[Optional[str], typer.Option(help="Name of the Service.", show_default="the lake's name")] = None,  # noqa: UP045
    namespace: Annotated[str, typer.Option(help="Namespace of the objects.")] = "default",
    headless: Annotated[
        bool, typer.Option("--headless", help="Make the name resolve to every gateway, for clients that choose one.")
    ] = False,
    openshift: Annotated[
        bool, typer.Option("--openshift", help="Add a Route for clients outside the cluster.")
    ] = False,
    route_host: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--route-host", metavar="HOST", help="Host of the Route.", show_default="chosen by OpenShift"),
    ] = None,
    secret: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Secret that holds the credentials.", show_default="NAME-credentials"),
    ] = None,
    output: Output = None,
) -> None:
    """Print Kubernetes objects that put all gateways of a lake behind one name in the cluster.

    They are a Service without selector, EndpointSlices with the gateways' addresses, and a ConfigMap with Spark's
    settings. Host names are resolved now: export again when addresses change. The output contains no secrets.

    penstock lake export kubernetes --lake ceph --namespace analytics | kubectl apply -f -
    """
    import yaml

    from penstock.lake.clients.kubernetes import ExportOptions, addresses, objects, secret_name, url

    if route_host and not openshift:
        raise InvalidInput("--route-host needs --openshift", fix="add --openshift, or omit --route-host")
    chosen = Lakes(Home.default()).get(lake)
    require_s3(chosen, "A Service of gateways")
    where = ExportOptions(
        name or re.sub(r"[^a-z0-9]+", "-", chosen.name.lower()).strip("-"),
        namespace,
        headless=headless,
        openshift=openshift,
        route_host=route_host,
        secret=secret,
    )
    gateways = addresses(chosen.endpoints, _resolved(chosen))
    authorities = None if chosen.ca_file is None else "".join(certificates(chosen.ca_file))
    text = yaml.safe_dump_all(
        objects(chosen, gateways, where, authorities=authorities), sort_keys=False, explicit_start=True
    )
    _write(text, output)
    notes = [
        f"{len(gateways)} gateway(s) behind {url(chosen, gateways, where)}",
        f"The credentials are not included; applications expect them in the Secret “{secret_name(where)}”:",
        f"  kubectl -n {namespace} create secret generic {secret_name(where)} --from-file=credentials=FILE",
    ]
    if chosen.endpoints[0].startswith("https:"):
        notes.append(f"The gateways' certificate must also be valid for {where.name}.{namespace}.svc")
    typer.echo("\n".join(notes), err=True)


@app.command()
def client(
    name: Annotated[LakeClient, typer.Argument(metavar="CLIENT", help="Engine or library that uses the lake.")],
    *,
    lake: options.Lake = None,
    service: Annotated[
        str, typer.Option(metavar="URL", help="The service whose catalog has the Iceberg tables.")
    ] = options.SERVICE,
    instance: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="Instance in which the client works.", show_default="the only one of its token, or default"),
    ] = None,
    vended: Annotated[
        bool,
        typer.Option("--vended", help="Without the store's keys: the catalog gives temporary ones for each table."),
    ] = False,
    metastore: Annotated[
        str, typer.Option(metavar="URL", help="The metastore that a client named hive uses (penstock catalog serve).")
    ] = METASTORE,
    output: Output = None,
) -> None:
    """Print the file with which another engine or library reads and writes a lake and its tables.

    It begins with how it is used. It names the variables with the store's keys and the service's token; it does not
    contain them. DuckDB and PyIceberg do without keys (--vended) where the lake has a role (lake add --role-arn).
    Clients named hive see all tables; the others see those of Iceberg, aws sees objects alone.

    penstock lake export client duckdb > lake.sql
    """
    home = Home.default()
    chosen = Lakes(home).get(lake)
    require_s3(chosen, "This file")
    if vended:
        _require_vending(chosen, name)
    credentials = CredentialsFile(home).path
    access = Access(chosen, credentials, options.service_url(service), instance, vended, _metastore_url(metastore))
    _write(configuration(name, access), output)


def _metastore_url(given: str) -> str:
    if not re.fullmatch(r"thrift://[^\s/]+:\d+", given):
        raise InvalidInput(
            f"“{given}” is not the address of a metastore", fix=f"give what penstock catalog serve prints: {METASTORE}"
        )
    return given


def _require_vending(lake: Lake, client: LakeClient) -> None:
    if client not in VENDED:
        raise InvalidInput(
            f"There is no file for {client.value} without the store's keys",
            why=f"credentials from the catalog were tried with {' and '.join(one.value for one in VENDED)} alone",
            fix="omit --vended",
        )
    if lake.sts is None:
        raise InvalidInput(
            f"The lake “{lake.name}” gives no temporary credentials",
            why="it has no role whose credentials could be limited to a table",
            fix="add it with a role (penstock lake add --role-arn ARN), or omit --vended",
        )


def _write(text: str, output: Path | None) -> None:
    if output is None:
        typer.echo(text, nl=False)
    else:
        try:
            write_atomically(output, text, mode=0o644)
        except OSError as error:
            fix = "give another file with --output, in a directory that you can write"
            raise options.unwritable(output, error, fix=fix) from error
        typer.echo(str(output))


def _resolved(lake: Lake) -> dict[str, list[str]]:
    found = {}
    for endpoint in lake.endpoints:
        host = urlsplit(endpoint).hostname or ""
        try:
            found[host] = [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
        except OSError as error:
            raise LakeError(
                f"The gateway {endpoint} cannot be resolved",
                why=f"{host}: {error.strerror or error}",
                fix="export where the gateways' names can be resolved, or add the lake with their addresses",
            ) from error
    return found


_KINDS = {
    "commit": "decided job",
    "uploads": "uploads",
    "magic": "magic tree",
    "temporary": "temporary tree",
    "staging": "staging tree",
    "journal": "old journal",
}


def sweep(
    prefix: Annotated[str, typer.Argument(help="Prefix of the keys, or s3a://bucket/….")] = "",
    lake: options.Lake = None,
    older_than: Annotated[str, typer.Option(help="Minimum age of leftovers to sweep: 30min, 24h, 7d.")] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be done.")] = False,
    as_json: options.Json = False,
) -> None:
    """Clean up after killed jobs: complete decided commits and remove leftovers.

    The files of a decided job all become visible. Unfinished uploads, __magic and _temporary trees are removed. Data
    that changed within --older-than, or since the oldest running application of this home started, is kept.
    """
    from penstock.engine.engine import Engine
    from penstock.lake import sweep as sweeping
    from penstock.lake.model import require_s3
    from penstock.lake.registry import Lakes
    from penstock.model import State

    seconds = units.require_seconds(older_than, "--older-than")
    home = Home.default()
    lakes = Lakes(home)
    chosen = lakes.get(lake)
    require_s3(chosen, "The sweep")
    # Those on other lakes, too: several may have one bucket, and an application writes to any that it reaches.
    running = Engine(home).list(states=[state for state in State if not state.final])
    before, because_of = sweeping.cutoff(datetime.now(timezone.utc), timedelta(seconds=seconds), running)
    swept = sweeping.sweep(chosen, lakes.credentials_of(chosen), chosen.key(prefix), before=before, dry_run=dry_run)
    if as_json:
        report = {
            "lake": chosen.name,
            "objects": swept.objects,
            "before": before.isoformat(),
            "running": because_of.id if because_of else None,
            "found": [found.to_json() for found in swept.found],
        }
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print(chosen, swept, before, because_of)


def _print(lake: Lake, swept: SweepReport, before: datetime, because_of: Application | None) -> None:
    from rich.table import Table
    from rich.text import Text

    listed = f"{count(swept.objects)} objects of {lake.root}"
    if not swept.found:
        typer.echo(f"There are no leftovers of killed jobs among {listed}")
        return
    table = Table("what", "where", "files", "size", "last touched", "", box=None, header_style="bold")
    for found in swept.found:
        table.add_row(
            _KINDS.get(found.kind, found.kind),
            Text(found.at, overflow="fold"),
            count(found.files),
            size(found.bytes),
            moment(found.newest),
            found.action,
        )
    plain_console().print(table)
    typer.echo(f"Found {len(swept.found)} leftovers among {listed}; those touched after {moment(before)} are kept")
    if because_of is not None:
        typer.echo(f"  because application {because_of.id} ({because_of.spec.name}) has been running since then")
