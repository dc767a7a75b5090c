"""The `penstock lab` command group, to which the other modules of this package add commands."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Measure workloads, verify their results, report and compare runs.", no_args_is_help=True, add_completion=False
)
