"""The generator's processes: a coordinator, workers with many connections and one thread each, and their common start.

A worker process gets its work from the coordinator over a pipe (credentials too, so they are in no argument list and no
environment), and ends when that pipe does, however the coordinator ended. The time of the next request, and the
counting, are pure: the clock is an argument, in seconds since the stage's common start.
"""

from __future__ import annotations

import heapq
import itertools
import math
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.lab.loadgen.schedule import Request, RequestSequence
from penstock.lab.loadgen.statistics import UNFINISHED, OperationStats
from penstock.lab.loadgen.workload import Content, OperationKind, Stage, Work
from penstock.lake.model import Credentials, Lake

if TYPE_CHECKING:
    from penstock.lab.loadgen.transfer import FinishedTransfer, RequestOutcome, Transfer


_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 1.0
GIVE_UP_AFTER = 20
"""Consecutive failures after which a worker without a time limit stops, since the store will not recover."""


class LoadWorker:
    """One worker of a work: makes the requests of its plan until the work's limit, one at a time."""

    def __init__(self, work: Work, index: int, seed: int, gateway: str) -> None:
        self.work = work
        self.gateway = gateway
        self.tallies = [OperationStats() for _ in work.operations]
        self.due: float
        """The time of the next request: as scheduled, or after the pause that a failure imposes."""
        self.written: set[str] = set()
        """Objects whose last request by this worker was an acknowledged PUT."""
        self.doubtful: set[str] = set()
        """Objects whose last request by this worker was a DELETE, or failed: they may exist or not."""
        self.ran_out = False
        """Whether its requests ran out before its time."""
        self._index = index
        self._sequence = RequestSequence(work, index, seed)
        self._plan: Iterator[Request] = iter(self._sequence)
        self._window_start = work.rampup_seconds
        seconds = work.limit.seconds
        self._window_end = math.inf if seconds is None else self._window_start + seconds
        self._bytes_left = math.inf if work.limit.bytes is None else work.limit.bytes / work.workers
        self._made = 0
        self._failures = 0
        self._seconds_between = None if work.rate is None else work.workers / work.rate
        self.due = self._scheduled = self._next_due(0.0)

    def end(self) -> float:
        """Return the time after which no request is started."""
        return self._window_end + self.work.rampdown_seconds

    def next(self, now: float) -> Request | None:
        """Return the request to make now; None where this worker is done."""
        gives_up = math.isinf(self._window_end) and self._failures >= GIVE_UP_AFTER
        if now >= self.end():
            return None
        request = None if self._bytes_left <= 0 or gives_up else next(self._plan, None)
        self._made += 1
        self.ran_out = request is None
        return request

    def completed(self, request: Request, outcome: RequestOutcome, started: float, ended: float) -> None:
        """Count the request, and schedule the next one."""
        intended = started if self._seconds_between is None else min(started, self._scheduled)
        self._failures = self._failures + 1 if outcome.error else 0
        self._track(request, sure=not outcome.error)
        if started < self._window_start:
            self._sequence.uncount()
        else:
            self._bytes_left -= outcome.transferred
        if self._window_start <= started < self._window_end:
            self._count(request, outcome, max(0.0, started - intended), ended)
        self.due = self._scheduled = self._next_due(ended)
        if self._failures:
            pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 1, 10))
            self.due = max(self.due, ended + pause)

    def cut_off(self, request: Request, started: float) -> None:
        """Count a request that the end of the stage cancelled."""
        self._track(request, sure=False)
        if self._window_start <= started < self._window_end:
            self.tallies[request.operation].failed(UNFINISHED, f"{request.name}: no end ({self.gateway})")

    def _track(self, request: Request, *, sure: bool) -> None:
        if request.kind is OperationKind.PUT and sure:
            self.written.add(request.name)
            self.doubtful.discard(request.name)
        elif request.kind in (OperationKind.PUT, OperationKind.DELETE):
            self.written.discard(request.name)
            self.doubtful.add(request.name)

    def _count(self, request: Request, outcome: RequestOutcome, waited: float, ended: float) -> None:
        tally = self.tallies[request.operation]
        if outcome.error:
            tally.failed(outcome.error, f"{outcome.detail} ({self.gateway})")
            return
        tally.verified_bytes += outcome.verified
        late_us = int(waited * 1e6)
        first_us = None if outcome.first_byte_us is None else outcome.first_byte_us + late_us
        since = ended - self._window_start
        tally.timed(outcome.total_us + late_us, first_us, since, request.name, self.gateway)
        if ended < self._window_end:
            tally.succeeded(outcome.transferred, since)
        else:
            tally.late += 1

    def _next_due(self, free: float) -> float:
        """Return the next due time: at once, or on a schedule that workers share and lateness does not shift."""
        if self._seconds_between is None:
            return free
        return (self._made + self._index / self.work.workers) * self._seconds_between


_REPORT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 0.2


@dataclass(frozen=True)
class ProcessSetup:
    """The parameters of a process, which is number `process` of `processes`."""

    lake: Lake
    credentials: Credentials
    prefix: str
    seed: int
    process: int
    processes: int
    grace_seconds: float = 10.0
    """The time for requests in flight at the end of a stage to complete."""


@dataclass(frozen=True)
class StartSignal:
    """The start of a stage by CLOCK_MONOTONIC, which all processes of a machine share."""

    at: float


@dataclass(frozen=True)
class StageProgress:
    """Counts since the start of the stage."""

    operations: int
    bytes: int
    errors: int


@dataclass(frozen=True)
class StageReport:
    """A stage's tallies per work and operation, and the CPU time of this process."""

    tallies: list[list[OperationStats]]
    ran_out: list[bool]
    """Per work: whether the requests of all its workers here ran out before its time."""
    written: set[str]
    """Names of objects that the store has acknowledged."""
    doubtful: set[str]
    """Names of objects that may exist or not."""
    core_seconds: float


def main(pipe: Connection, setup: ProcessSetup) -> None:
    """Run stages until the pipe ends. The protocol: Stage → "ready", Go → Progress …, Report."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection is a descriptor; shells allow few
    content = Content(setup.seed)
    try:
        while True:
            stage: Stage = pipe.recv()
            running = StageRunner(pipe, setup, content, stage)
            pipe.send("ready")
            go: StartSignal = pipe.recv()
            pipe.send(running.run(go.at))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        # No clean-up: libcurl's handles may be in the middle of abandoned transfers.
        os._exit(0)


class StageRunner:
    """This process's part of one stage."""

    def __init__(self, pipe: Connection, setup: ProcessSetup, content: Content, stage: Stage) -> None:
        from penstock.lab.loadgen.transfer import Address, MultiTransfer, Transfer  # noqa: PLC0415  libcurl, for workers alone

        self._pipe = pipe
        self._multi = MultiTransfer()
        self._active: dict[Any, tuple[LoadWorker, Request, float]] = {}
        self._slots: list[list[LoadWorker]] = []
        self._transfers: dict[LoadWorker, Transfer] = {}
        self._waiting: list[tuple[float, int, LoadWorker]] = []
        """A heap by due time; the number breaks ties."""
        self._turns = itertools.count()
        self._start = 0.0
        endpoints = setup.lake.endpoints
        worker = 0
        for work in stage.works:
            mine = []
            for index in range(work.workers):
                if worker % setup.processes == setup.process:
                    # Not by the worker's number alone: each process would then use some gateways only.
                    endpoint = endpoints[(worker // setup.processes + setup.process) % len(endpoints)]
                    slot = LoadWorker(work, index, setup.seed, endpoint)
                    address = Address(setup.lake, setup.credentials, endpoint, setup.prefix)
                    self._transfers[slot] = Transfer(address, content)
                    mine.append(slot)
                worker += 1
            self._slots.append(mine)
            for slot in mine:
                self._wait(slot)
        self._deadline = max((slot.end() for slot in self._transfers), default=0.0) + setup.grace_seconds

    def run(self, at: float) -> StageReport:
        self._start = at
        time.sleep(max(0.0, at - time.monotonic()))
        before = time.process_time()
        reported = 0.0
        while self._waiting or self._active:
            now = self._now()
            if now - reported >= _REPORT_SECONDS:
                reported = now
                self._report_progress()
            self._start_due(now)
            for ended in self._multi.step(self._idle_seconds(now)):
                self._count(ended)
            if now > self._deadline:
                self._cut_off()
        core_seconds = time.process_time() - before
        for transfer in self._transfers.values():
            transfer.close()
        self._multi.close()
        return StageReport(
            [_merged(slots) for slots in self._slots],
            [all(slot.ran_out for slot in slots) for slots in self._slots],
            set[str]().union(*(slot.written for slot in self._transfers)),
            set[str]().union(*(slot.doubtful for slot in self._transfers)),
            core_seconds,
        )

    def _wait(self, slot: LoadWorker) -> None:
        if slot.due < slot.end():
            heapq.heappush(self._waiting, (slot.due, next(self._turns), slot))

    def _start_due(self, now: float) -> None:
        while self._waiting and self._waiting[0][0] <= now:
            slot = heapq.heappop(self._waiting)[2]
            if (request := slot.next(now)) is not None:
                transfer = self._transfers[slot]
                transfer.start(request)
                self._active[transfer.curl] = (slot, request, self._now())
                self._multi.add(transfer.curl)

    def _count(self, ended: FinishedTransfer) -> None:
        slot, request, started = self._active.pop(ended.curl)
        outcome = self._transfers[slot].finish(ended.broken, ended.why)
        self._multi.remove(ended.curl)
        slot.completed(request, outcome, started, self._now())
        self._wait(slot)

    def _cut_off(self) -> None:
        for curl, (slot, request, started) in self._active.items():
            self._multi.remove(curl)
            slot.cut_off(request, started)
        self._active.clear()

    def _idle_seconds(self, now: float) -> float:
        """Return the seconds until the next request is due, at most the longest wait."""
        due = self._waiting[0][0] if self._waiting else now + _LONGEST_WAIT_SECONDS
        return min(max(0.0, due - now), _LONGEST_WAIT_SECONDS)

    def _report_progress(self) -> None:
        tallies = [tally for slots in self._slots for slot in slots for tally in slot.tallies]
        errors = sum(tally.errors.total() for tally in tallies)
        self._pipe.send(StageProgress(sum(t.operations for t in tallies), sum(t.bytes for t in tallies), errors))

    def _now(self) -> float:
        return time.monotonic() - self._start


def _merged(slots: list[LoadWorker]) -> list[OperationStats]:
    """Merge the tallies of a work's workers, per operation; empty where this process has no such worker."""
    if not slots:
        return []
    merged = slots[0].tallies
    for slot in slots[1:]:
        for tally, other in zip(merged, slot.tallies, strict=True):
            tally.merge(other)
    return merged


_SPAWN = multiprocessing.get_context("spawn")  # fork copies locks that other threads hold
_END_SECONDS = 2.0


@dataclass(frozen=True)
class ChildProcess:
    """A child process and the parent's end of its pipe. It must end by itself when the pipe does."""

    process: SpawnProcess
    pipe: Connection

    @staticmethod
    def start(target: Callable[..., None], setup: Any, name: str) -> ChildProcess:
        """Call `target(pipe, setup)` in a new process, which gets `setup` over a pipe."""
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=target, args=(theirs, setup), name=name, daemon=True)
        # Ctrl-C reaches all processes of the terminal; the children ignore it from their start, so that this process
        # ends them. The resource tracker starts first, since its start would lift the mask again.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # or its end would never be noticed here
        return ChildProcess(process, ours)

    def send(self, message: object) -> None:
        """Send a message. Raises `PenstockError` where the process has died."""
        try:
            self.pipe.send(message)
        except (BrokenPipeError, ConnectionResetError):
            raise self._died() from None

    def receive(self) -> Any:
        """Wait for a message. Raises `PenstockError` where the process has died."""
        try:
            return self.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self._died() from None

    def _died(self) -> PenstockError:
        self.process.join(_END_SECONDS)
        return PenstockError(
            "A process of the load generator died",
            why=f"{self.process.name} ended with exit code {self.process.exitcode}; its counts are lost",
            fix="if the system killed it for lack of memory, use fewer --workers or --processes",
        )


def end_children(children: Sequence[ChildProcess]) -> None:
    """End all child processes; safe at any time, and repeatedly."""
    for child in children:
        child.pipe.close()
    deadline = time.monotonic() + _END_SECONDS
    for child in children:
        child.process.join(max(0.0, deadline - time.monotonic()))
        if child.process.is_alive():
            child.process.kill()
            child.process.join()


_HEAD_START_SECONDS = 0.1  # from the readiness of the last process to the common start

ProgressCallback = Callable[[StageProgress, float], None]
"""Called twice a second with the counts so far and the seconds since the start of the stage."""


@dataclass(frozen=True)
class StageResult:
    """The result of a stage: tallies per work and operation, and the CPU time of all generator processes."""

    stage: Stage
    tallies: Sequence[Sequence[OperationStats]]
    ran_out: Sequence[bool]
    """Per work: whether the requests of all its workers ran out before its time."""
    written: frozenset[str]
    """Objects that must exist: their last request was an acknowledged PUT."""
    core_seconds: float

    @property
    def operations(self) -> int:
        return sum(tally.operations + tally.late + tally.errors.total() for work in self.tallies for tally in work)

    def errors(self) -> dict[str, int]:
        """Return all errors by kind."""
        return dict(sum((tally.errors for work in self.tallies for tally in work), OperationStats().errors))


class Generator:
    """Worker processes for one lake and prefix. Every method raises `PenstockError` when one of them has died."""

    def __init__(self, setup: ProcessSetup) -> None:
        self._children = [
            ChildProcess.start(main, replace(setup, process=number), f"objects-{number}")
            for number in range(setup.processes)
        ]

    def run(self, stage: Stage, seen: ProgressCallback) -> StageResult:
        """Run all works of a stage at once; return when the stage has ended in every process."""
        for child in self._children:
            child.send(stage)
        for child in self._children:
            child.receive()
        begin = time.monotonic() + _HEAD_START_SECONDS
        for child in self._children:
            child.send(StartSignal(begin))
        result = _collected(stage, self._reports(seen, begin))
        time.sleep(stage.pause_seconds)
        return result

    def close(self) -> None:
        """End every process; safe at any time, and repeatedly."""
        end_children(self._children)

    def _reports(self, seen: ProgressCallback, begin: float) -> list[StageReport]:
        latest: dict[object, StageProgress] = {}
        by_pipe: dict[object, ChildProcess] = {child.pipe: child for child in self._children}
        reports: list[StageReport] = []
        while by_pipe:
            for pipe in wait([child.pipe for child in by_pipe.values()]):
                message = by_pipe[pipe].receive()
                if isinstance(message, StageReport):
                    reports.append(message)
                    del by_pipe[pipe]
                else:
                    latest[pipe] = message
            seen(_sum(latest.values()), time.monotonic() - begin)
        return reports


@contextmanager
def open_generator(
    lake: Lake, credentials: Credentials, *, prefix: str, seed: int, processes: int, grace_seconds: float = 10.0
) -> Iterator[Generator]:
    """Yield a generator; its processes end with the block, also after an error."""
    generator = Generator(ProcessSetup(lake, credentials, prefix, seed, 0, processes, grace_seconds))
    try:
        yield generator
    finally:
        generator.close()


def _collected(stage: Stage, reports: Sequence[StageReport]) -> StageResult:
    tallies = [[OperationStats() for _ in work.operations] for work in stage.works]
    for report in reports:
        for merged, own in zip(tallies, report.tallies, strict=True):
            for total, tally in zip(merged, own, strict=False):  # a process without workers of a work reports none
                total.merge(tally)
    ran_out = [all(report.ran_out[number] for report in reports) for number in range(len(stage.works))]
    written = frozenset[str]().union(*(report.written for report in reports))
    doubtful = frozenset[str]().union(*(report.doubtful for report in reports))
    return StageResult(stage, tallies, ran_out, written - doubtful, sum(report.core_seconds for report in reports))


def _sum(progress: Iterable[StageProgress]) -> StageProgress:
    known = list(progress)
    return StageProgress(
        sum(one.operations for one in known), sum(one.bytes for one in known), sum(one.errors for one in known)
    )
