"""`penstock lake`: the object stores this home knows, and the embedded one."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from penstock.cli import adding, ceph, exporting, hdfs, sweeping
from penstock.cli.server import server
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lake.model import Lake, ObjectStore, require_s3
from penstock.lake.registry import EMBEDDED, Lakes

app = typer.Typer(
    help="Object stores: start the embedded one, add others, check what they support.",
    no_args_is_help=True,
    add_completion=False,
)
app.command("add")(adding.add)
app.add_typer(exporting.app, name="export")
app.command("sweep")(sweeping.sweep)
app.add_typer(ceph.app, name="ceph")
app.add_typer(hdfs.app, name="hdfs")

LakeOption = Annotated[Optional[str], typer.Option("--lake", help="Which lake; the default one if not given.")]  # noqa: UP045
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def up() -> None:
    """Start the embedded lake, or do nothing where it runs."""
    from penstock.lake.embedded import EmbeddedLake

    embedded = EmbeddedLake(Home.default())
    lake = embedded.up()
    typer.echo(f"The lake “{lake.name}” is up: {lake.root} at {lake.endpoints[0]}")
    typer.echo(f"  data  {embedded.data}")
    typer.echo(f"  log   {embedded.log}")
    if Lakes(Home.default()).default() != EMBEDDED:
        typer.echo(f"  It is not the default; penstock lake default {EMBEDDED} makes it so.")


@app.command()
def down() -> None:
    """Stop the embedded lake. Its data stays."""
    from penstock.lake.embedded import EmbeddedLake

    embedded = EmbeddedLake(Home.default())
    stopped = embedded.down()
    typer.echo("The embedded lake is down; its data stays" if stopped else "The embedded lake was not running")


@app.command()
def status(as_json: JsonOption = False) -> None:
    """Show the embedded lake's state. The exit code is 1 where it is not ready."""
    from penstock.lake.embedded import EmbeddedLake

    seen = EmbeddedLake(Home.default()).status()
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(seen), default=str))
    elif seen.running:
        typer.echo(f"{'ready' if seen.ready else 'running, does not answer'} at {seen.endpoint} ({seen.process_id})")
    else:
        typer.echo("not running; penstock lake up starts it")
    if not as_json:
        typer.echo(f"  data  {seen.data} ({seen.free_bytes / 2**30:.1f} GiB free)\n  log   {seen.log}")
    raise typer.Exit(0 if seen.ready else 1)


@app.command()
def remove(name: Annotated[str, typer.Argument(help="Which lake.")]) -> None:
    """Forget a lake and its stored credentials. Nothing in the store changes."""
    from penstock.lake import stores

    stores.require_others(Home.default(), name)
    Lakes(Home.default()).remove(name)
    typer.echo(f"Removed the lake “{name}”; its store is as it was")


@app.command("list")
def list_lakes(as_json: JsonOption = False) -> None:
    """List the lakes known here; a star marks the default."""
    from rich.console import Console
    from rich.table import Table

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
        Console().print(table)
    else:
        typer.echo("There is no lake yet; penstock lake up starts the embedded one")


@app.command()
def show(
    name: Annotated[Optional[str], typer.Argument(help="Which lake; the default one if not given.")] = None,  # noqa: UP045
    as_json: JsonOption = False,
) -> None:
    """Show all that is recorded of a lake: its gateways, how they are addressed, what applications are given."""
    wanted = Lakes(Home.default()).get(name)
    if as_json:
        typer.echo(json.dumps(wanted.as_json(), indent=2))
        return
    style = "the bucket in the path" if wanted.path_style else "the bucket in the host's name"
    rows = {
        "root": wanted.root,
        "kind": wanted.kind,
        "endpoints": " ".join(wanted.endpoints),
        "addressed": f"{style}, region {wanted.region}" if wanted.is_s3 else "as an HDFS",
        "credentials": wanted.credentials,
        "authorities": wanted.ca_file or "the public ones",
        "applications": _given(wanted),
    }
    if wanted.scope is not None:
        rows["made"] = f"from keys in a request body, for the queue {wanted.scope.queue or '(none any more)'}"
    typer.echo(wanted.name)
    for label, value in rows.items():
        typer.echo(f"  {label:<13} {value}")


def _given(lake: Lake) -> str:
    if lake.sts is None:
        return "get the lake's own credentials" if lake.is_s3 else "need no credentials"
    what = (
        f"the role {lake.sts.role_arn}, in this bucket alone" if lake.sts.role_arn else "a session of the lake's user"
    )
    return f"get their own for {lake.sts.seconds} s at a time, renewed, from {lake.sts.endpoint}: {what}"


def _listed() -> list[dict[str, Any]]:
    if url := server():
        from penstock.client.client import Client

        return list(Client(url).get("/v1/lakes")["items"])
    lakes = Lakes(Home.default())
    default = lakes.default()
    return [{**lake.as_json(), "default": lake.name == default} for lake in lakes.all()]


@app.command()
def default(name: Annotated[str, typer.Argument(help="Which lake.")]) -> None:
    """Choose the lake that is meant where none is named."""
    Lakes(Home.default()).set_default(name)
    typer.echo(f"“{name}” is the default lake")


@app.command()
def check(lake: LakeOption = None, as_json: JsonOption = False) -> None:
    """Measure what a lake supports, and say what Penstock does because of it. Leaves nothing behind.

    The exit code is 1 where something essential is missing.
    """
    from rich.console import Console

    from penstock.cli.judgements import print_rows
    from penstock.lake.check import LakeCheck, usable

    lakes = Lakes(Home.default())
    chosen = lakes.get(lake)
    require_s3(chosen, "The check")
    errors = Console(stderr=True)
    with errors.status(f"Checking “{chosen.name}”") as progress:
        checker = LakeCheck(
            chosen,
            lakes.credentials_of(chosen),
            progress=lambda feature: progress.update(f"Checking “{chosen.name}”: {feature}"),
        )
        rows = checker.run()
    if as_json:
        report = {"lake": chosen.name, "usable": usable(rows), "rows": [row.as_json() for row in rows]}
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
    prefix: Annotated[str, typer.Argument(help="The beginning of the keys, or s3a://bucket/….")] = "",
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List objects: size in bytes, when they were modified, key."""
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
    file: Annotated[Path, typer.Argument(help="The local file.")],
    key: Annotated[
        str, typer.Argument(help="Its key, or s3a://bucket/…; with a / at the end the file's name is added.")
    ],
    lake: LakeOption = None,
) -> None:
    """Upload one file; an object of that key is replaced."""
    chosen, store, target = _open(lake, key)
    if not target or target.endswith("/"):
        target += file.name
    store.put(target, file)
    typer.echo(f"{chosen.root}/{target}")


@app.command()
def get(
    key: Annotated[str, typer.Argument(help="The object's key, or s3a://bucket/….")],
    file: Annotated[Optional[Path], typer.Argument(help="The local file; by default the key's last part.")] = None,  # noqa: UP045
    lake: LakeOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the local file.")] = False,
) -> None:
    """Download one object."""
    _, store, source = _open(lake, key)
    target = file or Path(Path(source).name)
    if target.is_dir():
        target /= Path(source).name
    if target.exists() and not force:
        raise InvalidInput(
            f"{target} exists", why="get does not replace files unasked", fix="give another name, or --force"
        )
    store.download(source, target)
    typer.echo(str(target))


def _open(name: str | None, text: str) -> tuple[Lake, ObjectStore, str]:
    """The lake, its store, and the key that `text` means there."""
    from penstock.lake.s3 import open_store

    home = Home.default()
    lake = Lakes(home).get(name)
    key = lake.key(text)
    return lake, open_store(home, lake), key
