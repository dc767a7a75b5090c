"""Connections kept between uses: making one costs milliseconds of both sides, which prove a password to each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import ConnectionPoolEntry

from penstock.catalog.connections import LIVENESS, Liveness, watch_client

_MOST = 5
"""Of one process: an application's has one or two, a service all of them."""

_SURELY_ALIVE_SECONDS = 1.0
_USED = "used"


def pooled(address: Callable[[], sa.URL], *, liveness: Liveness = LIVENESS) -> sa.Engine:
    """An engine that goes on working across a restart of the server, which may have another address then.

    A connection that was idle is asked whether it still lives before it is used; one that was used a moment ago is not,
    since asking would cost as much as most queries do. Where the server went away within that moment, the first query
    raises what it raises when the server goes away during it. Both ends notice the loss of the other's machine as
    `liveness` says.
    """
    engine = sa.create_engine(address(), pool_size=_MOST, max_overflow=0, pool_use_lifo=True)

    def to_where_it_is(dialect: sa.Dialect, _: Any, __: Any, parameters: dict[str, Any]) -> None:
        parameters.update({**liveness.client(), **dialect.create_connect_args(address())[1]})

    def made(connection: Any, _: ConnectionPoolEntry) -> None:
        watch_client(connection, liveness)

    def used(_: Any, entry: ConnectionPoolEntry) -> None:
        entry.info[_USED] = time.monotonic()

    def checked(connection: Any, entry: ConnectionPoolEntry, _: Any) -> None:
        if time.monotonic() - entry.info[_USED] < _SURELY_ALIVE_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            # The pool makes another one; the others in it are as old.
            raise sa.exc.InvalidatePoolError from error

    sa.event.listen(engine, "do_connect", to_where_it_is)
    sa.event.listen(engine, "connect", made)
    sa.event.listen(engine, "connect", used)
    sa.event.listen(engine, "checkin", used)
    sa.event.listen(engine, "checkout", checked)
    return engine


def reading(engine: sa.Engine) -> sa.Engine:
    """The same for single queries that change nothing: over the same connections, without a transaction around each."""
    return engine.execution_options(isolation_level="AUTOCOMMIT")
