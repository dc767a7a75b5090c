"""Measures arms in turns and records everything.

Everything needed to go on after an interruption is in the runs' own descriptions (`resuming`): an experiment is the
runs that share its id, and a batch the runs of all experiments that one command began.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from penstock import units
from penstock.errors import PenstockError
from penstock.lab import caches, feasibility, launcher, roundtrip, scratchdevice
from penstock.lab.bench import Bench
from penstock.lab.experiment import Arm, Experiment, Plan
from penstock.lab.meter import disturbance, metering
from penstock.lab.progress import Listener, repetitions_left
from penstock.lab.records import Recorder, Run, new_run_id
from penstock.lab.session import Session
from penstock.lab.suites.base import Suite
from penstock.lake.model import ObjectStore
from penstock.profiles.base import DISK

OpenBench = Callable[[str | None], Bench]
"""The bench of a lake by its name, or of the default one."""


def measure(open_bench: OpenBench, arms: Sequence[Arm], plan: Plan, listener: Listener) -> list[Run]:
    """A run for each arm, in their order; recorded as it goes, and concluded as `ok`, `failed` or `wrong`.

    Raises `PenstockError` before anything is recorded where an option is impossible or the space does not suffice. What
    fails later is recorded as failed, with the reason, and ends nothing else.
    """
    (runs,) = measure_all(open_bench, [Experiment(arms, plan)], listener)
    return runs


def measure_all(open_bench: OpenBench, experiments: Sequence[Experiment], listener: Listener) -> list[list[Run]]:
    """The runs of each experiment, one experiment after the other; as `measure` does it.

    All are checked, and all are begun, before the first is measured. So what cannot work is refused at once, and an
    interrupted batch can be gone on with to its end.
    """
    for experiment in experiments:
        feasibility.require_sense(experiment.arms, experiment.plan)
    open_once = functools.cache(open_bench)
    for arm in (arm for experiment in experiments for arm in experiment.arms):
        feasibility.require_room(open_once(arm.lake).through(arm.gateways), arm)
    feasibility.require_lakes_apart([open_once(arm.lake).lake for experiment in experiments for arm in experiment.arms])
    begun = _begin_all(open_once, experiments)
    with ExitStack() as stack:
        for one in (one for ones in begun for one in ones):
            stack.enter_context(one.recorder.claimed(one.bench.home))
        return [carry_out(ones, experiment.plan, listener) for ones, experiment in zip(begun, experiments, strict=True)]


@dataclass(frozen=True)
class Begun:
    """An arm and the run it has become."""

    arm: Arm
    bench: Bench
    recorder: Recorder


def carry_out(begun: Sequence[Begun], plan: Plan, listener: Listener) -> list[Run]:
    """What is still to do of an experiment. The caller has claimed its runs."""
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
    """Makes the arm's data where they lack; what that failed of."""
    # The same for all arms, and made the same way: by the engine, from a store as near as it is.
    near = roundtrip.removed(session.settings)
    own = replace(session, launcher=launcher.EngineLauncher(session.bench), settings=near)
    return _failure(lambda: arm.suite.prepare(own), session.listener, f"{arm.name} is not measured. ")


def _begin_all(open_bench: OpenBench, experiments: Sequence[Experiment]) -> list[list[Begun]]:
    first = experiments[0].arms[0].suite.workload
    batch = new_run_id(first, "batch") if len(experiments) > 1 else None
    begun: list[list[Begun]] = []
    place = 0
    for experiment in experiments:
        workload, plan = experiment.arms[0].suite.workload, asdict(experiment.plan)
        together = new_run_id(workload, "experiment") if len(experiment.arms) > 1 else None
        begun.append([])
        for arm in experiment.arms:
            bench = open_bench(arm.lake).through(arm.gateways)
            shared = {"experiment": together, "batch": batch, "place": place, "plan": plan}
            begun[-1].append(Begun(arm, bench, _begin(bench, arm, shared)))
            place += 1
    return begun


def _begin(bench: Bench, arm: Arm, shared: Mapping[str, Any]) -> Recorder:
    suite = arm.suite
    description = bench.describe(
        suite.workload,
        arm.name,
        size=arm.size,
        scale=suite.description_scale,
        profile=(arm.profile or suite.profile) if arm.launcher == launcher.PENSTOCK else None,
        settings={**suite.meaning, **arm.settings},
        launcher=arm.launcher,
        options=suite.options(),
        **shared,
    )
    return Recorder.begin(bench.home, description)


def _session(stack: ExitStack, begun: Begun, listener: Listener) -> Session:
    arm = begun.arm
    settings = {**arm.suite.meaning, **arm.settings}
    return Session(
        bench=begun.bench,
        recorder=begun.recorder,
        launcher=stack.enter_context(launcher.opened(arm.launcher, begun.bench)),
        listener=listener,
        size=arm.size,
        profile=arm.profile or arm.suite.profile,
        settings=stack.enter_context(scratchdevice.placed(begun.bench, settings, arm.suite.needs_bytes())),
    )


def _durations(run: Run) -> dict[int, float]:
    """Seconds of each repetition that came to its end."""
    return {sample["repetition"]: sample["elapsed_ms"] / 1000 for sample in run.of_kind("repetition")}


def _title(arm: Arm, repetition: int, plan: Plan, *, alone: bool) -> str:
    if alone and plan.repetitions + plan.warmup == 1:
        return arm.suite.title
    return f"{arm.name}, " + (f"round {repetition} of {plan.repetitions}" if repetition > 0 else "warm-up")


def _position(number: int, total: int, seconds_left: float | None) -> str:
    estimate = "" if seconds_left is None else f"; about {units.seconds(seconds_left)} left, this one included"
    return f"{number} of {total}{estimate}"


def _once(suite: Suite, session: Session, repetition: int, plan: Plan) -> float:
    """One repetition of one arm; returns its seconds."""
    samples = session.recorder.run().samples
    attempts = [sample["attempt"] for sample in samples if sample.get("repetition") == repetition]
    attempt = max(attempts, default=0) + 1
    session = session.in_repetition(repetition, attempt)
    if failure := _failure(session.remove_earlier_attempts, session.listener):
        _end(session, 0.0, failure)
        return 0.0
    caches.prepare(plan.caches, session.bench.home)
    session.record("begin")
    started = time.monotonic()
    with metering(session.bench.home, session.bench.lake, _scratch(session)) as usage:
        failure = _failure(lambda: suite.repetition(session), session.listener)
        seconds = time.monotonic() - started
    session.record("usage", **usage.values)
    if doubt := disturbance(usage.values, session.recorder.description.machine["cores"]):
        session.listener.note(doubt)
    _end(session, seconds, failure)
    return seconds


def _failure(work: Callable[[], object], listener: Listener, lead: str = "") -> PenstockError | None:
    """What it failed of, told at once after `lead`."""
    try:
        work()
    except PenstockError as error:
        listener.note(f"{lead}{error}")
        return error
    return None


def _end(session: Session, seconds: float, failure: PenstockError | None) -> None:
    """The last of a repetition: with it, it is done."""
    how = {"status": "ok"} if failure is None else {"status": "failed", "error": str(failure)}
    session.record("repetition", elapsed_ms=round(seconds * 1000), **how)
    _publish(session.recorder, session.store, session.listener)


def _publish(recorder: Recorder, store: ObjectStore, listener: Listener) -> None:
    """What was measured is on disk; a lake that does not take its copy ends nothing."""
    _failure(lambda: recorder.publish(store), listener, "The record was not copied into the lake. ")


def _scratch(session: Session) -> Path | None:
    """Plain Spark shuffles in the home, whatever the setting says."""
    chosen = session.settings.get(DISK)
    return Path(chosen) if chosen and session.recorder.description.launcher == launcher.PENSTOCK else None


def _conclude(begun: Begun, listener: Listener) -> Run:
    run = begun.recorder.run()
    if run.outcome == "unfinished":
        begun.recorder.add("end", outcome=_outcome(run))
        _publish(begun.recorder, begun.bench.store, listener)
    return begun.recorder.run()


def _outcome(run: Run) -> str:
    if any(not sample["right"] for sample in run.of_kind("check")):
        return "wrong"
    if any(sample["verdict"] != "equal" for sample in run.of_kind("answer")):
        return "wrong"
    if any(sample["status"] != "ok" for kind in ("repetition", "query") for sample in run.of_kind(kind)):
        return "failed"
    return "ok"
