"""The launch of a local cluster: settings, commands and environment of its processes, and the driver's Spark UI."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from penstock.clusters import shim
from penstock.clusters.backend import Launch, WebInterface
from penstock.home import open_below, write_once
from penstock.profiles.base import SCRATCH_MEMORY
from penstock.profiles.check import REDACTION
from penstock.runtime import jvm


def shim_plan(
    directory: Path, launch: Launch, settings: Mapping[str, str], *, archives: Path, memory: Path | None = None
) -> dict[str, Any]:
    """Return the shim's plan (`private/plan.json`): the commands and environment of driver and executors.

    `memory` is the cluster's directory in memory, if any, with a subdirectory for each executor.
    """
    size = launch.spec.size
    java = jvm.find_java()
    authorities = directory / "private" / launch.authorities if launch.authorities else None
    common = jvm.Jvm(
        java=java,
        jars=jvm.class_path(),
        private=directory / "private",
        scratch=directory / "scratch",
        archives=archives,
        options=tuple(jvm.trust_options(java, authorities, cache=archives)),
    )
    driver = jvm.driver_command(
        common,
        size=size.driver,
        log=directory / "artefacts" / "driver.log",
        properties=directory / "private" / "spark.conf",
        application=_submit_arguments(launch),
    )
    executor = jvm.executor_command(
        common,
        size=size.executor,
        cluster=directory / "cluster",
        executor_id=0,
        properties=directory / "private" / "spark.conf",
    )
    executor[executor.index("--executor-id") + 1] = shim.EXECUTOR_TOKEN
    return {
        "application_id": launch.application_id,
        "driver": with_user_options(driver, settings, "driver"),
        "executor": with_user_options(executor, settings, "executor"),
        "executors": size.executors,
        # Spark's own rule (spark.executor.maxNumFailures).
        "lost_executors_limit": int(settings.get("spark.executor.maxNumFailures", max(3, 2 * size.executors))),
        "environment": _environment(directory, launch, java),
        "memory": None if memory is None else str(memory),
    }


def program_plan(directory: Path, launch: Launch) -> dict[str, Any]:
    """Return the shim's plan for an application that is one program: no executor, no Java."""
    places = {
        "{private}": str(directory / "private"),
        "{cluster}": str(directory / "cluster"),
        "{artifacts}": str(directory / "artefacts"),
    }

    def placed(part: str) -> str:
        for place, path in places.items():
            part = part.replace(place, path)
        return part

    return {
        "application_id": launch.application_id,
        "driver": [placed(part) for part in launch.program],
        "executor": [],
        "executors": 0,
        "lost_executors_limit": 0,
        "environment": _environment(directory, launch, java=None),
    }


def settings(directory: Path, launch: Launch, *, memory: Path | None = None) -> dict[str, str]:
    """Return the launch's settings, overridden by those that make the processes one cluster, with a new secret.

    `memory` is that of `shim_plan`.
    """
    size = launch.spec.size
    plugins = ["io.penstock.cluster.observe.ObserverPlugin"]
    scratch = {}
    if memory is not None:
        plugins.append("io.penstock.cluster.ScratchPlugin")
        scratch = {SCRATCH_MEMORY: f"{size.scratch_memory_bytes}b", "spark.penstock.scratch.directory": str(memory)}
    return {
        **launch.settings,
        "spark.master": "local-penstock",
        "spark.submit.deployMode": "client",
        "spark.app.name": launch.spec.name,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.cores": str(size.driver.cores),
        "spark.driver.memory": f"{size.driver.memory_bytes >> 10}k",
        "spark.executor.cores": str(size.executor.cores),
        "spark.executor.memory": f"{size.executor.memory_bytes >> 10}k",
        "spark.executor.instances": str(size.executors),
        "spark.pyspark.driver.python": str(directory / "private" / "python"),
        "spark.penstock.directory": str(directory / "cluster"),
        "spark.penstock.executors": str(size.executors),
        "spark.plugins": ",".join(filter(None, [*plugins, launch.settings.get("spark.plugins", "")])),
        **scratch,
        "spark.local.dir": str(directory / "scratch"),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (directory / "artefacts" / "events").as_uri(),
        # Set in any case: otherwise a `-D` in the program's Java options would decide.
        "spark.redaction.regex": REDACTION,
        "spark.authenticate": "true",
        "spark.authenticate.secret": secrets.token_hex(32),
    }


def python_wrapper(directory: Path, settings: Mapping[str, str]) -> str:
    """Wrap the driver's Python to redirect its standard error, which Spark would merge into the standard output."""
    python = settings.get("spark.pyspark.driver.python") or settings.get("spark.pyspark.python") or sys.executable
    errors = shlex.quote(str(directory / "artefacts" / "driver.err"))
    return f'#!/bin/sh\nexec {shlex.quote(python)} "$@" 2>>{errors}\n'


def _submit_arguments(launch: Launch) -> list[str]:
    spec = launch.spec
    options = ["--class", spec.main_class] if spec.main_class else []
    for option, paths in (("--jars", spec.jars), ("--py-files", spec.python_files), ("--files", spec.files)):
        if paths:
            options += [option, ",".join(_as_uri(path) for path in paths)]
    return [*options, _as_uri(spec.application), *spec.arguments]


def _as_uri(path: str) -> str:
    """Encode a path, so that spaces, commas and letters of any alphabet survive Spark's lists and URI parsing."""
    return Path(path).as_uri() if path.startswith("/") else path


def _environment(directory: Path, launch: Launch, java: jvm.Java | None) -> dict[str, str]:
    """Return the processes' environment, without the submitter's, so that every run of an application has the same."""
    private = str(directory / "private")
    spark = {}
    if java is not None:
        spark = {
            # Without it, Spark's web UI listens on every interface.
            "SPARK_LOCAL_IP": "127.0.0.1",
            "JAVA_HOME": str(java.home),
            "SPARK_HOME": str(jvm.spark_jars().parent),
            "PYSPARK_PYTHON": sys.executable,
        }
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "HOME": os.environ.get("HOME", "/"),
        "TMPDIR": str(directory / "scratch"),
        # Java decodes arguments and file names by the locale; the C locale would lose every alphabet but ASCII.
        "LC_ALL": "C.UTF-8",
        **spark,
        "PYTHONUNBUFFERED": "1",
        shim.APPLICATION_VARIABLE: launch.application_id,
    }
    if zone := os.environ.get("TZ"):
        environment["TZ"] = zone
    for name, value in launch.environment.items():
        # On this machine, the directory of private files also serves for published ones.
        environment[name] = value.replace("{private}", private).replace("{published}", private)
    return environment


def with_user_options(command: list[str], settings: Mapping[str, str], role: str) -> list[str]:
    """Apply Spark's settings for JVM options and class path, as SparkSubmit does when it starts a JVM."""
    at = command.index("-cp")
    options = [
        option
        for key in (f"spark.{role}.defaultJavaOptions", f"spark.{role}.extraJavaOptions")
        for option in shlex.split(settings.get(key, ""))
    ]
    classes = settings.get(f"spark.{role}.extraClassPath")
    path = os.pathsep.join(filter(None, [command[at + 1], classes]))
    return [*command[:at], *options, "-cp", path, *command[at + 2 :]]


_MOST_BYTES = 1 << 16
UI_REQUEST = "ui.wanted"
"""A file in the cluster's directory that requests the Spark UI; it holds the key that the UI requires."""


@dataclass(frozen=True)
class Endpoint:
    """The addresses that a driver published. `pages_url` is empty while it serves no Spark UI."""

    driver_url: str
    spark_application_id: str
    pages_url: str


def endpoint(cluster: Path) -> Endpoint | None:
    """Return the driver's endpoint; None while it has no Spark context."""
    try:
        lines = _read(cluster, "endpoint").split("\n")
        return Endpoint(lines[0], lines[1], lines[2])
    except (FileNotFoundError, IndexError, UnicodeDecodeError):
        return None


def web_interface(cluster: Path, published: Endpoint) -> WebInterface | None:
    """Return the address of the Spark UI as the driver published it; where there is none, request it and return None.

    The port is not verified: a driver runs users' code, which may publish any port.
    """
    if not published.pages_url:
        # The directory of a cluster that is being removed may be gone.
        with contextlib.suppress(FileNotFoundError):
            write_once(cluster / UI_REQUEST, secrets.token_urlsafe(32))
        return None
    port = _port(published.pages_url)
    return None if port is None else WebInterface("127.0.0.1", port, key=_key(cluster))


def _key(cluster: Path) -> str | None:
    with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
        return _read(cluster, UI_REQUEST)
    return None


def _read(cluster: Path, name: str) -> str:
    """Return the beginning of a file that submitted code may have replaced. Raises `FileNotFoundError`."""
    with open_below(cluster, name) as file:
        return file.read(_MOST_BYTES).decode()


def _port(url: str) -> int | None:
    try:
        return urlsplit(url).port
    except ValueError:
        return None
