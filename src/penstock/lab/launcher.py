"""How the lab has an application run: through Penstock's engine, or by plain spark-submit on equal terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from penstock import units
from penstock.clusters.backend import Observation
from penstock.errors import ClusterError
from penstock.lab.bench import Bench, application_sample, require_finished, workloads_jar
from penstock.lab.plain import Ended, PlainSpark, separate_executors
from penstock.model import CORES_PER_CORE, Application, ApplicationSpec, ClusterSize, State

PENSTOCK = "penstock"
PLAIN = "plain"
LAUNCHERS = (PENSTOCK, PLAIN)


@dataclass(frozen=True)
class Job:
    """One of the lab's Spark applications, for one run. `profile` and what it holds is nothing to plain Spark."""

    run: str
    role: str
    name: str
    main_class: str
    arguments: Sequence[str]
    size: ClusterSize
    profile: str
    settings: Mapping[str, str]
    cores_per_core: float = CORES_PER_CORE
    """How often the engine may have promised a core to start it; plain Spark asks nobody."""


@dataclass(frozen=True)
class Ran:
    """How it went. `sample` is what the records keep of it."""

    sample: Mapping[str, Any]
    succeeded: bool
    explain: Callable[[], None]
    """Raises `ClusterError` with the end of the application's output, where it did not succeed."""


class Launcher(Protocol):
    def run(self, job: Job, doing: Callable[[str], None]) -> Ran:
        """Run it to its end; `doing` is told now and then what it is at, and what it raises ends the application.

        May be called by several threads at once.
        """
        ...


class EngineLauncher:
    """A dedicated cluster for each application, as any user of Penstock gets it."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def run(self, job: Job, doing: Callable[[str], None]) -> Ran:
        spec = ApplicationSpec(
            application=str(workloads_jar()),
            main_class=job.main_class,
            name=job.name,
            size=job.size,
            profile=job.profile,
            lake=self._bench.lake.name,
            settings=job.settings,
            arguments=tuple(job.arguments),
            # By its run, what a killed lab left running is found again.
            tags=("lab", job.run),
        )
        application = self._bench.run(
            spec,
            lambda application, seen: doing(_doing(application, seen)),
            cores_per_core=job.cores_per_core,
        )
        return Ran(
            application_sample(application, job.role),
            application.state is State.FINISHED,
            lambda: require_finished(self._bench.engine, application, job.name),
        )


class PlainLauncher:
    """pyspark's own spark-submit with S3A's defaults, executors in processes of their own."""

    def __init__(self, plain: PlainSpark) -> None:
        self._plain = plain

    def run(self, job: Job, doing: Callable[[str], None]) -> Ran:
        ended = self._plain.submit(
            master=separate_executors(job.size),
            size=job.size,
            jar=workloads_jar(),
            main_class=job.main_class,
            arguments=job.arguments,
            settings=job.settings,
            seen=lambda seconds: doing(f"{units.seconds(seconds)} so far"),
        )
        sample = {
            "role": job.role,
            "state": "finished" if ended.exit_code == 0 else "failed",
            "submitted_ms": ended.submitted_ms,
            "elapsed_ms": ended.ended_ms - ended.submitted_ms,
            "core_seconds": ended.core_seconds,
            "peak_memory_bytes": ended.peak_memory_bytes,
        }
        return Ran(sample, ended.exit_code == 0, lambda: _explain(job, ended))


@contextmanager
def opened(kind: str, bench: Bench) -> Iterator[Launcher]:
    """The launcher of that name, with what it needs on disk, which is gone afterwards."""
    if kind == PENSTOCK:
        yield EngineLauncher(bench)
        return
    with PlainSpark.prepared(bench.home, bench.lake) as plain:
        yield PlainLauncher(plain)


def _explain(job: Job, ended: Ended) -> None:
    if ended.exit_code != 0:
        raise ClusterError(f"{job.name}: spark-submit ended with exit code {ended.exit_code}", why=ended.output)


def _doing(application: Application, observation: Observation | None) -> str:
    """What the observer last saw: the job description, else the state of the application."""
    progress = observation.progress if observation else None
    return str((progress or {}).get("description") or application.state.value)
