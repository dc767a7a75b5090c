"""Retention periods, and the pruning of rows and uploads by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from penstock.catalog.connection import autocommit_engine
from penstock.engine.repository import schema
from penstock.errors import InvalidInput

LEAST_AUDIT = timedelta(days=30)
"""The minimum age that the database itself enforces for the removal of an audit entry."""


@dataclass(frozen=True)
class Retention:
    """Retention periods, counted from an application's end or, for the audit, from the entry's time.

    All rows of a running application are kept, as are the record, summary and logs of an ended one.
    """

    events: timedelta = timedelta(days=180)
    deliveries: timedelta = timedelta(days=30)
    """Finished webhook deliveries."""
    audit: timedelta = timedelta(days=400)
    unused: timedelta = timedelta(days=7)
    """Uploads that no application names, and credential-scoped lakes whose applications have all ended."""


@dataclass(frozen=True)
class Pruned:
    """Numbers of removed rows."""

    events: int = 0
    deliveries: int = 0
    audit: int = 0


def validate(retention: Retention) -> Retention:
    """Raises `InvalidInput` where the audit period is below the minimum that the database enforces."""
    if retention.audit < LEAST_AUDIT:
        raise InvalidInput(
            f"The audit is kept for at least {LEAST_AUDIT.days} days",
            why="the database refuses to remove younger entries, so that an intruder cannot erase the traces",
            fix=f"--keep-audit {LEAST_AUDIT.days}d, or more",
        )
    return retention


_AT_ONCE = 5000
"""Rows per transaction, few enough that its locks are short."""

_table, _events, _deliveries, _audit = schema.applications, schema.events, schema.deliveries, schema.audit


class Pruner:
    """The pruning of one engine's rows (`owner` names the engine). Any number of processes may prune at once."""

    def __init__(self, engine: sa.Engine, owner: str) -> None:
        self._engine = engine
        self._reading = autocommit_engine(engine)
        self._owner = owner

    def prune(self, retention: Retention, at: datetime) -> Pruned:
        """Remove rows past their retention period, except those of running applications and deliveries still due.

        Raises `InvalidInput` where the audit period is below the minimum that the database enforces.
        """
        validate(retention)
        finished = sa.and_(self._ended(_deliveries, at - retention.deliveries), _deliveries.c.due_at.is_(None))
        old = sa.and_(_audit.c.engine == self._owner, _audit.c.at < at - retention.audit)
        return Pruned(
            events=self._remove(_events, self._ended(_events, at - retention.events)),
            deliveries=self._remove(_deliveries, finished),
            audit=self._remove(_audit, old),
        )

    def referenced_uploads(self, pattern: str) -> set[str]:
        """All matches of a PostgreSQL regular expression in the specifications of all applications."""
        text = sa.cast(_table.c.spec, sa.Text)
        found = sa.select(sa.func.regexp_matches(text, pattern, "g").label("match")).where(
            _table.c.engine == self._owner
        )
        with self._reading.connect() as connection:
            return {match[0] for match in connection.execute(found).scalars()}

    def lakes_in_use(self, since: datetime) -> set[str]:
        """Lakes of applications that have not ended or ended since `since`.

        They are those of every engine in the database, since engines may share lakes.
        """
        used = sa.or_(_table.c.ended_at.is_(None), _table.c.ended_at >= since, _table.c.cluster.is_not(None))
        query = sa.select(_table.c.spec["lake"].astext).where(used).distinct()
        with self._reading.connect() as connection:
            return {name for name in connection.execute(query).scalars() if name is not None}

    def attributes(self) -> list[Mapping[str, Any]]:
        """The attributes of the instances of every engine in the database."""
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
