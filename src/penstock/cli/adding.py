"""`penstock lake add`: a store of the user's own, tried before it is stored."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Optional

import typer

from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes


def add(
    name: Annotated[str, typer.Argument(help="The name this lake will have here.")],
    *,
    endpoint: Annotated[list[str], typer.Option(help="A gateway's URL; give the option once for each gateway.")],
    bucket: Annotated[str, typer.Option(help="The bucket Penstock may use.")],
    region: Annotated[str, typer.Option(help="The region requests are signed for.")] = "us-east-1",
    path_style: Annotated[
        bool, typer.Option("--path-style/--virtual-host", help="The bucket in the path, or in the host name.")
    ] = True,
    aws_profile: Annotated[
        Optional[str], typer.Option(metavar="NAME", help="Use this profile of your AWS files.")  # noqa: UP045
    ] = None,
    credentials_from_stdin: Annotated[
        bool, typer.Option("--credentials-from-stdin", help="Read access key and secret key, a line each.")
    ] = False,
    ca_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--ca-file", metavar="PEM", help="Certificates of the endpoints' authority, where it is none of the public."
        ),
    ] = None,
    role_arn: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--role-arn", metavar="ARN", help="Give each application credentials of its own for this role."),
    ] = None,
    sts_endpoint: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--sts-endpoint",
            metavar="URL",
            help="Where the store issues them, by default the first endpoint. Alone: sessions of the lake's user.",
        ),
    ] = None,
    session_seconds: Annotated[
        int, typer.Option("--session-seconds", help="How long they are valid; they are renewed at half time.")
    ] = 3600,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Try the lake before storing it.")] = True,
) -> None:
    """Add an S3 store, or replace the one of that name.

    Credentials come from --aws-profile, from --credentials-from-stdin, from AWS_ACCESS_KEY_ID and
    AWS_SECRET_ACCESS_KEY (which must then be set for every later command too), or else from a prompt.

    With --role-arn or --sts-endpoint no application sees them: it gets temporary ones, renewed as long as it runs.
    """
    from penstock.lake import registry, stores
    from penstock.lake.check import directories_linger, require_reachable, require_temporary_credentials
    from penstock.lake.credentials import resolve
    from penstock.lake.sts import sts_of

    home = Home.default()
    stores.require_others(home, name)
    home.create()
    lake = registry.checked(
        Lake(
            name,
            tuple(endpoint),
            bucket,
            "file:" + name,
            region=region,
            path_style=path_style,
            sts=sts_of(role_arn, sts_endpoint, first_endpoint=endpoint[0], region=region, seconds=session_seconds),
            ca_file=None if ca_file is None else str(ca_file.absolute()),
        )
    )
    reference, given = _credentials(aws_profile, from_stdin=credentials_from_stdin)
    if reference is not None:
        lake = replace(lake, credentials=reference)
    if check:
        own = given or resolve(home, lake.credentials)
        require_reachable(lake, own)
        lake = replace(lake, directories_linger=directories_linger(lake, own))
        if lake.sts is not None:
            seen = require_temporary_credentials(lake, own)
            lake = replace(lake, sts=replace(lake.sts, deletes_many=seen.deletes_many))
    lakes = Lakes(home)
    lakes.add(lake, given)
    where = "this home's private file" if given else lake.credentials
    typer.echo(f"Added the lake “{name}”: {lake.root}, {len(lake.endpoints)} endpoint(s), credentials: {where}")
    if lake.sts is not None:
        typer.echo(f"  Applications get credentials of their own from {lake.sts.endpoint}")
    if lakes.default() != name:
        typer.echo(f"  It is not the default; penstock lake default {name} makes it so.")


def _credentials(profile: str | None, *, from_stdin: bool) -> tuple[str | None, Credentials | None]:
    """A reference to keep, or a secret to store: exactly one of them."""
    from penstock.lake import credentials

    if profile and from_stdin:
        raise InvalidInput("--aws-profile and --credentials-from-stdin exclude each other", fix="give one of them")
    if profile:
        return f"aws:{profile}", None
    if from_stdin:
        return None, credentials.from_lines(sys.stdin.read())
    if credentials.from_environment(os.environ):
        return credentials.ENVIRONMENT, None
    if not sys.stdin.isatty():
        raise InvalidInput(
            "There are no credentials for this lake",
            why="no --aws-profile, no --credentials-from-stdin, no AWS_ACCESS_KEY_ID, and no terminal to ask at",
            fix="give one of them; never the secret itself as an argument, where every user of the machine sees it",
        )
    access = typer.prompt("Access key", err=True)
    secret = typer.prompt("Secret key", hide_input=True, err=True)
    return None, credentials.checked(Credentials(access.strip(), secret.strip()))
