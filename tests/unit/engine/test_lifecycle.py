"""The life of an application: single steps, and every path through it with crashes anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from engine_making import HANDLE, START, application
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.engine import lifecycle
from penstock.engine.application import Application, Reason, State
from penstock.engine.lifecycle import (
    Admitted,
    ContextStarted,
    DriverEnded,
    EndRequested,
    Kept,
    Launch,
    Queued,
    Refused,
    Release,
    Released,
    Stop,
    Stopped,
    resume,
    step,
)

STOP = Reason(lifecycle.STOPPED_BY_USER, "asked")
LIMIT = Reason(lifecycle.TIME_LIMIT, "over")
FULL = Reason("memory", "full")
FINALS = [state for state in State if state.final]


def test_a_stop_that_crosses_a_successful_end_came_too_late() -> None:
    stopping, _ = step(application(State.RUNNING), EndRequested(START, STOP))
    stopped, _ = step(stopping, Stopped(START, 0))
    ended, _ = step(stopped, Kept(START, {}))
    assert ended.state is State.FINISHED
    assert ended.reason is None


@pytest.mark.parametrize(
    ("reason", "state"), [(STOP, State.STOPPED), (LIMIT, State.AUTO_TERMINATED), (FULL, State.FAILED)]
)
def test_the_reason_for_the_end_decides_the_final_state(reason: Reason, state: State) -> None:
    stopping, instructions = step(application(State.RUNNING), EndRequested(START, reason))
    assert instructions == (Stop(),)
    stopped, _ = step(stopping, Stopped(START, 143))
    ended, instructions = step(stopped, Kept(START, {}))
    assert (ended.state, ended.exit_code, ended.reason) == (state, 143, reason)
    assert instructions == (Release(),)


def test_an_application_stopped_in_the_queue_never_gets_a_cluster() -> None:
    ended, instructions = step(application(State.WAITING), EndRequested(START, STOP))
    assert ended.state is State.STOPPED
    assert instructions == ()
    assert step(ended, Admitted(START, HANDLE)) == (ended, ())


def test_a_second_admission_does_not_launch_again() -> None:
    started, instructions = step(application(), Admitted(START, HANDLE))
    assert instructions == (Launch(),)
    assert step(started, Admitted(START, HANDLE)) == (started, ())


def test_the_driver_ending_first_is_what_counts() -> None:
    ended, _ = step(application(State.RUNNING), DriverEnded(START, 3, Reason("driver_failed", "3")))
    later, instructions = step(ended, EndRequested(START, STOP))
    assert (later, instructions) == (ended, ())


@pytest.mark.parametrize("state", FINALS)
def test_a_final_application_with_a_cluster_is_released_on_resumption(state: State) -> None:
    assert resume(application(state)) == (Release(),)
    assert resume(application(state, cluster=None)) == ()


@dataclass
class World:
    """What really is, whatever the records say: the cluster of one application, as any backend has to keep it."""

    launches: int = 0
    running: bool = False
    exit_code: int | None = None
    exists: bool = False
    kept: int = 0
    seen: list[State] = field(default_factory=list)

    def carry_out(self, instruction: lifecycle.Instruction) -> lifecycle.Event:
        if isinstance(instruction, Launch):
            if not self.exists:
                self.launches += 1
                self.exists = self.running = True
            return lifecycle.Launched(START)
        if isinstance(instruction, Stop):
            if self.running:
                self.running, self.exit_code = False, 143
            return Stopped(START, self.exit_code)
        if isinstance(instruction, lifecycle.Keep):
            assert not self.running, "artefacts kept of a driver that still writes"
            self.kept += 1
            return Kept(START, {"kept": True})
        self.exists = self.running = False
        return Released(START)


class Lives(RuleBasedStateMachine):
    """Any order of events and instructions, the supervisor killed before, between and after any of them."""

    def __init__(self) -> None:
        super().__init__()
        self.application: Application = application()
        self.due: list[lifecycle.Instruction] = []
        self.world = World()

    def apply(self, event: lifecycle.Event) -> None:
        before = self.application
        self.application, instructions = step(before, event)
        if before.state.final:
            assert self.application.state is before.state
            assert instructions == ()
        if self.application.state.final:
            assert all(isinstance(one, Release) for one in instructions)
        self.due += instructions

    @rule()
    def queue(self) -> None:
        self.apply(Queued(START, FULL))

    @rule()
    def admit(self) -> None:
        self.apply(Admitted(START, HANDLE))

    @precondition(lambda self: not self.world.exists)
    @rule()
    def refuse(self) -> None:
        self.apply(Refused(START, FULL))

    @precondition(lambda self: self.world.running)
    @rule()
    def start_context(self) -> None:
        self.apply(ContextStarted(START, "spark-1"))

    @precondition(lambda self: self.world.running)
    @rule(code=st.sampled_from([0, 1, 137]), noticed=st.booleans())
    def driver_ends(self, code: int, noticed: bool) -> None:
        self.world.running, self.world.exit_code = False, code
        if noticed:
            self.apply(DriverEnded(START, code, Reason("driver_failed", "x") if code else None))

    @rule(reason=st.sampled_from([STOP, LIMIT]))
    def request_end(self, reason: Reason) -> None:
        self.apply(EndRequested(START, reason))

    @precondition(lambda self: self.due)
    @rule()
    def carry_out(self) -> None:
        self.apply(self.world.carry_out(self.due.pop(0)))

    @precondition(lambda self: self.due)
    @rule()
    def killed_before_it_is_recorded(self) -> None:
        self.world.carry_out(self.due[0])
        self.killed()

    @rule()
    def killed(self) -> None:
        self.due = list(resume(self.application))

    @invariant()
    def there_is_one_driver_at_most(self) -> None:
        assert self.world.launches <= 1

    @invariant()
    def whoever_sees_the_end_finds_the_logs(self) -> None:
        if self.application.state.final and self.world.launches:
            assert self.world.kept

    @invariant()
    def released_means_that_nothing_is_left(self) -> None:
        if self.application.state.final and self.application.cluster is None:
            assert not self.world.exists

    def teardown(self) -> None:
        """However it went so far: the next supervisor brings it to an end and leaves nothing."""
        self.killed()
        for _ in range(20):
            if self.due:
                self.carry_out()
            elif not self.application.state.final:
                self.request_end(STOP)
        assert self.application.state.final
        assert self.application.cluster is None
        assert not self.world.exists


TestLives = Lives.TestCase
