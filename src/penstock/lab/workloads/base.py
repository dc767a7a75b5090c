"""The contract of a workload: its options, the data it needs, and one repetition of it.

Helpers shared by several workloads: data that is generated once and used by every run with the same options,
applications of many clients, and programs in a JVM of their own. Such a program measures the file system alone: no
cluster, no scheduler, nothing else that would use the CPU; class path, flags and settings are an executor's.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from penstock import units
from penstock.clusters.spark_settings import with_user_options
from penstock.engine.engines import spark as engine_settings
from penstock.engine.engines.contract import QueryEngine
from penstock.engine.engines.registry import SPARK
from penstock.engine.policy import admission
from penstock.errors import ClusterError, NotFound
from penstock.formats import as_properties
from penstock.home import write_atomically
from penstock.lab.launchers import JobResult
from penstock.lab.session import Session
from penstock.lake import settings as lake_settings
from penstock.lake.model import Lake
from penstock.lake.registry import Lakes
from penstock.model import SPARK_INTERNAL, ApplicationSpec, Capacity, ClusterSize
from penstock.profiles.s3a import S3A
from penstock.runtime import jvm


@dataclass(frozen=True)
class Suite(ABC):
    """A workload with its options: the fields of the subclass, each of which JSON can hold.

    A suite decides what to run and how to validate the result. The session launches applications and records their
    cost; the runner decides the order of measurement.
    """

    workload: ClassVar[str]
    """The name on the command line, in lab files and in the ids of runs."""
    title: ClassVar[str]
    profile: ClassVar[str]
    """The default workload profile."""
    meaning: ClassVar[Mapping[str, str]] = {}
    """Spark settings that define the computation, not its speed: the same in every arm with Spark."""

    @property
    def needs_iceberg(self) -> bool:
        """Whether its tables are Iceberg's, which plain Spark does not know."""
        return False

    @property
    def query_engine(self) -> QueryEngine:
        """The engine that is measured. Spark prepares the data for any."""
        return SPARK

    @property
    def usual_arm(self) -> str:
        """The name of an arm that Penstock runs, where the user gives none."""
        return "Penstock" if self.query_engine is SPARK else self.query_engine.title

    @property
    def description_scale(self) -> float | None:
        """The benchmark's own scale factor, where it has one."""
        return None

    def options(self) -> dict[str, Any]:
        """Return the recorded options; `type(self)(**options)` restores the suite.

        They lack `reload`, so that resuming a run does not generate the data again.
        """
        return {name: value for name, value in asdict(self).items() if name != "reload"}

    def check_options(self) -> None:
        """Raise `InvalidInput` for invalid options, before anything is started."""
        return

    def default_size(self, capacity: Capacity) -> ClusterSize:
        """Return the default cluster of each of its applications."""
        return admission.usual_size(capacity)

    def check_size(self, size: ClusterSize, capacity: Capacity) -> None:  # noqa: ARG002 - the engine checks a single cluster
        """Raise `InvalidInput` where clusters of that size exceed the capacity, before anything is started."""
        return

    def check_lake(self, lake: Lake) -> None:  # noqa: ARG002 - most suites run on any lake
        """Raise `InvalidInput` where the suite cannot run on that lake, before anything is started."""
        return

    def needs_bytes(self) -> int:
        """Return the maximum space for data, output and shuffle together; 0 where that is negligible."""
        return 0

    def prepare(self, session: Session) -> None:  # noqa: ARG002 - some suites need no data
        """Generate the input that the lake lacks and use the rest; not part of any repetition."""
        return

    @abstractmethod
    def repetition(self, session: Session) -> None:
        """Do the work once, record its samples, and validate it.

        Raises `PenstockError` where the work could not be done at all: the repetition is then recorded as failed. A
        wrong result is recorded by `session.check`, not raised.
        """


@dataclass(frozen=True)
class GeneratedData:
    """Generated data: its location, the application that generates it, and the identity that its manifest must have.

    The application takes `arguments`, `--location` and `--report`, and writes `_manifest.json` last, so that incomplete
    data is generated again.
    """

    title: str
    prefix: str
    main_class: str
    arguments: Sequence[str]
    identity: Mapping[str, Any]

    def ensure(self, session: Session, *, reload: bool) -> dict[str, Any]:
        """Return the manifest, after generating the data if the lake lacks it or with `reload`."""
        session.listener.step(self.title)
        found = None if reload else self.manifest(session)
        if found is not None:
            session.listener.note("The lake already has it.")
        else:
            found = self._generate(session)
            session.listener.note(f"{units.size(found['bytes'])} generated.")
        session.record("dataset", manifest=found)
        return found

    def manifest(self, session: Session) -> dict[str, Any] | None:
        """Return the manifest; None where there is no data, or other data."""
        try:
            found: dict[str, Any] = json.loads(session.store.get(f"{self.prefix}/_manifest.json"))
        except NotFound:
            return None
        return found if {key: found.get(key) for key in self.identity} == self.identity else None

    def _generate(self, session: Session) -> dict[str, Any]:
        report = session.key("generate") + ".jsonl"
        locations = ("--location", session.uri(self.prefix), "--report", session.uri(report))
        session.application("generate", self.main_class, (*self.arguments, *locations), name=self.title)
        session.replay(report)
        made = self.manifest(session)
        if made is None:
            raise NotFound(
                f"{self.title}: the data was generated, but {self.prefix}/_manifest.json is not in the lake",
                fix="generate it again, with --reload",
            )
        return made


_BLOCKS = 4
"""Blocks of one stream in flight at once: Hadoop's default, and that of Penstock's profiles."""

_PROVIDED_THREADS, _PROVIDED_CONNECTIONS = 32, 128
"""The profiles' minimum."""


def client_settings(clients: int, size: ClusterSize) -> dict[str, str]:
    """Return the settings with which `clients` clients work at once, under any profile.

    All streams of a process share S3A's threads and connections. Where its share of the clients could use more than the
    profiles provide, they are raised; otherwise clients would wait for each other.
    """
    made = {
        # A client that started before the others' executors would have the lake for itself.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        # A speculative copy of a slow client would be an additional client.
        "spark.speculation": "false",
    }
    needed = -(-clients // size.executors) * _BLOCKS
    if needed > _PROVIDED_THREADS:
        made[f"{S3A}threads.max"] = str(needed)
    if 2 * needed > _PROVIDED_CONNECTIONS:
        made[f"{S3A}connection.maximum"] = str(2 * needed)
    return made


def run_clients(
    session: Session,
    role: str,
    main_class: str,
    arguments: Sequence[str],
    *,
    name: str,
    most: int,
    keep: bool = False,
    doing: Callable[[str], None] | None = None,
    **more: Any,
) -> JobResult:
    """Run the application under a prefix of its own in the lake, with `most` clients at once, and record its samples.

    The application removes its objects itself; those that a killed one left are removed here.
    """
    prefix = session.key(role)
    report = f"{prefix}.jsonl"
    chosen: Mapping[str, str] = {**client_settings(most, session.size), **session.settings}
    try:
        ran = session.application(
            role,
            main_class,
            ("--location", session.uri(prefix), "--report", session.uri(report), *arguments),
            name=name,
            settings=chosen,
            doing=doing,
            must_succeed=False,
            **more,
        )
        session.judged(ran, report)
    finally:
        if not keep:
            session.remove(prefix)
    return ran


WRONG = 9
"""The exit code of a program after failed checks, which its report lists."""


def run_program(session: Session, main_class: str, arguments: Sequence[str]) -> None:
    """Run a program to its end; `--settings` passes the file of its settings.

    Secrets are only in a private file, which the environment names. Raises `ClusterError` with the end of its output
    where it failed.
    """
    with tempfile.TemporaryDirectory(prefix="program-", dir=session.bench.home.root) as name:
        private = Path(name)
        lake = session.bench.lake
        credentials = Lakes(session.bench.home).client_credentials(lake)
        for file, content in lake_settings.private_files(lake, credentials).items():
            write_atomically(private / file, content)
        made = _settings(session)
        write_atomically(private / "spark.conf", as_properties(made))
        java, lake = jvm.find_java(), session.bench.lake
        trusting = jvm.trust_options(java, lake.authorities, cache=session.bench.home.cache)
        common = jvm.Jvm(java, jvm.class_path(), private=private, scratch=private, options=tuple(trusting))
        command = jvm.program_command(
            common,
            size=session.size.executor,
            main_class=main_class,
            arguments=(*arguments, "--settings", str(private / "spark.conf")),
        )
        done = subprocess.run(
            with_user_options(command, made, "executor"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=_environment(private, lake),
            cwd=private,
            check=False,
        )
    if done.returncode not in (0, WRONG):
        raise ClusterError(
            f"{main_class} ended with exit code {done.returncode}", why="\n".join(done.stderr.splitlines()[-15:])
        )


def _settings(session: Session) -> dict[str, str]:
    spec = ApplicationSpec(SPARK_INTERNAL, session.size, "program", profile=session.profile, settings=session.settings)
    return engine_settings.resolved(spec, session.bench.lake).values()


def _environment(private: Path, lake: Lake) -> dict[str, str]:
    variables = lake_settings.environment(lake)
    own = {name: value.replace("{private}", str(private)) for name, value in variables.items()}
    # Without a UTF-8 locale Java misreads file names outside ASCII.
    return {**own, "PATH": os.defpath, "LC_ALL": "C.UTF-8", "TMPDIR": str(private)}
