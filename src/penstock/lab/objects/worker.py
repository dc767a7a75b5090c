"""One process of the generator: many connections, one thread.

It is told what to do over a pipe from the coordinator (credentials too, so they are in no argument list and no
environment), and ends when that pipe does, however the coordinator ended.
"""

from __future__ import annotations

import heapq
import itertools
import os
import resource
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from penstock.lab.objects.content import Content
from penstock.lab.objects.multi import Ended, Multi
from penstock.lab.objects.plan import Request
from penstock.lab.objects.slot import Slot
from penstock.lab.objects.tally import Tally
from penstock.lab.objects.transfer import Address, Transfer
from penstock.lab.objects.workload import Stage
from penstock.lake.model import Credentials, Lake

_REPORT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 0.2


@dataclass(frozen=True)
class Setup:
    """What a process needs to know once: it is number `process` of `processes`."""

    lake: Lake
    credentials: Credentials
    prefix: str
    seed: int
    process: int
    processes: int
    grace_seconds: float = 10.0
    """How long requests that are in flight when a stage's time is over may still take."""


@dataclass(frozen=True)
class Go:
    """Start the stage at this time of CLOCK_MONOTONIC, which all processes of a machine share."""

    at: float


@dataclass(frozen=True)
class Progress:
    """Counted since the stage began."""

    operations: int
    bytes: int
    errors: int


@dataclass(frozen=True)
class Report:
    """A stage's tallies, per work and operation, and the processor time it took this process."""

    tallies: list[list[Tally]]
    ran_out: list[bool]
    """Per work: whether each worker here had nothing left to do before its time was over."""
    written: set[str]
    """Names of objects that the store has said to hold."""
    doubtful: set[str]
    """Names of objects that may be there or not."""
    core_seconds: float


def main(pipe: Connection, setup: Setup) -> None:
    """Serve stages until the pipe ends: Stage → "ready", Go → Progress …, Report."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a connection is a descriptor; shells allow few
    content = Content(setup.seed)
    try:
        while True:
            stage: Stage = pipe.recv()
            running = Running(pipe, setup, content, stage)
            pipe.send("ready")
            go: Go = pipe.recv()
            pipe.send(running.run(go.at))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        # No clean-up: libcurl's handles may be in the midst of transfers that nobody waits for.
        os._exit(0)


class Running:
    """This process's part of one stage."""

    def __init__(self, pipe: Connection, setup: Setup, content: Content, stage: Stage) -> None:
        self._pipe = pipe
        self._multi = Multi()
        self._active: dict[Any, tuple[Slot, Request, float]] = {}
        self._slots: list[list[Slot]] = []
        self._transfers: dict[Slot, Transfer] = {}
        self._waiting: list[tuple[float, int, Slot]] = []
        """A heap by when each is due; the number tells apart what is due at once."""
        self._turns = itertools.count()
        self._start = 0.0
        endpoints = setup.lake.endpoints
        worker = 0
        for work in stage.works:
            mine = []
            for index in range(work.workers):
                if worker % setup.processes == setup.process:
                    # Not by the worker's number alone: each process would then know some gateways only.
                    endpoint = endpoints[(worker // setup.processes + setup.process) % len(endpoints)]
                    slot = Slot(work, index, setup.seed, endpoint)
                    address = Address(setup.lake, setup.credentials, endpoint, setup.prefix)
                    self._transfers[slot] = Transfer(address, content)
                    mine.append(slot)
                worker += 1
            self._slots.append(mine)
            for slot in mine:
                self._wait(slot)
        self._deadline = max((slot.end() for slot in self._transfers), default=0.0) + setup.grace_seconds

    def run(self, at: float) -> Report:
        self._start = at
        time.sleep(max(0.0, at - time.monotonic()))
        before = time.process_time()
        reported = 0.0
        while self._waiting or self._active:
            now = self._now()
            if now - reported >= _REPORT_SECONDS:
                reported = now
                self._tell()
            self._start_due(now)
            for ended in self._multi.step(self._idle_seconds(now)):
                self._count(ended)
            if now > self._deadline:
                self._cut_off()
        core_seconds = time.process_time() - before
        for transfer in self._transfers.values():
            transfer.close()
        self._multi.close()
        return Report(
            [_merged(slots) for slots in self._slots],
            [all(slot.ran_out for slot in slots) for slots in self._slots],
            set[str]().union(*(slot.written for slot in self._transfers)),
            set[str]().union(*(slot.doubtful for slot in self._transfers)),
            core_seconds,
        )

    def _wait(self, slot: Slot) -> None:
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

    def _count(self, ended: Ended) -> None:
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
        """How long nothing is to be started."""
        due = self._waiting[0][0] if self._waiting else now + _LONGEST_WAIT_SECONDS
        return min(max(0.0, due - now), _LONGEST_WAIT_SECONDS)

    def _tell(self) -> None:
        tallies = [tally for slots in self._slots for slot in slots for tally in slot.tallies]
        errors = sum(tally.errors.total() for tally in tallies)
        self._pipe.send(Progress(sum(t.operations for t in tallies), sum(t.bytes for t in tallies), errors))

    def _now(self) -> float:
        return time.monotonic() - self._start


def _merged(slots: list[Slot]) -> list[Tally]:
    """The tallies of a work's workers, per operation; empty where this process has none of them."""
    if not slots:
        return []
    merged = slots[0].tallies
    for slot in slots[1:]:
        for tally, other in zip(merged, slot.tallies, strict=True):
            tally.merge(other)
    return merged
