"""The repository of applications: their rows, the transitions between states, and their events, in PostgreSQL.

Every transition is one transaction: the row is locked, the pure lifecycle decides on the locked row, the update checks
the former state again, and the event is recorded. So two engines that observe the same event at the same time cannot
apply conflicting transitions. One statement changes the row, records the event and notifies, since round trips to the
database dominate; each statement is compiled once, which costs more than its execution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import datetime, timezone
from functools import cache
from typing import Any

import psycopg
import sqlalchemy as sa

from penstock.catalog.connection import autocommit_engine
from penstock.engine.policy import lifecycle, scheduling
from penstock.engine.policy.lifecycle import Event, Instruction
from penstock.engine.repository import audit, schema
from penstock.engine.repository.claims import CHANNEL, Claim, claimed
from penstock.engine.repository.queues import QueueRepository
from penstock.errors import Conflict, NotFound, StateError
from penstock.model import CORES_PER_CORE, Application, ApplicationSpec, Attempt, Capacity, Cost, Reason, State

_table, _events = schema.applications, schema.events
_NEW, _HAPPENED = "new_", "happened_"
_EVENT = ("at", "event", "from_state", "to_state", "detail")


def row_parameters(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row's columns as parameters of either statement."""
    return {_NEW + name: value for name, value in row.items()}


def event_parameters(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event's columns as parameters of either statement."""
    return {_HAPPENED + name: value for name, value in event.items()}


@cache
def submission_statement(columns: tuple[str, ...]) -> sa.Select[Any]:
    """A statement that inserts a row unless its idempotency key is known; it returns a row if it inserted one."""
    # With the dialect's own `on_conflict_do_nothing`, it would be compiled anew each time.
    row = sa.select(*_parameters(columns)).suffix_with("ON CONFLICT (engine, instance, idempotency_key) DO NOTHING")
    return _with_event(_table.insert().from_select(columns, row))


@cache
def transition_statement(columns: tuple[str, ...]) -> sa.Select[Any]:
    """A statement that updates the row `which` if its state is still `before`; it returns a row if it updated one."""
    # Not named `id`: an update takes a parameter with a column's name for that column's new value.
    row = dict(zip(columns, _parameters(columns), strict=True))
    mine = sa.and_(_table.c.id == sa.bindparam("which"), _table.c.state == sa.bindparam("before"))
    return _with_event(_table.update().where(mine).values(row))


def _parameters(columns: tuple[str, ...]) -> list[sa.BindParameter[Any]]:
    return [sa.bindparam(_NEW + name, type_=_table.c[name].type) for name in columns]


def _with_event(change: sa.Insert | sa.Update) -> sa.Select[Any]:
    changed = change.returning(_table.c.id).cte("changed")
    values = [sa.bindparam(_HAPPENED + name, type_=_events.c[name].type) for name in _EVENT]
    kept = (
        _events.insert()
        .from_select(["application_id", *_EVENT], sa.select(changed.c.id, *values))
        .returning(_events.c.application_id)
        .cte("kept")
    )
    return sa.select(sa.func.pg_notify(CHANNEL, kept.c.application_id))


def now() -> datetime:
    return datetime.now(timezone.utc)


def submitted_columns(application: Application) -> dict[str, Any]:
    """The columns that a submission sets for good."""
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


def state_columns(application: Application) -> dict[str, Any]:
    """The columns that a transition may change."""
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


CONNECTION_LOST = (sa.exc.OperationalError, sa.exc.InterfaceError, psycopg.OperationalError)
"""The errors that every method raises while the database is unavailable; the next call reconnects."""


_WITH_KEY = _table.select().where(
    _table.c.engine == sa.bindparam("engine"),
    _table.c.instance == sa.bindparam("instance"),
    _table.c.idempotency_key == sa.bindparam("key"),
)

Step = tuple[Application, tuple[Instruction, ...]]
Admit = Callable[[str], Event]
"""Returns the event that admits the application of that id."""


class ApplicationRepository:
    """The repository of one engine's applications.

    `owner` names the engine, since several homes may share one external database.
    """

    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._reading = autocommit_engine(engine)
        self._queues = QueueRepository(engine, owner)
        self.owner = owner
        schema.ensure(engine)

    def add(self, application: Application, *, fingerprint: str | None = None) -> Application:
        """Record a submission; return the first one if the instance has seen its idempotency key before.

        Raises `Conflict` where the first one has another `fingerprint`, `QuotaExceeded` where the cluster exceeds the
        instance's quota or its queue is full, and `NotFound` for an unknown instance.
        """
        spec = application.spec
        with self._engine.begin() as connection:
            instance = self._queues.locked_for_share(connection, spec.instance)
            row = {
                "engine": self.owner,
                "fingerprint": fingerprint,
                **submitted_columns(application),
                **state_columns(application),
            }
            change = submission_statement(tuple(row)), row_parameters(row)
            if not self._changed(connection, change, application, "Submitted", at=application.submitted_at):
                first = self._with_key(connection, spec.instance, str(spec.idempotency_key), fingerprint)
                return first or application
            self._queues.require_room(connection, instance, spec)
        return application

    def with_key(self, instance: str, key: str, *, fingerprint: str | None = None) -> Application | None:
        """The application with that idempotency key. Raises `Conflict` where it has another `fingerprint`."""
        with self._reading.connect() as connection:
            return self._with_key(connection, instance, key, fingerprint)

    def get(self, application_id: str) -> Application:
        with self._reading.connect() as connection:
            row = connection.execute(_table.select().where(_table.c.id == application_id)).one_or_none()
        if row is None:
            raise unknown(application_id)
        return application_of(row)

    def apply(self, application_id: str, event: Event) -> Step:
        """Apply `event` to the application as it is now; return the new application and the instructions."""
        with self._engine.begin() as connection:
            return self._apply(connection, application_id, event)

    def admit(
        self, application_id: str, admitted: Event, *, capacity: Capacity, cores_per_core: float = CORES_PER_CORE
    ) -> Step:
        """Apply `admitted` if it is the application's turn and there is room; else record why it waits."""
        with self._engine.begin() as connection:
            self._queues.take_turn(connection)
            self._queues.claim_turn(connection, application_id)
            snapshot = self._queues.snapshot(
                connection,
                at=admitted.at,
                capacity=capacity,
                all_waiting=True,
                cores_per_core=cores_per_core,
                also=application_id,
            )
            schedule = scheduling.schedule(snapshot)
            if reason := schedule.refused.get(application_id):
                return self._apply(connection, application_id, lifecycle.Refused(admitted.at, reason))
            if schedule.start not in (None, application_id):
                self._queues.offer_turn(connection, schedule.start, admitted.at)
            place = schedule.place(application_id)
            if place is not None and place.reason is not None:
                return self._apply(connection, application_id, lifecycle.Queued(admitted.at, place.reason))
            return self._apply(connection, application_id, admitted)

    def admit_next(self, admit: Admit, *, at: datetime, capacity: Capacity) -> Application | None:
        """Admit the application whose turn it is, if a dispatcher starts it and there is room; return it as it is now.

        A refused application is returned, too; None means that no state changed.
        """
        with self._engine.begin() as connection:
            self._queues.take_turn(connection)
            snapshot = self._queues.snapshot(connection, at=at, capacity=capacity, all_waiting=False)
            schedule = scheduling.schedule(snapshot)
            if schedule.set_aside:
                # The first application of an instance cannot start now, but one behind it may.
                snapshot = self._queues.snapshot(connection, at=at, capacity=capacity, all_waiting=True)
                schedule = scheduling.schedule(snapshot)
            dispatched = {one.id for one in snapshot.waiting if one.dispatched}
            for application_id, reason in schedule.refused.items():
                return self._apply(connection, application_id, lifecycle.Refused(at, reason))[0]
            if schedule.start in dispatched:
                return self._apply(connection, schedule.start, admit(schedule.start))[0]
            if schedule.start is not None:
                self._queues.offer_turn(connection, schedule.start, at)
            recorded = {one.id: one.recorded for one in snapshot.waiting}
            seen: set[str] = set()
            for place in schedule.places:
                # Only the first of each instance and those set aside: the reason of the others is their position,
                # which is computed on request.
                first = place.instance not in seen
                seen.add(place.instance)
                if not (first or place.id in schedule.set_aside) or place.reason in (None, recorded[place.id]):
                    continue
                if place.id in dispatched:
                    self._apply(connection, place.id, lifecycle.Queued(at, place.reason))
        return None

    def request_end(self, application_id: str, reason: Reason) -> Application:
        """End an application without a cluster at once; otherwise leave a request to its supervisor.

        Only the first request counts. Raises `NotFound`.
        """
        with self._engine.begin() as connection:
            row = connection.execute(
                _table.select().where(_table.c.id == application_id).with_for_update()
            ).one_or_none()
            if row is None:
                raise unknown(application_id)
            if row.state in (State.ACCEPTED.value, State.WAITING.value):
                return self._apply(connection, application_id, lifecycle.EndRequested(now(), reason))[0]
            if row.end_request is None and row.ended_at is None:
                connection.execute(
                    _table.update().where(_table.c.id == application_id).values(end_request=asdict(reason))
                )
                _notify(connection, application_id)
        return application_of(row)

    def requested_end(self, application_id: str) -> Reason | None:
        with self._reading.connect() as connection:
            request = connection.execute(
                sa.select(_table.c.end_request).where(_table.c.id == application_id)
            ).scalar_one_or_none()
        return Reason(**request) if request else None

    def claim(self, application_id: str, *, wait_seconds: float = 0.0) -> AbstractContextManager[Claim]:
        """Hold the application's claim within the block. Raises `Superseded` where another process holds on to it."""
        return claimed(self._engine, application_id, wait_seconds=wait_seconds)

    def _with_key(
        self, connection: sa.Connection, instance: str, key: str, fingerprint: str | None
    ) -> Application | None:
        row = connection.execute(_WITH_KEY, {"engine": self.owner, "instance": instance, "key": key}).one_or_none()
        if row is None:
            return None
        if fingerprint is not None and row.fingerprint is not None and row.fingerprint != fingerprint:
            raise Conflict(
                "The idempotency key belongs to another submission",
                why=f"{row.id} was submitted with it and has another specification",
                fix="use a new key for a new application, and reuse a key only to repeat the same submission",
            )
        return application_of(row)

    def _apply(self, connection: sa.Connection, application_id: str, event: Event) -> Step:
        row = connection.execute(_table.select().where(_table.c.id == application_id).with_for_update()).one_or_none()
        if row is None:
            raise unknown(application_id)
        before = application_of(row)
        if row.end_request and isinstance(event, lifecycle.Admitted):
            # The end was requested while the previous attempt was ending, so there is no further attempt.
            event = lifecycle.EndRequested(event.at, Reason(**row.end_request))
        after, instructions = lifecycle.step(before, event)
        if after != before:
            row_now = state_columns(after)
            transition = (
                transition_statement(tuple(row_now)),
                {"which": application_id, "before": before.state.value, **row_parameters(row_now)},
            )
            detail = {k: v for k, v in asdict(event).items() if k not in ("at", "summary") and v is not None}
            name = type(event).__name__
            if not self._changed(connection, transition, after, name, at=event.at, before=before.state, detail=detail):
                raise StateError(f"{application_id} is not {before.state.value} any more")
            if before.cluster is not None and after.cluster is None:
                self._queues.charge(connection, before, event.at)
        if row.end_request and isinstance(event, lifecycle.Released) and after.state is State.WAITING:
            # Without this, the stopped application would wait for the admission of its next attempt, maybe for ever.
            return self._apply(connection, application_id, lifecycle.EndRequested(event.at, Reason(**row.end_request)))
        return after, instructions

    def _changed(
        self,
        connection: sa.Connection,
        change: tuple[sa.Select[Any], Mapping[str, Any]],
        application: Application,
        event: str,
        *,
        at: datetime,
        before: State | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> bool:
        """Change one row (a statement with its parameters), record the event and notify.

        Return False where there was no such row.
        """
        statement, parameters = change
        happened = {
            "at": at,
            "event": event,
            "from_state": before.value if before else None,
            "to_state": application.state.value,
            "detail": dict(detail or {}),
        }
        if not connection.execute(statement, {**parameters, **event_parameters(happened)}).all():
            return False
        if application.state is not before:
            audit.put(connection, self.owner, application, before=before, at=at)
        return True


def _notify(connection: sa.Connection, application_id: str) -> None:
    connection.execute(sa.select(sa.func.pg_notify(CHANNEL, application_id)))


def unknown(application_id: str) -> NotFound:
    return NotFound(f"There is no application “{application_id}”", fix="penstock apps lists them")
