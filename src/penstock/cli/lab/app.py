"""The command group that the modules beside this one add their commands to."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Measure workloads, check their results, report and compare.", no_args_is_help=True, add_completion=False
)
