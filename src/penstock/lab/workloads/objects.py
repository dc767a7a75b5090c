"""Load on the object store alone, without Spark: PUT, GET, range GET, LIST and DELETE, as in COSBench and warp."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

from penstock import units
from penstock.errors import InvalidInput, LakeError, PenstockError
from penstock.lab.loadgen import cosbench as cosbench_file
from penstock.lab.loadgen import null_store, results, workload
from penstock.lab.loadgen.cosbench import CosbenchFile
from penstock.lab.loadgen.processes import ProgressCallback, StageProgress, StageResult, open_generator
from penstock.lab.loadgen.results import measured_operations, samples
from penstock.lab.loadgen.workload import Limit, Stage, Work, Workload
from penstock.lab.report.measures import BUSY_SHARE
from penstock.lab.session import Session
from penstock.lab.workloads.base import Suite
from penstock.lab.workloads.options import Computed, Option, duration, numbers, path
from penstock.lake.model import Credentials, Lake, require_s3
from penstock.lake.registry import Lakes

_CEILING_SECONDS = 5.0
_MOST_WORKERS = 4096
T = TypeVar("T")


_LOAD = "The load"
_GENERATOR = "Load generator"


def _mixes(operation: str | None, mix: str | None, stages: list[str] | None, cosbench: str | None) -> tuple[str, ...]:
    """The stages of the load, given in one of three ways. Raises `InvalidInput` for two, or one beside a file."""
    ways = {"--operation": operation, "--mix": mix, "--stage": stages, "--cosbench": cosbench}
    given = [name for name, value in ways.items() if value]
    if len(given) > 1:
        raise InvalidInput(
            f"{' and '.join(given)} exclude each other", fix="for several stages: --stage get --stage put"
        )
    return tuple(stages or [mix or operation or "get"])


@dataclass(frozen=True)
class Objects(Suite):
    workload: ClassVar[str] = "objects"
    title: ClassVar[str] = "Object store"
    profile: ClassVar[str] = "default"

    mixes: Annotated[
        tuple[str, ...],
        Option(
            "Operation: put, get, range, list or delete.",
            name="operation",
            default_note="get",
            panel=_LOAD,
        ),
        Option(
            "Mix of operations by shares: get=80,put=15,list=4,delete=1.",
            name="mix",
            panel=_LOAD,
        ),
        Option(
            "Stage with an operation or a mix; repeat the option for several stages.",
            name="stage",
            repeated=True,
            panel=_LOAD,
        ),
        Computed(_mixes, ("operation", "mix", "stage", "cosbench"), lambda mixes: {"stage": list(mixes)}),
    ] = ("get",)
    """The stages, one after another."""
    size: Annotated[str, Option("Size of the objects: 1m, 4k-1m, or u(1,64)KB as in COSBench.", panel=_LOAD)] = "1m"
    range_size: Annotated[str, Option("Size of each range GET.", panel=_LOAD)] = "64k"
    objects: Annotated[int, Option("Number of objects to read, and to write.", panel=_LOAD)] = 200
    containers: Annotated[int, Option("Key prefixes that the objects are spread over.", panel=_LOAD)] = 1
    workers: Annotated[
        tuple[int, ...],
        numbers("Requests in flight; several numbers with commas are measured in turn.", least=0, panel=_LOAD),
    ] = (16,)
    seconds: Annotated[float, duration("Duration of each stage: 30s, 5m.", name="duration", panel=_LOAD)] = 30.0
    rampup: Annotated[float, duration("Uncounted load before each stage.", panel=_LOAD)] = 0.0
    rate: Annotated[
        float,
        Option(
            "Scheduled requests per second, with latency measured from the scheduled time. 0: closed loop, each worker "
            "sends one request after another.",
            panel=_LOAD,
        ),
    ] = 0.0
    cosbench: Annotated[
        str,
        path("COSBench workload file, instead of these options. Its storage and auth are not used.", panel=_LOAD),
    ] = ""
    ceiling: Annotated[
        bool, Option("First measure the generator's own ceiling against a null store.", panel=_GENERATOR)
    ] = False
    processes: Annotated[
        int, Option("Processes of the generator. 0: one per core.", least=0, most=256, panel=_GENERATOR)
    ] = 0
    """At most as many as workers are used."""
    seed: Annotated[int, Option("Seed of contents, sizes and order.", panel=_GENERATOR)] = 1
    keep: Annotated[bool, Option("Keep the objects in the lake.", panel=_GENERATOR)] = False

    def plan(self) -> CosbenchFile:
        """Return the load, and notes on the ignored parts of a workload file. Raises `InvalidInput`."""
        if self.cosbench:
            return cosbench_file.read(Path(self.cosbench))
        options = workload.SimpleOptions(
            mixes=tuple(_valid("--operation, --mix or --stage", workload.parse_mix, mix) for mix in self.mixes),
            sizes=_valid("--size", workload.parse_object_sizes, self.size),
            objects=self.objects,
            containers=self.containers,
            workers=self.workers,
            seconds=self.seconds,
            range_bytes=_valid("--range-size", _size, self.range_size),
            rampup_seconds=self.rampup,
            rate=self.rate or None,
        )
        return CosbenchFile(workload.simple_workload(options), ())

    def check_options(self) -> None:
        if not self.mixes or not self.workers or min(self.workers) < 1:
            raise InvalidInput("There is nothing to measure", fix="--operation get --workers 16")
        amounts = (self.objects, self.containers, self.seconds)
        if not all(0 < amount < math.inf for amount in amounts) or self.rate < 0 or self.rampup < 0:
            raise InvalidInput(
                "There is nothing to measure",
                why="objects, containers and duration must be above zero, rate and ramp-up not negative",
                fix="penstock lab objects --help",
            )
        workers = self.plan().workload.workers
        if not 1 <= workers <= _MOST_WORKERS:
            raise InvalidInput(f"{workers} workers are not possible", fix=f"choose between 1 and {_MOST_WORKERS}")

    def needs_bytes(self) -> int:
        return self.plan().workload.written_bytes

    def check_lake(self, lake: Lake) -> None:
        require_s3(lake, "The load of objects")

    def prepare(self, session: Session) -> None:
        """Note the ignored parts of a workload file, and measure the generator's own ceiling with `ceiling`."""
        read = self.plan()
        for note in read.ignored:
            session.listener.note(note)
        session.record("plan", **asdict(read))
        if self.ceiling and not session.recorder.run().of_kind("ceiling"):
            self._find_ceiling(session, read.workload)

    def repetition(self, session: Session) -> None:
        workload = self.plan().workload
        processes = self._processes(workload)
        ceilings = {s["name"]: s["operations_per_second"] for s in session.recorder.run().of_kind("ceiling")}
        prefix = session.key("objects")
        lake = session.bench.lake
        credentials = Lakes(session.bench.home).credentials_of(lake)
        for earlier in range(1, session.attempt):  # a killed attempt could not clean up
            session.remove(replace(session, attempt=earlier).key("objects"))
        fruitless = []
        with (
            _removing(session, prefix, keep=self.keep),  # outermost, so that writes have ended when it removes
            open_generator(lake, credentials, prefix=prefix, seed=self.seed, processes=processes) as generator,
        ):
            for stage in workload.stages:
                result = generator.run(stage, _progress_report(session, stage))
                if not stage.measured:
                    _require_prepared(result)
                    continue
                for sample in samples(result, ceilings, processes):
                    session.record(**sample)
                _warn(session, result, ceilings)
                if after := results.read_back_stage(result):
                    read = generator.run(after, _progress_report(session, after))
                    session.record(**results.read_back_check(result, read))
                fruitless += [one.name for one in measured_operations(result) if one.fruitless]
        if fruitless:
            raise LakeError(
                f"No request succeeded in time: {'; '.join(fruitless)}",
                why="the records hold the errors by kind; requests that end too late do not count",
                fix=f"penstock lake check --lake {lake.name}",
            )

    def _find_ceiling(self, session: Session, workload: Workload) -> None:
        processes = self._processes(workload)
        session.listener.step("The generator's own ceiling, against a store that stores nothing")
        lake = session.bench.lake
        canned = null_store.NullStoreConfig.of(workload, seed=self.seed, bucket=lake.bucket, prefix="ceiling")
        anonymous = Credentials("nobody", "nothing")
        with (
            null_store.null_store_gateways(lake, canned, processes=processes) as null,
            open_generator(null, anonymous, prefix="ceiling", seed=self.seed, processes=processes) as generator,
        ):
            for stage in (stage for stage in workload.stages if stage.measured):
                result = generator.run(_shortened(stage), _progress_report(session, stage))
                names = [one.name for one in measured_operations(replace(result, stage=stage))]
                for name, one in zip(names, measured_operations(result), strict=True):
                    session.record(
                        "ceiling",
                        name=name,
                        operations_per_second=round(one.operations_per_second, 1),
                        bytes_per_second=round(one.tally.bytes / one.elapsed) if one.elapsed else 0,
                        core_seconds=round(result.core_seconds, 3),
                        elapsed_ms=round(one.elapsed * 1000),
                        errors=dict(one.tally.errors),
                        processes=processes,
                    )

    def _processes(self, workload: Workload) -> int:
        return min(self.processes or len(os.sched_getaffinity(0)), workload.workers)


@contextlib.contextmanager
def _removing(session: Session, prefix: str, *, keep: bool) -> Iterator[None]:
    """Remove every object at the end unless `keep`; a failure to remove does not hide an earlier one."""
    try:
        yield
    except BaseException:
        if not keep:
            with contextlib.suppress(PenstockError):
                session.remove(prefix)
        raise
    if not keep:
        session.listener.now("removing the objects")
        session.remove(prefix)


def _progress_report(session: Session, stage: Stage) -> ProgressCallback:
    total = max((_seconds(work) for work in stage.works), default=0.0)

    def report(progress: StageProgress, elapsed: float) -> None:
        errors = f", {progress.errors} errors" if progress.errors else ""
        left = f", {units.seconds(max(0.0, total - elapsed))} left" if total else ""
        rate = f"{progress.operations / elapsed:.0f} a second, {units.size(round(progress.bytes / elapsed))}/s"
        session.listener.now(f"{stage.name}: {progress.operations} operations, {rate}{errors}{left}")

    return report


def _seconds(work: Work) -> float:
    return work.rampup_seconds + (work.limit.seconds or 0.0) + work.rampdown_seconds


def _shortened(stage: Stage) -> Stage:
    """Return a stage for the ceiling: a few seconds are enough, and without a schedule they show the maximum rate."""
    limit = Limit(seconds=_CEILING_SECONDS)
    works = (replace(work, limit=limit, rampup_seconds=1.0, rampdown_seconds=0.0, rate=None) for work in stage.works)
    return replace(stage, works=tuple(works), pause_seconds=0.0)


def _require_prepared(result: StageResult) -> None:
    if errors := result.errors():
        kinds = ", ".join(f"{count} times “{kind}”" for kind, count in errors.items())
        details = (detail for work in result.tallies for tally in work for detail in tally.first_error.values())
        raise LakeError(
            f"The objects of the stage “{result.stage.name}” could not be written or removed",
            why=f"{kinds}; the first: {next(details)}",
            fix="penstock lake check shows what the store can do",
        )


def _warn(session: Session, result: StageResult, ceilings: Mapping[str, float]) -> None:
    for one in measured_operations(result):
        if (ceiling := ceilings.get(one.name)) and one.operations_per_second > BUSY_SHARE * ceiling:
            share = one.operations_per_second / ceiling
            session.listener.note(
                f"{one.name}: {share:.0%} of the generator's own ceiling. The store may be capable of more: use more "
                "--processes on more cores, or generators on several machines"
            )


def _size(text: str) -> int:
    found = units.parse_size(text)
    if found is None or found < 1:
        raise ValueError(f"“{text}” is not a size such as 64k")
    return found


def _valid(option: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidInput(f"{option} {text} is invalid", why=str(error), fix="penstock lab objects --help") from None
