"""The life of an application as a pure function: `(application, event) -> (application, instructions)`.

No I/O and no clock: every event carries the time it happened. Whoever carries the instructions out may die at any
moment; `resume` says, from the recorded application alone, what its successor has to do. That works because an
instruction is recorded as due (by the state) before it is carried out, and each may be carried out twice.

The order of states: accepted → (waiting →) starting → running → stopping → one of the four final states. `stopping`
means that the outcome is known or the end was requested, and processes are being ended and artifacts kept; the final
state is entered when that is done, so that whoever sees it also finds the logs. After it the cluster is released:
`cluster` is None again when nothing of it exists any more.

An attempt that the infrastructure failed goes back to waiting instead, where more may follow: its cluster is released
first, and the next is admitted no earlier than `not_before`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from penstock.model import Application, ApplicationSpec, Attempt, Cost, Reason, State

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


@dataclass(frozen=True)
class Queued:
    """There is no room yet; `reason` says what it waits for."""

    at: datetime
    reason: Reason


@dataclass(frozen=True)
class Admitted:
    """There is room; `cluster` is the handle the backend gives to this application's cluster."""

    at: datetime
    cluster: Mapping[str, Any]


@dataclass(frozen=True)
class Refused:
    """It can never run: too large for the backend, or something it needs is missing."""

    at: datetime
    reason: Reason


@dataclass(frozen=True)
class Launched:
    """The backend has taken it on: processes are starting. Nothing more is known."""

    at: datetime


@dataclass(frozen=True)
class ContextStarted:
    at: datetime
    spark_application_id: str | None


@dataclass(frozen=True)
class Hindered:
    """Something stands in its cluster's way, and may go; `reason` is None when it went."""

    at: datetime
    reason: Reason | None


@dataclass(frozen=True)
class DriverEnded:
    """The driver is gone. `exit_code` is None where nobody knows it; `reason` explains a failure."""

    at: datetime
    exit_code: int | None
    reason: Reason | None = None


@dataclass(frozen=True)
class EndRequested:
    """A user's stop, the time limit, or an engine that gives up; `reason.code` tells them apart."""

    at: datetime
    reason: Reason


@dataclass(frozen=True)
class Stopped:
    """No process of the cluster is left. `exit_code` is the driver's, None where nobody knows it."""

    at: datetime
    exit_code: int | None


@dataclass(frozen=True)
class Kept:
    """Artefacts are where they belong, or Penstock gave up bringing them there and `summary` says so."""

    at: datetime
    summary: Mapping[str, Any]
    cost: Cost | None = None
    """Of this attempt's cluster."""


@dataclass(frozen=True)
class Released:
    at: datetime


Event = (
    Queued
    | Admitted
    | Refused
    | Launched
    | ContextStarted
    | Hindered
    | DriverEnded
    | EndRequested
    | Stopped
    | Kept
    | Released
)


@dataclass(frozen=True)
class Launch:
    """Start the cluster and the application on it, unless that was done already."""


@dataclass(frozen=True)
class Stop:
    """End every process of the cluster."""


@dataclass(frozen=True)
class Keep:
    """Bring logs, event log and summary to the lake."""


@dataclass(frozen=True)
class Release:
    """Remove everything of the cluster."""


Instruction = Launch | Stop | Keep | Release

STOPPED_BY_USER = "stopped_by_user"
TIME_LIMIT = "time_limit"
DRIVER_LOST = "driver_lost"
DRIVER_FAILED = "driver_failed"
RETRY = "retry"

_BEFORE_LAUNCH = frozenset({State.ACCEPTED, State.WAITING})
_ON_CLUSTER = frozenset({State.STARTING, State.RUNNING})

Step = tuple[Application, tuple[Instruction, ...]]


def step(application: Application, event: Event) -> Step:
    """What `event` makes of `application`, and what has to be done now.

    An event that comes too late (a stop after the end, a second admission) changes nothing and asks for nothing.
    """
    state = application.state
    if isinstance(event, Released):
        unused = state.final or state in _BEFORE_LAUNCH
        return (replace(application, cluster=None), ()) if unused else (application, ())
    if state.final:
        return application, ()
    if state in _BEFORE_LAUNCH:
        return _before_launch(application, event)
    if state in _ON_CLUSTER:
        return _on_cluster(application, event)
    return _stopping(application, event)


def resume(application: Application) -> tuple[Instruction, ...]:
    """What a new supervisor has to do first, whatever its predecessor got done."""
    if application.state is State.STARTING:
        return (Launch(),)
    if application.state is State.STOPPING:
        return (Stop(),)
    unused = application.state.final or application.state in _BEFORE_LAUNCH
    return (Release(),) if unused and application.cluster is not None else ()


def will_retry(application: Application) -> bool:
    """Whether another attempt follows one that is stopping and whose exit code is what it will stay."""
    failed = _outcome(application.exit_code, application.reason) is State.FAILED
    return failed and another_attempt(application.spec, application.attempt, application.reason)


def _before_launch(application: Application, event: Event) -> Step:
    if isinstance(event, Queued):
        return replace(application, state=State.WAITING, reason=event.reason), ()
    if isinstance(event, Admitted) and application.cluster is None:
        admitted = replace(
            application,
            state=State.STARTING,
            reason=None,
            cluster=event.cluster,
            admitted_at=event.at,
            not_before=None,
        )
        return admitted, (Launch(),)
    if isinstance(event, Refused):
        return _end(application, State.FAILED, event.at, reason=event.reason), ()
    if isinstance(event, EndRequested):
        return _end(application, _outcome(None, event.reason), event.at, reason=event.reason), ()
    return application, ()


def _on_cluster(application: Application, event: Event) -> Step:
    if isinstance(event, ContextStarted):
        if application.state is State.RUNNING:
            return application, ()
        return (
            replace(
                application,
                state=State.RUNNING,
                reason=None,
                started_at=event.at,
                spark_application_id=event.spark_application_id,
            ),
            (),
        )
    if isinstance(event, Hindered):
        return replace(application, reason=event.reason), ()
    if isinstance(event, (Refused, EndRequested)):
        return replace(application, state=State.STOPPING, reason=event.reason), (Stop(),)
    if isinstance(event, DriverEnded):
        ended = replace(application, state=State.STOPPING, exit_code=event.exit_code, reason=event.reason)
        return ended, (Stop(),)
    return application, ()


def _stopping(application: Application, event: Event) -> Step:
    if isinstance(event, Stopped):
        if application.exit_code is None:
            application = replace(application, exit_code=event.exit_code)
        return application, (Keep(),)
    if isinstance(event, Kept):
        if will_retry(application):
            return _next_attempt(application, event), (Release(),)
        application = replace(application, cost=_sum(application.cost, event.cost))
        outcome = _outcome(application.exit_code, application.reason)
        reason = None if outcome is State.FINISHED else application.reason
        return _end(application, outcome, event.at, reason=reason, summary=event.summary), (Release(),)
    return application, ()


def _outcome(exit_code: int | None, reason: Reason | None) -> State:
    """An application that returned 0 did its work, even when a stop was on its way: that stop came too late."""
    if exit_code == 0:
        return State.FINISHED
    if reason is not None and reason.code == STOPPED_BY_USER:
        return State.STOPPED
    if reason is not None and reason.code == TIME_LIMIT:
        return State.AUTO_TERMINATED
    return State.FAILED


def _next_attempt(application: Application, event: Kept) -> Application:
    why = application.reason or Reason(DRIVER_FAILED, "")
    failed = Attempt(
        number=application.attempt,
        admitted_at=application.admitted_at,
        started_at=application.started_at,
        ended_at=event.at,
        exit_code=application.exit_code,
        reason=why,
        spark_application_id=application.spark_application_id,
        cost=event.cost,
    )
    pause = back_off(application.attempt)
    return replace(
        application,
        state=State.WAITING,
        reason=Reason(RETRY, f"attempt {application.attempt} failed, the next may begin after {pause}: {why.message}"),
        attempt=application.attempt + 1,
        attempts=(*application.attempts, failed),
        not_before=event.at + pause,
        started_at=None,
        exit_code=None,
        spark_application_id=None,
        cost=_sum(application.cost, event.cost),
    )


def _sum(before: Cost | None, more: Cost | None) -> Cost | None:
    if before is None or more is None:
        return more or before
    return Cost(before.amount + more.amount, more.currency)


def _end(
    application: Application,
    state: State,
    at: datetime,
    *,
    reason: Reason | None,
    summary: Mapping[str, Any] | None = None,
) -> Application:
    return replace(application, state=state, ended_at=at, reason=reason, summary=summary)
