"""When a worker makes its next request and what of it is counted. Pure: the clock is an argument.

All times are seconds since the stage's common start.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from penstock.lab.objects.plan import Plan, Request
from penstock.lab.objects.tally import UNFINISHED, Tally
from penstock.lab.objects.transfer import Outcome
from penstock.lab.objects.workload import Kind, Work

_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 1.0
GIVE_UP_AFTER = 20
"""Failures in a row after which a worker without a time limit stops: the store is not coming back."""


class Slot:
    """One worker of a work: repeats its plan until the work's limit, one request at a time."""

    def __init__(self, work: Work, index: int, seed: int, gateway: str) -> None:
        self.work = work
        self.gateway = gateway
        self.tallies = [Tally() for _ in work.operations]
        self.due: float
        """When the next request is to be made."""
        self.written: set[str] = set()
        """Objects whose last request of this worker was a PUT that the store has acknowledged."""
        self.doubtful: set[str] = set()
        """Objects whose last one was a DELETE, or failed: they may be there or not."""
        self.ran_out = False
        """Whether it had nothing left to do before its time was over."""
        self._index = index
        self._plan: Iterator[Request] = iter(Plan(work, index, seed))
        self._window_start = work.rampup_seconds
        seconds = work.limit.seconds
        self._window_end = math.inf if seconds is None else self._window_start + seconds
        self._bytes_left = math.inf if work.limit.bytes is None else work.limit.bytes / work.workers
        self._made = 0
        self._failures = 0
        self._seconds_between = None if work.rate is None else work.workers / work.rate
        self.due = self._next_due(0.0)

    def end(self) -> float:
        """After this no request is started."""
        return self._window_end + self.work.rampdown_seconds

    def next(self, now: float) -> Request | None:
        """The request to make now; None where this worker is done."""
        gives_up = math.isinf(self._window_end) and self._failures >= GIVE_UP_AFTER
        if now >= self.end():
            return None
        request = None if self._bytes_left <= 0 or gives_up else next(self._plan, None)
        self._made += 1
        self.ran_out = request is None
        return request

    def completed(self, request: Request, outcome: Outcome, started: float, ended: float) -> None:
        """Count the request, and decide when the next one is due."""
        intended = started if self._seconds_between is None else min(started, self.due)
        self._failures = self._failures + 1 if outcome.error else 0
        self._remember(request, sure=not outcome.error)
        self._bytes_left -= outcome.transferred
        if self._window_start <= started < self._window_end:
            self._count(request, outcome, max(0.0, started - intended), ended)
        self.due = self._next_due(ended)
        if self._failures:
            pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 1, 10))
            self.due = max(self.due, ended + pause)

    def cut_off(self, request: Request, started: float) -> None:
        """The request had not ended when the stage had to."""
        self._remember(request, sure=False)
        if self._window_start <= started < self._window_end:
            self.tallies[request.operation].failed(UNFINISHED, f"{request.name}: no end ({self.gateway})")

    def _remember(self, request: Request, *, sure: bool) -> None:
        if request.kind is Kind.PUT and sure:
            self.written.add(request.name)
            self.doubtful.discard(request.name)
        elif request.kind in (Kind.PUT, Kind.DELETE):
            self.written.discard(request.name)
            self.doubtful.add(request.name)

    def _count(self, request: Request, outcome: Outcome, waited: float, ended: float) -> None:
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
        """At once when free; on a schedule, the workers take turns, and who is late does not shift it."""
        if self._seconds_between is None:
            return free
        return (self._made + self._index / self.work.workers) * self._seconds_between
