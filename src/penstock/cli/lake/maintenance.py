"""`penstock lake export|sweep`: a lake as objects of other systems, and leftovers of killed jobs."""

from __future__ import annotations

import json
import re
import socket
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional
from urllib.parse import urlsplit

import typer

from penstock.cli import options
from penstock.cli.output import count, moment, size
from penstock.errors import InvalidInput, LakeError
from penstock.formats import certificates
from penstock.home import Home, write_atomically
from penstock.lake.model import Lake, require_s3
from penstock.lake.registry import Lakes

if TYPE_CHECKING:
    from penstock.lake.sweep import Swept
    from penstock.model import Application


app = typer.Typer(help="Write a lake down for other systems.", no_args_is_help=True, add_completion=False)


@app.callback()
def _group() -> None:
    """Write a lake down for other systems."""


@app.command()
def kubernetes(
    *,
    lake: Annotated[Optional[str], typer.Option("--lake", help="Which lake; the default one if not given.")] = None,  # noqa: UP045
    name: Annotated[Optional[str], typer.Option(help="The Service's name; by default the lake's.")] = None,  # noqa: UP045
    namespace: Annotated[str, typer.Option(help="Where the objects go.")] = "default",
    headless: Annotated[
        bool, typer.Option("--headless", help="A name that resolves to every gateway, for clients that choose.")
    ] = False,
    openshift: Annotated[
        bool, typer.Option("--openshift", help="Add a Route for clients outside the cluster.")
    ] = False,
    route_host: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--route-host", metavar="HOST", help="The Route's host; OpenShift chooses one if not given."),
    ] = None,
    secret: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The Secret that holds the credentials; by default NAME-credentials."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; standard output if not given.")] = None,
) -> None:
    """Print Kubernetes objects that put all gateways of a lake behind one name in the cluster.

    A Service without selector, EndpointSlices with the gateways' addresses, and a ConfigMap with Spark's settings for
    them. Names of gateways are resolved now: export again when their addresses change. Nothing printed is secret.

    penstock lake export kubernetes --lake ceph --namespace analytics | kubectl apply -f -
    """
    import yaml

    from penstock.lake.export import Placement, addresses, objects, secret_name, url

    if route_host and not openshift:
        raise InvalidInput("--route-host is for a Route", fix="add --openshift, or leave it out")
    chosen = Lakes(Home.default()).get(lake)
    require_s3(chosen, "A Service of gateways")
    where = Placement(
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
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(output, text, mode=0o644)
        typer.echo(str(output))
    told = [
        f"{len(gateways)} gateway(s) behind {url(chosen, gateways, where)}",
        f"The credentials are not part of it; applications expect them in the Secret “{secret_name(where)}”:",
        f"  kubectl -n {namespace} create secret generic {secret_name(where)} --from-file=credentials=FILE",
    ]
    if chosen.endpoints[0].startswith("https:"):
        told.append(f"The gateways' certificate must be valid for {where.name}.{namespace}.svc, too")
    typer.echo("\n".join(told), err=True)


def _resolved(lake: Lake) -> dict[str, list[str]]:
    found = {}
    for endpoint in lake.endpoints:
        host = urlsplit(endpoint).hostname or ""
        try:
            found[host] = [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
        except OSError as error:
            raise LakeError(
                f"The gateway {endpoint} has no address",
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
    prefix: Annotated[str, typer.Argument(help="The beginning of the keys, or s3a://bucket/….")] = "",
    lake: options.Lake = None,
    older_than: Annotated[str, typer.Option(help="Keep what a job has touched since: 30min, 24h, 7d.")] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    as_json: options.Json = False,
) -> None:
    """Finish or remove what killed jobs have left in a lake.

    A job that was decided is finished: its data appears, whole. Everything else is removed: unfinished uploads, __magic
    and _temporary trees. What is younger than --older-than stays, and so does whatever an application of this home that
    is running now could have written.
    """
    from penstock import units
    from penstock.engine.engine import Engine
    from penstock.lake import sweep as sweeping
    from penstock.lake.model import require_s3
    from penstock.lake.registry import Lakes
    from penstock.model import State

    seconds = units.parse_seconds(older_than)
    if seconds is None:
        raise InvalidInput(f"--older-than {older_than} is no time", fix="give one like 30min, 24h or 7d")
    home = Home.default()
    lakes = Lakes(home)
    chosen = lakes.get(lake)
    require_s3(chosen, "The sweep")
    running = [
        application
        for application in Engine(home).list(states=[state for state in State if not state.final])
        if (application.spec.lake or lakes.default()) == chosen.name
    ]
    before, because_of = sweeping.cutoff(datetime.now(timezone.utc), timedelta(seconds=seconds), running)
    swept = sweeping.sweep(chosen, lakes.credentials_of(chosen), chosen.key(prefix), before=before, dry_run=dry_run)
    if as_json:
        report = {
            "lake": chosen.name,
            "objects": swept.objects,
            "before": before.isoformat(),
            "running": because_of.id if because_of else None,
            "found": [found.as_json() for found in swept.found],
        }
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print(chosen, swept, before, because_of)


def _print(lake: Lake, swept: Swept, before: datetime, because_of: Application | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    listed = f"{count(swept.objects)} objects of {lake.root}"
    if not swept.found:
        typer.echo(f"Nothing is left of killed jobs among {listed}")
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
    Console().print(table)
    typer.echo(f"{len(swept.found)} found among {listed}; what was touched after {moment(before)} is kept")
    if because_of is not None:
        typer.echo(f"  because application {because_of.id} ({because_of.spec.name}) runs since then")
