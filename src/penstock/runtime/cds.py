"""Class-data archives: made once per installation, they halve the time and the CPU every later JVM needs to start.

An archive is a saving and nothing more: without one, or with one that does not fit, Java starts as always.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from penstock.errors import ClusterError
from penstock.formats import as_properties
from penstock.home import Home, write_atomically
from penstock.model import ProcessSize
from penstock.processes import IdleDeadline, core_seconds_of
from penstock.runtime import cds_training, jvm

_ROLES = ("driver", "executor")
_SIZE = ProcessSize(cores=2, memory_bytes=1 << 30)
_IDLE_SECONDS, _LEAST_CORE_SECONDS = 120.0, 3.0
"""Given up when both JVMs together got less done than this; one that waits in vain takes a hundredth of a core."""
_MOST_CORE_SECONDS = 1200.0
"""Training takes about 100 of them; the rest is for slower machines. A busy one takes longer, but no more of them."""
_POLL_SECONDS = 0.05


def made(home: Home) -> bool:
    """Whether this Java and these jars have their archives."""
    return all(target.exists() for target in _targets(home).values())


def make(
    home: Home,
    *,
    location: str | None = None,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    private_files: Mapping[str, str] | None = None,
) -> None:
    """Run the training application on a driver and one executor (some 30 s on two idle cores), unless made already.

    `location` is where it may write for a moment; one in the lake, with the lake's `settings`, `environment` and
    `private_files` (as in `clusters.backend.Launch`), trains the S3 client and the catalog too. Raises `ClusterError`
    when it fails, or gets nothing done for two minutes, with what it waited for, and `StateError` when another process
    is at it; nothing is half-made then.
    """
    with home.lock("class-archives", busy="The class-data archives are being made by another command"):
        if made(home):
            return
        with tempfile.TemporaryDirectory(prefix="training-", dir=home.cache) as directory:
            _train(
                Path(directory),
                _targets(home),
                location=location,
                settings=settings or {},
                environment=environment or {},
                private_files=private_files or {},
            )


def _targets(home: Home) -> dict[str, Path]:
    java, jars = jvm.find_java(), jvm.class_path()
    return {role: jvm.archive(home.cache, java, jars, role) for role in _ROLES}


def _train(
    directory: Path,
    targets: Mapping[str, Path],
    *,
    location: str | None,
    settings: Mapping[str, str],
    environment: Mapping[str, str],
    private_files: Mapping[str, str],
) -> None:
    private, scratch = directory / "private", directory / "scratch"
    for part in (private, scratch):
        part.mkdir(mode=0o700)
    for name, content in private_files.items():
        write_atomically(private / name, content)
    properties = private / "spark.conf"
    write_atomically(properties, as_properties({**settings, **_cluster_settings(directory)}))
    common = jvm.Jvm(java=jvm.find_java(), jars=jvm.class_path(), private=private, scratch=scratch)
    application = [cds_training.__file__, location or scratch.as_uri()]
    commands = {
        "driver": jvm.driver_command(
            common, size=_SIZE, log=directory / "driver.log", properties=properties, application=application
        ),
        "executor": jvm.executor_command(common, size=_SIZE, cluster=directory, executor_id=0, properties=properties),
    }
    variables = {name: value.replace("{private}", str(private)) for name, value in environment.items()}
    _run(
        {role: jvm.training(command, directory / f"{role}.jsa") for role, command in commands.items()},
        directory,
        {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(jvm.spark_jars().parent), **variables},
    )
    for role, target in targets.items():
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.move(directory / f"{role}.jsa", target)
    _forget_others(target.parent)


def _forget_others(current: Path) -> None:
    """Archives of jars or a Java that were replaced since are 300 MB that fit nothing any more."""
    for other in current.parent.iterdir():
        if other != current:
            shutil.rmtree(other, ignore_errors=True)


def _cluster_settings(directory: Path) -> dict[str, str]:
    return {
        "spark.master": "local-penstock",
        "spark.penstock.directory": str(directory),
        "spark.penstock.executors": "1",
        "spark.plugins": "io.penstock.cluster.ObserverPlugin",
        "spark.executor.cores": str(_SIZE.cores),
        "spark.executor.memory": f"{_SIZE.memory_bytes >> 20}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(directory / "scratch"),
        "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (directory / "scratch").as_uri(),
        "spark.authenticate": "true",
        "spark.authenticate.secret": secrets.token_hex(32),
    }


def _run(commands: Mapping[str, list[str]], directory: Path, environment: Mapping[str, str]) -> None:
    log = directory / "output"
    with log.open("wb") as output:
        processes = {
            role: subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=dict(environment)
            )
            for role, command in commands.items()
        }
        try:
            problem = _await_end(processes)
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
    left_none = [role for role in commands if not (directory / f"{role}.jsa").exists()]
    if problem is None and left_none:
        problem = f"the training {' and '.join(left_none)} ended in order and left no archive"
    if problem is not None:
        last = log.read_text(encoding="utf-8", errors="replace")[-2000:].strip()
        raise ClusterError(
            "The class-data archives could not be made; clusters work without them and start some seconds later",
            why=f"{problem}; the output ends with:\n{last}" if last else f"{problem}, without any output",
            fix="penstock up tries again, and penstock up --no-archives leaves them out",
        )


def _await_end(processes: Mapping[str, subprocess.Popen[bytes]]) -> str | None:
    """Wait until all have ended well; returns what is wrong where one fails, or they get next to nothing done."""

    def core_seconds() -> float:
        return sum(core_seconds_of(process.pid) for process in processes.values())

    idle = IdleDeadline(core_seconds, seconds=_IDLE_SECONDS, least_core_seconds=_LEAST_CORE_SECONDS)
    while True:
        codes = {role: process.poll() for role, process in processes.items()}
        if failed := [f"the training {role} ended with exit code {code}" for role, code in codes.items() if code]:
            return " and ".join(failed)
        running = [role for role, code in codes.items() if code is None]
        if not running:
            return None
        waited_for = f"waited for the training {' and '.join(running)}"
        if idle.over():
            return f"{waited_for}, which did next to nothing for {_IDLE_SECONDS:.0f} s"
        if core_seconds() > _MOST_CORE_SECONDS:
            return f"{waited_for}, which did not end after {_MOST_CORE_SECONDS:.0f} s of processor time"
        time.sleep(_POLL_SECONDS)
