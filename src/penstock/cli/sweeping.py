"""`penstock lake sweep`."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import options
from penstock.cli.console import count, moment, size
from penstock.errors import InvalidInput
from penstock.home import Home

if TYPE_CHECKING:
    from penstock.lake.model import Lake
    from penstock.lake.sweep import Swept
    from penstock.model import Application

_KINDS = {
    "commit": "decided job",
    "uploads": "uploads",
    "magic": "magic tree",
    "temporary": "temporary tree",
    "staging": "staging tree",
    "journal": "old journal",
}


def sweep(
    prefix: Annotated[str, typer.Argument(help="The beginning of the keys, or s3a://bucket/….")] = "",
    lake: options.Lake = None,
    older_than: Annotated[str, typer.Option(help="Keep what a job has touched since: 30min, 24h, 7d.")] = "24h",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    as_json: options.Json = False,
) -> None:
    """Finish or remove what killed jobs have left in a lake.

    A job that was decided is finished: its data appears, whole. Everything else is removed: unfinished uploads, __magic
    and _temporary trees. What is younger than --older-than stays, and so does whatever an application of this home that
    is running now could have written.
    """
    from penstock import units
    from penstock.engine.engine import Engine
    from penstock.lake import sweep as sweeping
    from penstock.lake.model import require_s3
    from penstock.lake.registry import Lakes
    from penstock.model import State

    seconds = units.parse_seconds(older_than)
    if seconds is None:
        raise InvalidInput(f"--older-than {older_than} is no time", fix="give one like 30min, 24h or 7d")
    home = Home.default()
    lakes = Lakes(home)
    chosen = lakes.get(lake)
    require_s3(chosen, "The sweep")
    running = [
        application
        for application in Engine(home).list(states=[state for state in State if not state.final])
        if (application.spec.lake or lakes.default()) == chosen.name
    ]
    before, because_of = sweeping.cutoff(datetime.now(timezone.utc), timedelta(seconds=seconds), running)
    swept = sweeping.sweep(chosen, lakes.credentials_of(chosen), chosen.key(prefix), before=before, dry_run=dry_run)
    if as_json:
        report = {
            "lake": chosen.name,
            "objects": swept.objects,
            "before": before.isoformat(),
            "running": because_of.id if because_of else None,
            "found": [found.as_json() for found in swept.found],
        }
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        _print(chosen, swept, before, because_of)


def _print(lake: Lake, swept: Swept, before: datetime, because_of: Application | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    listed = f"{count(swept.objects)} objects of {lake.root}"
    if not swept.found:
        typer.echo(f"Nothing is left of killed jobs among {listed}")
        return
    table = Table("what", "where", "files", "size", "last touched", "", box=None, header_style="bold")
    for found in swept.found:
        table.add_row(
            _KINDS.get(found.kind, found.kind),
            Text(found.at, overflow="fold"),
            count(found.files),
            size(found.bytes),
            moment(found.newest),
            found.action,
        )
    Console().print(table)
    typer.echo(f"{len(swept.found)} found among {listed}; what was touched after {moment(before)} is kept")
    if because_of is not None:
        typer.echo(f"  because application {because_of.id} ({because_of.spec.name}) runs since then")
