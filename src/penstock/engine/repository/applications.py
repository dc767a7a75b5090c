"""The repository of applications: their rows, the transitions between states, and their events, in PostgreSQL.

Every transition is one transaction: the row is locked, the pure lifecycle decides on what is really there, the former
state is checked again by the update, and the event is kept. So two engines that see the same thing at the same time
cannot take an application two ways. One statement changes the row, keeps the event and notifies, since the round trips
to the database dominate; each statement is compiled once, which costs more than all that the database does for it.
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

from penstock.catalog.connection import reading
from penstock.engine.policy import fairness, lifecycle
from penstock.engine.policy.lifecycle import Event, Instruction
from penstock.engine.repository import audit, schema
from penstock.engine.repository.claims import (
    CHANNEL,
    SUPERVISED,
    Changes,
    Claim,
    claimed,
    dispatched_by_somebody,
    listening,
)
from penstock.engine.repository.queues import BEFORE_LAUNCH, ON_CLUSTER, Sharing
from penstock.errors import Conflict, InvalidInput, NotFound, StateError
from penstock.model import CORES_PER_CORE, Application, ApplicationSpec, Attempt, Capacity, Cost, Reason, State

_table, _events = schema.applications, schema.events
_NEW, _HAPPENED = "new_", "happened_"
_EVENT = ("at", "event", "from_state", "to_state", "detail")


def row_parameters(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the row as parameters of either statement."""
    return {_NEW + name: value for name, value in row.items()}


def event_parameters(event: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of the event as parameters of either statement."""
    return {_HAPPENED + name: value for name, value in event.items()}


@cache
def submission_statement(columns: tuple[str, ...]) -> sa.Select[Any]:
    """Adds a row of these columns, unless its idempotency key is known; answers one row where it did."""
    # The dialect's own `on_conflict_do_nothing` would have it compiled anew each time.
    row = sa.select(*_parameters(columns)).suffix_with("ON CONFLICT (engine, instance, idempotency_key) DO NOTHING")
    return _with_event(_table.insert().from_select(columns, row))


@cache
def transition_statement(columns: tuple[str, ...]) -> sa.Select[Any]:
    """Changes these columns of the row `which` where its state is still `before`; answers one row where it was."""
    # Not `id`: in an update a parameter of a column's name is taken for that column's new value.
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


CONNECTION_LOST = (sa.exc.OperationalError, sa.exc.InterfaceError, psycopg.OperationalError)
"""What every method raises while the database is away; the next call connects anew."""


_ALIVE = sa.or_(_table.c.ended_at.is_(None), ON_CLUSTER)
_LEFT_TO_A_DISPATCHER = sa.and_(_table.c.dispatched, BEFORE_LAUNCH, _table.c.cluster.is_(None))

_WITH_KEY = _table.select().where(
    _table.c.engine == sa.bindparam("engine"),
    _table.c.instance == sa.bindparam("instance"),
    _table.c.idempotency_key == sa.bindparam("key"),
)

Step = tuple[Application, tuple[Instruction, ...]]
Admit = Callable[[str], Event]
"""Makes the event by which the application of that id is admitted."""


class Records:
    """`owner` names the engine these applications belong to: several homes may share one external database."""

    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._reading = reading(engine)
        self.owner = owner
        schema.ensure(engine)
        self.sharing = Sharing(engine, owner)

    def add(self, application: Application, *, fingerprint: str | None = None) -> Application:
        """Record a submission. One with an idempotency key its instance has seen changes nothing and gets the first.

        `Conflict` where the first had another `fingerprint`; `QuotaExceeded` where it is more than the instance may
        ever hold, or too many wait in it; `NotFound` where there is no such instance.
        """
        spec = application.spec
        with self._engine.begin() as connection:
            instance = self.sharing.held(connection, spec.instance)
            row = {"engine": self.owner, "fingerprint": fingerprint, **given(application), **changing(application)}
            change = submission_statement(tuple(row)), row_parameters(row)
            if not self._changed(connection, change, application, "Submitted", at=application.submitted_at):
                first = self._with_key(connection, spec.instance, str(spec.idempotency_key), fingerprint)
                return first or application
            self.sharing.require_place(connection, instance, spec)
        return application

    def with_key(self, instance: str, key: str, *, fingerprint: str | None = None) -> Application | None:
        """What was submitted with that idempotency key; `Conflict` where it had another `fingerprint`."""
        with self._reading.connect() as connection:
            return self._with_key(connection, instance, key, fingerprint)

    def get(self, application_id: str) -> Application:
        with self._reading.connect() as connection:
            row = connection.execute(_table.select().where(_table.c.id == application_id)).one_or_none()
        if row is None:
            raise _unknown(application_id)
        return application_of(row)

    def find(self, prefix: str) -> Application:
        """By id, by the beginning of one that is no other's, or `last`: the newest submission."""
        query = _table.select().where(_table.c.engine == self.owner).limit(3)
        if prefix == "last":
            query = query.order_by(_table.c.submitted_at.desc(), _table.c.id.desc()).limit(1)
        else:
            query = query.where(_table.c.id.startswith(prefix, autoescape=True)).order_by(_table.c.id)
        with self._reading.connect() as connection:
            rows = connection.execute(query).all()
        exact = [row for row in rows if row.id == prefix]
        if len(exact or rows) > 1:
            raise InvalidInput(
                f"“{prefix}” is the beginning of several applications",
                why=", ".join(row.id for row in rows) + (" …" if len(rows) > 2 else ""),
                fix="give more of the id",
            )
        if not rows:
            raise _unknown(prefix)
        return application_of((exact or rows)[0])

    def events(self, application_id: str) -> list[dict[str, Any]]:
        """What happened, oldest first: `at`, `event`, `from_state`, `to_state`, `detail`."""
        query = _events.select().where(_events.c.application_id == application_id).order_by(_events.c.id)
        with self._reading.connect() as connection:
            return [
                {name: row._mapping[name] for name in ("at", "event", "from_state", "to_state", "detail")}
                for row in connection.execute(query)
            ]

    def apply(self, application_id: str, event: Event) -> Step:
        """Let `event` happen to the application as it is now; returns what it became and what is to be done."""
        with self._engine.begin() as connection:
            return self._apply(connection, application_id, event)

    def admit(
        self, application_id: str, admitted: Event, *, capacity: Capacity, cores_per_core: float = CORES_PER_CORE
    ) -> Step:
        """Let `admitted` happen where it is this application's turn and there is room; else record why it waits."""
        with self._engine.begin() as connection:
            self.sharing.take_turn(connection)
            scene = self.sharing.scene(
                connection,
                at=admitted.at,
                capacity=capacity,
                everybody=True,
                cores_per_core=cores_per_core,
                also=application_id,
            )
            plan = fairness.plan(scene)
            if reason := plan.refused.get(application_id):
                return self._apply(connection, application_id, lifecycle.Refused(admitted.at, reason))
            place = plan.place(application_id)
            if place is not None and place.reason is not None:
                return self._apply(connection, application_id, lifecycle.Queued(admitted.at, place.reason))
            return self._apply(connection, application_id, admitted)

    def admit_next(self, admit: Admit, *, at: datetime, capacity: Capacity) -> Application | None:
        """Admit whose turn it is, where that one is a dispatcher's to start and there is room; returns it as it is now.

        Also one that was refused; None where nobody's state changed.
        """
        with self._engine.begin() as connection:
            self.sharing.take_turn(connection)
            scene = self.sharing.scene(connection, at=at, capacity=capacity, everybody=False)
            plan = fairness.plan(scene)
            if plan.beyond:
                # The first of its instance is larger than today's capacity: one behind it may fit.
                scene = self.sharing.scene(connection, at=at, capacity=capacity, everybody=True)
                plan = fairness.plan(scene)
            dispatched = {one.id for one in scene.waiting if one.dispatched}
            for application_id, reason in plan.refused.items():
                return self._apply(connection, application_id, lifecycle.Refused(at, reason))[0]
            if plan.start in dispatched:
                return self._apply(connection, plan.start, admit(plan.start))[0]
            recorded = {one.id: one.recorded for one in scene.waiting}
            seen: set[str] = set()
            for place in plan.places:
                # The first of each instance, and those that no place helps; the others' reason is their place, which
                # is answered when asked.
                first = place.instance not in seen
                seen.add(place.instance)
                if not (first or place.id in plan.beyond) or place.reason in (None, recorded[place.id]):
                    continue
                if place.id in dispatched:
                    self._apply(connection, place.id, lifecycle.Queued(at, place.reason))
        return None

    def request_end(self, application_id: str, reason: Reason) -> Application:
        """End what has no cluster yet; ask whoever supervises the rest to end it. The first request counts."""
        with self._engine.begin() as connection:
            row = connection.execute(
                _table.select().where(_table.c.id == application_id).with_for_update()
            ).one_or_none()
            if row is None:
                raise _unknown(application_id)
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

    def unsupervised(self) -> list[str]:
        """Applications that are not over, that nobody looks after and no dispatcher has yet to start; oldest first."""
        query = (
            sa.select(_table.c.id)
            .where(_table.c.engine == self.owner, _ALIVE, sa.not_(_LEFT_TO_A_DISPATCHER), sa.not_(SUPERVISED))
            .order_by(_table.c.submitted_at)
        )
        with self._reading.connect() as connection:
            return list(connection.execute(query).scalars())

    def dispatched(self) -> bool:
        """Whether a dispatcher of this engine lives."""
        with self._reading.connect() as connection:
            return bool(connection.execute(sa.select(dispatched_by_somebody(self.owner))).scalar())

    def claim(self, application_id: str, *, wait_seconds: float = 0.0) -> AbstractContextManager[Claim]:
        """Supervise the application within; `Superseded` where another process does and goes on doing so."""
        return claimed(self._engine, application_id, wait_seconds=wait_seconds)

    def changes(self, *, dispatching: bool = False) -> AbstractContextManager[Changes]:
        """Hear of changes within; `dispatching` also says that this process starts what waits."""
        return listening(self._engine, dispatching_for=self.owner if dispatching else None)

    def _with_key(
        self, connection: sa.Connection, instance: str, key: str, fingerprint: str | None
    ) -> Application | None:
        row = connection.execute(_WITH_KEY, {"engine": self.owner, "instance": instance, "key": key}).one_or_none()
        if row is None:
            return None
        if fingerprint is not None and row.fingerprint is not None and row.fingerprint != fingerprint:
            raise Conflict(
                "The idempotency key belongs to another submission",
                why=f"{row.id} was submitted with it and asks for something else",
                fix="use a new key for a new application, and the same only to send the same again",
            )
        return application_of(row)

    def _apply(self, connection: sa.Connection, application_id: str, event: Event) -> Step:
        row = connection.execute(_table.select().where(_table.c.id == application_id).with_for_update()).one_or_none()
        if row is None:
            raise _unknown(application_id)
        before = application_of(row)
        if row.end_request and isinstance(event, lifecycle.Admitted):
            # Asked for while the attempt before was ending: there is no other.
            event = lifecycle.EndRequested(event.at, Reason(**row.end_request))
        after, instructions = lifecycle.step(before, event)
        if after != before:
            row_now = changing(after)
            transition = (
                transition_statement(tuple(row_now)),
                {"which": application_id, "before": before.state.value, **row_parameters(row_now)},
            )
            detail = {k: v for k, v in asdict(event).items() if k not in ("at", "summary") and v is not None}
            name = type(event).__name__
            if not self._changed(connection, transition, after, name, at=event.at, before=before.state, detail=detail):
                raise StateError(f"{application_id} is not {before.state.value} any more")
            if before.cluster is not None and after.cluster is None:
                self.sharing.charge(connection, before, event.at)
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
        """Make the change of one row (of `changes.py`, with its parameters), keep its event and tell of it; False where
        there was no such row to change."""
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


def _unknown(application_id: str) -> NotFound:
    return NotFound(f"There is no application “{application_id}”", fix="penstock apps lists them")
