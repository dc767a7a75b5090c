"""The durable records: applications, what happened to them, who looks after them. PostgreSQL through SQLAlchemy.

Every transition is one transaction: the row is locked, the pure lifecycle decides on what is really there, the former
state is checked again by the update, and the event is kept. So two engines that see the same thing at the same time
cannot take an application two ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from penstock.engine import lifecycle, schema
from penstock.engine.application import Application, ApplicationSpec, ClusterSize, Reason, State
from penstock.engine.claims import CHANNEL, SUPERVISED, Claim, claimed
from penstock.engine.lifecycle import Event, Instruction
from penstock.errors import InvalidInput, NotFound, StateError

CONNECTION_LOST = (sa.exc.OperationalError, sa.exc.InterfaceError, psycopg.OperationalError)
"""What every method raises while the database is away; the next call connects anew."""

_ADMISSION_LOCK = 7031_0002
_table, _events = schema.applications, schema.events

_ALIVE = sa.or_(_table.c.ended_at.is_(None), _table.c.cluster.is_not(None))
_ON_CLUSTER = _table.c.cluster.is_not(None)
_BEFORE_LAUNCH = _table.c.state.in_([State.ACCEPTED.value, State.WAITING.value])


class Records:
    """`owner` names the engine these applications belong to: several homes may share one external database."""

    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._owner = owner
        schema.ensure(engine)

    def add(self, application: Application) -> Application:
        """Record a submission. One with an idempotency key seen before changes nothing and gets the first."""
        with self._engine.begin() as connection:
            added = connection.execute(
                insert(_table)
                .values(
                    id=application.id,
                    engine=self._owner,
                    name=application.spec.name,
                    tags=list(application.spec.tags),
                    spec=application.spec.to_json(),
                    idempotency_key=application.spec.idempotency_key,
                    submitted_at=application.submitted_at,
                    **_changing(application),
                )
                .on_conflict_do_nothing(index_elements=["engine", "idempotency_key"])
                .returning(_table.c.id)
            ).one_or_none()
            if added is None:
                return self._with_key(connection, str(application.spec.idempotency_key))
            _keep_event(connection, application, "Submitted", at=application.submitted_at)
        return application

    def get(self, application_id: str) -> Application:
        with self._engine.connect() as connection:
            row = connection.execute(_table.select().where(_table.c.id == application_id)).one_or_none()
        if row is None:
            raise _unknown(application_id)
        return _application(row)

    def find(self, prefix: str) -> Application:
        """By id, by the beginning of one that is no other's, or `last`: the newest submission."""
        query = _table.select().where(_table.c.engine == self._owner).limit(3)
        if prefix == "last":
            query = query.order_by(_table.c.submitted_at.desc(), _table.c.id.desc()).limit(1)
        else:
            query = query.where(_table.c.id.startswith(prefix, autoescape=True)).order_by(_table.c.id)
        with self._engine.connect() as connection:
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
        return _application((exact or rows)[0])

    def search(
        self, *, states: Iterable[State] = (), tags: Iterable[str] = (), limit: int | None = None
    ) -> list[Application]:
        """Newest first."""
        query = _table.select().where(_table.c.engine == self._owner)
        if wanted := [state.value for state in states]:
            query = query.where(_table.c.state.in_(wanted))
        for tag in tags:
            query = query.where(_table.c.tags.contains([tag]))
        query = query.order_by(_table.c.submitted_at.desc(), _table.c.id.desc()).limit(limit)
        with self._engine.connect() as connection:
            return [_application(row) for row in connection.execute(query)]

    def events(self, application_id: str) -> list[dict[str, Any]]:
        """What happened, oldest first: `at`, `event`, `from_state`, `to_state`, `detail`."""
        query = _events.select().where(_events.c.application_id == application_id).order_by(_events.c.id)
        with self._engine.connect() as connection:
            return [
                {name: row._mapping[name] for name in ("at", "event", "from_state", "to_state", "detail")}
                for row in connection.execute(query)
            ]

    def apply(self, application_id: str, event: Event) -> tuple[Application, tuple[Instruction, ...]]:
        """Let `event` happen to the application as it is now; returns what it became and what is to be done."""
        with self._engine.begin() as connection:
            return self._apply(connection, application_id, event)

    def admit(
        self, application_id: str, decide: Callable[[ClusterSize, list[ClusterSize], int], Event | None]
    ) -> tuple[Application, tuple[Instruction, ...]]:
        """Let `decide(size, sizes that hold their promise now, how many are ahead)` say what happens next.

        One at a time over all engines of this owner, so the same memory is never promised twice. Only applications
        somebody looks after are ahead: one whose supervisor was killed does not block the queue.
        """
        with self._engine.begin() as connection:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_ADMISSION_LOCK)))
            row = connection.execute(_table.select().where(_table.c.id == application_id)).one()
            mine = _table.c.engine == self._owner
            running = connection.execute(sa.select(_table.c.spec).where(mine, _ON_CLUSTER)).scalars().all()
            before = sa.tuple_(_table.c.submitted_at, _table.c.id) < sa.tuple_(
                sa.literal(row.submitted_at, sa.DateTime(timezone=True)), sa.literal(row.id)
            )
            ahead = connection.execute(
                sa.select(sa.func.count()).select_from(_table).where(mine, _BEFORE_LAUNCH, before, SUPERVISED)
            ).scalar_one()
            sizes = [ApplicationSpec.from_json(spec).size for spec in running]
            event = decide(ApplicationSpec.from_json(row.spec).size, sizes, ahead)
            if event is None:
                return _application(row), ()
            return self._apply(connection, application_id, event)

    def request_end(self, application_id: str, reason: Reason) -> None:
        """Ask whoever supervises the application to end it; the first request counts."""
        with self._engine.begin() as connection:
            connection.execute(
                _table.update()
                .where(_table.c.id == application_id, _table.c.end_request.is_(None), _table.c.ended_at.is_(None))
                .values(end_request=asdict(reason))
            )
            _notify(connection, application_id)

    def requested_end(self, application_id: str) -> Reason | None:
        with self._engine.connect() as connection:
            request = connection.execute(
                sa.select(_table.c.end_request).where(_table.c.id == application_id)
            ).scalar_one_or_none()
        return Reason(**request) if request else None

    def unsupervised(self) -> list[str]:
        """Applications that are not over and have nobody who looks after them, oldest first."""
        query = (
            sa.select(_table.c.id)
            .where(_table.c.engine == self._owner, _ALIVE, sa.not_(SUPERVISED))
            .order_by(_table.c.submitted_at)
        )
        with self._engine.connect() as connection:
            return list(connection.execute(query).scalars())

    def claim(self, application_id: str, *, wait_seconds: float = 0.0) -> AbstractContextManager[Claim]:
        """Supervise the application within; `StateError` where another process does and goes on doing so."""
        return claimed(self._engine, application_id, wait_seconds=wait_seconds)

    def _with_key(self, connection: sa.Connection, key: str) -> Application:
        return _application(
            connection.execute(
                _table.select().where(_table.c.engine == self._owner, _table.c.idempotency_key == key)
            ).one()
        )

    def _apply(
        self, connection: sa.Connection, application_id: str, event: Event
    ) -> tuple[Application, tuple[Instruction, ...]]:
        row = connection.execute(_table.select().where(_table.c.id == application_id).with_for_update()).one_or_none()
        if row is None:
            raise _unknown(application_id)
        before = _application(row)
        after, instructions = lifecycle.step(before, event)
        if after != before:
            changed = connection.execute(
                _table.update()
                .where(_table.c.id == application_id, _table.c.state == before.state.value)
                .values(**_changing(after))
            ).rowcount
            if changed != 1:
                raise StateError(f"{application_id} is not {before.state.value} any more")
            detail = {k: v for k, v in asdict(event).items() if k not in ("at", "summary") and v is not None}
            _keep_event(connection, after, type(event).__name__, at=event.at, before=before.state, detail=detail)
        return after, instructions


def now() -> datetime:
    return datetime.now(timezone.utc)


def _changing(application: Application) -> dict[str, Any]:
    """The columns a transition may change."""
    return {
        "state": application.state.value,
        "started_at": application.started_at,
        "ended_at": application.ended_at,
        "reason": asdict(application.reason) if application.reason else None,
        "spark_application_id": application.spark_application_id,
        "exit_code": application.exit_code,
        "cluster": dict(application.cluster) if application.cluster is not None else None,
        "summary": dict(application.summary) if application.summary is not None else None,
    }


def _application(row: sa.Row[Any]) -> Application:
    return Application(
        id=row.id,
        spec=ApplicationSpec.from_json(row.spec),
        state=State(row.state),
        submitted_at=row.submitted_at,
        reason=Reason(**row.reason) if row.reason else None,
        started_at=row.started_at,
        ended_at=row.ended_at,
        spark_application_id=row.spark_application_id,
        exit_code=row.exit_code,
        cluster=row.cluster,
        summary=row.summary,
    )


def _keep_event(
    connection: sa.Connection,
    application: Application,
    event: str,
    *,
    at: datetime,
    before: State | None = None,
    detail: Mapping[str, Any] | None = None,
) -> None:
    connection.execute(
        _events.insert().values(
            application_id=application.id,
            at=at,
            event=event,
            from_state=before.value if before else None,
            to_state=application.state.value,
            detail=dict(detail or {}),
        )
    )
    _notify(connection, application.id)


def _notify(connection: sa.Connection, application_id: str) -> None:
    connection.execute(sa.select(sa.func.pg_notify(CHANNEL, application_id)))


def _unknown(application_id: str) -> NotFound:
    return NotFound(f"There is no application “{application_id}”", fix="penstock apps lists them")
