"""Going on with what was interrupted, from the records alone. What is done is not done again."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import ExitStack

from penstock.errors import StateError
from penstock.home import Home
from penstock.lab import bench as benches
from penstock.lab import caches, records
from penstock.lab.bench import Bench
from penstock.lab.experiment import Arm, Plan
from penstock.lab.progress import Listener
from penstock.lab.records import Description, Recorder, Run
from penstock.lab.runner import Begun, OpenBench, carry_out
from penstock.lab.suites.registry import restored
from penstock.model import ClusterSize, State

LAST = "last"
_UNFINISHED = tuple(state for state in State if not state.final)


def resume(home: Home, open_bench: OpenBench, name: str, listener: Listener) -> list[list[Run]]:
    """Go on with an interrupted run and everything that was begun with it: the runs of each experiment, in order.

    `last` is the newest run that was interrupted. Raises `NotFound` where there is none, and `StateError` where the run
    came to its end, is being measured by another process, or is of a kind that is only measured in one go.
    """
    together = begun_with(home, _named(home, name))
    open_once = functools.cache(open_bench)
    with ExitStack() as stack:
        for description in together:
            stack.enter_context(Recorder.resume(home, description.id).claimed(home))
        # Only now: whoever had them until a moment ago may have done it all.
        runs = [records.load(home.root / "lab" / description.id) for description in together]
        if all(run.outcome != "unfinished" for run in runs):
            raise StateError(
                f"{runs[0].description.id} was not interrupted",
                why=f"it ended as “{runs[0].outcome}”",
                fix=f"look at it: penstock lab report {runs[0].description.id}",
            )
        return [_go_on(home, open_once, experiment, listener) for experiment in _experiments(runs)]


def interrupted(home: Home) -> list[str]:
    """The runs that were begun, came to no end, and are measured by nobody now; oldest first."""
    return [
        run_id
        for run_id in records.runs(home)
        if not records.in_progress(home, run_id)
        and records.load(home.root / "lab" / run_id).outcome == "unfinished"
        and records.describe(home, run_id).plan
    ]


def _named(home: Home, name: str) -> Description:
    if name == LAST:
        found = interrupted(home)
        if not found:
            raise StateError("No run on this machine was interrupted", fix="penstock lab runs shows what was measured")
        name = found[-1]
    description = records.find(home, name).description
    if not description.plan:
        raise StateError(
            f"{description.id} cannot be gone on with",
            why=f"the workload {description.workload} is only measured in one go",
            fix=f"measure it again: {description.command}",
        )
    return description


def begun_with(home: Home, one: Description) -> list[Description]:
    """The runs of its batch or experiment, in the order they were begun in."""
    everything = [records.describe(home, run_id) for run_id in records.runs(home)]
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


def _go_on(home: Home, open_bench: OpenBench, runs: Sequence[Run], listener: Listener) -> list[Run]:
    if all(run.outcome != "unfinished" for run in runs):
        return list(runs)
    plan = Plan(**runs[0].description.plan)
    caches.require(plan.caches)
    begun = []
    for run in runs:
        arm = _arm_of(run.description)
        begun.append(Begun(arm, open_bench(arm.lake).through(arm.gateways), Recorder.resume(home, run.description.id)))
    for one in begun:
        _end_strays(one.bench, one.recorder.description.id)
        _tell_of_change(one.recorder, listener)
    return carry_out(begun, plan, listener)


def _arm_of(described: Description) -> Arm:
    return Arm(
        name=described.arm,
        suite=restored(described.workload, described.options),
        size=ClusterSize.from_json(described.size),
        lake=described.lake["name"],
        profile=described.profile,
        settings=described.settings,
        launcher=described.launcher,
        gateways=described.lake.get("gateways"),
    )


def _end_strays(bench: Bench, run_id: str) -> None:
    """Applications that outlived the killed process which measured them, and would now be measured along."""
    for application in bench.engine.list(states=_UNFINISHED, tags=(run_id,)):
        bench.engine.stop(application.id)


def _tell_of_change(recorder: Recorder, listener: Listener) -> None:
    before, now = recorder.description.commit, benches.commit()
    recorder.add("resumed", commit=now)
    if before != now:
        listener.note(f"{recorder.description.id} was begun with commit {before}, and goes on with {now}.")
