"""The driver's container: starts Spark's driver as planned, ends it on request, records its exit code and CPU time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
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

from penstock.clusters import launch
from penstock.clusters.kubernetes import layout
from penstock.formats import as_properties, in_url
from penstock.home import write_atomically, write_json
from penstock.model import ClusterSize
from penstock.runtime import jvm

Sink = Callable[[bytes], object]

_PIECE = 1 << 16
_POLL_SECONDS = 0.2


class Child:
    """Started when it is made. SIGTERM to this process is passed on to it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        out: Sequence[Sink],
        err: Sequence[Sink],
    ) -> None:
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
        """How it ended: exit code (as a shell shows it), times, and what it used. `between` is called meanwhile."""
        while True:
            pid, state, usage = os.wait4(self._process.pid, os.WNOHANG)
            if pid:
                break
            between()
            time.sleep(_POLL_SECONDS)
        code = os.waitstatus_to_exitcode(state)
        self._process.returncode = code
        for pump in self._pumps:
            # A grandchild that lives on keeps the pipe open; it ends with the container.
            pump.join(timeout=2)
        return {
            "exit_code": code if code >= 0 else 128 - code,
            "started_ms": self._started_ms,
            "ended_ms": _now_ms(),
            "peak_rss_bytes": usage.ru_maxrss * 1024,
            "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
        }


def _pump(pipe: Any, sinks: Sequence[Sink]) -> None:
    while piece := os.read(pipe.fileno(), _PIECE):
        for sink in sinks:
            # A full disk costs these lines. A pipe that nobody reads any more would stop the child for ever.
            with contextlib.suppress(OSError):
                sink(piece)


def _now_ms() -> int:
    return int(time.time() * 1000)


_PYTHON = "python3"


def main() -> None:
    for directory in (layout.CLUSTER, layout.ARTEFACTS / "events"):
        directory.mkdir(parents=True, exist_ok=True)
    layout.PUBLISHED.mkdir(mode=0o700, exist_ok=True)
    lock = _locked()
    said = json.loads((layout.LAUNCH / layout.PLAN).read_text(encoding="utf-8"))
    environment = {**os.environ, "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", _PYTHON)}
    with (layout.ARTEFACTS / "driver.out").open("ab", 0) as out, (layout.ARTEFACTS / "driver.err").open("ab", 0) as err:
        # Beside the files, which are kept, for whoever collects what containers say.
        child = Child(
            _command(said),
            environment=environment,
            directory=layout.SCRATCH,
            out=(out.write, partial(os.write, sys.stdout.fileno())),
            err=(err.write, partial(os.write, sys.stderr.fileno())),
        )
        end = child.wait(Orders(child).obey)
    write_json(layout.ENDED, end, mode=0o644)
    os.close(lock)
    sys.exit(end["exit_code"])


def _locked() -> int:
    """Where the lock's file is, it is or was held: made beside its place, it is taken before it is there."""
    made = layout.LOCK.with_suffix(".new")
    lock = os.open(made, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX)
    made.replace(layout.LOCK)
    return lock


class Orders:
    """The keeper's, given through files of the pod's: containers cannot signal each other's processes."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._asked = False

    def obey(self) -> None:
        if layout.KILL.exists():
            self._child.signal(signal.SIGKILL)
        elif layout.STOP.exists() and not self._asked:
            self._asked = True
            self._child.signal(signal.SIGTERM)


def _command(said: Mapping[str, Any]) -> list[str]:
    java = jvm.find_java()
    size = ClusterSize.from_json(said["size"])
    settings = {**said["settings"], **_of_this_pod(os.environ), **_python(said["settings"])}
    properties = layout.CLUSTER / "spark.conf"
    write_atomically(properties, as_properties(settings))
    authorities = layout.PRIVATE / said["authorities"] if said["authorities"] else None
    machine = jvm.Jvm(
        java=java,
        jars=jvm.class_path(unused=jvm.UNUSED_IN_PODS),
        private=layout.PRIVATE,
        scratch=layout.SCRATCH,
        options=(*jvm.options(java, authorities, cache=layout.TEMPORARY), *jvm_options()),
    )
    jars = f"{jvm.penstock_jars().as_uri()}/"
    submit = [option.replace(layout.JARS, jars) for option in said["submit"]]
    command = jvm.driver_command(
        machine,
        size=size.driver,
        log=layout.ARTEFACTS / "driver.log",
        properties=properties,
        application=[*submit, *said["arguments"]],
    )
    return launch.with_user_options(command, settings, layout.DRIVER)


def jvm_options() -> list[str]:
    """A user without an entry in the image, as OpenShift gives every namespace its own, has no home that Java knows."""
    return [f"-Duser.home={layout.TEMPORARY}"]


def _of_this_pod(environment: Mapping[str, str]) -> dict[str, str]:
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
    return {
        "spark.master": f"k8s://https://{in_url(host)}:{port}",
        "spark.driver.host": environment["PENSTOCK_POD_IP"],
        # What Spark tells executors to call (spark.kubernetes.executor.useDriverPodIP).
        "spark.driver.bindAddress": environment["PENSTOCK_POD_IP"],
    }


def _python(settings: Mapping[str, str]) -> dict[str, str]:
    """The driver's Python with a standard error of its own: Spark would pour it into the driver's standard output."""
    python = settings.get("spark.pyspark.driver.python") or settings.get("spark.pyspark.python") or _PYTHON
    errors = shlex.quote(str(layout.ARTEFACTS / "driver.err"))
    wrapper: Path = layout.WORK / "python"
    write_atomically(wrapper, f'#!/bin/sh\nexec {shlex.quote(python)} "$@" 2>>{errors}\n', mode=0o755)
    return {"spark.pyspark.driver.python": str(wrapper)}


if __name__ == "__main__":
    main()
