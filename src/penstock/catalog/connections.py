"""How Penstock connects to PostgreSQL: the one home of time-outs and keepalives, for both ends of a connection.

A claim on an application is a lock that ends with its connection, so the server has to notice a client whose machine is
lost: TCP alone gives it up after 15 minutes where data is under way, and after two hours where none is. The client has
to notice a lost server as well, or it would wait as long for an answer.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import Connection, sql


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
