"""`penstock records`: keep a copy of the engine's records, and bring it back."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from penstock.catalog.secrets import KEY_VARIABLE
from penstock.cli import keeping, options
from penstock.engine.engine import Engine
from penstock.home import Home

app = typer.Typer(no_args_is_help=True, help="The engine's records: applications, instances, tokens, the audit.")


@app.command()
def backup(file: Annotated[Path, typer.Argument(help="The file to write; there must be none yet.")]) -> None:
    """Write all records to a file, as they are at one moment; everything goes on meanwhile."""
    contents = Engine(Home.default()).backup(file)
    typer.echo(f"{contents.applications} applications are in {file}")
    if contents.sealed:
        typer.echo(f"{contents.sealed} sealed secrets, too: keep the file that {KEY_VARIABLE} names as well")


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="A file that backup wrote, with this release or an older one.")],
    replace: Annotated[bool, typer.Option("--replace", help="Lose the records there are.")] = False,
) -> None:
    """Make the records what they were when the file was written. Stop every service first.

    Only Penstock's own tables and functions are replaced, in one transaction; others of the same database stay.
    """
    restored = Engine(Home.default()).restore(file, replace=replace)
    contents = restored.contents
    typer.echo(f"{contents.applications} applications of {contents.at} are back")
    typer.echo(f"replaced tables: {', '.join(restored.replaced)}")
    if contents.sealed:
        typer.echo(f"{contents.sealed} sealed secrets are back: the key of that time, in {KEY_VARIABLE}, opens them")


@app.command()
def prune(
    *,
    keep_events: keeping.Events = keeping.EVENTS,
    keep_deliveries: keeping.Deliveries = keeping.DELIVERIES,
    keep_audit: keeping.Audit = keeping.AUDIT,
    as_json: options.Json = False,
) -> None:
    """Remove what of the records is older than it has to be; a service does so by itself, every hour.

    Of an application that has not ended, nothing is removed; of one that has, its record, summary and logs stay.
    """
    pruned = Engine(Home.default()).prune(keeping.retention(keep_events, keep_deliveries, keep_audit))
    if as_json:
        typer.echo(json.dumps(asdict(pruned)))
        return
    typer.echo(f"removed: {pruned.events} events, {pruned.deliveries} deliveries, {pruned.audit} entries of the audit")
