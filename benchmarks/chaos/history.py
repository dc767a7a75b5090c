"""The required contents of a table, derived from the outcomes that its writers received. Pure.

Each job of a table is done, failed or of unknown outcome (its driver was killed, or its commit was reported as
interrupted). A table is right when some order of its jobs explains it: an order in which a job that ended before
another began comes first, every job that is done happened, no failed one did, and each of the others happened whole or
not at all.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from benchmarks.chaos.operations import Job


class Outcome(str, enum.Enum):
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class JobReport:
    """The reported outcome of one job. Times are seconds of one clock; `ended` is None where no end was reported."""

    job: Job
    outcome: Outcome
    began: float
    ended: float | None = None


@dataclass(frozen=True)
class CommittedRows:
    """The rows of one job in one partition, as an independent reader sees them."""

    job: str
    partition: int
    rows: int
    distinct: int
    attempts: int
    wrong: int = 0
    """The number of rows that differ from what their job wrote."""


def violations(table: str, reports: Sequence[JobReport], found: Sequence[CommittedRows]) -> list[str]:
    """Sentences on each way in which the table is wrong; empty where some order of its jobs explains it."""
    jobs = {one.job.id: one for one in reports}
    broken = [f"{table}: {problem}" for rows in found for problem in _rows(jobs, rows)]
    seen = {(rows.job, rows.partition) for rows in found}
    return broken or [f"{table}: {problem}" for problem in _order(reports, seen)]


def _rows(jobs: Mapping[str, JobReport], found: CommittedRows) -> Iterator[str]:
    where = f"job {found.job} in partition {found.partition}"
    report = jobs.get(found.job)
    if report is None:
        yield f"{where}: rows of nobody"
        return
    if report.outcome is Outcome.FAILED:
        yield f"{where}: {found.rows} rows of a job that failed are visible"
    if found.partition not in report.job.partitions:
        yield f"{where}: a partition that it does not write to"
        return
    expected = report.job.rows_in(found.partition)
    if (found.rows, found.distinct) != (expected, expected):
        yield f"{where}: {found.rows} rows, {found.distinct} of them different, instead of {expected}"
    if found.attempts != 1:
        yield f"{where}: rows of {found.attempts} attempts"
    if found.wrong:
        yield f"{where}: {found.wrong} rows are not what was written"


def _order(reports: Sequence[JobReport], seen: Set[tuple[str, int]]) -> Iterator[str]:
    visible = {job for job, _ in seen}
    happened = [one for one in reports if one.outcome is Outcome.DONE or one.job.id in visible]
    before: dict[str, set[str]] = {one.job.id: set() for one in happened}
    problems = []
    for partition in sorted({number for one in happened for number in one.job.partitions}):
        problems += _partition(
            partition, [one.job for one in happened if partition in one.job.partitions], seen, before
        )
    for one in happened:
        before[one.job.id] |= {other.job.id for other in happened if other is not one and _ended_before(other, one)}
    yield from problems
    if not problems:
        try:
            TopologicalSorter(before).prepare()
        except CycleError as error:
            yield f"no order of its jobs explains it; these contradict each other: {' < '.join(error.args[1])}"


def _partition(
    number: int, jobs: Sequence[Job], seen: Set[tuple[str, int]], before: Mapping[str, set[str]]
) -> Iterator[str]:
    """Yield what no order can explain, and add to `before` the constraints on every order."""
    there = {job.id for job in jobs if (job.id, number) in seen}
    replacing = [job for job in jobs if job.replaces]
    last = [job.id for job in replacing if job.id in there]
    if len(last) > 1:
        yield f"partition {number}: {' and '.join(last)} both replaced it, and both are there"
    elif not last:
        if replacing:
            yield f"partition {number}: {', '.join(job.id for job in replacing)} replaced it, and none is there"
        else:
            yield from (f"partition {number}: job {job.id} is lost" for job in jobs if job.id not in there)
    else:
        for job in jobs:
            if job.id in there and job.id != last[0]:
                before[job.id].add(last[0])
            elif job.id not in there:
                before[last[0]].add(job.id)


def _ended_before(one: JobReport, other: JobReport) -> bool:
    return one.outcome is Outcome.DONE and one.ended is not None and one.ended < other.began


def possible(reports: Iterable[JobReport]) -> list[Set[tuple[str, int]]] | None:
    """The possible contents, pairs of job and partition, of a table whose jobs ran in sequence.

    None where the last job's outcome is unknown: it may be half done until the next job finishes it.
    """
    states: list[Set[tuple[str, int]]] = [frozenset()]
    settled = True
    for one in reports:
        happened = [_after(state, one.job) for state in states]
        if one.outcome is Outcome.DONE:
            states = happened
        elif one.outcome is Outcome.UNKNOWN:
            states = [*states, *happened]
        settled = one.outcome is Outcome.DONE or (settled and one.outcome is Outcome.FAILED)
    return list(dict.fromkeys(map(frozenset, states))) if settled else None


def _after(state: Set[tuple[str, int]], job: Job) -> Set[tuple[str, int]]:
    replaced = set(job.partitions) if job.replaces else set()
    kept = {(name, part) for name, part in state if part not in replaced}
    return kept | {(job.id, part) for part in job.partitions if job.rows_in(part)}
