"""The driver of an interactive session: a Spark Connect server that ends itself when nobody has used it for a while.

Runs on a cluster of its own with pyspark and the standard library alone: `connectserver.py --idle-seconds N`. Where it
listens, and the token it asks for, go into the file `$PENSTOCK_SESSION_FILE` names, among the cluster's private ones.
The token is made here, so that no argument, setting of the records, or log ever had it.
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
    """For how long nobody wanted anything. Times are seconds of one clock."""

    last_used: float

    def seconds(self, now: float, *, busy: bool, last_request: float | None) -> float:
        """`busy`: work is under way, so this very moment counts as used. `last_request`: None where there was none."""
        self.last_used = max(self.last_used, now if busy else 0.0, last_request or 0.0)
        return now - self.last_used


class Server:
    """Spark's own Connect service in this driver, with what it knows of its use."""

    def __init__(self, token: str, idle_seconds: float) -> None:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession

        conf = (
            SparkConf()
            .set("spark.connect.grpc.binding.address", "127.0.0.1")
            .set("spark.connect.grpc.binding.port", "0")
            # Spark redacts it wherever it shows settings.
            .set("spark.connect.authenticate.token", token)
            # Temporary views of a client that pauses last as long as the cluster does.
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
        """Jobs run, or a client waits for an answer.

        Spark lists executions as active for minutes after their client has gone, and streams have none, only jobs.
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
        # Before the context: what it keeps running would keep the driver's JVM from ending.
        none = self._spark.sparkContext._jvm.scala.Option.empty()  # type: ignore[union-attr]
        self._service.stop(none, none)
        self._spark.stop()


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.size()))


def publish(file: Path, *, port: int, token: str) -> None:
    """Whole or not at all: whoever finds the file can connect."""
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
    print(f"nobody used this session for {limit:g} s")
    server.stop()


if __name__ == "__main__":
    main()
