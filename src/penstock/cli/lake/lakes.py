"""`penstock lake`: the object stores of this home. An external store is checked before it is added."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from penstock.cli.lake import ceph, hdfs, maintenance
from penstock.cli.options import server
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lake.model import Credentials, Lake, ObjectStore, require_s3
from penstock.lake.registry import EMBEDDED, Lakes


def add(
    name: Annotated[str, typer.Argument(help="Name of the new lake.")],
    *,
    endpoint: Annotated[list[str], typer.Option(help="URL of a gateway; repeat the option for each gateway.")],
    bucket: Annotated[str, typer.Option(help="Bucket that Penstock may use.")],
    region: Annotated[str, typer.Option(help="Region that requests are signed for.")] = "us-east-1",
    path_style: Annotated[
        bool, typer.Option("--path-style/--virtual-host", help="Send the bucket in the path or in the host name.")
    ] = True,
    aws_profile: Annotated[
        Optional[str], typer.Option(metavar="NAME", help="Use this profile of your AWS configuration files.")  # noqa: UP045
    ] = None,
    credentials_from_stdin: Annotated[
        bool,
        typer.Option(
            "--credentials-from-stdin",
            help="Read access key, secret key and session token, if any, from standard input, one per line.",
        ),
    ] = False,
    ca_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--ca-file",
            metavar="PEM",
            help="Certificates of a private authority that signed the endpoints' certificates.",
        ),
    ] = None,
    role_arn: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--role-arn", metavar="ARN", help="Give each application temporary credentials for this role."),
    ] = None,
    sts_endpoint: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--sts-endpoint",
            metavar="URL",
            help="Endpoint that issues temporary credentials; without --role-arn, for the lake's user.",
            show_default="the first endpoint",
        ),
    ] = None,
    session_seconds: Annotated[
        int,
        typer.Option("--session-seconds", help="Lifetime of temporary credentials, which are renewed at half of it."),
    ] = 3600,
    check: Annotated[bool, typer.Option("--check/--no-check", help="Check the lake before adding it.")] = True,
) -> None:
    """Add an S3 store as a lake, or replace the lake of that name.

    Credentials come from --aws-profile, --credentials-from-stdin, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (which
    must then be set for every later command too), or a prompt.

    With --role-arn or --sts-endpoint applications never see these credentials: they get temporary ones, renewed while
    they run.
    """
    from penstock.lake import registry, stores
    from penstock.lake.checks.verdicts import directories_linger, require_reachable, require_temporary_credentials
    from penstock.lake.credentials import resolve
    from penstock.lake.sts import sts_from_options

    home = Home.default()
    stores.require_external(home, name)
    home.create()
    lake = registry.validate_lake(
        Lake(
            name,
            tuple(endpoint),
            bucket,
            "file:" + name,
            region=region,
            path_style=path_style,
            sts=sts_from_options(
                role_arn, sts_endpoint, first_endpoint=endpoint[0], region=region, seconds=session_seconds
            ),
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
        typer.echo(f"  It is not the default lake; penstock lake default {name} makes it the default.")


def _credentials(profile: str | None, *, from_stdin: bool) -> tuple[str | None, Credentials | None]:
    """A reference to credentials, or credentials to store: exactly one of the two."""
    from penstock.lake import credentials

    if profile and from_stdin:
        raise InvalidInput("--aws-profile and --credentials-from-stdin exclude each other", fix="use one of them")
    if profile:
        return f"aws:{profile}", None
    if from_stdin:
        return None, credentials.parse_lines(sys.stdin.read())
    if credentials.from_environment(os.environ):
        return credentials.ENVIRONMENT, None
    if not sys.stdin.isatty():
        raise InvalidInput(
            "There are no credentials for this lake",
            why="no --aws-profile, no --credentials-from-stdin, no AWS_ACCESS_KEY_ID, and no terminal to ask at",
            fix="use one of them; a secret in an argument would be visible to every user of the machine",
        )
    access = typer.prompt("Access key", err=True)
    secret = typer.prompt("Secret key", hide_input=True, err=True)
    return None, credentials.validate_credentials(Credentials(access.strip(), secret.strip()))


app = typer.Typer(
    help="Object stores: start the embedded one, add others, check what they support.",
    no_args_is_help=True,
    add_completion=False,
)
app.command("add")(add)
app.add_typer(maintenance.app, name="export")
app.command("sweep")(maintenance.sweep)
app.add_typer(ceph.app, name="ceph")
app.add_typer(hdfs.app, name="hdfs")

LakeOption = Annotated[Optional[str], typer.Option("--lake", help="Name of the lake.", show_default="the default lake")]  # noqa: UP045
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def up() -> None:
    """Start the embedded lake, unless it is running."""
    from penstock.lake.embedded import EmbeddedLake

    embedded = EmbeddedLake(Home.default())
    lake = embedded.up()
    typer.echo(f"The lake “{lake.name}” is up: {lake.root} at {lake.endpoints[0]}")
    typer.echo(f"  data  {embedded.data}")
    typer.echo(f"  log   {embedded.log}")
    if Lakes(Home.default()).default() != EMBEDDED:
        typer.echo(f"  It is not the default lake; penstock lake default {EMBEDDED} makes it the default.")


@app.command()
def down() -> None:
    """Stop the embedded lake. Its data is kept."""
    from penstock.lake.embedded import EmbeddedLake

    embedded = EmbeddedLake(Home.default())
    stopped = embedded.down()
    typer.echo("The embedded lake is down; its data is kept" if stopped else "The embedded lake was not running")


@app.command()
def status(as_json: JsonOption = False) -> None:
    """Show the embedded lake's state. The exit code is 1 if it is not ready."""
    from penstock.lake.embedded import EmbeddedLake

    seen = EmbeddedLake(Home.default()).status()
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(seen), default=str))
    elif seen.running:
        typer.echo(f"{'ready' if seen.ready else 'running, but not responding'} at {seen.endpoint} ({seen.process_id})")
    else:
        typer.echo("not running; penstock lake up starts it")
    if not as_json:
        typer.echo(f"  data  {seen.data} ({seen.free_bytes / 2**30:.1f} GiB free)\n  log   {seen.log}")
    raise typer.Exit(0 if seen.ready else 1)


@app.command()
def remove(name: Annotated[str, typer.Argument(help="Name of the lake.")]) -> None:
    """Remove a lake and its stored credentials from this home. The store itself is not changed."""
    from penstock.lake import stores

    stores.require_external(Home.default(), name)
    Lakes(Home.default()).remove(name)
    typer.echo(f"Removed the lake “{name}”; its store is unchanged")


@app.command("list")
def list_lakes(as_json: JsonOption = False) -> None:
    """List the lakes of this home; a star marks the default."""
    from rich.table import Table

    from penstock.cli.output import plain_console

    found = _listed()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    table = Table("", "name", "kind", "bucket", "endpoints", "credentials")
    for lake in found:
        mark = "*" if lake["default"] else ""
        endpoints = "\n".join(lake["endpoints"])
        table.add_row(mark, lake["name"], lake["kind"], lake["bucket"], endpoints, lake.get("credentials", ""))
    if table.row_count:
        plain_console().print(table)
    else:
        typer.echo("There are no lakes; penstock lake up starts the embedded one")


@app.command()
def show(
    name: Annotated[Optional[str], typer.Argument(help="Name of the lake.", show_default="the default lake")] = None,  # noqa: UP045
    as_json: JsonOption = False,
) -> None:
    """Show a lake's gateways, addressing and credentials."""
    wanted = Lakes(Home.default()).get(name)
    if as_json:
        typer.echo(json.dumps(wanted.to_json(), indent=2))
        return
    style = "bucket in the path" if wanted.path_style else "bucket in the host name"
    rows = {
        "root": wanted.root,
        "kind": wanted.kind,
        "endpoints": " ".join(wanted.endpoints),
        "addressed": f"{style}, region {wanted.region}" if wanted.is_s3 else "HDFS",
        "credentials": wanted.credentials,
        "authorities": wanted.ca_file or "the public ones",
        "applications": _given(wanted),
    }
    if wanted.scope is not None:
        rows["made"] = f"from keys in a request body, for the queue {wanted.scope.queue or '(removed)'}"
    typer.echo(wanted.name)
    for label, value in rows.items():
        typer.echo(f"  {label:<13} {value}")


def _given(lake: Lake) -> str:
    if lake.sts is None:
        return "get the lake's own credentials" if lake.is_s3 else "need no credentials"
    what = (
        f"the role {lake.sts.role_arn}, limited to this bucket" if lake.sts.role_arn else "a session of the lake's user"
    )
    return f"get temporary credentials from {lake.sts.endpoint}, renewed within {lake.sts.seconds} s: {what}"


def _listed() -> list[dict[str, Any]]:
    if url := server():
        from penstock.client.client import Client

        return list(Client(url).get("/v1/lakes")["items"])
    lakes = Lakes(Home.default())
    default = lakes.default()
    return [{**lake.to_json(), "default": lake.name == default} for lake in lakes.all()]


@app.command()
def default(name: Annotated[str, typer.Argument(help="Name of the lake.")]) -> None:
    """Set the default lake."""
    Lakes(Home.default()).set_default(name)
    typer.echo(f"“{name}” is the default lake")


@app.command()
def check(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    """Test which features a lake supports, and explain how Penstock adapts. The test removes its objects.

    The exit code is 1 if an essential feature is missing.
    """
    from penstock.cli.output import plain_console, print_rows
    from penstock.lake.checks.verdicts import LakeCheck, usable

    lakes = Lakes(Home.default())
    chosen = lakes.get(lake)
    require_s3(chosen, "The check")
    errors = plain_console(sys.stderr)
    with errors.status(f"Checking “{chosen.name}”") as progress:
        checker = LakeCheck(
            chosen,
            lakes.credentials_of(chosen),
            progress=lambda feature: progress.update(f"Checking “{chosen.name}”: {feature}"),
        )
        rows = checker.run()
    if as_json:
        report = {"lake": chosen.name, "usable": usable(rows), "rows": [row.to_json() for row in rows]}
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        conclusion = (
            "Penstock can use this lake." if usable(rows) else "Penstock cannot use this lake yet: see the failed rows."
        )
        title = f"{chosen.name}: {chosen.root}"
        print_rows(title, rows, conclusion, columns=("feature", "measured", "what Penstock does"))
    raise typer.Exit(0 if usable(rows) else 1)


@app.command()
def ls(
    prefix: Annotated[str, typer.Argument(help="Prefix of the keys, or s3a://bucket/….")] = "",
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List objects: size in bytes, modification time, key."""
    _, store, beginning = _open(lake, prefix)
    for found in store.list(beginning):
        modified = found.modified.astimezone().isoformat(timespec="seconds")
        if as_json:
            line = {"key": found.key, "size": found.size, "modified": modified, "etag": found.etag}
            typer.echo(json.dumps(line, ensure_ascii=False))
        else:
            typer.echo(f"{found.size:>14}  {modified}  {found.key}")


@app.command()
def put(
    file: Annotated[Path, typer.Argument(help="Local file.")],
    key: Annotated[
        str, typer.Argument(help="Key of the object, or s3a://bucket/…; a / at the end adds the file's name.")
    ],
    lake: LakeOption = None,
) -> None:
    """Upload a file, replacing any object of that key."""
    chosen, store, target = _open(lake, key)
    if not target or target.endswith("/"):
        target += file.name
    store.put(target, file)
    typer.echo(f"{chosen.root}/{target}")


@app.command()
def get(
    key: Annotated[str, typer.Argument(help="Key of the object, or s3a://bucket/….")],
    file: Annotated[Optional[Path], typer.Argument(help="Local file.", show_default="the last part of the key")] = None,  # noqa: UP045
    lake: LakeOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing local file.")] = False,
) -> None:
    """Download an object."""
    _, store, source = _open(lake, key)
    target = file or Path(Path(source).name)
    if target.is_dir():
        target /= Path(source).name
    if target.exists() and not force:
        raise InvalidInput(
            f"{target} exists", why="get replaces a file only with --force", fix="choose another name, or use --force"
        )
    store.download(source, target)
    typer.echo(str(target))


def _open(name: str | None, text: str) -> tuple[Lake, ObjectStore, str]:
    """The lake, its store, and the key that `text` names in it."""
    from penstock.lake.s3 import open_store

    home = Home.default()
    lake = Lakes(home).get(name)
    key = lake.key(text)
    return lake, open_store(home, lake), key
