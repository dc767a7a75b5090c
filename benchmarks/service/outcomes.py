"""Outcomes of a load's applications, as outsiders observed them, and the claims they break. Pure.

There are three outsiders: the application's own program, which reports its first and its last line; a client that
follows the service; and the record that is left at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.model import State

FINISHES, FAILS, IS_STOPPED, TAKES_TOO_LONG = "finishes", "fails", "is stopped", "takes too long"

EXIT_CODE = 3
"""Exit code of a program that fails."""

EXPECTED: Mapping[str, State] = {
    FINISHES: State.FINISHED,
    FAILS: State.FAILED,
    IS_STOPPED: State.STOPPED,
    TAKES_TOO_LONG: State.AUTO_TERMINATED,
}
"""The only right final state of each kind of application, whatever was killed meanwhile."""


@dataclass
class ProgramRun:
    """One run of an application's program: when it reported its first and its last line, in seconds since the epoch."""

    began: float
    ended: float | None = None


@dataclass(frozen=True)
class StateAt:
    """A state and when it was entered or observed, in seconds since the epoch."""

    state: State
    at: float


@dataclass(frozen=True)
class Outcome:
    """Observations of one application.

    `exit_code`, `attempts`, `reason` (a code) and `recorded` (every change of state) come from its record, `observed`
    from the client.
    """

    name: str
    kind: str
    exit_code: int | None = None
    attempts: int = 1
    reason: str = ""
    runs: Sequence[ProgramRun] = ()
    observed: Sequence[StateAt] = ()
    recorded: Sequence[StateAt] = ()

    @property
    def state(self) -> State | None:
        return self.recorded[-1].state if self.recorded else None


def kind_of(number: int) -> str:
    """Kind of the application with this number.

    Of every hundred 84 finish, ten fail by themselves, five are stopped and one takes too long.
    """
    if number % 100 == 50:
        return TAKES_TOO_LONG
    return {3: FAILS, 13: FAILS, 17: IS_STOPPED}.get(number % 20, FINISHES)


def violations(outcome: Outcome) -> list[str]:
    """Sentences on each claim that the outcome breaks; empty where it breaks none."""
    found = []
    finals = [change.state for change in outcome.recorded if change.state.final]
    if len(finals) != 1:
        found.append(f"{outcome.name} ended {len(finals)} times")
    elif finals[0] is not EXPECTED[outcome.kind]:
        found.append(f"{outcome.name}, which {outcome.kind}, is {finals[0].value} ({outcome.reason})")
    if outcome.kind == FAILS and finals == [State.FAILED] and outcome.exit_code != EXIT_CODE:
        found.append(f"{outcome.name} failed with {outcome.exit_code} in place of {EXIT_CODE} ({outcome.reason})")
    if len(outcome.runs) > outcome.attempts:
        found.append(f"{outcome.name} ran {len(outcome.runs)} times in {outcome.attempts} attempts")
    if outcome.kind in (FINISHES, FAILS) and not any(run.ended is not None for run in outcome.runs):
        found.append(f"{outcome.name}, which {outcome.kind}, never reached its last line")
    observed_finals = {one.state for one in outcome.observed if one.state.final}
    if finals and observed_finals != set(finals):
        found.append(f"{outcome.name} was observed as {sorted(state.value for state in observed_finals)}")
    later = _after_the_final_state(outcome.observed)
    return [*found, *(f"{outcome.name} was observed as {one.state.value} after its end" for one in later)]


def state_lags(outcome: Outcome) -> list[float]:
    """Seconds from the record of each state to its first observation.

    Empty for an application of several attempts, since a client cannot distinguish their states.
    """
    if outcome.attempts > 1:
        return []
    entered = {change.state: change.at for change in reversed(outcome.recorded)}
    first = {one.state: one.at for one in reversed(outcome.observed)}
    return [max(at - entered[state], 0.0) for state, at in first.items() if state in entered]


def completion_lag(outcome: Outcome) -> float | None:
    """Seconds from the program's last line to the first observation of the final state.

    The cluster is stopped and the logs are collected meanwhile. None for an application that was ended from outside.
    """
    if outcome.kind not in (FINISHES, FAILS):
        return None
    ended = [run.ended for run in outcome.runs if run.ended is not None]
    observed = [one.at for one in outcome.observed if one.state.final]
    return observed[0] - max(ended) if ended and observed else None


def _after_the_final_state(observed: Sequence[StateAt]) -> Sequence[StateAt]:
    for number, one in enumerate(observed):
        if one.state.final:
            return [later for later in observed[number:] if later.state is not one.state]
    return ()
