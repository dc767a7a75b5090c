"""Connections to PostgreSQL: address, time-outs, keepalives and the pool, for both ends of a connection.

A claim on an application is a lock that ends with its connection, so the server has to notice a client whose machine is
lost: TCP alone gives it up after 15 minutes where data is under way, and after two hours where none is. The client has
to notice a lost server as well, or it would wait as long for an answer. Connections are kept between uses: making one
costs milliseconds of both sides, which prove a password to each other.
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
from penstock.formats import in_url


@dataclass(frozen=True)
class Liveness:
    """How soon the loss of the other machine is noticed. All but `probes` in seconds."""

    connect_seconds: int = 10
    idle_seconds: int = 10
    """Without a packet, until the first probe."""
    interval_seconds: int = 5
    probes: int = 3
    """Unanswered ones, after which the connection is lost."""

    @property
    def lost_after_milliseconds(self) -> int:
        return 1000 * (self.idle_seconds + self.interval_seconds * self.probes)

    def client(self) -> dict[str, int]:
        """Parameters of libpq."""
        return {
            "connect_timeout": self.connect_seconds,
            "keepalives": 1,
            "keepalives_idle": self.idle_seconds,
            "keepalives_interval": self.interval_seconds,
            "keepalives_count": self.probes,
            "tcp_user_timeout": self.lost_after_milliseconds,
        }

    def server(self) -> dict[str, str]:
        """Settings of a PostgreSQL server, or of one session of it."""
        return {
            "tcp_keepalives_idle": str(self.idle_seconds),
            "tcp_keepalives_interval": str(self.interval_seconds),
            "tcp_keepalives_count": str(self.probes),
            "tcp_user_timeout": str(self.lost_after_milliseconds),
        }


LIVENESS = Liveness()
"""A lost machine is noticed within 25 s."""


def connect(address: str = "", *, password: str, liveness: Liveness = LIVENESS, **parameters: Any) -> Connection:
    """One connection in autocommit mode, for a question that is asked at once. Raises `psycopg.OperationalError`."""
    return psycopg.connect(address, password=password, autocommit=True, **{**liveness.client(), **parameters})


def watch_client(connection: Connection, liveness: Liveness = LIVENESS) -> None:
    """Have the server end this session when the machine at this end is lost: for connections that hold locks.

    One turn between here and the server. A server, or a pooler before it, that does not know the settings has its own.
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


VARIABLE = "PENSTOCK_DATABASE_URL"
CATALOG_VARIABLE = "PENSTOCK_CATALOG_DATABASE_URL"

# What libpq and the JDBC driver call by the same name and mean the same by.
_OPTIONS = frozenset({"sslmode", "sslrootcert"})


@dataclass(frozen=True)
class DatabaseUrl:
    """One database of one server. `repr` never shows the password."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    dbname: str = "postgres"
    options: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def parse(text: str, *, variable: str = VARIABLE) -> DatabaseUrl:
        """`postgresql://user:password@host[:port][/dbname][?sslmode=…]`, parts percent-encoded where needed.

        Raises `InvalidInput`, which names the environment variable that said so, and never repeats the text: it may
        hold a password.
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
        # As libpq reads it: only %20 is a space, and a plus sign is one.
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

    def at(self, dbname: str) -> DatabaseUrl:
        return replace(self, dbname=dbname)

    def jdbc(self, **more: str) -> str:
        """The JDBC address, without user and password."""
        query = urlencode([*self.options, *more.items()], quote_via=quote)
        return f"jdbc:postgresql://{self._server()}/{quote(self.dbname)}" + (f"?{query}" if query else "")

    def libpq(self) -> str:
        """The libpq address, without the password."""
        query = f"?{urlencode(self.options, quote_via=quote)}" if self.options else ""
        return f"postgresql://{quote(self.user, safe='')}@{self._server()}/{quote(self.dbname)}{query}"

    def sqlalchemy(self) -> URL:
        """For `create_engine`; shown with the password masked."""
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
        return f"{in_url(self.host)}:{self.port}"

    def __str__(self) -> str:
        """For people: no password."""
        return f"postgresql://{self.user}@{self._server()}/{self.dbname}"


def _unusable(variable: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{variable} cannot be used",
        why=why,
        fix="write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=require, special characters as %XX",
    )


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
