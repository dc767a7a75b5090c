"""The life of an application as a pure function: `(application, event) -> (application, instructions)`.

No I/O and no clock: every event carries the time it happened. A supervisor may die at any moment; from the recorded
application alone, `resume` returns the instructions of its successor. That works because an instruction is recorded as
due (by the state) before it is carried out, and is idempotent.

The order of states: accepted → (waiting →) starting → running → stopping → one of the four final states. `stopping`
means that the outcome is known or the end was requested, while processes are ended and artifacts are stored; the final
state follows once that is done, so that a client that sees it also finds the logs. Then the cluster is released:
`cluster` is None again when no part of it exists any more.

An attempt that failed for the infrastructure goes back to waiting instead, if retries are left: its cluster is released
first, and the next attempt is admitted no earlier than `not_before`.
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
"""Codes of infrastructure failures, after which a retry helps; an application's own failures would repeat."""

MOST = 10
"""The largest number of retries of one application."""

_FIRST = timedelta(seconds=5)
_LONGEST = timedelta(minutes=10)


def another_attempt(spec: ApplicationSpec, attempt: int, reason: Reason | None) -> bool:
    """Return whether another attempt follows the failure of the attempt of that number (from 1)."""
    return reason is not None and reason.code in INFRASTRUCTURE and attempt <= spec.retries


def back_off(attempt: int) -> timedelta:
    """The pause between the end of the attempt of that number (from 1) and the earliest start of the next.

    It is 5 s, doubled each time, at most 10 minutes.
    """
    return min(_FIRST * (1 << min(attempt - 1, 16)), _LONGEST)


@dataclass(frozen=True)
class Queued:
    """The application must wait; `reason` says for what."""

    at: datetime
    reason: Reason


@dataclass(frozen=True)
class Admitted:
    """There is room; `cluster` is the backend's handle for this application's cluster."""

    at: datetime
    cluster: Mapping[str, Any]


@dataclass(frozen=True)
class Refused:
    """The application can never run: it is too large for the backend, or a requirement is missing."""

    at: datetime
    reason: Reason


@dataclass(frozen=True)
class Launched:
    """The backend has accepted the launch and is starting processes."""

    at: datetime


@dataclass(frozen=True)
class ClusterSeen:
    """The driver's process or pod exists, and its program may have begun."""

    at: datetime


@dataclass(frozen=True)
class ContextStarted:
    at: datetime
    spark_application_id: str | None


@dataclass(frozen=True)
class Blocked:
    """The cluster is blocked by an obstacle that may pass; `reason` is None when it has passed."""

    at: datetime
    reason: Reason | None


@dataclass(frozen=True)
class DriverEnded:
    """The driver has ended. `exit_code` is None if unknown; `reason` explains a failure."""

    at: datetime
    exit_code: int | None
    reason: Reason | None = None


@dataclass(frozen=True)
class EndRequested:
    """A user's stop, the time limit, or an engine that gives up; `reason.code` distinguishes them."""

    at: datetime
    reason: Reason


@dataclass(frozen=True)
class Stopped:
    """No process of the cluster is left. `exit_code` is the driver's, or None if unknown."""

    at: datetime
    exit_code: int | None


@dataclass(frozen=True)
class ArtifactsCollected:
    """The artifacts are stored, or Penstock gave up storing them and `summary` says so."""

    at: datetime
    summary: Mapping[str, Any]
    cost: Cost | None = None
    """The cost of this attempt's cluster."""


@dataclass(frozen=True)
class Released:
    at: datetime


Event = (
    Queued
    | Admitted
    | Refused
    | Launched
    | ClusterSeen
    | ContextStarted
    | Blocked
    | DriverEnded
    | EndRequested
    | Stopped
    | ArtifactsCollected
    | Released
)


@dataclass(frozen=True)
class Launch:
    """Start the cluster and its application, unless they were started already."""


@dataclass(frozen=True)
class Stop:
    """End every process of the cluster."""


@dataclass(frozen=True)
class CollectArtifacts:
    """Store logs, event log and summary in the lake."""


@dataclass(frozen=True)
class Release:
    """Remove all parts of the cluster."""


Instruction = Launch | Stop | CollectArtifacts | Release

STOPPED_BY_USER = "stopped_by_user"
TIME_LIMIT = "time_limit"
DRIVER_LOST = "driver_lost"
DRIVER_FAILED = "driver_failed"
RETRY = "retry"

_SEEN = "seen"
"""A key of the recorded handle; the backends ignore it."""

_BEFORE_LAUNCH = frozenset({State.ACCEPTED, State.WAITING})
_ON_CLUSTER = frozenset({State.STARTING, State.RUNNING})

Step = tuple[Application, tuple[Instruction, ...]]


def step(application: Application, event: Event) -> Step:
    """Apply `event`; return the new application and the instructions to carry out now.

    An event that comes too late (a stop after the end, a second admission) changes nothing and yields no instruction.
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
    """The first instructions of a new supervisor, whatever its predecessor has completed.

    A cluster that was seen is never launched again: if it is gone, its program may have done a part of its work, and
    only the application's own retries allow another run.
    """
    if application.state is State.STARTING:
        return () if was_seen(application) else (Launch(),)
    if application.state is State.STOPPING:
        return (Stop(),)
    unused = application.state.final or application.state in _BEFORE_LAUNCH
    return (Release(),) if unused and application.cluster is not None else ()


def was_seen(application: Application) -> bool:
    """Return whether the cluster of this attempt was seen to exist."""
    return bool((application.cluster or {}).get(_SEEN))


def will_retry(application: Application) -> bool:
    """Return whether another attempt follows a stopping one whose exit code is final."""
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
    if isinstance(event, ContextStarted) and application.state is State.STARTING:
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
    if isinstance(event, ClusterSeen):
        return replace(application, cluster={**(application.cluster or {}), _SEEN: True}), ()
    if isinstance(event, Blocked):
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
        return application, (CollectArtifacts(),)
    if isinstance(event, ArtifactsCollected):
        if will_retry(application):
            return _next_attempt(application, event), (Release(),)
        application = replace(application, cost=_sum(application.cost, event.cost))
        outcome = _outcome(application.exit_code, application.reason)
        reason = None if outcome is State.FINISHED else application.reason
        return _end(application, outcome, event.at, reason=reason, summary=event.summary), (Release(),)
    return application, ()


def _outcome(exit_code: int | None, reason: Reason | None) -> State:
    """The final state. Exit code 0 means success even if a stop was requested, since that stop came too late."""
    if exit_code == 0:
        return State.FINISHED
    if reason is not None and reason.code == STOPPED_BY_USER:
        return State.STOPPED
    if reason is not None and reason.code == TIME_LIMIT:
        return State.AUTO_TERMINATED
    return State.FAILED


def _next_attempt(application: Application, event: ArtifactsCollected) -> Application:
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
