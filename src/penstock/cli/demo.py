"""`penstock demo`: the whole way in one command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penstock.home import Home


def demo(
    scale: Annotated[float, typer.Option(help="TPC-DS scale factor; 0.1 for the impatient.", min=0.001)] = 1,
    report: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("penstock-demo.html"),
) -> None:
    """Show TPC-DS end to end in a home of its own: lake, catalog, data, 104 queries, every answer checked, a report."""
    os.environ.setdefault("PENSTOCK_HOME", str(Path(".demo").absolute()))
    from penstock.cli.lab import show
    from penstock.cli.lab.options import cluster_size
    from penstock.lab.demo import run_demo
    from penstock.lab.suites.tpcds import Tpcds

    console = Console()
    run = run_demo(Home.default(), Tpcds(scale=scale), cluster_size(), report.absolute(), console)
    show.show(console, [run])
    console.print(f"The report is in {report.absolute()}", highlight=False, soft_wrap=True)
    show.end_as([run])
