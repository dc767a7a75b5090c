"""Which failures another attempt may mend, and when it may begin. Pure."""

from __future__ import annotations

from datetime import timedelta

from penstock.engine.application import ApplicationSpec, Reason

INFRASTRUCTURE = frozenset(
    {
        *("driver_lost", "killed", "unreachable", "lake_error", "catalog_error", "cluster_error", "state_error"),
        *("evicted", "preempted", "node_lost"),
    }
)
"""Codes of reasons that lie in what is around an application, not in itself: it would fail for its own again."""

MOST = 10
"""Retries one application may ask for."""

_FIRST = timedelta(seconds=5)
_LONGEST = timedelta(minutes=10)


def another_attempt(spec: ApplicationSpec, attempt: int, reason: Reason | None) -> bool:
    """Whether the failure of the attempt of that number (from 1) is followed by another one."""
    return reason is not None and reason.code in INFRASTRUCTURE and attempt <= spec.retries


def back_off(attempt: int) -> timedelta:
    """From the end of the attempt of that number (from 1) to the earliest start of the next: 5 s, doubled each time, 10
    minutes at most."""
    return min(_FIRST * (1 << min(attempt - 1, 16)), _LONGEST)
