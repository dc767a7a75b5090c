"""The driver of an interactive session: a Spark Connect server that ends itself after an idle time.

It runs on its own cluster, with pyspark and the standard library alone: `connect_server.py --idle-seconds N`. It writes
its port and the required token into `$PENSTOCK_SESSION_FILE`, one of the cluster's private files. The token is
generated here, so that it never appears in an argument, a recorded setting or a log.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import secrets
import time
from collections.abc import Iterator
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


class Server:
    """Spark's own Connect service in this driver, with its record of use."""

    def __init__(self, token: str, idle_seconds: float) -> None:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession

        conf = (
            SparkConf()
            .set("spark.connect.grpc.binding.address", "127.0.0.1")
            .set("spark.connect.grpc.binding.port", "0")
            # Spark redacts this key wherever it shows settings.
            .set("spark.connect.authenticate.token", token)
            # The temporary views of a pausing client last as long as the cluster.
            .set("spark.connect.session.manager.defaultSessionTimeout", f"{math.ceil(idle_seconds) + 3600}s")
        )
        self._spark = SparkSession.builder.config(conf=conf).getOrCreate()
        java: Any = self._spark.sparkContext._jvm
        package = java.org.apache.spark.sql.connect.service
        self._service: Any = getattr(getattr(package, "SparkConnectService$"), "MODULE$")
        self._context: Any = self._spark.sparkContext._jsc.sc()
        self._service.start(self._context)

    @property
    def port(self) -> int:
        return int(self._service.localPort())

    def busy(self) -> bool:
        """Return whether jobs run, or a client waits for a response.

        Both are checked, since Spark lists executions as active for minutes after their client has left, and streams
        have only jobs.
        """
        if len(self._context.statusTracker().getActiveJobIds()):
            return True
        executions = self._service.listActiveExecutions()
        return bool(executions.isRight()) and any(
            execution.lastAttachedRpcTimeNs().isEmpty() for execution in _items(executions.toOption().get())
        )

    def last_request(self) -> float | None:
        sessions = self._service.sessionManager().listActiveSessions()
        times = [session.lastAccessTimeMs() for session in _items(sessions)]
        return max(times) / 1000 if times else None

    def stop(self) -> None:
        # Before the context, since the service's threads would keep the driver's JVM from ending.
        none = self._spark.sparkContext._jvm.scala.Option.empty()  # type: ignore[union-attr]
        self._service.stop(none, none)
        self._spark.stop()


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
    parser.add_argument("--idle-seconds", type=float, required=True)
    limit = parser.parse_args().idle_seconds
    token = secrets.token_urlsafe(32)
    server = Server(token, limit)
    publish(Path(os.environ[FILE_VARIABLE]), port=server.port, token=token)
    idleness = Idleness(time.time())
    while idleness.seconds(time.time(), busy=server.busy(), last_request=server.last_request()) < limit:
        time.sleep(min(_LOOK_SECONDS, limit))
    print(f"the session ends after {limit:g} s without use")
    server.stop()


if __name__ == "__main__":
    main()
