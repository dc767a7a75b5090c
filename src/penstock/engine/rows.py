"""Applications as rows of the records, and back."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa

from penstock.engine.application import Application, ApplicationSpec, Attempt, Cost, Reason, State


def now() -> datetime:
    return datetime.now(timezone.utc)


def given(application: Application) -> dict[str, Any]:
    """The columns that stay as they were submitted."""
    spec = application.spec
    return {
        "id": application.id,
        "name": spec.name,
        "tags": list(spec.tags),
        "spec": spec.to_json(),
        "idempotency_key": spec.idempotency_key,
        "instance": spec.instance,
        "priority": spec.priority,
        "dispatched": application.dispatched,
        "submitted_at": application.submitted_at,
    }


def changing(application: Application) -> dict[str, Any]:
    """The columns a transition may change."""
    return {
        "state": application.state.value,
        "admitted_at": application.admitted_at,
        "started_at": application.started_at,
        "ended_at": application.ended_at,
        "not_before": application.not_before,
        "attempt": application.attempt,
        "attempts": [attempt.to_json() for attempt in application.attempts],
        "cost": asdict(application.cost) if application.cost else None,
        "reason": asdict(application.reason) if application.reason else None,
        "spark_application_id": application.spark_application_id,
        "exit_code": application.exit_code,
        "cluster": dict(application.cluster) if application.cluster is not None else None,
        "summary": dict(application.summary) if application.summary is not None else None,
    }


def application_of(row: sa.Row[Any]) -> Application:
    return Application(
        id=row.id,
        spec=ApplicationSpec.from_json(row.spec),
        state=State(row.state),
        submitted_at=row.submitted_at,
        reason=Reason(**row.reason) if row.reason else None,
        admitted_at=row.admitted_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        not_before=row.not_before,
        attempt=row.attempt,
        attempts=tuple(Attempt.from_json(attempt) for attempt in row.attempts),
        cost=Cost(**row.cost) if row.cost else None,
        dispatched=row.dispatched,
        spark_application_id=row.spark_application_id,
        exit_code=row.exit_code,
        cluster=row.cluster,
        summary=row.summary,
    )
