"""Options that tell how long records are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from penstock.cli import options
from penstock.engine.retention import Retention

Events = Annotated[str, typer.Option(help="How long an application's events are kept after its end.")]
Deliveries = Annotated[
    str, typer.Option(help="How long it is kept what webhooks were told, after an application's end.")
]
Audit = Annotated[str, typer.Option(help="How long the audit is kept; 30d at least.")]

EVENTS, DELIVERIES, AUDIT = (f"{kept.days}d" for kept in (Retention.events, Retention.deliveries, Retention.audit))


def retention(events: str, deliveries: str, audit: str) -> Retention:
    """Raises `InvalidInput` for what is no time."""
    return Retention(
        events=_time(events, "--keep-events"),
        deliveries=_time(deliveries, "--keep-deliveries"),
        audit=_time(audit, "--keep-audit"),
    )


def _time(text: str, option: str) -> timedelta:
    return timedelta(seconds=options.seconds(text, option) or 0.0)
