"""An executor's container: starts Spark's executor from the scheduler's `SPARK_*` variables, and forwards its output.

The output reaches the driver's sidecar in order, each byte once, within a second, so that nothing is lost with the pod.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import shlex
import sys
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.clusters.kubernetes import layout
from penstock.clusters.kubernetes.layout import TOKEN_HEADER
from penstock.clusters.kubernetes.pod.driver import ChildProcess, jvm_options
from penstock.clusters.kubernetes.pod.scratch import process_environment, working_directory
from penstock.lake.settings import AUTHORITIES_FILE
from penstock.model import ProcessSize
from penstock.runtime import jvm
from penstock.units import parse_size

_EVERY_SECONDS = 0.5
_MAX_BUFFER = 8 << 20
_PIECE = 1 << 20
_RETRY_SECONDS = 5.0
_TIMEOUT_SECONDS = 5.0


class LogForwarder:
    """Forwards output to the driver's sidecar, in a thread until `close`.

    While the sidecar does not answer, output beyond 8 MiB is dropped and counted; the executor never waits.
    """

    def __init__(self, host: str, port: int, executor_id: str, token: str) -> None:
        self._host, self._port = host, port
        self._path = f"/executors/{executor_id}"
        self._headers = {TOKEN_HEADER: token}
        self._buffer = bytearray()
        self._shipped = 0
        self._lost = 0
        self._changing = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def write(self, piece: bytes) -> None:
        with self._changing:
            if len(self._buffer) + len(piece) > _MAX_BUFFER:
                self._lost += len(piece)
                return
            if self._lost:
                notice = f"\n… {self._lost} bytes are missing: the driver's pod did not accept them in time …\n"
                self._buffer += notice.encode()
                self._lost = 0
            self._buffer += piece

    def post(self, path: str, body: bytes) -> bool:
        """Post to the sidecar, with retries for some seconds; return whether the sidecar accepted it."""
        deadline = time.monotonic() + _RETRY_SECONDS
        while not (accepted := self._post(path, body)) and time.monotonic() < deadline:
            time.sleep(_EVERY_SECONDS)
        return accepted

    def close(self, end: Mapping[str, Any]) -> None:
        """Send the rest of the output and the executor's end; give up after some seconds."""
        self._closing.set()
        self._thread.join(timeout=_RETRY_SECONDS + _TIMEOUT_SECONDS)
        self._post(f"{self._path}/end", json.dumps(end).encode())

    def _run(self) -> None:
        while not self._closing.wait(_EVERY_SECONDS):
            self._ship()
        deadline = time.monotonic() + _RETRY_SECONDS
        while not self._ship() and time.monotonic() < deadline:
            time.sleep(_EVERY_SECONDS)

    def _ship(self) -> bool:
        """Send the buffer; return whether it is empty now."""
        while True:
            with self._changing:
                piece = bytes(self._buffer[:_PIECE])
            if not piece:
                return True
            # A response may be lost: by the offset, the sidecar skips bytes that it has already.
            if not self._post(f"{self._path}/log?offset={self._shipped}", piece):
                return False
            with self._changing:
                del self._buffer[: len(piece)]
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
_MAIN_OF_NODE = "org.apache.spark.penstock.cluster.NodeExecutor"


def main() -> None:
    variables = os.environ
    driver = urlsplit(variables["SPARK_DRIVER_URL"]).hostname or ""
    token = (layout.KEYS / layout.TOKEN).read_text(encoding="ascii")
    forwarder = LogForwarder(driver, layout.SIDECAR_PORT, variables["SPARK_EXECUTOR_ID"], token)
    node = variables.get(layout.NODE_VARIABLE)
    # The driver needs the node's name before the executor registers; without it, tasks locate the executor by address.
    known = node is not None and forwarder.post(f"/nodes/{variables['SPARK_EXECUTOR_POD_IP']}", node.encode())
    sinks = (forwarder.write, partial(os.write, sys.stdout.fileno()))
    # Until an executor has the driver's settings, it reads the secret from this variable alone, not from the file that
    # the settings name. Later it reads that file, and uses its content in base 64 as the secret.
    secret = base64.b64encode((layout.KEYS / layout.AUTHENTICATION).read_bytes()).decode("ascii")
    with contextlib.ExitStack() as held:
        try:
            scratch = held.enter_context(working_directory(variables))
        except OSError as error:
            forwarder.write(f"{error}\n".encode())
            forwarder.close({"exit_code": 1})
            raise
        child = ChildProcess(
            command(variables, node if known else None, scratch),
            environment={**process_environment(variables, scratch), _SECRET_VARIABLE: secret},
            directory=scratch,
            out=sinks,
            err=sinks,
            adopting=True,
        )
        end = child.wait()
        # The output first: a deleted pod has a few seconds left, and the next pod of the node removes the rest.
        forwarder.close(end)
    sys.exit(end["exit_code"])


def command(variables: Mapping[str, str], node: str | None, scratch: Path = layout.SCRATCH) -> list[str]:
    """Return the executor's command line. The scheduler locates it by the name `node`, or by the pod's address."""
    java = jvm.find_java()
    authorities = layout.PRIVATE / AUTHORITIES_FILE
    machine = jvm.Jvm(
        java=java,
        jars=jvm.class_path(unused=jvm.UNUSED_IN_PODS),
        private=layout.PRIVATE,
        scratch=scratch,
        options=(
            *jvm.trust_options(java, authorities if authorities.exists() else None, cache=layout.TEMPORARY),
            *jvm_options(),
            *java_options(variables),
        ),
    )
    memory_bytes = parse_size(variables["SPARK_EXECUTOR_MEMORY"], unit="m") or 0
    size = ProcessSize(int(variables["SPARK_EXECUTOR_CORES"]), memory_bytes)
    arguments = [
        *("--driver-url", variables["SPARK_DRIVER_URL"]),
        *("--executor-id", variables["SPARK_EXECUTOR_ID"]),
        *("--cores", variables["SPARK_EXECUTOR_CORES"]),
        *("--app-id", variables["SPARK_APPLICATION_ID"]),
        *("--hostname", variables["SPARK_EXECUTOR_POD_IP"]),
        *("--resourceProfileId", variables["SPARK_RESOURCE_PROFILE_ID"]),
    ]
    if node is not None:
        main, arguments = _MAIN_OF_NODE, ["--node", node, *arguments]
    else:
        main, arguments = _MAIN, [*arguments, "--podName", variables["SPARK_EXECUTOR_POD_NAME"]]
    return jvm.program_command(machine, size=size, main_class=main, arguments=arguments)


def java_options(variables: Mapping[str, str]) -> list[str]:
    """Return the options in Spark's numbered variables. Spark quotes none of them: a `-D` is one option as it is."""
    numbered = sorted(
        (int(name.removeprefix("SPARK_JAVA_OPT_")), value)
        for name, value in variables.items()
        if name.startswith("SPARK_JAVA_OPT_")
    )
    return [option for _, value in numbered for option in ([value] if value.startswith("-D") else shlex.split(value))]


if __name__ == "__main__":
    main()
