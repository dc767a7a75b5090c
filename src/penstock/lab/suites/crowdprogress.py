"""How far each of several applications at work is, in one line, and how long the slowest of them will take."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from penstock import units
from penstock.lab import progress
from penstock.lab.progress import Listener
from penstock.model import State


class CrowdProgress:
    """`say` gets the line; `past` holds seconds per query where they are known. May be told by several threads."""

    def __init__(
        self, say: Callable[[str], None], past: Mapping[str, float], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._past = past
        self._clock = clock
        self._turn = threading.Lock()
        self._at: dict[str, str] = {}
        self._began: dict[str, float] = {}
        self._left: dict[str, float | None] = {}

    def of(self, member: str, order: Sequence[str] = ()) -> Callable[[str], None]:
        """What to do with the descriptions of one application's work. `order` holds its queries, if it runs any."""
        with self._turn:
            self._at[member] = State.ACCEPTED.value
            if order:
                self._left[member] = None

        def doing(description: str) -> None:
            with self._turn:
                self._note(member, order, description)
                self._say(self._line())

        return doing

    def _note(self, member: str, order: Sequence[str], description: str) -> None:
        at = progress.position(description)
        if at is not None:
            _, index, total = at
            elapsed = self._clock() - self._began.setdefault(member, self._clock())
            self._at[member] = f"{index} of {total}"
            self._left[member] = progress.seconds_left(order, index - 1, elapsed, self._past)
        elif description != State.RUNNING.value or member not in self._began:  # between two queries nothing is new
            self._at[member] = description
            if description in {state.value for state in State if state.final}:
                self._left[member] = 0.0

    def _line(self) -> str:
        where = ", ".join(f"{member}: {at}" for member, at in self._at.items())
        known = [left for left in self._left.values() if left is not None]
        if len(known) < len(self._left) or not any(known):
            return where
        return f"{where}; about {units.seconds(max(known))} left"


@dataclass(frozen=True)
class Member:
    """The listener of a suite that is one of a crowd: what it is at goes into the crowd's line."""

    listener: Listener
    doing: Callable[[str], None]

    def step(self, title: str) -> None:
        self.doing(title)

    def now(self, text: str) -> None:
        self.doing(text)

    def note(self, text: str) -> None:
        self.listener.note(text)

    def elapsed(self) -> float:
        return self.listener.elapsed()
