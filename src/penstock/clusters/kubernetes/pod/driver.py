"""The driver's container: starts Spark's driver as planned, ends it on request, records its exit code and CPU time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from penstock.clusters import shim
from penstock.clusters.kubernetes import layout
from penstock.clusters.kubernetes.pod.scratch import process_environment, working_directory
from penstock.clusters.spark_settings import with_user_options
from penstock.formats import as_properties, url_host
from penstock.home import write_atomically, write_json
from penstock.model import ClusterSize
from penstock.runtime import jvm

Sink = Callable[[bytes], object]

_PIECE = 1 << 16
_POLL_SECONDS = 0.2
_DEATH_SECONDS = 5.0
"""The time that the kernel may take to end the killed orphans."""


class ChildProcess:
    """A child process, started by the constructor, whose output goes to sinks.

    A SIGTERM to this process is forwarded to it. With `adopting`, its orphans become children of this process, which
    must have no others: their processor time counts as the child's, as on a local cluster, and they end with it.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        out: Sequence[Sink],
        err: Sequence[Sink],
        adopting: bool = False,
    ) -> None:
        if adopting:
            shim.adopt_orphans()
        self._adopting = adopting
        self._orphans_cpu_seconds = 0.0
        self._started_ms = _now_ms()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=dict(environment),
        )
        signal.signal(signal.SIGTERM, lambda *_: self.signal(signal.SIGTERM))
        self._pumps = [
            threading.Thread(target=_pump, args=(pipe, sinks), daemon=True)
            for pipe, sinks in ((self._process.stdout, out), (self._process.stderr, err))
        ]
        for pump in self._pumps:
            pump.start()

    def signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            os.kill(self._process.pid, number)

    def wait(self, between: Callable[[], object] = lambda: None) -> dict[str, Any]:
        """Return its exit code (as a shell reports it), times, and resource usage. `between` is called meanwhile."""
        while True:
            pid, state, usage = os.wait4(-1 if self._adopting else self._process.pid, os.WNOHANG)
            if pid == self._process.pid:
                break
            if pid:
                self._orphans_cpu_seconds += _cpu_seconds(usage)
                continue
            between()
            time.sleep(_POLL_SECONDS)
        ended_ms = _now_ms()
        code = os.waitstatus_to_exitcode(state)
        self._process.returncode = code
        for pump in self._pumps:
            # A surviving grandchild keeps the pipe open; it ends with the container.
            pump.join(timeout=2)
        if self._adopting:
            self._end_orphans()
        return {
            "exit_code": code if code >= 0 else 128 - code,
            "started_ms": self._started_ms,
            "ended_ms": ended_ms,
            "peak_rss_bytes": usage.ru_maxrss * 1024,
            "cpu_seconds": round(_cpu_seconds(usage) + self._orphans_cpu_seconds, 3),
        }

    def _end_orphans(self) -> None:
        """Kill what is left of the child's processes, since only a reaped process has a final processor time."""
        with contextlib.suppress(ChildProcessError):
            deadline = time.monotonic() + _DEATH_SECONDS
            while time.monotonic() < deadline:
                for orphan in shim.descendants(os.getpid()):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(orphan, signal.SIGKILL)
                pid, _, usage = os.wait4(-1, os.WNOHANG)
                if pid:
                    self._orphans_cpu_seconds += _cpu_seconds(usage)
                else:
                    time.sleep(_POLL_SECONDS / 10)


def _cpu_seconds(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def _pump(pipe: Any, sinks: Sequence[Sink]) -> None:
    while piece := os.read(pipe.fileno(), _PIECE):
        for sink in sinks:
            # On a full disk these lines are lost; a pipe that is no longer read would block the child for ever.
            with contextlib.suppress(OSError):
                sink(piece)


def _now_ms() -> int:
    return int(time.time() * 1000)


_PYTHON = "python3"


def main() -> None:
    for directory in (layout.CLUSTER, layout.ARTIFACTS / "events"):
        directory.mkdir(parents=True, exist_ok=True)
    layout.PUBLISHED.mkdir(mode=0o700, exist_ok=True)
    lock = _lock()
    plan = json.loads((layout.LAUNCH / layout.PLAN).read_text(encoding="utf-8"))
    environment = {**os.environ, "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", _PYTHON)}
    with contextlib.ExitStack() as held:
        out = held.enter_context((layout.ARTIFACTS / "driver.out").open("ab", 0))
        err = held.enter_context((layout.ARTIFACTS / "driver.err").open("ab", 0))
        try:
            scratch = held.enter_context(working_directory(environment))
        except OSError as error:
            # The engine explains the failure from this file.
            err.write(f"{error}\n".encode())
            raise
        # The container's own output repeats the files for log collectors of the cluster.
        child = ChildProcess(
            _command(plan, scratch),
            environment=process_environment(environment, scratch),
            directory=scratch,
            out=(out.write, partial(os.write, sys.stdout.fileno())),
            err=(err.write, partial(os.write, sys.stderr.fileno())),
            adopting=True,
        )
        end = child.wait(_Requests(child).apply)
        # The sidecar need not wait for the removal of the working directory.
        write_json(layout.ENDED, end, mode=0o644)
        os.close(lock)
    sys.exit(end["exit_code"])


def _lock() -> int:
    """Create the lock file, locked from its first appearance on: an unlocked one means that its holder has ended."""
    new = layout.LOCK.with_suffix(".new")
    lock = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX)
    new.replace(layout.LOCK)
    return lock


class _Requests:
    """The sidecar's requests to end the child, passed as files: containers cannot signal each other's processes."""

    def __init__(self, child: ChildProcess) -> None:
        self._child = child
        self._stopped = False

    def apply(self) -> None:
        if layout.KILL.exists():
            self._child.signal(signal.SIGKILL)
        elif layout.STOP.exists() and not self._stopped:
            self._stopped = True
            self._child.signal(signal.SIGTERM)


def _command(plan: Mapping[str, Any], scratch: Path) -> list[str]:
    java = jvm.find_java()
    size = ClusterSize.from_json(plan["size"])
    settings = {**plan["settings"], **_pod_settings(os.environ), **_python(plan["settings"])}
    properties = layout.CLUSTER / "spark.conf"
    write_atomically(properties, as_properties(settings))
    authorities = layout.PRIVATE / plan["authorities"] if plan["authorities"] else None
    machine = jvm.Jvm(
        java=java,
        jars=jvm.class_path(unused=jvm.UNUSED_IN_PODS),
        private=layout.PRIVATE,
        scratch=scratch,
        options=(*jvm.trust_options(java, authorities, cache=layout.TEMPORARY), *jvm_options()),
    )
    jars = f"{jvm.penstock_jars().as_uri()}/"
    submit = [option.replace(layout.JARS, jars) for option in plan["submit"]]
    command = jvm.driver_command(
        machine,
        size=size.driver,
        log=layout.ARTIFACTS / "driver.log",
        properties=properties,
        application=[*submit, *plan["arguments"]],
    )
    return with_user_options(command, settings, layout.DRIVER)


def jvm_options() -> list[str]:
    """Return the home directory for Java: OpenShift runs each namespace as a user without an entry in the image."""
    return [f"-Duser.home={layout.TEMPORARY}"]


def _pod_settings(environment: Mapping[str, str]) -> dict[str, str]:
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
    return {
        "spark.master": f"k8s://https://{url_host(host)}:{port}",
        "spark.driver.host": environment["PENSTOCK_POD_IP"],
        # Executors connect to this address (spark.kubernetes.executor.useDriverPodIP).
        "spark.driver.bindAddress": environment["PENSTOCK_POD_IP"],
    }


def _python(settings: Mapping[str, str]) -> dict[str, str]:
    """Wrap the driver's Python to redirect its standard error, which Spark would merge into the standard output."""
    python = settings.get("spark.pyspark.driver.python") or settings.get("spark.pyspark.python") or _PYTHON
    errors = shlex.quote(str(layout.ARTIFACTS / "driver.err"))
    wrapper: Path = layout.WORK / "python"
    write_atomically(wrapper, f'#!/bin/sh\nexec {shlex.quote(python)} "$@" 2>>{errors}\n', mode=0o755)
    return {"spark.pyspark.driver.python": str(wrapper)}


if __name__ == "__main__":
    main()
