"""What became of each application of a load, as outsiders saw it, and what of it is wrong. Pure.

Outsiders are the application's own program, which says when it begins and ends; a client that follows the service; and
the record that is left when all is over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.engine.application import State

FINISHES, FAILS, IS_STOPPED, TAKES_TOO_LONG = "finishes", "fails", "is stopped", "takes too long"

EXIT_CODE = 3
"""Of a program that fails."""

RIGHT: Mapping[str, State] = {
    FINISHES: State.FINISHED,
    FAILS: State.FAILED,
    IS_STOPPED: State.STOPPED,
    TAKES_TOO_LONG: State.AUTO_TERMINATED,
}
"""The one state in which an application of that way has ended rightly, whatever was killed meanwhile."""


@dataclass
class Program:
    """One run of an application's program. Times are seconds since the epoch."""

    began: float
    ended: float | None = None


@dataclass(frozen=True)
class Shown:
    """A state that a client was shown, and when, in seconds since the epoch."""

    state: State
    at: float


@dataclass(frozen=True)
class Change:
    """A change of state as it was recorded, and when, in seconds since the epoch."""

    state: State
    at: float


@dataclass
class Ending:
    """Of one application. `exit_code` and `attempts` are the record's, `why` is its reason's code."""

    name: str
    way: str
    exit_code: int | None = None
    attempts: int = 1
    why: str = ""
    programs: Sequence[Program] = ()
    shown: Sequence[Shown] = ()
    changes: Sequence[Change] = field(default_factory=tuple)

    @property
    def state(self) -> State | None:
        return self.changes[-1].state if self.changes else None


def way_of(number: int) -> str:
    """Of every hundred 84 finish, ten fail by themselves, five are stopped and one takes too long."""
    if number % 100 == 50:
        return TAKES_TOO_LONG
    return {3: FAILS, 13: FAILS, 17: IS_STOPPED}.get(number % 20, FINISHES)


def wrong(ending: Ending) -> list[str]:
    """Which claims its life breaks, in words."""
    found = []
    finals = [change.state for change in ending.changes if change.state.final]
    if len(finals) != 1:
        found.append(f"{ending.name} ended {len(finals)} times")
    elif finals[0] is not RIGHT[ending.way]:
        found.append(f"{ending.name}, which {ending.way}, is {finals[0].value} ({ending.why})")
    if ending.way == FAILS and finals == [State.FAILED] and ending.exit_code != EXIT_CODE:
        found.append(f"{ending.name} failed with {ending.exit_code} in place of {EXIT_CODE} ({ending.why})")
    if len(ending.programs) > ending.attempts:
        found.append(f"{ending.name} ran {len(ending.programs)} times in {ending.attempts} attempts")
    ended = sum(program.ended is not None for program in ending.programs)
    if ending.way in (FINISHES, FAILS) and not ended:
        found.append(f"{ending.name}, which {ending.way}, never came to its last line")
    shown_ends = {one.state for one in ending.shown if one.state.final}
    if finals and shown_ends != set(finals):
        found.append(f"{ending.name} was shown as {sorted(state.value for state in shown_ends)}")
    after = [one.state for one in _after_the_end(ending.shown)]
    if after:
        found.append(f"{ending.name} was shown as {after[0].value} after its end")
    return found


def late_states(ending: Ending) -> list[float]:
    """For each state that was shown: seconds from its record to the first time that the client saw it."""
    first = {change.state: change.at for change in reversed(ending.changes)}
    seen: dict[State, float] = {}
    for one in ending.shown:
        seen.setdefault(one.state, one.at)
    # A state that an attempt was in before the client came back is not the one that it was shown.
    return [max(at - first[state], 0.0) for state, at in seen.items() if state in first and ending.attempts == 1]


def late_end(ending: Ending) -> float | None:
    """Seconds from the last line of its program to the first time that the client saw it ended: its cluster was ended
    and its logs were kept meanwhile. None where it was ended from outside."""
    if ending.way not in (FINISHES, FAILS):
        return None
    ended = [program.ended for program in ending.programs if program.ended is not None]
    shown = [one.at for one in ending.shown if one.state.final]
    return shown[0] - max(ended) if ended and shown else None


def _after_the_end(shown: Sequence[Shown]) -> Sequence[Shown]:
    for number, one in enumerate(shown):
        if one.state.final:
            return [later for later in shown[number:] if later.state is not one.state]
    return ()
