"""What webhooks are still to be told, kept in the transaction of the change itself: no change is told that did not
happen, and none that happened is forgotten by a killed engine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from penstock.engine import schema
from penstock.engine.application import Application, State

_table = schema.deliveries

_LEASE = timedelta(minutes=1)
"""For so long nobody else tries what somebody took; longer than any try takes."""


@dataclass(frozen=True)
class Delivery:
    """`tries` counts those begun, this one included."""

    id: int
    application_id: str
    url: str
    body: dict[str, Any]
    tries: int

    @property
    def instance(self) -> str:
        """Whose application it tells of."""
        return str(self.body["data"]["instance"])


def put(connection: sa.Connection, owner: str, application: Application, *, before: State | None, at: datetime) -> None:
    body = _body(application, before, at)
    for url in application.spec.webhooks:
        connection.execute(
            _table.insert().values(engine=owner, application_id=application.id, url=url, body=body, tries=0, due_at=at)
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
        self._mine = _table.c.engine == owner

    def take(self, at: datetime, *, limit: int, without: Collection[str] = ()) -> Sequence[Delivery]:
        """Returns due deliveries, oldest first, each to one taker only; a taker that does not come back loses it.

        Nothing of the instances `without` is taken.
        """
        due = (
            sa.select(_table.c.id)
            .where(self._mine, _table.c.due_at <= at)
            .where(_table.c.body["data"]["instance"].astext.not_in(list(without)))
            .order_by(_table.c.due_at, _table.c.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        with self._engine.begin() as connection:
            rows = connection.execute(
                _table.update()
                .where(_table.c.id.in_(due.scalar_subquery()))
                .values(due_at=at + _LEASE, tries=_table.c.tries + 1)
                .returning(_table)
            ).all()
        return [
            Delivery(row.id, row.application_id, row.url, row.body, row.tries)
            for row in sorted(rows, key=lambda row: row.id)
        ]

    def delivered(self, delivery: Delivery, at: datetime) -> None:
        self._set(delivery, delivered_at=at, due_at=None, problem=None)

    def failed(self, delivery: Delivery, problem: str, *, again_at: datetime | None) -> None:
        """`again_at` is None where nobody shall try any more."""
        self._set(delivery, due_at=again_at, problem=problem)

    def of(self, application_id: str) -> list[dict[str, Any]]:
        """What was told of an application to whom, oldest first, and what is still to be told."""
        query = _table.select().where(_table.c.application_id == application_id).order_by(_table.c.id)
        with self._engine.connect() as connection:
            return [
                {
                    "id": row.id,
                    "url": row.url,
                    "state": row.body["data"]["state"],
                    "tries": row.tries,
                    "due_at": row.due_at,
                    "delivered_at": row.delivered_at,
                    "problem": row.problem,
                }
                for row in connection.execute(query)
            ]

    def _set(self, delivery: Delivery, **values: Any) -> None:
        with self._engine.begin() as connection:
            connection.execute(_table.update().where(_table.c.id == delivery.id).values(**values))
