"""Retention periods, and the rows and uploads that pruning may remove by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from penstock.catalog.connection import reading
from penstock.engine.repository import schema
from penstock.errors import InvalidInput

LEAST_AUDIT = timedelta(days=30)
"""The database itself removes no younger entry, whoever asks."""


@dataclass(frozen=True)
class Retention:
    """Counted from an application's end, for the audit from what it tells of. Of what has not ended all is kept, and of
    what has, its record, summary and logs."""

    events: timedelta = timedelta(days=180)
    deliveries: timedelta = timedelta(days=30)
    """What webhooks were told."""
    audit: timedelta = timedelta(days=400)
    unused: timedelta = timedelta(days=7)
    """Uploads no application names, and lakes that were made for keys of applications which have all ended."""


@dataclass(frozen=True)
class Pruned:
    """How many rows were removed."""

    events: int = 0
    deliveries: int = 0
    audit: int = 0


def checked(retention: Retention) -> Retention:
    """Raises `InvalidInput` where the audit would be kept for less than the database insists on."""
    if retention.audit < LEAST_AUDIT:
        raise InvalidInput(
            f"The audit is kept for {LEAST_AUDIT.days} days at least",
            why="the database refuses to remove younger entries: who has broken in cannot tidy up behind himself",
            fix=f"--keep-audit {LEAST_AUDIT.days}d, or more",
        )
    return retention


_AT_ONCE = 5000
"""Rows of one transaction: nobody waits long for what it holds."""

_table, _events, _deliveries, _audit = schema.applications, schema.events, schema.deliveries, schema.audit


class Upkeep:
    """Of one engine; see `Records` for `owner`. Any number of processes may be at it at once."""

    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._reading = reading(engine)
        self._owner = owner

    def prune(self, retention: Retention, at: datetime) -> Pruned:
        """Remove what is older than it has to be. Nothing of an application that has not ended is ever removed, nor a
        notice that is still to be delivered."""
        told = sa.and_(self._ended(_deliveries, at - retention.deliveries), _deliveries.c.due_at.is_(None))
        old = sa.and_(_audit.c.engine == self._owner, _audit.c.at < at - retention.audit)
        return Pruned(
            events=self._remove(_events, self._ended(_events, at - retention.events)),
            deliveries=self._remove(_deliveries, told),
            audit=self._remove(_audit, old),
        )

    def mentioned(self, pattern: str) -> set[str]:
        """What in the specifications of all applications matches a PostgreSQL regular expression."""
        text = sa.cast(_table.c.spec, sa.Text)
        found = sa.select(sa.func.regexp_matches(text, pattern, "g").label("match")).where(
            _table.c.engine == self._owner
        )
        with self._reading.connect() as connection:
            return {match[0] for match in connection.execute(found).scalars()}

    def lakes_in_use(self, since: datetime) -> set[str]:
        """Of applications that have not ended, or not before `since`; of every engine of the database, since they may
        share lakes."""
        used = sa.or_(_table.c.ended_at.is_(None), _table.c.ended_at >= since, _table.c.cluster.is_not(None))
        query = sa.select(_table.c.spec["lake"].astext).where(used).distinct()
        with self._reading.connect() as connection:
            return {name for name in connection.execute(query).scalars() if name is not None}

    def attributes(self) -> list[Mapping[str, Any]]:
        """What faces keep with the instances of every engine of the database."""
        with self._reading.connect() as connection:
            return list(connection.execute(sa.select(schema.instances.c.attributes)).scalars())

    def _ended(self, table: sa.Table, before: datetime) -> sa.ColumnElement[bool]:
        ended = sa.select(_table.c.id).where(
            _table.c.engine == self._owner, _table.c.ended_at < before, _table.c.cluster.is_(None)
        )
        return table.c.application_id.in_(ended)

    def _remove(self, table: sa.Table, condition: sa.ColumnElement[bool]) -> int:
        removed = 0
        some = sa.select(table.c.id).where(condition).limit(_AT_ONCE)
        while True:
            with self._engine.begin() as connection:
                count = connection.execute(table.delete().where(table.c.id.in_(some))).rowcount
            removed += count
            if count < _AT_ONCE:
                return removed
