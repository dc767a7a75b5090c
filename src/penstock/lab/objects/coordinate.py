"""The generator as a whole: its processes, their common start, and their tallies added up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import wait

from penstock.lab.objects import children, worker
from penstock.lab.objects.children import Child
from penstock.lab.objects.tally import Tally
from penstock.lab.objects.worker import Go, Progress, Report, Setup
from penstock.lab.objects.workload import Stage
from penstock.lake.model import Credentials, Lake

_HEAD_START_SECONDS = 0.1  # from the last process's being ready to the common start

Seen = Callable[[Progress, float], None]
"""Told twice a second what is counted so far and how many seconds the stage has run."""


@dataclass(frozen=True)
class Result:
    """What a stage came to: tallies per work and operation, and the processor time of all generator processes."""

    stage: Stage
    tallies: Sequence[Sequence[Tally]]
    ran_out: Sequence[bool]
    """Per work: whether every worker had nothing left to do before its time was over."""
    written: frozenset[str]
    """Objects that must be there now: the store has acknowledged them, and nobody has touched them otherwise."""
    core_seconds: float

    @property
    def operations(self) -> int:
        return sum(tally.operations + tally.late + tally.errors.total() for work in self.tallies for tally in work)

    def errors(self) -> dict[str, int]:
        """All errors by kind."""
        return dict(sum((tally.errors for work in self.tallies for tally in work), Tally().errors))


class Generator:
    """Worker processes of one lake and prefix. Every method raises `PenstockError` when one of them has died."""

    def __init__(self, setup: Setup) -> None:
        self._children = [
            Child.start(worker.main, replace(setup, process=number), f"objects-{number}")
            for number in range(setup.processes)
        ]

    def run(self, stage: Stage, seen: Seen) -> Result:
        """One stage, all works of it at once; returns when it has ended in every process."""
        for child in self._children:
            child.send(stage)
        for child in self._children:
            child.receive()
        begin = time.monotonic() + _HEAD_START_SECONDS
        for child in self._children:
            child.send(Go(begin))
        result = _collected(stage, self._reports(seen, begin))
        time.sleep(stage.pause_seconds)
        return result

    def close(self) -> None:
        """End every process; safe at any moment, and more than once."""
        children.end(self._children)

    def _reports(self, seen: Seen, begin: float) -> list[Report]:
        latest: dict[object, Progress] = {}
        of_pipe: dict[object, Child] = {child.pipe: child for child in self._children}
        reports: list[Report] = []
        while of_pipe:
            for pipe in wait([child.pipe for child in of_pipe.values()]):
                message = of_pipe[pipe].receive()
                if isinstance(message, Report):
                    reports.append(message)
                    del of_pipe[pipe]
                else:
                    latest[pipe] = message
            seen(_sum(latest.values()), time.monotonic() - begin)
        return reports


@contextmanager
def opened(
    lake: Lake, credentials: Credentials, *, prefix: str, seed: int, processes: int, grace_seconds: float = 10.0
) -> Iterator[Generator]:
    """Generator processes for the time of the block; none of them is left behind, however it ends."""
    generator = Generator(Setup(lake, credentials, prefix, seed, 0, processes, grace_seconds))
    try:
        yield generator
    finally:
        generator.close()


def _collected(stage: Stage, reports: Sequence[Report]) -> Result:
    tallies = [[Tally() for _ in work.operations] for work in stage.works]
    for report in reports:
        for merged, own in zip(tallies, report.tallies, strict=True):
            for total, tally in zip(merged, own, strict=False):  # a process without workers of a work reports none
                total.merge(tally)
    ran_out = [all(report.ran_out[number] for report in reports) for number in range(len(stage.works))]
    written = frozenset[str]().union(*(report.written for report in reports))
    doubtful = frozenset[str]().union(*(report.doubtful for report in reports))
    return Result(stage, tallies, ran_out, written - doubtful, sum(report.core_seconds for report in reports))


def _sum(progress: Iterable[Progress]) -> Progress:
    known = list(progress)
    return Progress(
        sum(one.operations for one in known), sum(one.bytes for one in known), sum(one.errors for one in known)
    )
