"""Who supervises an application: whoever holds a session-level advisory lock on it.

The lock ends with the connection, however the process ends: there is no lease to expire and no heart-beat to miss.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from penstock.errors import StateError

CHANNEL = "penstock"
"""Every change of the records is notified on it."""

# A claim as pg_locks shows it: the 64 bits of the key in two halves.
SUPERVISED: sa.ColumnElement[bool] = sa.literal_column(
    "EXISTS (SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND ((l.classid::bigint << 32) | l.objid::bigint) = hashtextextended(applications.id, 0))",
    sa.Boolean(),
)
"""A condition on a row of `applications`."""


class Claim:
    """The right to supervise one application, for as long as the connection lives."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def wait(self, seconds: float) -> bool:
        """Until something changed in the records (True), or the time is over."""
        driver: Any = self._connection.connection.dbapi_connection
        return any(True for _ in driver.notifies(timeout=seconds, stop_after=1))


@contextlib.contextmanager
def claimed(engine: sa.Engine, application_id: str, *, wait_seconds: float) -> Iterator[Claim]:
    """Supervise the application within; `StateError` where another process does for longer than `wait_seconds`."""
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    try:
        connection.detach()
        deadline = time.monotonic() + wait_seconds
        lock = sa.select(sa.func.pg_try_advisory_lock(sa.func.hashtextextended(application_id, 0)))
        while not connection.execute(lock).scalar():
            if time.monotonic() >= deadline:
                raise StateError(
                    f"Another process looks after {application_id}",
                    fix=f"penstock show {application_id}; penstock stop {application_id}",
                )
            time.sleep(0.05)
        connection.execute(sa.text(f"LISTEN {CHANNEL}"))
        yield Claim(connection)
    finally:
        with contextlib.suppress(sa.exc.SQLAlchemyError):
            connection.close()
