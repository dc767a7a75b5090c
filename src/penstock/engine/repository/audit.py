"""The audit log and the webhook outbox: append-only rows, added in the transaction of the change they report.

The database itself refuses to change or remove an audit record. No change is reported that did not happen, and a killed
engine forgets none that did.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from penstock.codec import JsonRecord
from penstock.engine.repository import schema
from penstock.errors import InvalidInput
from penstock.model import Application, State


@dataclass(frozen=True)
class Audit(JsonRecord):
    """An audit entry: an actor and an action. `outcome` is `done` or `refused`; `detail` holds no secret."""

    at: datetime
    actor: str
    action: str
    subject: str = ""
    instance: str | None = None
    outcome: str = "done"
    address: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AuditPage:
    """A page of the audit log, newest first. `next` is the `before` of the following page."""

    items: list[Audit]
    next: int | None = None


_table = schema.audit

_MOST_PER_PAGE = 1000
_MOST_CHARACTERS = 500


class AuditLog:
    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._owner = owner

    def add(self, entries: Iterable[Audit]) -> None:
        """Add all entries or none. Texts are cut to 500 characters, so that no client fills the disk with them."""
        rows = [{"engine": self._owner, **_bounded(asdict(entry))} for entry in entries]
        with self._engine.begin() as connection:
            connection.execute(_table.insert(), rows)

    def page(self, *, limit: int = 100, before: int | None = None) -> AuditPage:
        """A page of the log, newest first; `before` is the `next` of the preceding page. Raises `InvalidInput`."""
        if not 1 <= limit <= _MOST_PER_PAGE:
            raise InvalidInput(f"limit must be from 1 to {_MOST_PER_PAGE}", fix="limit=100")
        query = _table.select().where(_table.c.engine == self._owner).order_by(_table.c.id.desc()).limit(limit + 1)
        if before is not None:
            query = query.where(_table.c.id < before)
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
        shown = rows[:limit]
        items = [
            Audit(row.at, row.actor, row.action, row.subject, row.instance, row.outcome, row.address, row.detail)
            for row in shown
        ]
        return AuditPage(items, next=shown[-1].id if len(rows) > limit else None)


def _bounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value[:_MOST_CHARACTERS] if isinstance(value, str) else value for name, value in values.items()}


_deliveries = schema.deliveries

_LEASE = timedelta(minutes=1)
"""The time for which a process owns a delivery that it took; longer than any try takes."""


@dataclass(frozen=True)
class Delivery:
    """A due delivery. `tries` counts the tries begun, including this one."""

    id: int
    application_id: str
    url: str
    body: dict[str, Any]
    tries: int

    @property
    def instance(self) -> str:
        """The instance of the application that it reports."""
        return str(self.body["data"]["instance"])


def put(connection: sa.Connection, owner: str, application: Application, *, before: State | None, at: datetime) -> None:
    body = _body(application, before, at)
    for url in application.spec.webhooks:
        connection.execute(
            _deliveries.insert().values(
                engine=owner, application_id=application.id, url=url, body=body, tries=0, due_at=at
            )
        )


def _body(application: Application, before: State | None, at: datetime) -> dict[str, Any]:
    return {
        "type": "application.state",
        "timestamp": at.isoformat(),
        "data": {
            "id": application.id,
            "name": application.spec.name,
            "instance": application.spec.instance,
            "tags": list(application.spec.tags),
            "state": application.state.value,
            "previous_state": before.value if before else None,
            "attempt": application.attempt,
            "reason": asdict(application.reason) if application.reason else None,
            "exit_code": application.exit_code,
        },
    }


class Outbox:
    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._mine = _deliveries.c.engine == owner

    def take(self, at: datetime, *, limit: int, without: Collection[str] = ()) -> Sequence[Delivery]:
        """Take due deliveries, oldest first, each for one process only, whose lease on it ends after a minute.

        Deliveries of the instances in `without` are skipped.
        """
        due = (
            sa.select(_deliveries.c.id)
            .where(self._mine, _deliveries.c.due_at <= at)
            .where(_deliveries.c.body["data"]["instance"].astext.not_in(list(without)))
            .order_by(_deliveries.c.due_at, _deliveries.c.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        with self._engine.begin() as connection:
            rows = connection.execute(
                _deliveries.update()
                .where(_deliveries.c.id.in_(due.scalar_subquery()))
                .values(due_at=at + _LEASE, tries=_deliveries.c.tries + 1)
                .returning(_deliveries)
            ).all()
        return [
            Delivery(row.id, row.application_id, row.url, row.body, row.tries)
            for row in sorted(rows, key=lambda row: row.id)
        ]

    def delivered(self, delivery: Delivery, at: datetime) -> None:
        self._set(delivery, delivered_at=at, due_at=None, problem=None)

    def failed(self, delivery: Delivery, problem: str, *, again_at: datetime | None) -> None:
        """Record a failed try. `again_at` is None where no further try follows."""
        self._set(delivery, due_at=again_at, problem=problem)

    def _set(self, delivery: Delivery, **values: Any) -> None:
        with self._engine.begin() as connection:
            connection.execute(_deliveries.update().where(_deliveries.c.id == delivery.id).values(**values))
