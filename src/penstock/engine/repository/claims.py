"""Claims: a supervisor holds a session-level advisory lock on its application.

The lock ends with the connection, however the process ends, so there is no lease to expire and no heartbeat to miss.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from penstock.errors import Superseded

CHANNEL = "penstock"
"""The channel on which every change of the records is notified."""

# pg_locks shows the 64-bit key in two halves. The view is read once per query, not once per row.
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


def has_dispatcher(owner: str) -> sa.ColumnElement[bool]:
    """A condition: a dispatcher of that engine runs."""
    return sa.func.hashtextextended(_DISPATCHER + owner, 0).in_(sa.text(_HELD))


class Claim:
    """The right to supervise one application, for as long as the connection lives."""

    def __init__(self, connection: sa.Connection, application_id: str) -> None:
        self._driver: Any = connection.connection.dbapi_connection
        self._application_id = application_id

    def wait(self, seconds: float) -> bool:
        """Wait for a change of this application; return True, or False when the time is over.

        Changes of other applications are filtered out, so a hundred supervisors do not wake up for each of them.
        """
        with contextlib.closing(self._driver.notifies(timeout=seconds)) as notices:
            return any(notice.payload == self._application_id for notice in notices)

    def wait_for_any(self, seconds: float) -> bool:
        """Wait for any change in the records; return True, or False when the time is over."""
        return any(True for _ in self._driver.notifies(timeout=seconds, stop_after=1))


@contextlib.contextmanager
def claimed(engine: sa.Engine, application_id: str, *, wait_seconds: float) -> Iterator[Claim]:
    """Hold the application's claim within the block.

    Raises `Superseded` where another process holds it for longer than `wait_seconds`.
    """
    with _own_connection(engine) as connection:
        deadline = time.monotonic() + wait_seconds
        lock = sa.select(sa.func.pg_try_advisory_lock(sa.func.hashtextextended(application_id, 0)))
        while not connection.execute(lock).scalar():
            if time.monotonic() >= deadline:
                raise Superseded(
                    f"Another process supervises {application_id}",
                    fix=f"penstock show {application_id}; penstock stop {application_id}",
                )
            time.sleep(0.05)
        connection.execute(sa.text(f"LISTEN {CHANNEL}"))
        yield Claim(connection, application_id)


class Changes:
    """A stream of the ids of changed applications, of all engines in the database."""

    def __init__(self, connection: sa.Connection) -> None:
        self._driver: Any = connection.connection.dbapi_connection

    def wait(self, seconds: float) -> set[str]:
        """Return the ids of the applications that changed since the last call; empty after `seconds` without any."""
        first = {notice.payload for notice in self._driver.notifies(timeout=seconds, stop_after=1)}
        return first | {notice.payload for notice in self._driver.notifies(timeout=0)} if first else first


@contextlib.contextmanager
def listening(engine: sa.Engine, *, dispatching_for: str | None = None) -> Iterator[Changes]:
    """Receive changes within the block, but no earlier ones, over one connection for any number of readers.

    `dispatching_for` also announces this process to the others as a dispatcher of that engine.
    """
    with _own_connection(engine) as connection:
        if dispatching_for is not None:
            key = sa.func.hashtextextended(_DISPATCHER + dispatching_for, 0)
            connection.execute(sa.select(sa.func.pg_advisory_lock_shared(key)))
        connection.execute(sa.text(f"LISTEN {CHANNEL}"))
        yield Changes(connection)


@contextlib.contextmanager
def _own_connection(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A connection outside the pool, whose locks and notifications end with the block.

    The locks are given back before the connection is closed: a server notices a closed connection some time later, and
    the next one who asks would still find the lock held.
    """
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    try:
        connection.detach()
        yield connection
    finally:
        with contextlib.suppress(sa.exc.SQLAlchemyError):
            connection.execute(sa.select(sa.func.pg_advisory_unlock_all()))
        with contextlib.suppress(sa.exc.SQLAlchemyError):
            connection.close()
