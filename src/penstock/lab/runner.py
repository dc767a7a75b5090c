"""Measures arms in turns, records everything, and goes on where it was interrupted.

Everything needed to go on is in the runs' own descriptions: an experiment is the runs that share its id.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.engine.application import ClusterSize
from penstock.errors import InvalidInput, MissingRequirement, PenstockError, StateError
from penstock.home import Home
from penstock.lab import launcher, matrix, records
from penstock.lab.bench import Bench
from penstock.lab.progress import Listener
from penstock.lab.records import Recorder, Run, new_run_id
from penstock.lab.report import words
from penstock.lab.session import Session
from penstock.lab.suites.base import Suite
from penstock.lab.suites.registry import restored


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
    """How often each arm is measured. Warm-up repetitions are recorded and counted in nothing."""

    repetitions: int = 1
    warmup: int = 0


OpenBench = Callable[[str | None], Bench]
"""The bench of a lake by its name, or of the default one."""


def measure(open_bench: OpenBench, arms: Sequence[Arm], plan: Plan, listener: Listener) -> list[Run]:
    """A run for each arm, in their order; recorded as it goes, and concluded as `ok`, `failed` or `wrong`.

    Raises `PenstockError` before anything is recorded where an option is impossible or the space does not suffice, and
    when the preparation of an arm fails.
    """
    if not arms or plan.repetitions < 1:
        raise InvalidInput("There is nothing to measure", fix="give at least one arm and one repetition")
    if len({arm.name for arm in arms}) < len(arms):
        raise InvalidInput("Two arms have one name", fix="give each arm a name of its own")
    for arm in arms:
        arm.suite.check_options()
    benches = [open_bench(arm.lake) for arm in arms]
    for arm, bench in zip(arms, benches, strict=True):
        _require_space(bench, arm.suite)
    experiment = new_run_id(arms[0].suite.workload, "experiment") if len(arms) > 1 else None
    begun = [_Begun(arm, bench, _begin(bench, arm, plan, experiment)) for arm, bench in zip(arms, benches, strict=True)]
    return _carry_out(begun, plan, listener)


def resume(home: Home, open_bench: OpenBench, name: str, listener: Listener) -> list[Run]:
    """Go on with an interrupted run, and the runs measured together with it. What is done is not done again.

    Raises `StateError` where all of them came to their end.
    """
    found = records.find(home, name)
    together = [found]
    if experiment := found.description.experiment:
        all_runs = (records.load(home.root / "lab" / run_id) for run_id in records.runs(home))
        together = [run for run in all_runs if run.description.experiment == experiment]
    if all(run.outcome != "unfinished" for run in together):
        raise StateError(
            f"{found.description.id} was not interrupted",
            why=f"it ended as “{found.outcome}”",
            fix=f"look at it: penstock lab report {found.description.id}",
        )
    arms = [_arm_of(run) for run in together]
    begun = [
        _Begun(arm, open_bench(arm.lake), Recorder.resume(home, run.description.id))
        for arm, run in zip(arms, together, strict=True)
    ]
    return _carry_out(begun, Plan(**found.description.plan), listener)


@dataclass(frozen=True)
class _Begun:
    arm: Arm
    bench: Bench
    recorder: Recorder


def _arm_of(run: Run) -> Arm:
    described = run.description
    return Arm(
        name=described.arm,
        suite=restored(described.workload, described.options),
        size=ClusterSize.from_json(described.size),
        lake=described.lake["name"],
        profile=described.profile,
        settings=described.settings,
        launcher=described.launcher,
    )


def _begin(bench: Bench, arm: Arm, plan: Plan, experiment: str | None) -> Recorder:
    suite = arm.suite
    description = bench.describe(
        suite.workload,
        arm.name,
        size=arm.size,
        scale=suite.description_scale,
        profile=(arm.profile or suite.profile) if arm.launcher == launcher.PENSTOCK else None,
        settings={**suite.meaning, **arm.settings},
        launcher=arm.launcher,
        experiment=experiment,
        options=suite.options(),
        plan={"repetitions": plan.repetitions, "warmup": plan.warmup},
    )
    return Recorder.begin(bench.home, description)


def _carry_out(begun: Sequence[_Begun], plan: Plan, listener: Listener) -> list[Run]:
    with ExitStack() as stack:
        sessions = []
        for one in begun:
            session = _session(stack, one, listener)
            # The data is the same for all arms, and made the same way.
            one.arm.suite.prepare(replace(session, launcher=launcher.EngineLauncher(one.bench)))
            sessions.append((one.arm, session))
        for repetition, (arm, session) in matrix.turns(sessions, plan.warmup + plan.repetitions):
            _once(arm, session, repetition - plan.warmup, plan, alone=len(begun) == 1)
    return [_conclude(session) for _, session in sessions]


def _session(stack: ExitStack, begun: _Begun, listener: Listener) -> Session:
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


def _once(arm: Arm, session: Session, repetition: int, plan: Plan, *, alone: bool) -> None:
    """One repetition of one arm, unless it was done before the interruption."""
    run = session.recorder.run()
    if any(sample["repetition"] == repetition for sample in run.of_kind("repetition")):
        return
    attempts = [sample["attempt"] for sample in run.samples if sample.get("repetition") == repetition]
    session = session.in_repetition(repetition, max(attempts, default=0) + 1)
    which = f"round {repetition} of {plan.repetitions}" if repetition > 0 else "warm-up"
    session.listener.step(arm.suite.title if alone and plan == Plan() else f"{arm.name}, {which}")
    started = time.monotonic()
    ended: dict[str, Any] = {"status": "ok"}
    try:
        arm.suite.repetition(session)
    except PenstockError as error:
        ended = {"status": "failed", "error": str(error)}
        session.listener.note(str(error))
    session.record("repetition", elapsed_ms=round((time.monotonic() - started) * 1000), **ended)
    session.recorder.publish(session.store)


def _conclude(session: Session) -> Run:
    run = session.recorder.run()
    if run.outcome == "unfinished":
        session.recorder.add("end", outcome=_outcome(run))
        session.recorder.publish(session.store)
    return session.recorder.run()


def _outcome(run: Run) -> str:
    if any(not sample["right"] for sample in run.of_kind("check")):
        return "wrong"
    if any(sample["verdict"] != "equal" for sample in run.of_kind("answer")):
        return "wrong"
    if any(sample["status"] != "ok" for kind in ("repetition", "query") for sample in run.of_kind(kind)):
        return "failed"
    return "ok"


def _require_space(bench: Bench, suite: Suite) -> None:
    """Only of the embedded lake is it known what is free: it is on the home's own disk."""
    root = bench.home.root
    needed = suite.needs_bytes() if bench.lake.kind == "embedded" else 0
    free = shutil.disk_usage(root).free if needed else 0
    if needed > free:
        raise MissingRequirement(
            f"{suite.title} of this size needs about {words.size(needed)} of disk",
            why=f"{words.size(free)} are free where {root} is",
            fix="choose a smaller size, free space, or use another state directory with PENSTOCK_HOME=/path",
        )
