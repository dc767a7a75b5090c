"""`penstock records`: keep a copy of the engine's records, and bring it back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.engine.engine import Engine
from penstock.home import Home

app = typer.Typer(no_args_is_help=True, help="The engine's records: applications, instances, tokens, the audit.")


@app.command()
def backup(file: Annotated[Path, typer.Argument(help="The file to write; there must be none yet.")]) -> None:
    """Write all records to a file, as they are at one moment; everything goes on meanwhile."""
    contents = Engine(Home.default()).backup(file)
    typer.echo(f"{contents.applications} applications are in {file}")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="A file that backup wrote, with this release or an older one.")],
    replace: Annotated[bool, typer.Option("--replace", help="Lose the records there are.")] = False,
) -> None:
    """Make the records what they were when the file was written. Stop every service first."""
    contents = Engine(Home.default()).restore(file, replace=replace)
    typer.echo(f"{contents.applications} applications of {contents.at} are back")
