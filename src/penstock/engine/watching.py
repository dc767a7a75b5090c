"""What an observation means for the life of an application. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from penstock.clusters.base import Observation, Phase
from penstock.engine import diagnosis
from penstock.engine.application import Application, Reason, State
from penstock.engine.lifecycle import (
    DRIVER_LOST,
    TIME_LIMIT,
    ContextStarted,
    DriverEnded,
    EndRequested,
    Event,
    Hindered,
)


def event_of(
    application: Application,
    seen: Observation,
    *,
    at: datetime,
    launched_at: datetime,
    end_request: Reason | None = None,
    errors: str = "",
) -> Event | None:
    """The one event to apply next, or None where nothing new was seen.

    That the driver has ended comes before all else: a stop, or a limit, that comes after it changes nothing any more.
    `errors` is the end of the driver's standard error, looked at when it failed.
    """
    if seen.phase is Phase.ENDED:
        reason = seen.reason or diagnosis.of_failure(seen.exit_code, errors) if seen.exit_code else None
        return DriverEnded(at, seen.exit_code, reason)
    if seen.phase is Phase.LOST:
        lost = Reason(DRIVER_LOST, f"the cluster was lost: {seen.detail}", "run it again")
        return DriverEnded(at, None, seen.reason or lost)
    given_up = seen.reason if seen.hopeless else None
    if reason := end_request or given_up or _limit_reached(application, seen, at - launched_at):
        return EndRequested(at, reason)
    if seen.phase is Phase.RUNNING and application.state is State.STARTING:
        return ContextStarted(at, seen.spark_application_id)
    if seen.reason != application.reason:
        return Hindered(at, seen.reason)
    return None


def _limit_reached(application: Application, seen: Observation, age: timedelta) -> Reason | None:
    limit = application.spec.time_limit_seconds
    if limit is not None and age >= timedelta(seconds=limit):
        return Reason(TIME_LIMIT, f"its time limit of {limit:g} s is over", "--time-limit sets it")
    if seen.executors_failed:
        return Reason(
            "executors_failed",
            f"executors kept dying ({seen.lost_executors} of them)",
            f"see why: penstock logs {application.id} --process executor-1; often they need more --executor-memory",
        )
    return None
