"""Invariants of a finished round; each function returns a sentence for each violation. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.chaos.history import CommittedRows, JobReport, Outcome, possible, violations
from benchmarks.chaos.journal import Journal
from benchmarks.chaos.lake_view import Leftovers
from benchmarks.chaos.operations import LOOK, QUERY, WRITES, Job, Work
from penstock.model import Application, State

_STACK = re.compile(r"^\s+at [\w.$]+\(|Traceback \(most recent call last\)|^\s+File \"", re.MULTILINE)
_LONGEST_REASON = 1_000


@dataclass(frozen=True)
class FinishedApplication:
    """One application after its end. `faulted`: a fault hit one of its processes."""

    work: Work
    application: Application
    journal: Journal
    faulted: bool


def writes(
    ended: Sequence[FinishedApplication],
    seeds: Mapping[str, Sequence[JobReport]],
    found: Mapping[str, Sequence[CommittedRows]],
) -> list[str]:
    """Each committed row is visible exactly once, and no row of an uncommitted job is.

    `seeds` are the contents of each table before the round.
    """
    return [
        problem
        for table, before in seeds.items()
        for problem in violations(table, [*before, *_writers(ended, table)], found[table])
    ]


def _writers(ended: Sequence[FinishedApplication], table: str) -> list[JobReport]:
    reports = [report for one in ended for report in one.journal.reports]
    return [one for one in reports if one.job.table == table and one.job.kind in WRITES]


def reads(ended: Sequence[FinishedApplication], expected: Mapping[str, Any]) -> list[str]:
    """Every answer is right, to queries of known data and of tables with one writer."""
    broken = []
    for one in ended:
        for report in one.journal.reports:
            job, answer = report.job, one.journal.answers.get(report.job.id)
            if report.outcome is not Outcome.DONE:
                continue
            if job.kind == QUERY and answer != expected[job.id]:
                broken.append(f"query {job.id}: {str(answer)[:200]} instead of {str(expected[job.id])[:200]}")
            if job.kind == LOOK:
                broken += _looked(one, job, answer)
    return broken


def _looked(one: FinishedApplication, job: Job, answer: Sequence[Sequence[Any]]) -> list[str]:
    lane = next(lane for lane in one.work.lanes if job in lane)
    before = {other.id for other in lane[: lane.index(job)] if other.kind in WRITES}
    states = possible([report for report in one.journal.reports if report.job.id in before])
    if states is None:
        return []
    jobs = {report.job.id: report.job for report in one.journal.reports}
    seen = frozenset((name, part) for name, part, _ in answer)
    if seen not in states:
        return [f"{job.id} sees {sorted(seen)}, which no outcome of the jobs before explains"]
    short = [(name, part) for name, part, rows in answer if rows != jobs[name].rows_in(part)]
    return [f"{job.id} sees a part of the rows of {short}"] if short else []


def undisturbed(ended: Sequence[FinishedApplication]) -> list[str]:
    """Without faults nothing fails: earlier faults have no effect."""
    jobs = [report for one in ended for report in one.journal.reports]
    failed = [f"{report.job.id} failed without faults" for report in jobs if report.outcome is not Outcome.DONE]
    planned = {job.id for one in ended for job in one.work.jobs()}
    return failed + [f"{name} never began" for name in sorted(planned - {report.job.id for report in jobs})]


def nothing_left(found: Leftovers) -> list[str]:
    return [
        *(f"key {key} belongs to nothing" for key in found.keys),
        *(f"the upload to {key} is pending" for key in found.uploads),
        *(f"the journal of {table} is not at rest" for table in found.journals),
    ]


def states(ended: Sequence[FinishedApplication]) -> list[str]:
    """The applications' records agree with their journals."""
    broken = []
    for one in ended:
        state, name = one.application.state, f"{one.work.name} ({one.application.id})"
        if not state.final:
            broken.append(f"{name} is still {state.value}")
        elif state is State.FINISHED and not one.journal.ended:
            broken.append(f"{name} is finished, but its program did not reach its end")
        elif state is not State.FINISHED and one.journal.ended and not one.faulted:
            broken.append(f"{name} is {state.value}, but its program reached its end undisturbed")
        if one.journal.contexts > 1 + len(one.application.attempts):
            broken.append(f"{name} was started {one.journal.contexts} times")
        if state.final and one.application.cluster is not None:
            broken.append(f"{name} has ended and still has a cluster")
    return broken


def errors(ended: Sequence[FinishedApplication]) -> list[str]:
    """Every failure of an application has a reason with a code, a message and a fix, and no stack trace."""
    broken = []
    for one in ended:
        application, reason = one.application, one.application.reason
        if application.state is State.FINISHED:
            continue
        if reason is None:
            broken.append(f"{application.id} is {application.state.value} without a reason")
            continue
        if not reason.code or not reason.message.strip():
            broken.append(f"{application.id}: the reason has no code or no message: {reason}")
        if not reason.fix.strip():
            broken.append(f"{application.id}: “{reason.message}” does not say what to do")
        if _STACK.search(reason.message) or len(reason.message) > _LONGEST_REASON:
            broken.append(f"{application.id}: the reason is a stack trace: {reason.message[:200]}")
    return broken
