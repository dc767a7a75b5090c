"""The driver's container: starts Spark's driver as the plan says, ends it when it is told to, records how it ended."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from penstock.clusters import jvm, plan, trust
from penstock.clusters.kubernetes import places
from penstock.clusters.kubernetes.pod.children import Child
from penstock.clusters.properties import as_properties
from penstock.engine.application import ClusterSize
from penstock.home import write_atomically, write_json
from penstock.hosts import in_url

_PYTHON = "python3"


def main() -> None:
    for directory in (places.CLUSTER, places.ARTEFACTS / "events"):
        directory.mkdir(parents=True, exist_ok=True)
    places.PUBLISHED.mkdir(mode=0o700, exist_ok=True)
    lock = _locked()
    said = json.loads((places.LAUNCH / places.PLAN).read_text(encoding="utf-8"))
    environment = {**os.environ, "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", _PYTHON)}
    with (places.ARTEFACTS / "driver.out").open("ab", 0) as out, (places.ARTEFACTS / "driver.err").open("ab", 0) as err:
        # Beside the files, which are kept, for whoever collects what containers say.
        child = Child(
            _command(said),
            environment=environment,
            directory=places.SCRATCH,
            out=(out.write, partial(os.write, sys.stdout.fileno())),
            err=(err.write, partial(os.write, sys.stderr.fileno())),
        )
        end = child.wait(Orders(child).obey)
    write_json(places.ENDED, end, mode=0o644)
    os.close(lock)
    sys.exit(end["exit_code"])


def _locked() -> int:
    """Where the lock's file is, it is or was held: made beside its place, it is taken before it is there."""
    made = places.LOCK.with_suffix(".new")
    lock = os.open(made, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX)
    made.replace(places.LOCK)
    return lock


class Orders:
    """The keeper's, given through files of the pod's: containers cannot signal each other's processes."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._asked = False

    def obey(self) -> None:
        if places.KILL.exists():
            self._child.signal(signal.SIGKILL)
        elif places.STOP.exists() and not self._asked:
            self._asked = True
            self._child.signal(signal.SIGTERM)


def _command(said: Mapping[str, Any]) -> list[str]:
    java = jvm.find_java()
    size = ClusterSize.from_json(said["size"])
    settings = {**said["settings"], **_of_this_pod(os.environ), **_python(said["settings"])}
    properties = places.CLUSTER / "spark.conf"
    write_atomically(properties, as_properties(settings))
    authorities = places.PRIVATE / said["authorities"] if said["authorities"] else None
    machine = jvm.Jvm(
        java=java,
        jars=jvm.class_path(unused=jvm.UNUSED_IN_PODS),
        private=places.PRIVATE,
        scratch=places.SCRATCH,
        options=(*trust.options(java, authorities, cache=places.TEMPORARY), *jvm_options()),
    )
    jars = f"{jvm.penstock_jars().as_uri()}/"
    submit = [option.replace(places.JARS, jars) for option in said["submit"]]
    command = jvm.driver_command(
        machine,
        size=size.driver,
        log=places.ARTEFACTS / "driver.log",
        properties=properties,
        application=[*submit, *said["arguments"]],
    )
    return plan.with_user_options(command, settings, places.DRIVER)


def jvm_options() -> list[str]:
    """A user without an entry in the image, as OpenShift gives every namespace its own, has no home that Java knows."""
    return [f"-Duser.home={places.TEMPORARY}"]


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
    errors = shlex.quote(str(places.ARTEFACTS / "driver.err"))
    wrapper: Path = places.WORK / "python"
    write_atomically(wrapper, f'#!/bin/sh\nexec {shlex.quote(python)} "$@" 2>>{errors}\n', mode=0o755)
    return {"spark.pyspark.driver.python": str(wrapper)}


if __name__ == "__main__":
    main()
