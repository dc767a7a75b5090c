"""The driver of an interactive session: a server of Spark Connect or JDBC that ends itself after an idle time.

It runs on its own cluster, with pyspark and the standard library alone: `session_server.py --protocol connect
--idle-seconds N`. It writes its port and the required token into `$PENSTOCK_SESSION_FILE`, one of the cluster's private
files. The token is generated here, so that it never appears in an argument, a recorded setting or a log.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE_VARIABLE = "PENSTOCK_SESSION_FILE"

_LOOK_SECONDS = 1.0


@dataclass
class Idleness:
    """The idle time of a session. Times are seconds of one clock."""

    last_used: float

    def seconds(self, now: float, *, busy: bool, last_request: float | None) -> float:
        """The idle time at `now`. `busy` counts this moment as used; `last_request` is None where there was none."""
        self.last_used = max(self.last_used, now if busy else 0.0, last_request or 0.0)
        return now - self.last_used


class Server(ABC):
    """A server in this driver, with its record of use."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession

        conf = SparkConf().setAll(list(settings.items()))
        self._spark = SparkSession.builder.config(conf=conf).getOrCreate()
        self._java: Any = self._spark.sparkContext._jvm
        self._context: Any = self._spark.sparkContext._jsc.sc()

    @property
    @abstractmethod
    def port(self) -> int: ...

    @abstractmethod
    def serves(self) -> bool:
        """Return whether a client waits for a response."""

    @abstractmethod
    def last_request(self) -> float | None:
        """The time of the last request, in seconds since 1970; None where there was none, or its client has left."""

    @abstractmethod
    def close(self) -> None:
        """End the server's threads, which would keep the driver's JVM from ending."""

    def busy(self) -> bool:
        """Return whether jobs run, or a client waits for a response; streams have only jobs."""
        return bool(len(self._context.statusTracker().getActiveJobIds())) or self.serves()

    def stop(self) -> None:
        self.close()
        self._spark.stop()


class ConnectServer(Server):
    """Spark's own Connect service."""

    def __init__(self, token: str, idle_seconds: float) -> None:
        super().__init__(
            {
                "spark.connect.grpc.binding.address": "127.0.0.1",
                "spark.connect.grpc.binding.port": "0",
                # Spark redacts this key wherever it shows settings.
                "spark.connect.authenticate.token": token,
                # The temporary views of a pausing client last as long as the cluster.
                "spark.connect.session.manager.defaultSessionTimeout": f"{math.ceil(idle_seconds) + 3600}s",
            }
        )
        package = self._java.org.apache.spark.sql.connect.service
        self._service: Any = getattr(getattr(package, "SparkConnectService$"), "MODULE$")
        self._service.start(self._context)

    @property
    def port(self) -> int:
        return int(self._service.localPort())

    def serves(self) -> bool:
        # Spark lists executions as active for minutes after their client has left.
        executions = self._service.listActiveExecutions()
        return bool(executions.isRight()) and any(
            execution.lastAttachedRpcTimeNs().isEmpty() for execution in _items(executions.toOption().get())
        )

    def last_request(self) -> float | None:
        sessions = self._service.sessionManager().listActiveSessions()
        times = [session.lastAccessTimeMs() for session in _items(sessions)]
        return max(times) / 1000 if times else None

    def close(self) -> None:
        none = self._java.scala.Option.empty()
        self._service.stop(none, none)


class JdbcServer(Server):
    """Spark's Thrift server; `io.penstock.sql.JdbcServer` lets those in who know the token."""

    def __init__(self, token: str, idle_seconds: float) -> None:  # noqa: ARG002 - connections end with their clients
        super().__init__({})
        self._server = self._java.io.penstock.sql.JdbcServer(self._spark._jsparkSession, token)

    @property
    def port(self) -> int:
        return int(self._server.port())

    def serves(self) -> bool:
        return bool(self._server.busy())

    def last_request(self) -> float | None:
        return int(self._server.lastRequestMs()) / 1000 or None

    def close(self) -> None:
        self._server.stop()


SERVERS = {"connect": ConnectServer, "jdbc": JdbcServer}


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.size()))


def publish(file: Path, *, port: int, token: str) -> None:
    """Write the session file atomically, so that a client that finds it can connect."""
    temporary = file.with_name(f".{file.name}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as out:
        json.dump({"port": port, "token": token}, out)
    temporary.replace(file)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--protocol", choices=sorted(SERVERS), required=True)
    parser.add_argument("--idle-seconds", type=float, required=True)
    options = parser.parse_args()
    limit, token = options.idle_seconds, secrets.token_urlsafe(32)
    server = SERVERS[options.protocol](token, limit)
    publish(Path(os.environ[FILE_VARIABLE]), port=server.port, token=token)
    idleness = Idleness(time.time())
    while idleness.seconds(time.time(), busy=server.busy(), last_request=server.last_request()) < limit:
        time.sleep(min(_LOOK_SECONDS, limit))
    print(f"the session ends after {limit:g} s without use")
    server.stop()


if __name__ == "__main__":
    main()
