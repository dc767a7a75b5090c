"""Who supervises an application: whoever holds a session-level advisory lock on it.

The lock ends with the connection, however the process ends: there is no lease to expire and no heart-beat to miss.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from penstock.errors import Superseded

CHANNEL = "penstock"
"""Every change of the records is notified on it."""

# A lock as pg_locks shows it: the 64 bits of the key in two halves. Read once for a query, not once for each row.
_HELD = (
    "(SELECT (l.classid::bigint << 32) | l.objid::bigint FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted"
    " AND l.objsubid = 1 AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)

SUPERVISED: sa.ColumnElement[bool] = sa.literal_column(
    f"(hashtextextended(applications.id, 0) IN {_HELD})",
    sa.Boolean(),
)
"""A condition on a row of `applications`."""

_DISPATCHER = "dispatcher of "


def dispatched_by_somebody(owner: str) -> sa.ColumnElement[bool]:
    """Whether a dispatcher of that engine lives."""
    return sa.func.hashtextextended(_DISPATCHER + owner, 0).in_(sa.text(_HELD))


class Claim:
    """The right to supervise one application, for as long as the connection lives."""

    def __init__(self, connection: sa.Connection, application_id: str) -> None:
        self._driver: Any = connection.connection.dbapi_connection
        self._application_id = application_id

    def wait(self, seconds: float) -> bool:
        """Until something changed of this application in the records (True), or the time is over.

        Changes of others cost next to nothing: a hundred supervisors do not look up for each of them.
        """
        with contextlib.closing(self._driver.notifies(timeout=seconds)) as notices:
            return any(notice.payload == self._application_id for notice in notices)

    def wait_for_any(self, seconds: float) -> bool:
        """Until anything changed in the records (True), or the time is over."""
        return any(True for _ in self._driver.notifies(timeout=seconds, stop_after=1))


@contextlib.contextmanager
def claimed(engine: sa.Engine, application_id: str, *, wait_seconds: float) -> Iterator[Claim]:
    """Supervise the application within; `Superseded` where another process does for longer than `wait_seconds`."""
    with _own_connection(engine) as connection:
        deadline = time.monotonic() + wait_seconds
        lock = sa.select(sa.func.pg_try_advisory_lock(sa.func.hashtextextended(application_id, 0)))
        while not connection.execute(lock).scalar():
            if time.monotonic() >= deadline:
                raise Superseded(
                    f"Another process looks after {application_id}",
                    fix=f"penstock show {application_id}; penstock stop {application_id}",
                )
            time.sleep(0.05)
        connection.execute(sa.text(f"LISTEN {CHANNEL}"))
        yield Claim(connection, application_id)


class Changes:
    """The ids of applications that changed, as they change, of all engines on the database."""

    def __init__(self, connection: sa.Connection) -> None:
        self._driver: Any = connection.connection.dbapi_connection

    def wait(self, seconds: float) -> set[str]:
        """Those that changed since the last call; empty where none did for so long."""
        first = {notice.payload for notice in self._driver.notifies(timeout=seconds, stop_after=1)}
        return first | {notice.payload for notice in self._driver.notifies(timeout=0)} if first else first


@contextlib.contextmanager
def listening(engine: sa.Engine, *, dispatching_for: str | None = None) -> Iterator[Changes]:
    """Hear of changes within; what changed before is not told. One connection, however many are interested.

    `dispatching_for` also says to every process on the database that this one starts what waits in that engine.
    """
    with _own_connection(engine) as connection:
        if dispatching_for is not None:
            key = sa.func.hashtextextended(_DISPATCHER + dispatching_for, 0)
            connection.execute(sa.select(sa.func.pg_advisory_lock_shared(key)))
        connection.execute(sa.text(f"LISTEN {CHANNEL}"))
        yield Changes(connection)


@contextlib.contextmanager
def _own_connection(engine: sa.Engine) -> Iterator[sa.Connection]:
    """One outside the pool: what is bound to it (locks, notifications) ends with the block."""
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    try:
        connection.detach()
        yield connection
    finally:
        with contextlib.suppress(sa.exc.SQLAlchemyError):
            connection.close()
