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
from penstock.lab.records import UNFINISHED, Description, Recorder, Run, new_run_id
from penstock.lab.session import Session
from penstock.lab.workloads.base import Suite
from penstock.lab.workloads.registry import restore_suite
from penstock.lake.model import ObjectStore
from penstock.model import ClusterSize, State
from penstock.processes import handling_signals, load_average, not_ignored
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
    earlier = {one.arm.name: one.recorder.run() for one in begun}
    done = {name: _durations(run) for name, run in earlier.items()}
    left = [
        (_Turn(number, repetition, _attempts(earlier[arm.name], repetition) + 1), arm.name)
        for number, (repetition, arm) in enumerate(order, start=1)
        if repetition not in done[arm.name]
    ]
    with ExitStack() as stack:
        sessions = {one.arm.name: (one.arm, _session(stack, one, listener)) for one in begun}
        names = dict.fromkeys(name for _, name in left)
        unprepared = {name: error for name in names if (error := _prepared(*sessions[name])) is not None}
        for index, (turn, name) in enumerate(left):
            arm, session = sessions[name]
            if name in unprepared:
                _end(session.in_repetition(turn.repetition, turn.attempt), 0.0, unprepared[name])
                continue
            listener.step(_title(arm, turn.repetition, plan, alone=len(begun) == 1))
            if len(order) > 1:
                estimate = repetitions_left([name for _, name in left[index:]], done)
                listener.note(_position(len(order) - len(left) + index + 1, len(order), estimate))
            done[name][turn.repetition] = _once(arm.suite, session, turn, plan)
    return [_conclude(one, listener) for one in begun]


def _prepared(arm: Arm, session: Session) -> PenstockError | None:
    """Create the arm's data if missing; return the failure, if any."""
    # All arms share the data, so it is created in one way: by Spark on the engine, without an added round trip.
    near = {**arm.suite.meaning, **conditions.without_round_trip(session.settings)}
    size = replace(arm.size, executors=arm.size.executors or 1)  # a resumed arm has the size of its query engine
    own = replace(session, launcher=launchers.EngineLauncher(session.bench), settings=near, size=size)
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
    profile, settings = arm.applied_profile, arm.applied_settings
    program = suite.query_engine.program
    description = bench.describe(
        suite.workload,
        arm.name,
        size=launchers.promised_size(bench.engine, arm.applied_size, arm.launcher, profile, settings, program=program),
        scale=suite.description_scale,
        profile=profile if arm.launcher == launchers.PENSTOCK and arm.on_spark else None,
        settings=settings,
        launcher=arm.launcher,
        backend="local" if arm.launcher == launchers.PLAIN else bench.engine.backend.name,
        options=suite.options(),
        **shared,
    )
    return Recorder.begin(bench.home, description)


def _session(stack: ExitStack, begun: StartedArm, listener: ProgressListener) -> Session:
    arm = begun.arm
    settings = arm.applied_settings
    return Session(
        bench=begun.bench,
        recorder=begun.recorder,
        launcher=stack.enter_context(launchers.open_launcher(arm.launcher, begun.bench)),
        listener=listener,
        size=arm.size,
        profile=arm.applied_profile,
        settings=stack.enter_context(conditions.scratch_placed(begun.bench, settings, arm.suite.needs_bytes())),
    )


def _durations(run: Run) -> dict[int, float]:
    """Return the seconds of each finished repetition."""
    return {sample["repetition"]: sample["elapsed_ms"] / 1000 for sample in run.of_kind("repetition")}


def _attempts(run: Run, repetition: int) -> int:
    attempts = [sample.get("attempt", 0) for sample in run.samples if sample.get("repetition") == repetition]
    return max(attempts, default=0)


def _title(arm: Arm, repetition: int, plan: MeasurementPlan, *, alone: bool) -> str:
    if alone and plan.repetitions + plan.warmup == 1:
        return arm.suite.title
    return f"{arm.name}, " + (f"round {repetition} of {plan.repetitions}" if repetition > 0 else "warm-up")


def _position(number: int, total: int, seconds_left: float | None) -> str:
    estimate = "" if seconds_left is None else f"; about {units.seconds(seconds_left)} left, this one included"
    return f"{number} of {total}{estimate}"


@dataclass(frozen=True)
class _Turn:
    """One repetition of one arm; `number` is its position in the experiment's order, from 1."""

    number: int
    repetition: int
    attempt: int


def _once(suite: Suite, session: Session, turn: _Turn, plan: MeasurementPlan) -> float:
    """Measure one repetition of one arm; return its seconds."""
    session = session.in_repetition(turn.repetition, turn.attempt)
    if failure := _failure(session.remove_earlier_attempts, session.listener):
        _end(session, 0.0, failure)
        return 0.0
    prepare_caches(plan.caches, session.bench.home)
    described = session.recorder.description
    load = {"load_1m": load_average()} if described.on_this_machine else {}
    foreign = session.requests.foreign()
    session.record("begin", order=turn.number, **load)
    started = time.monotonic()
    with metering(session.bench.home, session.bench.lake, _scratch(session)) as usage:
        failure = _failure(lambda: suite.repetition(session), session.listener)
        seconds = time.monotonic() - started
    if described.on_this_machine:
        warning = disturbance_warning(usage.values, benches.machine()["cores"])
        usage.values["disturbed"] = warning is not None
        if warning:
            session.listener.note(warning)
    else:
        usage.values.pop("other_core_seconds", None)
    if (requests := session.requests.counts()) is not None:
        usage.values.update(store_requests=requests, store_foreign_requests=foreign)
    session.record("usage", **usage.values)
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
    if run.outcome == UNFINISHED:
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
        if all(run.outcome != UNFINISHED for run in runs):
            raise StateError(
                f"{runs[0].description.id} was not interrupted",
                why=f"it ended as “{runs[0].outcome}”",
                fix=f"see its report: penstock lab report {runs[0].description.id}",
            )
        return [_resume_experiment(home, open_once, experiment, listener) for experiment in _experiments(runs)]


def interrupted_runs(home: Home) -> list[str]:
    """Return the unfinished runs that no process is measuring, oldest first."""
    return [
        described.id
        for described in records.descriptions(home)
        # In this order: the lock is released after the end is recorded.
        if described.plan
        and not records.in_progress(home, described.id)
        and records.outcome(home, described.id) == UNFINISHED
    ]


def _named(home: Home, name: str) -> Description:
    if name == LAST:
        found = interrupted_runs(home)
        if not found:
            raise StateError("No run on this machine was interrupted", fix="list the runs: penstock lab runs")
        name = found[-1]
    description = records.find_description(home, name)
    if not description.plan:
        raise StateError(
            f"{description.id} cannot be resumed",
            why=f"the workload {description.workload} does not support it",
            fix=f"measure it again: {description.command}",
        )
    return description


def related_runs(home: Home, one: Description) -> list[Description]:
    """Return the runs of its batch or experiment, in the order in which they were begun."""
    together = [
        other
        for other in records.descriptions(home)
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
    if all(run.outcome != UNFINISHED for run in runs):
        return list(runs)
    plan = MeasurementPlan(**runs[0].description.plan)
    require_caches(plan.caches)
    begun = []
    for run in runs:
        arm = _restored_arm(run.description)
        begun.append(
            StartedArm(arm, open_bench(arm.lake).through(arm.gateways), Recorder.resume(home, run.description.id))
        )
    now = {"commit": benches.commit(), "machine": benches.machine(), "versions": benches.versions()}
    for one, run in zip(begun, runs, strict=True):
        _end_strays(one.bench, one.recorder.description.id)
        if run.outcome == UNFINISHED:
            _record_resumption(one.recorder, now, listener)
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


def _record_resumption(recorder: Recorder, now: Mapping[str, Any], listener: ProgressListener) -> None:
    recorder.add("resumed", **now)
    begun = asdict(recorder.description)
    for name, value in now.items():
        if value != begun[name]:
            before, after = _differing(begun[name], value)
            note = f"{recorder.description.id} was begun with {name} {before} and is resumed with {after}."
            listener.note(note)


def _differing(before: Any, after: Any) -> tuple[str, str]:
    """The two values, of mappings only the items that differ."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return str(before), str(after)
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    first, second = (", ".join(f"{name} {found.get(name)}" for name in names) for found in (before, after))
    return first, second


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
