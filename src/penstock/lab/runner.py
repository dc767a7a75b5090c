"""The runner: measures arms in turns, records everything, and resumes interrupted runs.

The runs' own descriptions hold everything needed to resume: an experiment is the runs that share its id, and a batch
the runs of all experiments that one command began. Finished repetitions are not repeated. Signals unwind a measurement,
which ends everything it started.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from penstock import units
from penstock.errors import PenstockError, StateError
from penstock.home import Home
from penstock.lab import conditions, launchers, records
from penstock.lab import environment as benches
from penstock.lab.environment import Environment
from penstock.lab.experiment import (
    Arm,
    Experiment,
    MeasurementPlan,
    prepare_caches,
    require_caches,
    require_distinct_buckets,
    require_feasible,
    require_valid,
)
from penstock.lab.metering import disturbance_warning, metering
from penstock.lab.progress import ProgressListener, repetitions_left
from penstock.lab.records import Description, Recorder, Run, new_run_id
from penstock.lab.session import Session
from penstock.lab.workloads.base import Suite
from penstock.lab.workloads.registry import restore_suite
from penstock.lake.model import ObjectStore
from penstock.model import ClusterSize, State
from penstock.processes import handling_signals, not_ignored
from penstock.profiles.base import SCRATCH_DISK

OpenEnvironment = Callable[[str | None], Environment]
"""Opens the environment of a lake by its name, or of the default one."""


def measure(
    open_bench: OpenEnvironment, arms: Sequence[Arm], plan: MeasurementPlan, listener: ProgressListener
) -> list[Run]:
    """Measure a run for each arm; return them in the same order, concluded as `ok`, `failed` or `wrong`.

    Samples are recorded as they are measured. Raises `PenstockError` before anything is recorded where an option is
    invalid or space is insufficient. Later failures are recorded, with the reason, and end nothing else.
    """
    (runs,) = measure_all(open_bench, [Experiment(arms, plan)], listener)
    return runs


def measure_all(
    open_bench: OpenEnvironment, experiments: Sequence[Experiment], listener: ProgressListener
) -> list[list[Run]]:
    """Measure one experiment after the other, as `measure` does; return the runs of each.

    All are checked, and all are begun, before the first is measured. So errors are reported at once, and an interrupted
    batch can be resumed to its end.
    """
    for experiment in experiments:
        require_valid(experiment.arms, experiment.plan)
    open_once = functools.cache(open_bench)
    for arm in (arm for experiment in experiments for arm in experiment.arms):
        require_feasible(open_once(arm.lake).through(arm.gateways), arm)
    require_distinct_buckets([open_once(arm.lake).lake for experiment in experiments for arm in experiment.arms])
    begun = _begin_all(open_once, experiments)
    with ExitStack() as stack:
        for one in (one for ones in begun for one in ones):
            stack.enter_context(one.recorder.claimed(one.bench.home))
        return [
            measure_remaining(ones, experiment.plan, listener)
            for ones, experiment in zip(begun, experiments, strict=True)
        ]


@dataclass(frozen=True)
class StartedArm:
    """An arm and its run."""

    arm: Arm
    bench: Environment
    recorder: Recorder


def measure_remaining(begun: Sequence[StartedArm], plan: MeasurementPlan, listener: ProgressListener) -> list[Run]:
    """Measure the remaining repetitions of an experiment, whose runs the caller has claimed."""
    order = Experiment([one.arm for one in begun], plan).order()
    done = {one.arm.name: _durations(one.recorder.run()) for one in begun}
    left = [(repetition, arm.name) for repetition, arm in order if repetition not in done[arm.name]]
    with ExitStack() as stack:
        sessions = {one.arm.name: (one.arm, _session(stack, one, listener)) for one in begun}
        names = dict.fromkeys(name for _, name in left)
        unprepared = {name: error for name in names if (error := _prepared(*sessions[name])) is not None}
        for index, (repetition, name) in enumerate(left):
            arm, session = sessions[name]
            if name in unprepared:
                _end(session.in_repetition(repetition, 1), 0.0, unprepared[name])
                continue
            listener.step(_title(arm, repetition, plan, alone=len(begun) == 1))
            if len(order) > 1:
                estimate = repetitions_left([name for _, name in left[index:]], done)
                listener.note(_position(len(order) - len(left) + index + 1, len(order), estimate))
            done[name][repetition] = _once(arm.suite, session, repetition, plan)
    return [_conclude(one, listener) for one in begun]


def _prepared(arm: Arm, session: Session) -> PenstockError | None:
    """Create the arm's data if missing; return the failure, if any."""
    # All arms share the data, so it is created in one way: by the engine, without an added round trip.
    near = conditions.without_round_trip(session.settings)
    own = replace(session, launcher=launchers.EngineLauncher(session.bench), settings=near)
    return _failure(lambda: arm.suite.prepare(own), session.listener, f"{arm.name} is not measured. ")


def _begin_all(open_bench: OpenEnvironment, experiments: Sequence[Experiment]) -> list[list[StartedArm]]:
    first = experiments[0].arms[0].suite.workload
    batch = new_run_id(first, "batch") if len(experiments) > 1 else None
    begun: list[list[StartedArm]] = []
    place = 0
    for experiment in experiments:
        workload, plan = experiment.arms[0].suite.workload, asdict(experiment.plan)
        together = new_run_id(workload, "experiment") if len(experiment.arms) > 1 else None
        begun.append([])
        for arm in experiment.arms:
            bench = open_bench(arm.lake).through(arm.gateways)
            shared = {"experiment": together, "batch": batch, "place": place, "plan": plan}
            begun[-1].append(StartedArm(arm, bench, _begin(bench, arm, shared)))
            place += 1
    return begun


def _begin(bench: Environment, arm: Arm, shared: Mapping[str, Any]) -> Recorder:
    suite = arm.suite
    description = bench.describe(
        suite.workload,
        arm.name,
        size=arm.size,
        scale=suite.description_scale,
        profile=(arm.profile or suite.profile) if arm.launcher == launchers.PENSTOCK else None,
        settings={**suite.meaning, **arm.settings},
        launcher=arm.launcher,
        options=suite.options(),
        **shared,
    )
    return Recorder.begin(bench.home, description)


def _session(stack: ExitStack, begun: StartedArm, listener: ProgressListener) -> Session:
    arm = begun.arm
    settings = {**arm.suite.meaning, **arm.settings}
    return Session(
        bench=begun.bench,
        recorder=begun.recorder,
        launcher=stack.enter_context(launchers.open_launcher(arm.launcher, begun.bench)),
        listener=listener,
        size=arm.size,
        profile=arm.profile or arm.suite.profile,
        settings=stack.enter_context(conditions.scratch_placed(begun.bench, settings, arm.suite.needs_bytes())),
    )


def _durations(run: Run) -> dict[int, float]:
    """Return the seconds of each finished repetition."""
    return {sample["repetition"]: sample["elapsed_ms"] / 1000 for sample in run.of_kind("repetition")}


def _title(arm: Arm, repetition: int, plan: MeasurementPlan, *, alone: bool) -> str:
    if alone and plan.repetitions + plan.warmup == 1:
        return arm.suite.title
    return f"{arm.name}, " + (f"round {repetition} of {plan.repetitions}" if repetition > 0 else "warm-up")


def _position(number: int, total: int, seconds_left: float | None) -> str:
    estimate = "" if seconds_left is None else f"; about {units.seconds(seconds_left)} left, this one included"
    return f"{number} of {total}{estimate}"


def _once(suite: Suite, session: Session, repetition: int, plan: MeasurementPlan) -> float:
    """Measure one repetition of one arm; return its seconds."""
    samples = session.recorder.run().samples
    attempts = [sample["attempt"] for sample in samples if sample.get("repetition") == repetition]
    attempt = max(attempts, default=0) + 1
    session = session.in_repetition(repetition, attempt)
    if failure := _failure(session.remove_earlier_attempts, session.listener):
        _end(session, 0.0, failure)
        return 0.0
    prepare_caches(plan.caches, session.bench.home)
    session.record("begin")
    started = time.monotonic()
    with metering(session.bench.home, session.bench.lake, _scratch(session)) as usage:
        failure = _failure(lambda: suite.repetition(session), session.listener)
        seconds = time.monotonic() - started
    session.record("usage", **usage.values)
    if warning := disturbance_warning(usage.values, session.recorder.description.machine["cores"]):
        session.listener.note(warning)
    _end(session, seconds, failure)
    return seconds


def _failure(work: Callable[[], object], listener: ProgressListener, lead: str = "") -> PenstockError | None:
    """Run `work`; return its failure, which is noted at once after `lead`."""
    try:
        work()
    except PenstockError as error:
        listener.note(f"{lead}{error}")
        return error
    return None


def _end(session: Session, seconds: float, failure: PenstockError | None) -> None:
    """Record the last sample of a repetition, which marks it as finished."""
    outcome = {"status": "ok"} if failure is None else {"status": "failed", "error": str(failure)}
    session.record("repetition", elapsed_ms=round(seconds * 1000), **outcome)
    _publish(session.recorder, session.store, session.listener)


def _publish(recorder: Recorder, store: ObjectStore, listener: ProgressListener) -> None:
    """Copy the record to the lake. A failure is only noted, since the samples are on disk."""
    _failure(lambda: recorder.publish(store), listener, "The record was not copied into the lake. ")


def _scratch(session: Session) -> Path | None:
    """Return the scratch directory of the settings; plain Spark always shuffles in the home."""
    chosen = session.settings.get(SCRATCH_DISK)
    return Path(chosen) if chosen and session.recorder.description.launcher == launchers.PENSTOCK else None


def _conclude(begun: StartedArm, listener: ProgressListener) -> Run:
    run = begun.recorder.run()
    if run.outcome == "unfinished":
        begun.recorder.add("end", outcome=_outcome(run))
        _publish(begun.recorder, begun.bench.store, listener)
    return begun.recorder.run()


def _outcome(run: Run) -> str:
    if any(not sample["right"] for sample in run.of_kind("check")):
        return "wrong"
    if any(sample["verdict"] == "different" for sample in run.of_kind("answer")):
        return "wrong"
    if any(sample["status"] != "ok" for kind in ("repetition", "query") for sample in run.of_kind(kind)):
        return "failed"
    return "ok"


LAST = "last"
_UNFINISHED = tuple(state for state in State if not state.final)


def resume(home: Home, open_bench: OpenEnvironment, name: str, listener: ProgressListener) -> list[list[Run]]:
    """Resume an interrupted run and all runs begun with it; return the runs of each experiment, in order.

    `last` is the newest interrupted run. Raises `NotFound` where there is no such run, and `StateError` where it has
    finished, is being measured by another process, or is of a workload that cannot be resumed.
    """
    together = related_runs(home, _named(home, name))
    open_once = functools.cache(open_bench)
    with ExitStack() as stack:
        for description in together:
            stack.enter_context(Recorder.resume(home, description.id).claimed(home))
        # Read under the claim: a process that just released the runs may have finished them.
        runs = [records.load(home.root / "lab" / description.id) for description in together]
        if all(run.outcome != "unfinished" for run in runs):
            raise StateError(
                f"{runs[0].description.id} was not interrupted",
                why=f"it ended as “{runs[0].outcome}”",
                fix=f"see its report: penstock lab report {runs[0].description.id}",
            )
        return [_resume_experiment(home, open_once, experiment, listener) for experiment in _experiments(runs)]


def interrupted_runs(home: Home) -> list[str]:
    """Return the unfinished runs that no process is measuring, oldest first."""
    return [
        run_id
        for run_id in records.run_ids(home)
        if not records.in_progress(home, run_id)
        and records.load(home.root / "lab" / run_id).outcome == "unfinished"
        and records.load_description(home, run_id).plan
    ]


def _named(home: Home, name: str) -> Description:
    if name == LAST:
        found = interrupted_runs(home)
        if not found:
            raise StateError("No run on this machine was interrupted", fix="list the runs: penstock lab runs")
        name = found[-1]
    description = records.find(home, name).description
    if not description.plan:
        raise StateError(
            f"{description.id} cannot be resumed",
            why=f"the workload {description.workload} does not support it",
            fix=f"measure it again: {description.command}",
        )
    return description


def related_runs(home: Home, one: Description) -> list[Description]:
    """Return the runs of its batch or experiment, in the order in which they were begun."""
    everything = [records.load_description(home, run_id) for run_id in records.run_ids(home)]
    together = [
        other
        for other in everything
        if other.id == one.id
        or (one.batch and other.batch == one.batch)
        or (one.experiment and other.experiment == one.experiment)
    ]
    return sorted(together, key=lambda description: description.place)


def _experiments(runs: Sequence[Run]) -> list[list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.description.experiment or run.description.id, []).append(run)
    return list(found.values())


def _resume_experiment(
    home: Home, open_bench: OpenEnvironment, runs: Sequence[Run], listener: ProgressListener
) -> list[Run]:
    if all(run.outcome != "unfinished" for run in runs):
        return list(runs)
    plan = MeasurementPlan(**runs[0].description.plan)
    require_caches(plan.caches)
    begun = []
    for run in runs:
        arm = _restored_arm(run.description)
        begun.append(
            StartedArm(arm, open_bench(arm.lake).through(arm.gateways), Recorder.resume(home, run.description.id))
        )
    for one in begun:
        _end_strays(one.bench, one.recorder.description.id)
        _note_new_commit(one.recorder, listener)
    return measure_remaining(begun, plan, listener)


def _restored_arm(described: Description) -> Arm:
    return Arm(
        name=described.arm,
        suite=restore_suite(described.workload, described.options),
        size=ClusterSize.from_json(described.size),
        lake=described.lake["name"],
        profile=described.profile,
        settings=described.settings,
        launcher=described.launcher,
        gateways=described.lake.get("gateways"),
    )


def _end_strays(bench: Environment, run_id: str) -> None:
    """Stop applications that outlived the killed process that measured them, since they would distort the results."""
    for application in bench.engine.list(states=_UNFINISHED, tags=(run_id,)):
        bench.engine.stop(application.id)


def _note_new_commit(recorder: Recorder, listener: ProgressListener) -> None:
    before, now = recorder.description.commit, benches.commit()
    recorder.add("resumed", commit=now)
    if before != now:
        listener.note(f"{recorder.description.id} was begun with commit {before} and is resumed with {now}.")


@contextlib.contextmanager
def unwinding_on_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP unwind the block, as Ctrl-C does."""

    def unwind(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    with handling_signals(unwind, *not_ignored(signal.SIGTERM, signal.SIGHUP)):
        yield


@contextlib.contextmanager
def ignoring_signals() -> Iterator[None]:
    """Ignore a second Ctrl-C inside the block: the clean-up takes seconds and must not be cut short."""
    with handling_signals(signal.SIG_IGN, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        yield
