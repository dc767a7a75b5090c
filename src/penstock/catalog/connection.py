"""Connections to PostgreSQL: address, timeouts, keepalives and the pool, for both ends of a connection.

A claim on an application is a lock that ends with its connection, so the server has to detect the loss of a client's
machine: TCP alone takes 15 minutes with data in flight, and two hours without. The client has to detect a lost server
as well, or it would wait as long for an answer. Connections are pooled: the mutual authentication of a new one costs
both sides milliseconds.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import psycopg
import sqlalchemy as sa
from psycopg import Connection, sql
from sqlalchemy import URL
from sqlalchemy.pool import ConnectionPoolEntry

from penstock.errors import InvalidInput
from penstock.formats import url_host


@dataclass(frozen=True)
class Liveness:
    """The detection of a lost peer. All figures but `probes` are in seconds."""

    connect_seconds: int = 10
    idle_seconds: int = 10
    """The time without a packet until the first probe."""
    interval_seconds: int = 5
    probes: int = 3
    """The number of unanswered probes after which the connection is lost."""

    @property
    def lost_after_milliseconds(self) -> int:
        return 1000 * (self.idle_seconds + self.interval_seconds * self.probes)

    def client(self) -> dict[str, int]:
        """Return the parameters for libpq."""
        return {
            "connect_timeout": self.connect_seconds,
            "keepalives": 1,
            "keepalives_idle": self.idle_seconds,
            "keepalives_interval": self.interval_seconds,
            "keepalives_count": self.probes,
            "tcp_user_timeout": self.lost_after_milliseconds,
        }

    def server(self) -> dict[str, str]:
        """Return the settings for a PostgreSQL server, or for one of its sessions."""
        return {
            "tcp_keepalives_idle": str(self.idle_seconds),
            "tcp_keepalives_interval": str(self.interval_seconds),
            "tcp_keepalives_count": str(self.probes),
            "tcp_user_timeout": str(self.lost_after_milliseconds),
        }


LIVENESS = Liveness()
"""The defaults detect a lost machine within 25 s."""


def connect(address: str = "", *, password: str, liveness: Liveness = LIVENESS, **parameters: Any) -> Connection:
    """Open a connection in autocommit mode, for immediate use. Raises `psycopg.OperationalError`."""
    return psycopg.connect(address, password=password, autocommit=True, **{**liveness.client(), **parameters})


def detect_lost_client(connection: Connection, liveness: Liveness = LIVENESS) -> None:
    """Have the server end this session when the client's machine is lost: for connections that hold locks.

    It costs one round trip. A server or pooler that does not know the settings keeps its own.
    """
    calls = sql.SQL(", ").join(
        sql.SQL("set_config({}, {}, false)").format(name, value) for name, value in liveness.server().items()
    )
    before = connection.autocommit
    connection.autocommit = True
    try:
        with contextlib.suppress(psycopg.DatabaseError):
            connection.execute(sql.SQL("SELECT ") + calls)
    finally:
        if not connection.broken:
            connection.autocommit = before


DATABASE_VARIABLE = "PENSTOCK_DATABASE_URL"
CATALOG_VARIABLE = "PENSTOCK_CATALOG_DATABASE_URL"

# Options with the same name and meaning in libpq and the JDBC driver.
_OPTIONS = frozenset({"sslmode", "sslrootcert"})


@dataclass(frozen=True)
class DatabaseUrl:
    """The address and login of one database. `repr` and `str` never show the password."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    dbname: str = "postgres"
    options: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def parse(text: str, *, variable: str = DATABASE_VARIABLE) -> DatabaseUrl:
        """Parse `postgresql://user:password@host[:port][/dbname][?sslmode=…]`, with percent-encoded parts.

        Raises `InvalidInput`, which names the environment variable and never repeats the text: it may contain a
        password.
        """
        try:
            parts = urlsplit(text)
            port = parts.port or 5432
        except ValueError as error:
            raise _unusable(variable, str(error)) from None
        if parts.scheme not in ("postgresql", "postgres"):
            raise _unusable(variable, "it does not begin with postgresql://")
        if not parts.hostname or not parts.username:
            raise _unusable(variable, "the host or the user is missing")
        # Like libpq: only %20 is a space, and a plus sign is literal.
        options = tuple(parse_qsl(parts.query.replace("+", "%2B")))
        if unknown := sorted(name for name, _ in options if name not in _OPTIONS):
            raise _unusable(variable, f"the option {unknown[0]} is not one of {', '.join(sorted(_OPTIONS))}")
        return DatabaseUrl(
            host=parts.hostname,
            port=port,
            user=unquote(parts.username),
            password=unquote(parts.password or ""),
            dbname=unquote(parts.path.removeprefix("/")) or "postgres",
            options=options,
        )

    def with_database(self, dbname: str) -> DatabaseUrl:
        return replace(self, dbname=dbname)

    def jdbc(self, **more: str) -> str:
        """Return the JDBC address, without user and password."""
        query = urlencode([*self.options, *more.items()], quote_via=quote)
        return f"jdbc:postgresql://{self._server()}/{quote(self.dbname)}" + (f"?{query}" if query else "")

    def libpq(self) -> str:
        """Return the libpq address, without the password."""
        query = f"?{urlencode(self.options, quote_via=quote)}" if self.options else ""
        return f"postgresql://{quote(self.user, safe='')}@{self._server()}/{quote(self.dbname)}{query}"

    def sqlalchemy(self) -> URL:
        """Return the address for `create_engine`; its `str` masks the password."""
        return URL.create(
            "postgresql+psycopg",
            username=self.user,
            password=self.password,
            host=self.host,
            port=self.port,
            database=self.dbname,
            query=dict(self.options),
        )

    def _server(self) -> str:
        return f"{url_host(self.host)}:{self.port}"

    def __str__(self) -> str:
        """Return the address without the password."""
        return f"postgresql://{self.user}@{self._server()}/{self.dbname}"


def _unusable(variable: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{variable} cannot be used",
        why=why,
        fix="write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=require, with special characters as %XX",
    )


_MOST = 5
"""The connections of one process: a supervisor uses one or two, a service all of them."""

_SURELY_ALIVE_SECONDS = 1.0
_USED = "used"


def create_pooled_engine(address: Callable[[], sa.URL], *, liveness: Liveness = LIVENESS) -> sa.Engine:
    """Return an engine that survives a restart of the server, even at another address.

    An idle connection is tested before its use, except within a second of its last one: a test costs as much as most
    queries. Where the server is lost within that second, the first query raises the error of a server that is lost
    during a query. Both ends detect the loss of the other's machine by `liveness`.
    """
    engine = sa.create_engine(address(), pool_size=_MOST, max_overflow=0, pool_use_lifo=True)

    def connect_to_address(dialect: sa.Dialect, _: Any, __: Any, parameters: dict[str, Any]) -> None:
        parameters.update({**liveness.client(), **dialect.create_connect_args(address())[1]})

    def connected(connection: Any, _: ConnectionPoolEntry) -> None:
        detect_lost_client(connection, liveness)

    def used(_: Any, entry: ConnectionPoolEntry) -> None:
        entry.info[_USED] = time.monotonic()

    def checked(connection: Any, entry: ConnectionPoolEntry, _: Any) -> None:
        if time.monotonic() - entry.info[_USED] < _SURELY_ALIVE_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            # This discards the whole pool: its other connections are as old.
            raise sa.exc.InvalidatePoolError from error

    def failed(context: sa.engine.ExceptionContext) -> None:
        cause = context.original_exception
        # Its class is that of the server's own defects, but the server has ended a connection, as at any other loss.
        if isinstance(cause, psycopg.errors.IdleInTransactionSessionTimeout):
            context.is_disconnect = True
            raise sa.exc.OperationalError(context.statement, context.parameters, cause) from cause

    sa.event.listen(engine, "do_connect", connect_to_address)
    sa.event.listen(engine, "handle_error", failed)
    sa.event.listen(engine, "connect", connected)
    sa.event.listen(engine, "connect", used)
    sa.event.listen(engine, "checkin", used)
    sa.event.listen(engine, "checkout", checked)
    return engine


def autocommit_engine(engine: sa.Engine) -> sa.Engine:
    """Return an engine for single queries that change nothing, on the same pool, without transactions."""
    return engine.execution_options(isolation_level="AUTOCOMMIT")
