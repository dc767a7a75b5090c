"""`penstock lake export`: a lake as objects of other systems."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Annotated, Optional
from urllib.parse import urlsplit

import typer

from penstock.errors import InvalidInput, LakeError
from penstock.formats import certificates
from penstock.home import Home, write_atomically
from penstock.lake.model import Lake, require_s3
from penstock.lake.registry import Lakes

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
