"""Progress of a measurement and the time left: the arithmetic (pure) and its display."""

from __future__ import annotations

import re
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Protocol

from rich.console import Console
from rich.status import Status
from rich.text import Text

from penstock import units

_POSITION = re.compile(r"^(?P<name>\S+) \((?P<index>\d+) of (?P<total>\d+)\)")

_ENOUGH_TO_ESTIMATE = 8  # the first queries pay for a cold cluster
_LONGEST_DETAIL = 120


class ProgressListener(Protocol):
    """Receives a suite's progress; decides nothing."""

    def step(self, title: str) -> None: ...

    def now(self, text: str) -> None: ...

    def note(self, text: str) -> None: ...

    def elapsed(self) -> float:
        """Seconds since the current step began."""
        ...


def parse_position(description: str | None) -> tuple[str, int, int] | None:
    """Parse `q3 (5 of 104)` as (`q3`, 5, 104); None for a description of another form."""
    found = _POSITION.match(description or "")
    return (found["name"], int(found["index"]), int(found["total"])) if found else None


def seconds_left(order: Sequence[str], done: int, elapsed: float, past: Mapping[str, float]) -> float | None:
    """Estimate the seconds for the queries after the first `done` of `order`; None before there is a basis.

    An earlier run's times are scaled by the pace of this run so far; without one, each remaining query is assumed to
    take the average.
    """
    if not order or done >= len(order):
        return 0.0
    if past and all(name in past for name in order):
        before = sum(past[name] for name in order[:done])
        pace = elapsed / before if done >= _ENOUGH_TO_ESTIMATE and before > 0 else 1.0
        return pace * sum(past[name] for name in order[done:])
    if done < _ENOUGH_TO_ESTIMATE:
        return None
    return elapsed / done * (len(order) - done)


def repetitions_left(left: Sequence[str], done: Mapping[str, Mapping[int, float]]) -> float | None:
    """Estimate the seconds for the repetitions in `left`, given by their arms' names; None before one is done.

    `done` has the seconds of each arm's repetitions. An arm is estimated at the median of its own; one that was not
    measured yet, at the median of all.
    """
    everything = [seconds for timed in done.values() for seconds in timed.values()]
    if not everything:
        return None
    return sum(median(done.get(arm, {}).values() or everything) for arm in left)


class TerminalProgress:
    """Prints numbered steps with their times; live on a terminal, as plain lines elsewhere.

    Titles and details are printed as they are, brackets included, but a detail in one line of at most `_LONGEST_DETAIL`
    characters. May be called by several threads at once.
    """

    def __init__(
        self, console: Console, *, steps: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._steps = steps
        self._clock = clock
        self._count = 0
        self._title = ""
        self._since = 0.0
        self._status: Status | None = None
        self._last_line = 0.0
        self._shown = ""
        self._turn = threading.Lock()

    def step(self, title: str) -> None:
        with self._turn:
            self._finish("✓")
            self._count += 1
            self._title, self._since, self._last_line = title, self._clock(), self._clock()
            if self._console.is_terminal:
                self._status = self._console.status(self._label())
                self._status.start()
            else:
                self._console.print(self._label().append(" …"))

    def now(self, text: str) -> None:
        # Spark describes some jobs by all columns of a table.
        text = textwrap.shorten(text, _LONGEST_DETAIL, placeholder=" …")
        with self._turn:
            if self._status is not None:
                taken = units.seconds(self.elapsed())
                self._status.update(self._label().append(f"  {taken}  {text}", "dim"))
            elif text != self._shown and self._clock() - self._last_line >= 15:  # a log needs no animation
                self._last_line, self._shown = self._clock(), text
                self._console.print(f"    {text}", highlight=False, markup=False, soft_wrap=True)

    def note(self, text: str) -> None:
        self._console.print(f"    {text}", highlight=False, markup=False, soft_wrap=True)

    def elapsed(self) -> float:
        return self._clock() - self._since

    def done(self) -> None:
        """End the current step, so that a later failure is not attributed to it."""
        self._finish("✓")

    def failed(self) -> None:
        """Mark the current step as failed."""
        self._finish("✗")

    @contextmanager
    def showing(self) -> Iterator[TerminalProgress]:
        """End the last step as done, or as failed where the block raises."""
        try:
            yield self
        except BaseException:
            self.failed()
            raise
        self._finish("✓")

    def _label(self) -> Text:
        total = f" of {self._steps}" if self._steps else ""
        return Text.assemble((f"{self._count}{total}", "bold"), f"  {self._title}")

    def _finish(self, mark: str) -> None:
        if not self._title:
            return
        if self._status is not None:
            self._status.stop()
            self._status = None
        colour = "green" if mark == "✓" else "red"
        taken = units.seconds(self.elapsed())
        self._console.print(Text.assemble((mark, colour), " ", self._label(), (f"  {taken}", "dim")))
        self._title = ""
