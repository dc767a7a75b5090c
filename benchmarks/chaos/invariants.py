"""What must hold when a round is over, each as a list of sentences about where it does not. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.chaos.history import Found, Outcome, Told, possible, violations
from benchmarks.chaos.journal import Journal
from benchmarks.chaos.lake_view import Leftovers
from benchmarks.chaos.operations import LOOK, QUERY, WRITES, Job, Work
from penstock.model import Application, State

_STACK = re.compile(r"^\s+at [\w.$]+\(|Traceback \(most recent call last\)|^\s+File \"", re.MULTILINE)
_LONGEST_REASON = 1_000


@dataclass(frozen=True)
class Ended:
    """One application when all is over. `struck`: a process of it was killed by a fault."""

    work: Work
    application: Application
    journal: Journal
    struck: bool


def writes(
    ended: Sequence[Ended], seeds: Mapping[str, Sequence[Told]], found: Mapping[str, Sequence[Found]]
) -> list[str]:
    """Every committed row is there exactly once, and nothing of an uncommitted job. `seeds`: what was in each table
    before."""
    return [
        problem
        for table, before in seeds.items()
        for problem in violations(table, [*before, *_writers(ended, table)], found[table])
    ]


def _writers(ended: Sequence[Ended], table: str) -> list[Told]:
    told = [told for one in ended for told in one.journal.told]
    return [one for one in told if one.job.table == table and one.job.kind in WRITES]


def reads(ended: Sequence[Ended], expected: Mapping[str, Any]) -> list[str]:
    """Every query that answered answered right: those of known data, and those of tables with one writer."""
    broken = []
    for one in ended:
        for told in one.journal.told:
            job, answer = told.job, one.journal.answers.get(told.job.id)
            if told.outcome is not Outcome.DONE:
                continue
            if job.kind == QUERY and answer != expected[job.id]:
                broken.append(f"query {job.id}: {str(answer)[:200]} instead of {str(expected[job.id])[:200]}")
            if job.kind == LOOK:
                broken += _looked(one, job, answer)
    return broken


def _looked(one: Ended, job: Job, answer: Sequence[Sequence[Any]]) -> list[str]:
    lane = next(lane for lane in one.work.lanes if job in lane)
    before = {other.id for other in lane[: lane.index(job)] if other.kind in WRITES}
    states = possible([told for told in one.journal.told if told.job.id in before])
    if states is None:
        return []
    jobs = {told.job.id: told.job for told in one.journal.told}
    seen = frozenset((name, part) for name, part, _ in answer)
    if seen not in states:
        return [f"{job.id} sees {sorted(seen)}, which no outcome of the jobs before explains"]
    short = [(name, part) for name, part, rows in answer if rows != jobs[name].rows_in(part)]
    return [f"{job.id} sees a part of the rows of {short}"] if short else []


def undisturbed(ended: Sequence[Ended]) -> list[str]:
    """Without faults nothing fails: no fault of before is remembered."""
    jobs = [told for one in ended for told in one.journal.told]
    failed = [f"{told.job.id} failed in peace" for told in jobs if told.outcome is not Outcome.DONE]
    asked = {job.id for one in ended for job in one.work.jobs()}
    return failed + [f"{name} was never begun" for name in sorted(asked - {told.job.id for told in jobs})]


def nothing_left(found: Leftovers) -> list[str]:
    return [
        *(f"key {key} belongs to nothing" for key in found.keys),
        *(f"the upload to {key} is pending" for key in found.uploads),
        *(f"the journal of {table} is not at rest" for table in found.journals),
    ]


def states(ended: Sequence[Ended]) -> list[str]:
    """What the record says is what happened."""
    broken = []
    for one in ended:
        state, name = one.application.state, f"{one.work.name} ({one.application.id})"
        if not state.final:
            broken.append(f"{name} is still {state.value}")
        elif state is State.FINISHED and not one.journal.ended:
            broken.append(f"{name} is finished, and did not come to its end")
        elif state is not State.FINISHED and one.journal.ended and not one.struck:
            broken.append(f"{name} is {state.value}, and came to its end undisturbed")
        if one.journal.contexts > 1 + len(one.application.attempts):
            broken.append(f"{name} was started {one.journal.contexts} times")
        if state.final and one.application.cluster is not None:
            broken.append(f"{name} has ended and still has a cluster")
    return broken


def errors(ended: Sequence[Ended]) -> list[str]:
    """Every failure of an application says what, why and what to do, in words."""
    broken = []
    for one in ended:
        application, reason = one.application, one.application.reason
        if application.state is State.FINISHED:
            continue
        if reason is None:
            broken.append(f"{application.id} is {application.state.value}, and nobody says why")
            continue
        if not reason.code or not reason.message.strip():
            broken.append(f"{application.id}: the reason says nothing: {reason}")
        if not reason.fix.strip():
            broken.append(f"{application.id}: “{reason.message}” does not say what to do")
        if _STACK.search(reason.message) or len(reason.message) > _LONGEST_REASON:
            broken.append(f"{application.id}: the reason is a stack trace: {reason.message[:200]}")
    return broken
