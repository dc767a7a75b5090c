"""Gateways of limited bandwidth in front of a lake, each a process of its own, one of which may be killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from penstock import processes
from penstock.errors import ClusterError, InvalidInput
from penstock.lake.model import Lake, require_s3
from penstock.runtime.jvm import find_java, penstock_jar, spark_jars

_MAIN = "io.penstock.fs.testing.FaultyGateway"
_LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class LimitedGateways:
    """They run. `endpoints` is where their clients connect."""

    endpoints: Sequence[str]
    processes: Sequence[subprocess.Popen[bytes]]

    @contextlib.contextmanager
    def killing_one(self, after_bytes: int) -> Iterator[threading.Event]:
        """The last of them is killed (SIGKILL) once it has passed so many bytes; the event is set then."""
        killed, over = threading.Event(), threading.Event()
        victim = self.processes[-1]

        def watch() -> None:
            while not over.wait(_LOOK_SECONDS):
                if _passed(victim.pid) >= after_bytes:
                    victim.kill()
                    killed.set()
                    return

        watcher = threading.Thread(target=watch, name="gateway-killer", daemon=True)
        watcher.start()
        try:
            yield killed
        finally:
            over.set()
            watcher.join()


@contextlib.contextmanager
def limited_gateways(lake: Lake, count: int, bytes_per_second: int) -> Iterator[LimitedGateways]:
    """Start them before the lake's first endpoint; they end with this context, or with this process."""
    command = _command(lake, bytes_per_second)
    with contextlib.ExitStack() as stack:
        processes = []
        for _ in range(count):
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
            processes.append(process)
            stack.callback(_end, process)
        ports = [_port(process) for process in processes]
        yield LimitedGateways([f"http://127.0.0.1:{port}" for port in ports], processes)


def require_http(lake: Lake) -> None:
    """`InvalidInput` where these gateways could not stand before the lake."""
    require_s3(lake, "The comparison of gateways")
    if not lake.endpoints[0].startswith("http://"):
        raise InvalidInput(
            f"The lake “{lake.name}” is reached by https",
            why="the lab's gateways pass HTTP on as it is, so that signatures stay right",
            fix="name a lake with an http endpoint: --lake embedded",
        )


def _command(lake: Lake, bytes_per_second: int) -> list[str]:
    require_http(lake)
    upstream = urlsplit(lake.endpoints[0])
    jars = (penstock_jar("filesystem", "Penstock's file system is not built"), spark_jars() / "*")
    return [
        str(find_java().executable),
        "-XX:+UseSerialGC",
        *("-cp", os.pathsep.join(map(str, jars)), _MAIN),
        *("--upstream", f"{upstream.hostname}:{upstream.port or 80}"),
        *("--bytes-per-second", str(bytes_per_second)),
    ]


def _port(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    line = process.stdout.readline()
    if not line.strip().isdigit():
        raise ClusterError("A gateway of the lab did not start", why=f"it ended with exit code {process.wait()}")
    return int(line)


def _end(process: subprocess.Popen[bytes]) -> None:
    """It serves until its standard input ends."""
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    process.stdin.close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    assert process.stdout is not None  # noqa: S101
    process.stdout.close()


def _passed(pid: int) -> int:
    """Bytes the process has read so far, from files and connections (proc(5)); 0 where it has ended."""
    return (processes.io(pid) or {}).get("rchar", 0)
