"""Overheads: the cost of reads in one process, and the time from submission to the first task.

Every arm of the start-up runs the same application (one SQL statement of two tasks) with the settings of the same
profile. The clock starts just before the command of a user, so each arm pays for its own command line too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from penstock import units
from penstock.errors import ClusterError, InvalidInput, NotFound
from penstock.lab import launchers
from penstock.lab.environment import Environment, application_jar
from penstock.lab.experiment import interleaved
from penstock.lab.progress import ProgressListener
from penstock.lab.records import Recorder, Run, new_run_id
from penstock.lab.session import Session
from penstock.lab.workloads import base
from penstock.lab.workloads.base import Suite
from penstock.lab.workloads.options import Option, numbers, parse_names, size
from penstock.model import ClusterSize
from penstock.processes import load_average
from penstock.units import MIB

_READS_MAIN = "io.penstock.workloads.reads"
_MEMORY = Path("/dev/shm")  # noqa: S108 - Linux's file system in memory; the directory created there is private

LAKE, LOCAL, RAW = "lake", "local", "raw"
SOURCES = (LAKE, LOCAL, RAW)
"""`local` is Hadoop's local file system, which verifies checksums, as in Spark; `raw` is the same without checksums."""

WARM, COLD, SMALL, NONE = "warm", "cold", "small", "none"
CACHES = (WARM, COLD, SMALL, NONE)

MEMORY, DISK = "memory", "disk"
MEDIA = (MEMORY, DISK)

PATTERNS = ("sequential", "random", "vectored", "small")


@dataclass(frozen=True)
class Reads(Suite):
    """A repetition is one process that reads all data in every pattern, with every number of threads."""

    workload: ClassVar[str] = "reads"
    title: ClassVar[str] = "Reads"
    profile: ClassVar[str] = "default"

    size_bytes: Annotated[int, size("Size of the large object.")] = 256 * MIB
    small_objects: Annotated[int, Option("Number of small objects, each read completely.", least=1)] = 256
    small_size_bytes: Annotated[int, size("Size of each small object.")] = 256 << 10
    patterns: Annotated[
        tuple[str, ...], Option(f"Patterns to measure: {', '.join(PATTERNS)}.", parse=parse_names, show=",".join)
    ] = PATTERNS
    threads: Annotated[tuple[int, ...], numbers("Numbers of threads to measure, one at a time.", "of threads")] = (1, 2)
    passes: Annotated[int, Option("Passes of each pattern with each number of threads.", least=1)] = 3
    """All in one process."""
    warmup_passes: Annotated[
        int, Option("Passes before those that are not counted: they compile, and fill a warm cache.", least=1)
    ] = 1
    source: Annotated[str, Option("lake, local (files), or raw (local files without Hadoop's checksums).")] = LAKE
    cache: Annotated[
        str, Option("Page cache of a pass: warm, cold, small (a quarter of the data, used by the pass before) or none.")
    ] = WARM
    medium: Annotated[str, Option("Tier of the page cache: memory or disk.")] = MEMORY

    def check_options(self) -> None:
        for name, value, known in (
            ("source", self.source, SOURCES),
            ("cache", self.cache, CACHES),
            ("medium", self.medium, MEDIA),
        ):
            if value not in known:
                raise InvalidInput(f"--{name} cannot be {value}", fix=f"choose one of {', '.join(known)}")
        unknown = [pattern for pattern in self.patterns if pattern not in PATTERNS]
        if unknown or len(set(self.patterns)) < max(1, len(self.patterns)):
            raise InvalidInput(
                f"--patterns cannot be {','.join(self.patterns) or 'empty'}",
                fix=f"give some of {', '.join(PATTERNS)}, each once",
            )
        if self.size_bytes < 16 * MIB or self.size_bytes % MIB or self.small_size_bytes < 1:
            raise InvalidInput(
                "The large object is too small, or its size is not whole MiB",
                why="a row group has 16 column chunks, and blocks are of 64 KiB",
                fix="give at least 16m: --size 256m",
            )
        if not self.threads or min(self.threads) < 1 or len(set(self.threads)) < len(self.threads):
            raise InvalidInput("The numbers of threads must be 1 or more, each given once", fix="--threads 1,2")

    @property
    def data_bytes(self) -> int:
        return self.size_bytes + self.small_objects * self.small_size_bytes

    def needs_bytes(self) -> int:
        """Return the size of the data in the lake and a copy of it, as local files or in the page cache's disk tier."""
        return 2 * self.data_bytes

    @property
    def _name(self) -> str:
        return f"{self.size_bytes // MIB}m-{self.small_objects}x{self.small_size_bytes >> 10}k"

    def prepare(self, session: Session) -> None:
        session.listener.step(f"{units.size(self.data_bytes)} to read")
        found = self._manifest(session)
        if found is None:
            base.run_program(
                session,
                f"{_READS_MAIN}.GenerateObjects",
                (
                    *("--location", self._location(session)),
                    *("--size", f"{self.size_bytes}b"),
                    *("--small-objects", str(self.small_objects)),
                    *("--small-size", f"{self.small_size_bytes}b"),
                ),
            )
            found = self._manifest(session)
        if found is None:
            raise NotFound(f"The data was written, but {self._location(session)} has no manifest")
        session.record("dataset", manifest=found)

    def repetition(self, session: Session) -> None:
        if isinstance(session.launcher, launchers.PlainLauncher):
            raise InvalidInput(
                "Plain Spark cannot measure reads",
                why="the workload runs without Spark; only the client of the store differs",
                fix="choose profile: default+s3a-default, which is S3A with Spark's defaults",
            )
        session.listener.now(f"reading, {units.plural(self.passes, 'pass', 'passes')} of each pattern")
        with self._tier(session) as tier, tempfile.TemporaryDirectory(dir=session.bench.home.root) as name:
            report = Path(name) / "report.jsonl"
            base.run_program(
                session,
                f"{_READS_MAIN}.Reads",
                (
                    *("--location", self._location(session)),
                    # A Hadoop path, in which unlike in a URI nothing is escaped.
                    *("--report", f"file:{report}"),
                    *("--tier", str(tier)),
                    *("--cache", self.cache),
                    *("--medium", self.medium),
                    *("--patterns", ",".join(self.patterns)),
                    *("--threads", ",".join(map(str, self.threads))),
                    *("--passes", str(self.passes)),
                    *("--warmup-passes", str(self.warmup_passes)),
                    *("--raw", str(self.source == RAW).lower()),
                ),
            )
            for line in report.read_text(encoding="utf-8").splitlines():
                session.record(**json.loads(line), cores=session.size.executor.cores)

    def _location(self, session: Session) -> str:
        if self.source == LAKE:
            return session.uri(f"reads/{self._name}")
        return f"file:{self._directory(session)}"

    def _directory(self, session: Session) -> Path:
        return session.bench.home.cache / "reads" / self._name

    def _manifest(self, session: Session) -> dict[str, Any] | None:
        """Return the manifest; None where data is missing or incomplete."""
        try:
            if self.source == LAKE:
                text = session.store.get(f"reads/{self._name}/_manifest.json").decode()
            else:
                text = (self._directory(session) / "_manifest.json").read_text(encoding="utf-8")
        except (NotFound, FileNotFoundError):
            return None
        found: dict[str, Any] = json.loads(text)
        return found

    @contextmanager
    def _tier(self, session: Session) -> Iterator[Path]:
        """Yield a directory for the page cache of this repetition, removed at the end."""
        in_memory = self.medium == MEMORY and _MEMORY.is_dir()
        with tempfile.TemporaryDirectory(
            prefix="penstock-reads-", dir=_MEMORY if in_memory else session.bench.home.root
        ) as name:
            yield Path(name)


WORKLOAD = "startup"
PENSTOCK = "Penstock"
ONE_PROCESS = "plain Spark, one process"
SEPARATE = "plain Spark, separate executors"
ARMS = (PENSTOCK, ONE_PROCESS, SEPARATE)

_STARTUP_MAIN = "io.penstock.sql.SqlRunner"
_STATEMENT = "SELECT sum(id) FROM range(0, 1000, 1, 2)"


def measure_startup(
    bench: Environment, *, size: ClusterSize, repetitions: int, profile: str, listener: ProgressListener
) -> list[Run]:
    """Measure one run per arm, all of one experiment. The first start of each arm is warm-up: it fills OS caches.

    The profile is Penstock's; plain Spark has its own defaults, and S3A's. A failed start is recorded as failed and
    excluded from the times.
    """
    experiment = new_run_id(WORKLOAD, "experiment")
    recorders = {
        arm: Recorder.begin(
            bench.home,
            bench.describe(
                WORKLOAD,
                arm,
                size=size,
                profile=profile if arm == PENSTOCK else None,
                launcher=launchers.PENSTOCK if arm == PENSTOCK else launchers.PLAIN,
                experiment=experiment,
                options={"repetitions": repetitions, "statement": _STATEMENT},
            ),
        )
        for arm in ARMS
    }
    jar = application_jar()
    # A worker of a local cluster has to have room for the overhead that Spark adds.
    plain_size = launchers.promised_size(bench.engine, size, launchers.PLAIN, profile, {})
    listener.step(f"Start {repetitions} times in each of {len(ARMS)} arms, in turns")
    with launchers.PlainSpark.prepared(bench.home, bench.lake) as plain, tempfile.TemporaryDirectory() as scratch:
        statements = Path(scratch) / "statement.sql"
        statements.write_text(_STATEMENT, encoding="utf-8")

        def submit_plain(master: str, output: Path) -> tuple[int, int]:
            ended = plain.submit(
                master=master,
                size=plain_size,
                jar=jar,
                main_class=_STARTUP_MAIN,
                arguments=_arguments(statements, output),
                settings={},
                on_progress=lambda _: None,
            )
            return ended.submitted_ms, _first_task_ms(ended)

        ways: dict[str, Callable[[Path], tuple[int, int]]] = {
            PENSTOCK: lambda output: _through_penstock(bench, size, profile, jar, _arguments(statements, output)),
            ONE_PROCESS: lambda output: submit_plain(launchers.single_process_master(plain_size), output),
            SEPARATE: lambda output: submit_plain(launchers.local_cluster_master(plain_size), output),
        }
        total = (repetitions + 1) * len(ARMS)
        for number, (repetition, arm) in enumerate(interleaved(ARMS, repetitions + 1)):
            listener.now(f"{arm}, {number + 1} of {total}")
            recorders[arm].add("begin", repetition=repetition - 1, order=number + 1, load_1m=load_average())
            _record(recorders[arm], repetition - 1, partial(ways[arm], Path(scratch) / f"out-{number}"))
    for recorder in recorders.values():
        recorder.add("end", outcome="failed" if recorder.run().of_kind("failure") else "ok")
        recorder.publish(bench.store)
    return [recorder.run() for recorder in recorders.values()]


def _record(recorder: Recorder, repetition: int, start: Callable[[], tuple[int, int]]) -> None:
    try:
        submitted, first_task = start()
    except ClusterError as error:
        recorder.add("failure", repetition=repetition, error=str(error))
        return
    kind = "start" if repetition > 0 else "warmup"
    recorder.add(kind, repetition=repetition, submitted_ms=submitted, first_task_ms=first_task)


def _through_penstock(
    bench: Environment, size: ClusterSize, profile: str, jar: Path, arguments: tuple[str, ...]
) -> tuple[int, int]:
    """Submit as a user does: by the command line, in a separate process."""
    name = f"start-up {time.time_ns()}"
    command = [
        *(sys.executable, "-m", "penstock.cli.main", "run"),
        *("--class", _STARTUP_MAIN, "--name", name, "--profile", profile, "--lake", bench.lake.name),
        *("--driver-cores", str(size.driver.cores), "--driver-memory", f"{size.driver.memory_bytes // MIB}m"),
        *("--executors", str(size.executors), "--executor-cores", str(size.executor.cores)),
        *("--executor-memory", f"{size.executor.memory_bytes // MIB}m", str(jar), *arguments),
    ]
    submitted = int(time.time() * 1000)
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise ClusterError("penstock run failed", why="\n".join(done.stderr.splitlines()[-10:]))
    application = next(found for found in bench.engine.list() if found.spec.name == name)
    return submitted, int((application.summary or {})["first_task_launched_ms"])


def _arguments(statements: Path, output: Path) -> tuple[str, ...]:
    return ("--statements-file", str(statements), "--output", output.as_uri())


def _first_task_ms(ended: launchers.SubmissionResult) -> int:
    if ended.exit_code != 0 or ended.first_task_ms is None:
        raise ClusterError(f"spark-submit ended with exit code {ended.exit_code}", why=ended.output)
    return ended.first_task_ms
