"""An executor's container: starts Spark's executor by its scheduler's `SPARK_*` variables, and forwards its output.

The output goes to the driver's sidecar in order, each byte once, within a second, so that nothing is lost with the pod.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from penstock.clusters.kubernetes import layout
from penstock.clusters.kubernetes.layout import TOKEN_HEADER
from penstock.clusters.kubernetes.pod.driver import Child, jvm_options
from penstock.lake.settings import AUTHORITIES_FILE
from penstock.model import ProcessSize
from penstock.runtime import jvm
from penstock.units import parse_size

_EVERY_SECONDS = 0.5
_MOST_HELD = 8 << 20
_PIECE = 1 << 20
_INSISTING_SECONDS = 5.0
_TIMEOUT_SECONDS = 5.0


class Shipper:
    """A thread of its own until `close`. A keeper that does not answer costs what is said beyond 8 MiB meanwhile, never
    the executor."""

    def __init__(self, host: str, port: int, executor_id: str, token: str) -> None:
        self._host, self._port = host, port
        self._path = f"/executors/{executor_id}"
        self._headers = {TOKEN_HEADER: token}
        self._held = bytearray()
        self._shipped = 0
        self._lost = 0
        self._changing = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, piece: bytes) -> None:
        with self._changing:
            if len(self._held) + len(piece) > _MOST_HELD:
                self._lost += len(piece)
                return
            if self._lost:
                self._held += f"\n… {self._lost} bytes are missing: the driver did not take them in time …\n".encode()
                self._lost = 0
            self._held += piece

    def tell(self, path: str, body: bytes) -> bool:
        """Whether the keeper took it. Tried for some seconds."""
        deadline = time.monotonic() + _INSISTING_SECONDS
        while not (taken := self._post(path, body)) and time.monotonic() < deadline:
            time.sleep(_EVERY_SECONDS)
        return taken

    def close(self, end: Mapping[str, Any]) -> None:
        """Bring what is left, and how the executor ended; give up after some seconds."""
        self._closing.set()
        self._thread.join(timeout=_INSISTING_SECONDS + _TIMEOUT_SECONDS)
        self._post(f"{self._path}/end", json.dumps(end).encode())

    def _run(self) -> None:
        while not self._closing.wait(_EVERY_SECONDS):
            self._ship()
        deadline = time.monotonic() + _INSISTING_SECONDS
        while not self._ship() and time.monotonic() < deadline:
            time.sleep(_EVERY_SECONDS)

    def _ship(self) -> bool:
        """Whether nothing is left."""
        while True:
            with self._changing:
                piece = bytes(self._held[:_PIECE])
            if not piece:
                return True
            # The keeper knows by the offset what it has already: an answer may be lost.
            if not self._post(f"{self._path}/log?offset={self._shipped}", piece):
                return False
            with self._changing:
                del self._held[: len(piece)]
            self._shipped += len(piece)

    def _post(self, path: str, body: bytes) -> bool:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request("POST", path, body=body, headers=self._headers)
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


_SECRET_VARIABLE = "_SPARK_AUTH_SECRET"  # noqa: S105 - a variable's name: org.apache.spark.SecurityManager
_MAIN = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_MAIN_OF_NODE = "org.apache.spark.penstock.NodeExecutor"


def main() -> None:
    told = os.environ
    driver = urlsplit(told["SPARK_DRIVER_URL"]).hostname or ""
    token = (layout.KEYS / layout.TOKEN).read_text(encoding="ascii")
    shipper = Shipper(driver, layout.KEEPER_PORT, told["SPARK_EXECUTOR_ID"], token)
    node = told.get(layout.NODE_VARIABLE)
    # Before the driver hears of it: where it is not told, tasks know the executor by its address alone.
    known = node is not None and shipper.tell(f"/nodes/{told['SPARK_EXECUTOR_POD_IP']}", node.encode())
    sinks = (shipper.add, partial(os.write, sys.stdout.fileno()))
    # Before it has asked the driver for its settings an executor looks here alone, and not into the file they name.
    # Where it does read that file, it takes its content in base 64 for the secret.
    secret = base64.b64encode((layout.KEYS / layout.AUTHENTICATION).read_bytes()).decode("ascii")
    environment = {**told, _SECRET_VARIABLE: secret}
    child = Child(
        command(told, node if known else None), environment=environment, directory=layout.SCRATCH, out=sinks, err=sinks
    )
    end = child.wait()
    shipper.close(end)
    sys.exit(end["exit_code"])


def command(told: Mapping[str, str], node: str | None) -> list[str]:
    """`node`: the name that the scheduler is to know its place by, where that is not the pod's address."""
    java = jvm.find_java()
    authorities = layout.PRIVATE / AUTHORITIES_FILE
    machine = jvm.Jvm(
        java=java,
        jars=jvm.class_path(unused=jvm.UNUSED_IN_PODS),
        private=layout.PRIVATE,
        scratch=layout.SCRATCH,
        options=(
            *jvm.options(java, authorities if authorities.exists() else None, cache=layout.TEMPORARY),
            *jvm_options(),
            *java_options(told),
        ),
    )
    size = ProcessSize(int(told["SPARK_EXECUTOR_CORES"]), parse_size(told["SPARK_EXECUTOR_MEMORY"], unit="m") or 0)
    arguments = [
        *("--driver-url", told["SPARK_DRIVER_URL"]),
        *("--executor-id", told["SPARK_EXECUTOR_ID"]),
        *("--cores", told["SPARK_EXECUTOR_CORES"]),
        *("--app-id", told["SPARK_APPLICATION_ID"]),
        *("--hostname", told["SPARK_EXECUTOR_POD_IP"]),
        *("--resourceProfileId", told["SPARK_RESOURCE_PROFILE_ID"]),
    ]
    if node is not None:
        main, arguments = _MAIN_OF_NODE, ["--node", node, *arguments]
    else:
        main, arguments = _MAIN, [*arguments, "--podName", told["SPARK_EXECUTOR_POD_NAME"]]
    return jvm.program_command(machine, size=size, main_class=main, arguments=arguments)


def java_options(told: Mapping[str, str]) -> list[str]:
    """Spark numbers them, and quotes none: each variable is one option."""
    numbered = sorted(
        (int(name.removeprefix("SPARK_JAVA_OPT_")), value)
        for name, value in told.items()
        if name.startswith("SPARK_JAVA_OPT_")
    )
    return [option for _, value in numbered for option in ([value] if value.startswith("-D") else shlex.split(value))]


if __name__ == "__main__":
    main()
