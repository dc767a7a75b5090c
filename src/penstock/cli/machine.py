"""`penstock up|down|status|wipe|doctor|engines`: this machine's processes and data, its health, and its engines."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import options
from penstock.cli.output import duration, plain_console, step, whole_width
from penstock.engine.engines.trino.installation import REPOSITORY
from penstock.errors import InvalidInput
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.engine.class_archives import BuildStatus, ClassArchives


def up(
    archives: Annotated[
        bool, typer.Option(help="Build the class-data archives that make clusters start faster, in the background.")
    ] = True,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the archives are built.")] = False,
) -> None:
    """Start the embedded lake and catalog, and the build of class-data archives, unless they exist.

    The archives are built at idle priority (with --wait at the usual one) while the lake and catalog are in use;
    penstock status shows how far they are. Clusters work without them and start some seconds later.
    """
    from penstock.engine.installation import Installation

    if wait and not archives:
        raise InvalidInput("--wait waits for the archives that --no-archives omits", fix="omit one of the two")
    installation = Installation(Home.default())
    with step("lake") as result:
        lake = installation.lake_up()
        result.append(f"{lake.root} at {lake.endpoints[0]}")
    with step("catalog") as result:
        result.append(installation.catalog_up())
    if not archives:
        return
    installation.archives.start(awaited=wait)
    if wait:
        _await_archives(installation.archives)
    else:
        typer.echo(f"class-data archives: {installation.archives.status().sentence()}")


def _await_archives(archives: ClassArchives) -> None:
    """Wait for the build with progress on the terminal; raises `ClusterError` if it fails."""
    console, began, shown = plain_console(), time.monotonic(), ""
    with console.status("class-data archives") as live:

        def show(status: BuildStatus) -> None:
            nonlocal shown
            text = f"class-data archives: {status.sentence()}"
            if console.is_terminal:
                live.update(f"{text}, for {duration(status.seconds())}")
            elif text != shown:
                shown = text
                typer.echo(text)

        archives.wait(show)
    archives.require_made()
    typer.echo(f"class-data archives: made ({duration(time.monotonic() - began)})")


def down() -> None:
    """Stop applications, lake and catalog. Data, tables and records are kept."""
    from penstock.engine.installation import Installation

    installation = Installation(Home.default())
    for what in installation.down():
        typer.echo(what)
    typer.echo("No Penstock process is running")


def status(as_json: options.Json = False) -> None:
    """Show the state of lake, catalog and applications on this machine."""
    from penstock.engine.installation import Installation

    rows = Installation(Home.default()).status()
    if as_json:
        typer.echo(json.dumps(dict(rows), indent=2))
        return
    width = max(len(label) for label, _ in rows)
    for label, value in rows:
        typer.echo(f"{label:<{width}}  {value}")


def wipe(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete everything Penstock stores on this machine: the embedded lake and its data, the catalog, the records.

    External lakes and databases are not changed.
    """
    from penstock.engine.installation import Installation

    home = Home.default()
    if not yes:
        typer.confirm(f"Delete {home.root} with all data, tables and records in it?", abort=True)
    installation = Installation(home)
    for what in installation.down():
        typer.echo(what)
    installation.wipe()
    typer.echo(f"{home.root} is deleted")


def doctor(
    service: Annotated[str, typer.Option(metavar="URL", help="Address of this machine's service.")] = options.SERVICE,
    as_json: options.Json = False,
) -> None:
    """Check Java, disk, secrets, database, lakes and the service; explain each finding.

    Nothing is changed or started. The exit code is 1 if a check fails.
    """
    from penstock.cli.output import print_rows
    from penstock.doctor import Examination
    from penstock.lake.checks.verdicts import Outcome

    url = options.service_url(service)
    home = Home.default()
    with plain_console(sys.stderr).status("Looking"):
        rows = list(Examination(home, url).rows())
    wrong = sum(row.verdict.outcome is Outcome.FAILED for row in rows)
    if as_json:
        report = {"home": str(home.root), "failed": wrong, "rows": [row.to_json() for row in rows]}
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        conclusion = f"{wrong} of {len(rows)} checks failed: see the failed rows." if wrong else "All checks passed."
        print_rows(str(home.root), rows, conclusion, columns=("check", "finding", "consequence"))
    raise typer.Exit(1 if wrong else 0)


engines_app = typer.Typer(
    help="The engines of penstock sql: which are installed, and the download of Trino.",
    no_args_is_help=True,
    add_completion=False,
)


@engines_app.command("list")
def list_engines(as_json: options.Json = False) -> None:
    """List the engines that --engine names, and how to install those that are not there."""
    from rich.table import Table

    from penstock.engine.engines.registry import ENGINES

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


@engines_app.command()
def install(
    name: Annotated[str, typer.Argument(metavar="ENGINE", help="trino; pip installs the others.")],
    *,
    repository: Annotated[str, typer.Option(metavar="URL", help="Maven repository to download from.")] = REPOSITORY,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Download Trino's server, once for all state directories of this account.

    All of it is installed, or nothing. Its client and its Java come by pip: pip install 'penstock[trino]'.
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from penstock.engine.engines.trino import installation

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
