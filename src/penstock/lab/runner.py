"""Measures arms in turns and records everything.

Everything needed to go on after an interruption is in the runs' own descriptions (`resuming`): an experiment is the
runs that share its id, and a batch the runs of all experiments that one command began.
"""

from __future__ import annotations

import functools
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from penstock.clusters import machine
from penstock.clusters.plan import BUILT_IN
from penstock.engine.application import ApplicationSpec, ClusterSize
from penstock.errors import InvalidInput, MissingRequirement, PenstockError
from penstock.lab import caches, launcher, matrix, roundtrip
from penstock.lab.bench import Bench
from penstock.lab.meter import disturbance, metering
from penstock.lab.progress import Listener, repetitions_left
from penstock.lab.records import Recorder, Run, new_run_id
from penstock.lab.report import words
from penstock.lab.session import Session
from penstock.lab.suites.base import Suite


@dataclass(frozen=True)
class Arm:
    """One side of a comparison: a suite on one lake, cluster size, profile and launcher. It becomes one run."""

    name: str
    suite: Suite
    size: ClusterSize
    lake: str | None = None
    profile: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    launcher: str = launcher.PENSTOCK


@dataclass(frozen=True)
class Plan:
    """How often each arm is measured, and what a repetition finds in the caches (`caches.POLICIES`).

    Warm-up repetitions are recorded and counted in nothing.
    """

    repetitions: int = 1
    warmup: int = 0
    caches: str = caches.KEEP


@dataclass(frozen=True)
class Experiment:
    """Arms that are measured in turns, to be set against each other."""

    arms: Sequence[Arm]
    plan: Plan

    def order(self) -> list[tuple[int, Arm]]:
        """(repetition, arm) as they will be measured; 0 and below are warm-up."""
        turns = matrix.turns(self.arms, self.plan.warmup + self.plan.repetitions)
        return [(repetition - self.plan.warmup, arm) for repetition, arm in turns]


OpenBench = Callable[[str | None], Bench]
"""The bench of a lake by its name, or of the default one."""


def measure(open_bench: OpenBench, arms: Sequence[Arm], plan: Plan, listener: Listener) -> list[Run]:
    """A run for each arm, in their order; recorded as it goes, and concluded as `ok`, `failed` or `wrong`.

    Raises `PenstockError` before anything is recorded where an option is impossible or the space does not suffice, and
    when the preparation of an arm fails.
    """
    (runs,) = measure_all(open_bench, [Experiment(arms, plan)], listener)
    return runs


def measure_all(open_bench: OpenBench, experiments: Sequence[Experiment], listener: Listener) -> list[list[Run]]:
    """The runs of each experiment, one experiment after the other; as `measure` does it.

    All are checked, and all are begun, before the first is measured. So what cannot work is refused at once, and an
    interrupted batch can be gone on with to its end.
    """
    for experiment in experiments:
        _require_sense(experiment)
    open_once = functools.cache(open_bench)
    for arm in (arm for experiment in experiments for arm in experiment.arms):
        _require_room(open_once(arm.lake), arm)
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
        for name in dict.fromkeys(name for _, name in left):
            arm, session = sessions[name]
            # The data is the same for all arms, and made the same way: by the engine, from a store as near as it is.
            near = roundtrip.removed(session.settings)
            arm.suite.prepare(replace(session, launcher=launcher.EngineLauncher(session.bench), settings=near))
        for index, (repetition, name) in enumerate(left):
            arm, session = sessions[name]
            listener.step(_title(arm, repetition, plan, alone=len(begun) == 1))
            if len(order) > 1:
                estimate = repetitions_left([name for _, name in left[index:]], done)
                listener.note(_position(len(order) - len(left) + index + 1, len(order), estimate))
            done[name][repetition] = _once(arm.suite, session, repetition, plan)
    return [_conclude(one) for one in begun]


def _require_sense(experiment: Experiment) -> None:
    if not experiment.arms or experiment.plan.repetitions < 1:
        raise InvalidInput("There is nothing to measure", fix="give at least one arm and one repetition")
    if len({arm.name for arm in experiment.arms}) < len(experiment.arms):
        raise InvalidInput("Two arms have one name", fix="give each arm a name of its own")
    caches.require(experiment.plan.caches)
    for arm in experiment.arms:
        arm.suite.check_options()


def _require_room(bench: Bench, arm: Arm) -> None:
    """Refuse settings and a size that no cluster could be started with here, and data that the disk has no room for.

    Only of the embedded lake is it known what is free: it is on the home's own disk.
    """
    settings = {**arm.suite.meaning, **arm.settings}
    profile = arm.profile or arm.suite.profile
    arm.suite.check_size(arm.size, machine.capacity())
    bench.engine.checked(ApplicationSpec(BUILT_IN, arm.size, arm.name, profile=profile, settings=settings))
    root = bench.home.root
    needed = arm.suite.needs_bytes() if bench.lake.kind == "embedded" else 0
    free = shutil.disk_usage(root).free if needed else 0
    if needed > free:
        raise MissingRequirement(
            f"{arm.suite.title} of this size needs about {words.size(needed)} of disk",
            why=f"{words.size(free)} are free where {root} is",
            fix="choose a smaller size, free space, or use another state directory with PENSTOCK_HOME=/path",
        )


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
            bench = open_bench(arm.lake)
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
    return Session(
        bench=begun.bench,
        recorder=begun.recorder,
        launcher=stack.enter_context(launcher.opened(arm.launcher, begun.bench)),
        listener=listener,
        size=arm.size,
        profile=arm.profile or arm.suite.profile,
        settings={**arm.suite.meaning, **arm.settings},
    )


def _durations(run: Run) -> dict[int, float]:
    """Seconds of each repetition that came to its end."""
    return {sample["repetition"]: sample["elapsed_ms"] / 1000 for sample in run.of_kind("repetition")}


def _title(arm: Arm, repetition: int, plan: Plan, *, alone: bool) -> str:
    if alone and plan.repetitions + plan.warmup == 1:
        return arm.suite.title
    return f"{arm.name}, " + (f"round {repetition} of {plan.repetitions}" if repetition > 0 else "warm-up")


def _position(number: int, total: int, seconds_left: float | None) -> str:
    estimate = "" if seconds_left is None else f"; about {words.seconds(seconds_left)} left, this one included"
    return f"{number} of {total}{estimate}"


def _once(suite: Suite, session: Session, repetition: int, plan: Plan) -> float:
    """One repetition of one arm; returns its seconds."""
    samples = session.recorder.run().samples
    attempts = [sample["attempt"] for sample in samples if sample.get("repetition") == repetition]
    attempt = max(attempts, default=0) + 1
    session = session.in_repetition(repetition, attempt)
    session.remove_earlier_attempts()
    caches.prepare(plan.caches, session.bench.home)
    session.record("begin")
    started = time.monotonic()
    ended: dict[str, Any] = {"status": "ok"}
    with metering(session.bench.home, session.bench.lake) as usage:
        try:
            suite.repetition(session)
        except PenstockError as error:
            ended = {"status": "failed", "error": str(error)}
            session.listener.note(str(error))
        seconds = time.monotonic() - started
    session.record("usage", **usage.values)
    if doubt := disturbance(usage.values, session.recorder.description.machine["cores"]):
        session.listener.note(doubt)
    # The last of a repetition: with it, it is done.
    session.record("repetition", elapsed_ms=round(seconds * 1000), **ended)
    session.recorder.publish(session.store)
    return seconds


def _conclude(begun: Begun) -> Run:
    run = begun.recorder.run()
    if run.outcome == "unfinished":
        begun.recorder.add("end", outcome=_outcome(run))
        begun.recorder.publish(begun.bench.store)
    return begun.recorder.run()


def _outcome(run: Run) -> str:
    if any(not sample["right"] for sample in run.of_kind("check")):
        return "wrong"
    if any(sample["verdict"] != "equal" for sample in run.of_kind("answer")):
        return "wrong"
    if any(sample["status"] != "ok" for kind in ("repetition", "query") for sample in run.of_kind(kind)):
        return "failed"
    return "ok"
