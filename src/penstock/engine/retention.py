"""How long what nobody needs any more is kept. Plain data; `housekeeping.py` acts by it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from penstock.errors import InvalidInput

LEAST_AUDIT = timedelta(days=30)
"""The database itself removes no younger entry, whoever asks."""


@dataclass(frozen=True)
class Retention:
    """Counted from an application's end, for the audit from what it tells of. Of what has not ended all is kept, and of
    what has, its record, summary and logs."""

    events: timedelta = timedelta(days=180)
    deliveries: timedelta = timedelta(days=30)
    """What webhooks were told."""
    audit: timedelta = timedelta(days=400)
    unused: timedelta = timedelta(days=7)
    """Uploads no application names, and lakes that were made for keys of applications which have all ended."""


@dataclass(frozen=True)
class Pruned:
    """How many rows were removed."""

    events: int = 0
    deliveries: int = 0
    audit: int = 0


def checked(retention: Retention) -> Retention:
    """Raises `InvalidInput` where the audit would be kept for less than the database insists on."""
    if retention.audit < LEAST_AUDIT:
        raise InvalidInput(
            f"The audit is kept for {LEAST_AUDIT.days} days at least",
            why="the database refuses to remove younger entries: who has broken in cannot tidy up behind himself",
            fix=f"--keep-audit {LEAST_AUDIT.days}d, or more",
        )
    return retention
