"""How far a measurement is and how long it will take: the arithmetic (pure) and its display."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Protocol

from rich.console import Console
from rich.status import Status

from penstock import units

_POSITION = re.compile(r"^(?P<name>\S+) \((?P<index>\d+) of (?P<total>\d+)\)")


_ENOUGH_TO_JUDGE = 8  # the first queries pay for a cold cluster


class Listener(Protocol):
    """Told by a suite what it is doing; decides nothing."""

    def step(self, title: str) -> None: ...

    def now(self, text: str) -> None: ...

    def note(self, text: str) -> None: ...

    def elapsed(self) -> float:
        """Seconds since the current step began."""
        ...


def position(description: str | None) -> tuple[str, int, int] | None:
    """`q3 (5 of 104)` → (`q3`, 5, 104); None where the description is of another form."""
    found = _POSITION.match(description or "")
    return (found["name"], int(found["index"]), int(found["total"])) if found else None


def seconds_left(order: Sequence[str], done: int, elapsed: float, past: Mapping[str, float]) -> float | None:
    """An estimate for the queries after the first `done` of `order`, or None before anything is known.

    Where an earlier run timed them, its times are scaled by how this run compares so far; else each of the remaining
    ones is taken for an average one.
    """
    if not order or done >= len(order):
        return 0.0
    if past and all(name in past for name in order):
        before = sum(past[name] for name in order[:done])
        pace = elapsed / before if done >= _ENOUGH_TO_JUDGE and before > 0 else 1.0
        return pace * sum(past[name] for name in order[done:])
    if done < _ENOUGH_TO_JUDGE:
        return None
    return elapsed / done * (len(order) - done)


def repetitions_left(left: Sequence[str], done: Mapping[str, Mapping[int, float]]) -> float | None:
    """An estimate in seconds for the repetitions that are left, given by their arms' names; None before one is done.

    `done` has the seconds of each arm's repetitions. An arm takes the median of its own; one that was not measured yet,
    the median of all.
    """
    everything = [seconds for timed in done.values() for seconds in timed.values()]
    if not everything:
        return None
    return sum(median(done.get(arm, {}).values() or everything) for arm in left)


class Terminal:
    """Numbered steps with their times; on a terminal the current one is live, elsewhere there are plain lines.

    May be told by several threads at once.
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
                self._status = self._console.status(f"{self._label()}")
                self._status.start()
            else:
                self._console.print(f"{self._label()} …", highlight=False)

    def now(self, text: str) -> None:
        with self._turn:
            if self._status is not None:
                taken = units.seconds(self.elapsed())
                self._status.update(f"{self._label()}  [dim]{taken}  {text}[/dim]")
            elif text != self._shown and self._clock() - self._last_line >= 15:  # a log, not a film
                self._last_line, self._shown = self._clock(), text
                self._console.print(f"    {text}", highlight=False, markup=False, soft_wrap=True)

    def note(self, text: str) -> None:
        self._console.print(f"    {text}", highlight=False, markup=False, soft_wrap=True)

    def elapsed(self) -> float:
        return self._clock() - self._since

    def done(self) -> None:
        """The current step came to its end; the next one may fail without it."""
        self._finish("✓")

    def failed(self) -> None:
        """The current step did not come to its end."""
        self._finish("✗")

    @contextmanager
    def showing(self) -> Iterator[Terminal]:
        """Ends the last step truthfully: done, or not."""
        try:
            yield self
        except BaseException:
            self.failed()
            raise
        self._finish("✓")

    def _label(self) -> str:
        total = f" of {self._steps}" if self._steps else ""
        return f"[bold]{self._count}{total}[/bold]  {self._title}"

    def _finish(self, mark: str) -> None:
        if not self._title:
            return
        if self._status is not None:
            self._status.stop()
            self._status = None
        colour = "green" if mark == "✓" else "red"
        taken = units.seconds(self.elapsed())
        self._console.print(f"[{colour}]{mark}[/{colour}] {self._label()}  [dim]{taken}[/dim]", highlight=False)
        self._title = ""
