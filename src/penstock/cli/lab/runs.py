"""`penstock lab runs|report|compare`: look back at what was measured."""

from __future__ import annotations

import json
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.console import Console
from rich.table import Table

from penstock.cli import options as shared
from penstock.cli.console import whole_width
from penstock.cli.lab import options
from penstock.cli.lab.app import app
from penstock.cli.lab.show import show, write_report
from penstock.errors import InvalidInput
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lab.records import Run


@app.command("runs")
def runs_command(as_json: shared.Json = False) -> None:
    """List the runs recorded on this machine, oldest first, and how to go on with interrupted ones."""
    from penstock.lab import listing

    found = listing.all_of(Home.default())
    if as_json:
        print(json.dumps(found, indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("run", "workload", "arm", "scale", "outcome"):
        table.add_column(column, no_wrap=True)
    for run in found:
        scale = f"{run['scale']:g}" if run["scale"] else ""
        done = "" if run["ended"] else f", {run['repetitions_done']} of {run['repetitions']} done"
        table.add_row(run["run"], run["workload"], run["arm"], scale, run["outcome"] + done)
    console = Console()
    # An id that is cut off can be copied by nobody.
    console.width = max(console.width, whole_width(table))
    console.print(table)
    if left := [run["run"] for run in found if run["outcome"] == "interrupted" and run["repetitions"]]:
        console.print(
            f"\nGo on where it was interrupted: penstock lab resume {left[-1]}", highlight=False, soft_wrap=True
        )


@app.command("report")
def report_command(
    runs: Annotated[list[str], typer.Argument(help="Runs: ids, unique parts of them, directories, or `last`.")],
    output: options.Output = None,
    form: Annotated[Optional[str], typer.Option("--format", help="html, md or json.")] = None,  # noqa: UP045
    browse: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Make the report of a run, or of runs to be compared, from their raw samples alone."""
    from penstock.lab.report import make

    suffix = output.suffix.lstrip(".") if output else ""
    chosen = form or (suffix if suffix in make.FORMS else "html")
    if chosen not in make.FORMS:
        raise InvalidInput(f"There is no format {chosen}", fix=f"choose one of {', '.join(make.FORMS)}")
    text = make.FORMS[chosen](find(runs))
    if output is None and browse:
        output = Path("penstock-report.html")
    if output is None:
        sys.stdout.write(text)
        return
    write_report(output, text)
    typer.echo(f"Written to {output}")
    if browse:
        webbrowser.open(output.absolute().as_uri())


@app.command("compare")
def compare_command(
    baseline: Annotated[str, typer.Argument(help="A run: its id, a unique part of it, or a directory.")],
    candidate: Annotated[str, typer.Argument(help="The run to set against it.")],
    output: options.Output = None,
) -> None:
    """Compare two runs of one workload: medians, ratio, its interval, and what is only noise."""
    from penstock.lab.report import make

    runs = find([baseline, candidate])
    if output is not None:
        form = output.suffix.lstrip(".")
        write_report(output, make.FORMS.get(form, make.as_html)(runs))
        typer.echo(f"Written to {output}")
    show(Console(), runs)


def find(names: list[str]) -> list[Run]:
    """From this machine, else from the default lake where there is one."""
    from penstock.lab import records
    from penstock.lake.registry import Lakes
    from penstock.lake.s3 import open_store

    home = Home.default()
    lakes = Lakes(home)
    store = open_store(home, lakes.get()) if lakes.default() else None
    return [records.find(home, name, store) for name in names]
