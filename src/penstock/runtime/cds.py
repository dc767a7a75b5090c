"""Class-data archives: built once per installation, they halve the start-up time and CPU of every later JVM.

An archive is only an optimization: without one, or with one that does not fit, Java starts as usual. Each appears whole
or not at all, so applications may start at any moment of the build.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.errors import ClusterError
from penstock.formats import as_properties
from penstock.home import Home, write_atomically
from penstock.model import ProcessSize
from penstock.processes import IdleDeadline, core_seconds_of, die_with_parent
from penstock.runtime import cds_training, jvm

ROLES = ("driver", "executor")
_SIZE = ProcessSize(cores=2, memory_bytes=1 << 30)
_IDLE_SECONDS, _LEAST_CORE_SECONDS = 120.0, 3.0
"""The training fails when both JVMs together use less processor time; a JVM that waits in vain uses 1 % of a core."""
_MOST_CORE_SECONDS = 1200.0
"""Training takes about 100 s of processor time; the rest is for slower machines. A busy machine needs no more."""
_POLL_SECONDS = 0.05
_DIRECTORIES = "training-"

Clock = Callable[[], float]
Report = Callable[[int], None]


def archives_exist(home: Home) -> bool:
    """Return whether the archives for this Java and these jars exist."""
    return all(target.exists() for target in _targets(home).values())


def build_archives(
    home: Home,
    *,
    location: str | None = None,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    private_files: Mapping[str, str] | None = None,
    report: Report | None = None,
    clock: Clock | None = None,
) -> None:
    """Run the training application on a driver and one executor (some 30 s on two idle cores), unless archives exist.

    `location` is for temporary files; one in the lake, with the lake's `settings`, `environment` and `private_files`
    (as in `clusters.backend.Launch`), trains the S3 client and the catalog too. `report` receives the number of written
    archives, and `clock` measures the time without progress (`processes.SpareTime` at idle priority). Raises
    `ClusterError` when the training fails or makes no progress for two minutes, and `StateError` when another process
    builds them; no partial archive remains then.
    """
    with home.lock("class-archives", busy="Another command is building the class-data archives"):
        if archives_exist(home):
            return
        remove_unfinished(home)
        with tempfile.TemporaryDirectory(prefix=_DIRECTORIES, dir=home.cache) as directory:
            _train(
                Path(directory),
                _targets(home),
                location=location,
                settings=settings or {},
                environment=environment or {},
                private_files=private_files or {},
                report=report or (lambda _: None),
                clock=clock,
            )


def remove_unfinished(home: Home) -> None:
    """Remove what a killed build left."""
    for directory in home.cache.glob(f"{_DIRECTORIES}*"):
        shutil.rmtree(directory, ignore_errors=True)


def _targets(home: Home) -> dict[str, Path]:
    java, jars = jvm.find_java(), jvm.class_path()
    return {role: jvm.archive(home.cache, java, jars, role) for role in ROLES}


def _train(
    directory: Path,
    targets: Mapping[str, Path],
    *,
    location: str | None,
    settings: Mapping[str, str],
    environment: Mapping[str, str],
    private_files: Mapping[str, str],
    report: Report,
    clock: Clock | None,
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
        report=report,
        clock=clock,
    )
    for role, target in targets.items():
        _publish(directory / f"{role}.jsa", target)
    _forget_others(target.parent)


def _publish(archive: Path, target: Path) -> None:
    """Move an archive to its place atomically, also from another file system: a JVM may look for it at any moment."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    arriving = target.with_suffix(".arriving")
    shutil.move(archive, arriving)
    arriving.replace(target)


def _forget_others(current: Path) -> None:
    """Remove the archives of replaced jars or Java versions, 400 MB that no JVM can use."""
    for other in current.parent.iterdir():
        if other != current:
            shutil.rmtree(other, ignore_errors=True)


def _cluster_settings(directory: Path) -> dict[str, str]:
    return {
        "spark.master": "local-penstock",
        "spark.penstock.directory": str(directory),
        "spark.penstock.executors": "1",
        "spark.plugins": "io.penstock.cluster.observe.ObserverPlugin",
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


def _run(
    commands: Mapping[str, list[str]],
    directory: Path,
    environment: Mapping[str, str],
    *,
    report: Report = lambda _: None,
    clock: Clock | None = None,
) -> None:
    log = directory / "output"
    parent = os.getpid()
    with log.open("wb") as output:
        processes = {
            role: subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(environment),
                preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509  it calls no Python code that takes locks
            )
            for role, command in commands.items()
        }
        try:
            problem = _await_end(processes, report=report, clock=clock)
        finally:
            for process in processes.values():
                process.kill()
                process.wait()
    left_none = [role for role in commands if not (directory / f"{role}.jsa").exists()]
    if problem is None and left_none:
        problem = f"the training {' and '.join(left_none)} ended without an error and left no archive"
    if problem is not None:
        last = log.read_text(encoding="utf-8", errors="replace")[-2000:].strip()
        raise ClusterError(
            "The class-data archives could not be built; clusters work without them and start some seconds later",
            why=f"{problem}; the output ends with:\n{last}" if last else f"{problem}, without any output",
            fix="retry with penstock up, or skip them with penstock up --no-archives",
        )


def _await_end(
    processes: Mapping[str, subprocess.Popen[bytes]],
    *,
    report: Report = lambda _: None,
    clock: Clock | None = None,
) -> str | None:
    """Wait until all have ended; return the problem where one fails or they make no progress."""
    reported = 0

    def core_seconds() -> float:
        return sum(core_seconds_of(process.pid) for process in processes.values())

    idle = IdleDeadline(core_seconds, seconds=_IDLE_SECONDS, least_core_seconds=_LEAST_CORE_SECONDS, clock=clock)
    while True:
        codes = {role: process.poll() for role, process in processes.items()}
        if failed := [f"the training {role} ended with exit code {code}" for role, code in codes.items() if code]:
            return " and ".join(failed)
        running = [role for role, code in codes.items() if code is None]
        if len(processes) - len(running) > reported:
            reported = len(processes) - len(running)
            report(reported)
        if not running:
            return None
        waited_for = f"waited for the training {' and '.join(running)}"
        if idle.expired():
            return f"{waited_for}, which made no progress for {_IDLE_SECONDS:.0f} s"
        if core_seconds() > _MOST_CORE_SECONDS:
            return f"{waited_for}, which did not end after {_MOST_CORE_SECONDS:.0f} s of processor time"
        time.sleep(_POLL_SECONDS)
