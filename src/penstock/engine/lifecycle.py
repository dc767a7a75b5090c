"""The life of an application as a pure function: `(application, event) -> (application, instructions)`.

No I/O and no clock: every event carries the time it happened. Whoever carries the instructions out may die at any
moment; `resume` says, from the recorded application alone, what its successor has to do. That works because an
instruction is recorded as due (by the state) before it is carried out, and each may be carried out twice.

The way: accepted → (waiting →) starting → running → stopping → one of the four final states. `stopping` means that the
outcome is known or the end was asked for, and processes are being ended and artefacts kept; the final state is entered
when that is done, so that whoever sees it also finds the logs. What is left after it is to release the cluster:
`cluster` is None again when nothing of it exists any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from penstock.engine.application import Application, Reason, State


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


@dataclass(frozen=True)
class Released:
    at: datetime


Event = Queued | Admitted | Refused | Launched | ContextStarted | DriverEnded | EndRequested | Stopped | Kept | Released


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

_BEFORE_LAUNCH = frozenset({State.ACCEPTED, State.WAITING})
_ON_CLUSTER = frozenset({State.STARTING, State.RUNNING})

Step = tuple[Application, tuple[Instruction, ...]]


def step(application: Application, event: Event) -> Step:
    """What `event` makes of `application`, and what has to be done now.

    An event that comes too late (a stop after the end, a second admission) changes nothing and asks for nothing.
    """
    state = application.state
    if isinstance(event, Released):
        return (replace(application, cluster=None), ()) if state.final else (application, ())
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
    if application.state.final and application.cluster is not None:
        return (Release(),)
    return ()


def _before_launch(application: Application, event: Event) -> Step:
    if isinstance(event, Queued):
        return replace(application, state=State.WAITING, reason=event.reason), ()
    if isinstance(event, Admitted):
        return replace(application, state=State.STARTING, reason=None, cluster=event.cluster), (Launch(),)
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
                started_at=event.at,
                spark_application_id=event.spark_application_id,
            ),
            (),
        )
    if isinstance(event, Refused):
        return replace(application, state=State.STOPPING, reason=event.reason), (Stop(),)
    if isinstance(event, EndRequested):
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


def _end(
    application: Application,
    state: State,
    at: datetime,
    *,
    reason: Reason | None,
    summary: Mapping[str, Any] | None = None,
) -> Application:
    return replace(application, state=state, ended_at=at, reason=reason, summary=summary)
