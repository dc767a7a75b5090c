"""Launchers of the lab's applications: Penstock's engine, or plain spark-submit on equal terms.

Plain Spark is pyspark's own `spark-submit`, with S3A and the same catalog, without Penstock except for one interceptor
of S3A's requests: over http S3A signs empty objects by chunks, which Ceph 16 refuses, so without the interceptor plain
Spark cannot write there at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from penstock import units
from penstock.catalog.database import Database
from penstock.catalog.metastore import Metastore
from penstock.clusters import shim
from penstock.clusters.backend import Observation
from penstock.engine.engine import Engine
from penstock.engine.engines.contract import QueryEngine
from penstock.engine.engines.registry import SPARK
from penstock.errors import ClusterError, InvalidInput
from penstock.formats import as_properties
from penstock.home import Home, read_json, write_atomically, write_json
from penstock.lab.environment import Environment, application_sample, require_finished, workloads_jar
from penstock.lake.model import Lake
from penstock.lake.registry import Lakes
from penstock.lake.settings import EMPTY_BODIES, environment, private_files, spark_settings
from penstock.model import CORES_PER_CORE, SPARK_INTERNAL, Application, ApplicationSpec, ClusterSize, Overhead, State
from penstock.processes import (
    ProcessId,
    calling_periodically,
    end_process,
    peak_resident_bytes,
    process_tree,
    processes,
    processes_below,
    tail,
)
from penstock.profiles.layers import with_overheads
from penstock.profiles.s3a import S3A
from penstock.runtime import jvm
from penstock.runtime.jvm import find_java, penstock_jars, spark_jars
from penstock.units import MIB

_PREFIX = "plain-"
_LOOK_EVERY_SECONDS = 0.5
_SAMPLE_EVERY_SECONDS = 0.2
_GRACE_SECONDS = 10.0
_EXECUTOR_MAIN = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"

_INTERCEPTORS = "spark.hadoop.fs.s3a.audit.execution.interceptors"
_SHARED_JARS = ("penstock-application.jar", "penstock-filesystem.jar")
"""The jars of Penstock that plain Spark gets: options and records of the workloads; what lets S3A write to Ceph 16."""


@dataclass(frozen=True)
class SubmissionResult:
    """The result of one plain application. Times are UTC, epoch milliseconds.

    It ends with its driver; what the supervisor does afterwards is clean-up. `core_seconds` are the kernel's final
    counts of every process that the application started.
    """

    submitted_ms: int
    ended_ms: int
    exit_code: int
    core_seconds: float
    peak_memory_bytes: int
    first_task_ms: int | None
    """The launch of its first task, from its event log; None where no task was launched."""
    output: str


class PlainSpark:
    """A private directory to submit from, with the secrets and Spark's own files, removed at the end.

    Secrets are in files of mode 0600 there, never in an argument or a setting.
    """

    def __init__(self, directory: Path, lake: Lake, options: Sequence[str] = ()) -> None:
        """Pass `options` to every JVM."""
        self.directory = directory
        self._options = " ".join(f'"{option}"' for option in options)
        self._lake = lake

    @staticmethod
    @contextmanager
    def prepared(home: Home, lake: Lake) -> Iterator[PlainSpark]:
        home.create()
        _sweep(home.root)
        with tempfile.TemporaryDirectory(prefix=_prefix_of_this_process(), dir=home.root) as name:
            directory = Path(name)
            credentials = Lakes(home).client_credentials(lake)
            for file, content in private_files(lake, credentials).items():
                write_atomically(directory / file, content)
            write_atomically(directory / "hive-site.xml", Metastore(Database(home)).hive_site(), mode=0o600)
            yield PlainSpark(directory, lake, jvm.trust_options(find_java(), lake.authorities, cache=home.cache))

    def submit(
        self,
        *,
        master: str,
        size: ClusterSize,
        jar: Path,
        main_class: str,
        arguments: Sequence[str],
        settings: Mapping[str, str],
        on_progress: Callable[[float], None],
    ) -> SubmissionResult:
        """Run an application to its end under the engine's process supervisor, which counts it as the engine's own.

        `on_progress` gets the seconds since submission twice a second; its exceptions end the application. May be
        called by several threads at once.
        """
        # With its own Spark home: local clusters name their workers' directories there by the second of their start.
        with tempfile.TemporaryDirectory(prefix="submission-", dir=self.directory) as name:
            submission = Path(name)
            _spark_home(submission / "spark")
            (submission / "events").mkdir()
            properties = submission / "plain.conf"
            write_atomically(properties, as_properties(self._settings(submission, size, settings)))
            command = [
                str(submission / "spark" / "bin" / "spark-submit"),
                *("--master", master),
                *("--properties-file", str(properties)),
                *("--class", main_class),
                str(jar),
                *arguments,
            ]
            return _supervised(submission, command, self._environment(submission), on_progress)

    def _environment(self, submission: Path) -> dict[str, str]:
        own = {name: value.replace("{private}", str(self.directory)) for name, value in environment(self._lake).items()}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        return {
            **inherited,
            **own,
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(submission / "spark"),
            "SPARK_CONF_DIR": str(self.directory),
            "SPARK_LOCAL_DIRS": str(submission / "scratch"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def _settings(self, submission: Path, size: ClusterSize, settings: Mapping[str, str]) -> dict[str, str]:
        s3a = os.pathsep.join(str(jar) for jar in sorted(penstock_jars().glob("*.jar")) if not _ours(jar))
        return {
            **spark_settings(self._lake),
            **settings,
            _INTERCEPTORS: ",".join(filter(None, (settings.get(_INTERCEPTORS), EMPTY_BODIES))),
            "spark.driver.memory": f"{size.driver.memory_bytes // MIB}m",
            "spark.executor.memory": f"{size.executor.memory_bytes // MIB}m",
            "spark.executor.cores": str(size.executor.cores),
            "spark.driver.extraClassPath": s3a,
            "spark.executor.extraClassPath": s3a,
            "spark.driver.defaultJavaOptions": self._options,
            "spark.executor.defaultJavaOptions": self._options,
            "spark.driver.host": "127.0.0.1",
            "spark.sql.catalogImplementation": "hive",
            # Both arms write one, uncompressed and in one file, since it records the launch of the first task.
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (submission / "events").as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }


def single_process_master(size: ClusterSize) -> str:
    """Return the master of an application in a single JVM."""
    return f"local[{size.executor_cores}]"


def local_cluster_master(size: ClusterSize) -> str:
    """Return the master of Spark's own cluster on one machine, whose executors are separate processes."""
    # Spark requests the overhead from a worker on top of an executor's heap.
    return f"local-cluster[{size.executors},{size.executor.cores},{size.executor_bytes // MIB}]"


def _ours(jar: Path) -> bool:
    return jar.name.startswith("penstock-") and jar.name not in _SHARED_JARS


def _spark_home(directory: Path) -> None:
    """Link pyspark's Spark into a directory of our own: a local cluster's workers write below their Spark home."""
    directory.mkdir()
    installed = spark_jars().parent
    for part in ("bin", "jars", "sbin"):
        if (installed / part).exists():
            (directory / part).symlink_to(installed / part)


def _supervised(
    submission: Path, command: Sequence[str], environment: Mapping[str, str], on_progress: Callable[[float], None]
) -> SubmissionResult:
    for part in ("private", "cluster", "artefacts", "scratch"):
        (submission / part).mkdir()
    plan = {
        "application_id": submission.name,
        "driver": list(command),
        "executor": [],
        "executors": 0,
        "lost_executors_limit": 0,
        "environment": {**environment, shim.APPLICATION_VARIABLE: submission.name},
    }
    write_json(submission / "private" / "plan.json", plan)
    log, begun_ms = submission / "cluster" / "keeper.log", int(time.time() * 1000)
    with log.open("wb") as output:
        supervisor = subprocess.Popen(
            [sys.executable, "-I", shim.__file__, str(submission)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=submission,
            start_new_session=True,
        )
    memory = _PeakMemory(supervisor.pid, submission / "cluster" / "status.json")
    with calling_periodically(memory.look, every_seconds=_SAMPLE_EVERY_SECONDS):
        _wait(supervisor, submission.name, on_progress)
    status = read_json(submission / "cluster" / "status.json") or {}
    if not status.get("ended"):
        raise ClusterError("The process supervisor of plain Spark was killed", why=tail(log, 5))
    driver = status["driver"]
    return SubmissionResult(
        submitted_ms=driver.get("started_ms", begun_ms),
        ended_ms=driver.get("ended_ms", begun_ms),
        exit_code=driver["exit_code"],
        core_seconds=round(driver.get("cpu_seconds", 0) + status["strays_cpu_seconds"], 3),
        peak_memory_bytes=memory.bytes or driver.get("peak_rss_bytes", 0),
        first_task_ms=_first_task_ms(submission / "events"),
        output="\n".join(
            filter(None, (tail(submission / "artefacts" / f"driver.{end}", 20) for end in ("out", "err")))
        ),
    )


def _wait(supervisor: subprocess.Popen[bytes], application_id: str, on_progress: Callable[[float], None]) -> None:
    started = time.monotonic()
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                supervisor.wait(timeout=_LOOK_EVERY_SECONDS)
                return
            on_progress(time.monotonic() - started)
    finally:
        if supervisor.returncode != 0:
            _end(supervisor, application_id)


def _end(supervisor: subprocess.Popen[bytes], application_id: str) -> None:
    """End the supervisor with the application; kill what is left, as after the supervisor itself was killed."""
    supervisor.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        supervisor.wait(timeout=_GRACE_SECONDS)
    own = shim.own_control_group()
    group = own and own / shim.control_group_name(application_id)
    for pid in {*shim.application_processes(application_id), *shim.control_group_processes(group)} - {supervisor.pid}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        supervisor.wait(timeout=_GRACE_SECONDS)
    supervisor.kill()
    supervisor.wait()
    if group is not None:
        shim.remove_control_group(group)


class _PeakMemory:
    """The sum of the peaks of resident memory of driver and executors, which is the engine's figure too.

    The kernel keeps each peak; it is last read up to 0.2 s before the end of the process.
    """

    def __init__(self, supervisor: int, status: Path) -> None:
        self._supervisor, self._status = supervisor, status
        self._peaks: dict[tuple[int, int], int] = {}

    @property
    def bytes(self) -> int:
        return sum(self._peaks.values())

    def look(self) -> None:
        driver = ((read_json(self._status) or {}).get("driver") or {}).get("pid")
        for process in process_tree(self._supervisor, processes()):
            if process.pid == driver or _is_executor(process.pid):
                at = process.pid, process.started
                self._peaks[at] = max(self._peaks.get(at, 0), peak_resident_bytes(process.pid))


def _is_executor(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return _EXECUTOR_MAIN in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _first_task_ms(event_logs: Path) -> int | None:
    for log in event_logs.iterdir():
        with log.open(encoding="utf-8") as lines:
            for line in lines:
                if line.startswith('{"Event":"SparkListenerTaskStart"'):
                    return int(json.loads(line)["Task Info"]["Launch Time"])
    return None


def _prefix_of_this_process() -> str:
    process = ProcessId.of(os.getpid())
    return f"{_PREFIX}{os.getpid()}-{process.started if process else 0}-"


def _sweep(root: Path) -> None:
    """Remove the directories of killed processes, and end the applications that those had submitted."""
    for directory in root.glob(f"{_PREFIX}*"):
        _, pid, started, *_ = (*directory.name.split("-"), "", "")
        if not (pid.isdigit() and started.isdigit()) or ProcessId(int(pid), int(started)).alive():
            continue
        for process in processes_below(directory):
            end_process(process, grace_seconds=5)
        shutil.rmtree(directory, ignore_errors=True)


PENSTOCK = "penstock"
PLAIN = "plain"
LAUNCHERS = (PENSTOCK, PLAIN)


@dataclass(frozen=True)
class Job:
    """One of the lab's applications, for one run. Plain Spark ignores `profile` and its settings.

    `main_class` is None for statements, which the `engine` runs by itself.
    """

    run: str
    role: str
    name: str
    main_class: str | None
    arguments: Sequence[str]
    size: ClusterSize
    profile: str
    settings: Mapping[str, str]
    cores_per_core: float = CORES_PER_CORE
    """The number of times that the engine may promise a core; plain Spark ignores it."""
    engine: QueryEngine = SPARK


@dataclass(frozen=True)
class JobResult:
    """The result of a job. `sample` holds its recorded values."""

    sample: Mapping[str, Any]
    succeeded: bool
    explain: Callable[[], None]
    """Raises `ClusterError` with the end of the application's output, where it did not succeed."""


def elapsed_ms(ran: Iterable[JobResult]) -> int:
    """Return the time from the first submission to the end of the last driver."""
    samples = [one.sample for one in ran]
    first = min(sample["submitted_ms"] for sample in samples)
    return int(max(sample["submitted_ms"] + sample["elapsed_ms"] for sample in samples) - first)


class Launcher(Protocol):
    def run(self, job: Job, doing: Callable[[str], None]) -> JobResult:
        """Run a job to its end.

        `doing` gets a description of its progress now and then; its exceptions end the application. May be called by
        several threads at once.
        """
        ...


class EngineLauncher:
    """Starts a dedicated cluster for each application, as for any user of Penstock."""

    def __init__(self, bench: Environment) -> None:
        self._bench = bench

    def run(self, job: Job, doing: Callable[[str], None]) -> JobResult:
        spec = ApplicationSpec(
            application=job.engine.program if job.main_class is None else str(workloads_jar()),
            main_class=job.main_class,
            name=job.name,
            size=job.size,
            profile=job.profile,
            lake=self._bench.lake.name,
            settings=job.settings,
            arguments=tuple(job.arguments),
            # The run identifies applications that a killed lab left running.
            tags=("lab", job.run),
        )
        seen_ended_ms: int | None = None

        def on_change(application: Application, observation: Observation | None) -> None:
            nonlocal seen_ended_ms
            ended = application.state is State.STOPPING or application.state.final
            # A failed attempt ends, too, and another one may follow.
            seen_ended_ms = (seen_ended_ms or int(time.time() * 1000)) if ended else None
            doing(_activity(application, observation))

        application = self._bench.run(spec, on_change, cores_per_core=job.cores_per_core)
        elsewhere = self._bench.engine.backend.name != "local"
        return JobResult(
            application_sample(application, job.role, seen_ended_ms=seen_ended_ms if elsewhere else None),
            application.state is State.FINISHED,
            lambda: require_finished(self._bench.engine, application, job.name),
        )


_OURS = ("spark.penstock.", f"{S3A}penstock.")


def refused_by(launcher: str, settings: Iterable[str]) -> list[str]:
    """Return the settings that mean nothing to the launcher's Spark: those of Penstock, for plain Spark."""
    return [key for key in settings if key.startswith(_OURS)] if launcher == PLAIN else []


def require_settings(launcher: str, settings: Iterable[str]) -> None:
    """Raise `InvalidInput` where the launcher would ignore a setting, since its arm would not be what its name says."""
    if refused := refused_by(launcher, settings):
        raise InvalidInput(
            f"Plain Spark cannot take {units.some(refused)}",
            why="the setting is Penstock's own",
            fix="set it for Penstock alone: --conf-penstock KEY=VALUE, or the settings of that arm in a lab file",
        )


def promised_size(
    engine: Engine,
    size: ClusterSize,
    launcher: str,
    profile: str,
    settings: Mapping[str, str],
    *,
    program: str = SPARK_INTERNAL,
) -> ClusterSize:
    """Return the size with the memory for overheads and scratch that the settings give, which is what a run costs.

    `program` is the query engine's.
    """
    if launcher == PLAIN:
        return _plain_size(size, settings)
    spec = ApplicationSpec(program, size, "size", profile=profile, settings=settings)
    return engine.resolve(spec).spec.size


def _plain_size(size: ClusterSize, settings: Mapping[str, str]) -> ClusterSize:
    return with_overheads(size, settings, factor=Overhead.factor, python=False)


class PlainLauncher:
    """Runs pyspark's own spark-submit with S3A's defaults, executors in separate processes."""

    def __init__(self, plain: PlainSpark) -> None:
        self._plain = plain

    def run(self, job: Job, doing: Callable[[str], None]) -> JobResult:
        # A worker of the local cluster has to have room for the overhead that the settings request.
        size = _plain_size(job.size, job.settings)
        ended = self._plain.submit(
            master=local_cluster_master(size),
            size=size,
            jar=workloads_jar(),
            main_class=str(job.main_class),
            arguments=job.arguments,
            settings=job.settings,
            on_progress=lambda seconds: doing(f"{units.seconds(seconds)} so far"),
        )
        sample = {
            "role": job.role,
            "state": "finished" if ended.exit_code == 0 else "failed",
            "submitted_ms": ended.submitted_ms,
            "elapsed_ms": ended.ended_ms - ended.submitted_ms,
            "core_seconds": ended.core_seconds,
            "peak_memory_bytes": ended.peak_memory_bytes,
        }
        return JobResult(sample, ended.exit_code == 0, lambda: _explain(job, ended))


@contextmanager
def open_launcher(kind: str, bench: Environment) -> Iterator[Launcher]:
    """Yield the launcher of that name; its files are removed at the end."""
    if kind == PENSTOCK:
        yield EngineLauncher(bench)
        return
    with PlainSpark.prepared(bench.home, bench.lake) as plain:
        yield PlainLauncher(plain)


def _explain(job: Job, ended: SubmissionResult) -> None:
    if ended.exit_code != 0:
        raise ClusterError(f"{job.name}: spark-submit ended with exit code {ended.exit_code}", why=ended.output)


def _activity(application: Application, observation: Observation | None) -> str:
    """Return the last observed job description, else the state of the application."""
    progress = observation.progress if observation else None
    return str((progress or {}).get("description") or application.state.value)
