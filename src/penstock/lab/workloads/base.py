"""The contract of a workload: its options, the data it needs, and one repetition of it.

With it what several workloads share: data that is generated once and used by every run with the same options,
applications of many clients, and programs in a JVM of their own. Such a program measures the file system alone: no
cluster, no scheduler, nothing else that would use the processor; class path, flags and settings are an executor's.
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
from penstock.clusters.settings import BUILT_IN, with_user_options
from penstock.engine import preparation as engine_settings
from penstock.engine.policy import admission
from penstock.errors import ClusterError, NotFound
from penstock.formats import as_properties
from penstock.home import write_atomically
from penstock.lab.launchers import Ran
from penstock.lab.session import Session
from penstock.lake import settings as lake_settings
from penstock.lake.model import Lake
from penstock.lake.registry import Lakes
from penstock.model import ApplicationSpec, Capacity, ClusterSize
from penstock.profiles.s3a import S3A
from penstock.runtime import jvm


@dataclass(frozen=True)
class Suite(ABC):
    """A workload with its options: the fields of the subclass, each of which JSON can hold.

    A suite decides what to run and how its result is validated; how an application is launched, what is recorded
    beside it and in which order things are measured is the session's and the runner's business.
    """

    workload: ClassVar[str]
    """What it is called on the command line, in a lab file and in the names of runs."""
    title: ClassVar[str]
    profile: ClassVar[str]
    """The workload profile it runs with where no other is asked for."""
    meaning: ClassVar[Mapping[str, str]] = {}
    """Spark settings that define what is computed, not how fast: the same in every arm."""

    @property
    def description_scale(self) -> float | None:
        """The benchmark's own scale factor, where it has one."""
        return None

    def options(self) -> dict[str, Any]:
        """As recorded; `type(self)(**options)` is the suite again.

        Without `reload`: making the data anew was asked of one command, not of whoever goes on with it.
        """
        return {name: value for name, value in asdict(self).items() if name != "reload"}

    def check_options(self) -> None:
        """Raise `InvalidInput` for what could never run. Nothing was started yet."""
        return

    def default_size(self, capacity: Capacity) -> ClusterSize:
        """The cluster of each of its applications where the user asked for none."""
        return admission.usual_size(capacity)

    def check_size(self, size: ClusterSize, capacity: Capacity) -> None:  # noqa: ARG002 - one cluster the engine checks
        """Raise `InvalidInput` where clusters of that size cannot do it on what there is. Nothing was started yet."""
        return

    def check_lake(self, lake: Lake) -> None:  # noqa: ARG002 - most run on any
        """Raise `InvalidInput` where it could not run on that lake. Nothing was started yet."""
        return

    def needs_bytes(self) -> int:
        """Free space that data, output and shuffle together will take at the most; 0 where that is negligible."""
        return 0

    def prepare(self, session: Session) -> None:  # noqa: ARG002 - some suites need nothing
        """Make the input that the lake lacks. Not part of any repetition; what it finds in the lake it uses."""
        return

    @abstractmethod
    def repetition(self, session: Session) -> None:
        """Do the work once, record its samples, and validate it.

        Raises `PenstockError` where the work could not be done at all: the repetition is then recorded as failed. A
        wrong result is not raised but recorded, by `session.check`.
        """


@dataclass(frozen=True)
class Generated:
    """Where the data is, which application makes it, and what its manifest must say for it to be that very data.

    The application takes `arguments`, `--location` and `--report`, and writes `_manifest.json` last, so that data whose
    generation was cut short is made again.
    """

    title: str
    prefix: str
    main_class: str
    arguments: Sequence[str]
    identity: Mapping[str, Any]

    def ensure(self, session: Session, *, reload: bool) -> dict[str, Any]:
        """The manifest, after generating the data where the lake lacks it or `reload` asks for it."""
        session.listener.step(self.title)
        found = None if reload else self.manifest(session)
        if found is not None:
            session.listener.note("The lake has it already.")
        else:
            found = self._generate(session)
            session.listener.note(f"{units.size(found['bytes'])} generated.")
        session.record("dataset", manifest=found)
        return found

    def manifest(self, session: Session) -> dict[str, Any] | None:
        """None where there is no data, or not this."""
        try:
            found: dict[str, Any] = json.loads(session.store.get(f"{self.prefix}/_manifest.json"))
        except NotFound:
            return None
        return found if {key: found.get(key) for key in self.identity} == self.identity else None

    def _generate(self, session: Session) -> dict[str, Any]:
        report = session.key("generate") + ".jsonl"
        where = ("--location", session.uri(self.prefix), "--report", session.uri(report))
        session.application("generate", self.main_class, (*self.arguments, *where), name=self.title)
        session.replay(report)
        made = self.manifest(session)
        if made is None:
            raise NotFound(
                f"{self.title}: generated, but {self.prefix}/_manifest.json is not in the lake",
                fix="generate it again, with --reload",
            )
        return made


_BLOCKS = 4
"""Of one stream, on their way at once: Hadoop's default, and that of Penstock's profiles."""

_PROVIDED_THREADS, _PROVIDED_CONNECTIONS = 32, 128
"""By the profiles, at the least."""


def settings(clients: int, size: ClusterSize) -> dict[str, str]:
    """What makes `clients` clients really be at work at once, under any profile.

    S3A's threads and connections are for all streams of a process. Where its share of clients could use more than the
    profiles provide, they are raised; otherwise the time measured would be that of waiting for each other.
    """
    made = {
        # A client that began before the others' executors were there would have the lake for itself.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        # A second copy of a slow client is one client more.
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
) -> Ran:
    """Run the application on a place of its own in the lake, with `most` clients at once, and record its samples.

    The application takes its place away itself; what one that was killed left there is removed here.
    """
    place = session.key(role)
    report = f"{place}.jsonl"
    chosen: Mapping[str, str] = {**settings(most, session.size), **session.settings}
    try:
        ran = session.application(
            role,
            main_class,
            ("--location", session.uri(place), "--report", session.uri(report), *arguments),
            name=name,
            settings=chosen,
            doing=doing,
            must_succeed=False,
            **more,
        )
        session.judged(ran, report)
    finally:
        if not keep:
            session.remove(place)
    return ran


WRONG = 9
"""The exit code of a program whose checks found something wrong; its report tells what."""


def run(session: Session, main_class: str, arguments: Sequence[str]) -> None:
    """Run it to its end; it is told the file with its settings by `--settings`.

    Secrets are in a private file alone, which the environment names. Raises `ClusterError` with the end of its output
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
    spec = ApplicationSpec(BUILT_IN, session.size, "program", profile=session.profile, settings=session.settings)
    return engine_settings.resolved(spec, session.bench.lake).values()


def _environment(private: Path, lake: Lake) -> dict[str, str]:
    told = lake_settings.environment(lake)
    own = {name: value.replace("{private}", str(private)) for name, value in told.items()}
    # Without a locale of its own Java takes names of files outside ASCII for others.
    return {**own, "PATH": os.defpath, "LC_ALL": "C.UTF-8", "TMPDIR": str(private)}
