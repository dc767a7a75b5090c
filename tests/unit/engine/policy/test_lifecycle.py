"""The life of an application: single steps, and every path through it with crashes anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.engine.policy import lifecycle
from penstock.engine.policy.lifecycle import (
    Admitted,
    ArtifactsCollected,
    Blocked,
    ClusterSeen,
    ContextStarted,
    DriverEnded,
    EndRequested,
    Launch,
    Launched,
    Queued,
    Refused,
    Release,
    Released,
    Stop,
    Stopped,
    back_off,
    resume,
    step,
)
from penstock.model import Application, Cost, Reason, State
from tests.unit.engine.engine_making import HANDLE, START, after, application, spec

STOP = Reason(lifecycle.STOPPED_BY_USER, "asked")
LIMIT = Reason(lifecycle.TIME_LIMIT, "over")
FULL = Reason("memory", "full")
FINALS = [state for state in State if state.final]


def test_a_stop_that_crosses_a_successful_end_came_too_late() -> None:
    stopping, _ = step(application(State.RUNNING), EndRequested(START, STOP))
    stopped, _ = step(stopping, Stopped(START, 0))
    ended, _ = step(stopped, ArtifactsCollected(START, {}))
    assert ended.state is State.FINISHED
    assert ended.reason is None


@pytest.mark.parametrize(
    ("reason", "state"), [(STOP, State.STOPPED), (LIMIT, State.AUTO_TERMINATED), (FULL, State.FAILED)]
)
def test_the_reason_for_the_end_decides_the_final_state(reason: Reason, state: State) -> None:
    stopping, instructions = step(application(State.RUNNING), EndRequested(START, reason))
    assert instructions == (Stop(),)
    stopped, _ = step(stopping, Stopped(START, 143))
    ended, instructions = step(stopped, ArtifactsCollected(START, {}))
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


def test_a_cluster_that_was_seen_is_never_launched_again() -> None:
    starting, _ = step(application(), Admitted(START, HANDLE))
    launched, _ = step(starting, Launched(START))
    assert resume(launched) == (Launch(),)
    seen, instructions = step(launched, ClusterSeen(START))
    assert (resume(seen), instructions) == ((), ())
    assert step(seen, ClusterSeen(START))[0] == seen


def test_the_cluster_of_the_next_attempt_was_not_seen() -> None:
    seen, _ = step(retrying(State.STARTING), ClusterSeen(START))
    again, _ = step(failed(seen, LOST), Released(START))
    second, _ = step(again, Admitted(START, HANDLE))
    assert resume(second) == (Launch(),)


LOST = Reason(lifecycle.DRIVER_LOST, "lost")

LATE = [
    Queued(START, FULL),
    Admitted(START, HANDLE),
    Refused(START, FULL),
    Launched(START),
    ClusterSeen(START),
    ContextStarted(START, "app-1"),
    Blocked(START, FULL),
    DriverEnded(START, 1, LOST),
    EndRequested(START, STOP),
    Stopped(START, 143),
    ArtifactsCollected(START, {"from": "a second supervisor"}, Cost(1.0, "USD")),
]


@pytest.mark.parametrize("event", LATE, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("state", FINALS)
def test_a_final_state_survives_every_late_event(state: State, event: lifecycle.Event) -> None:
    ended = application(state)
    assert step(ended, event) == (ended, ())


def test_every_event_but_a_release_is_among_the_late_ones() -> None:
    assert {type(event) for event in LATE} == set(get_args(lifecycle.Event)) - {Released}


def failed(application: Application, reason: Reason, *, exit_code: int | None = None) -> Application:
    """Return the application after its attempt failed with that reason and its artifacts were kept, at a cost of 1."""
    for event in (
        DriverEnded(START, exit_code, reason),
        Stopped(START, exit_code),
        ArtifactsCollected(START, {"kept": True}, Cost(1.0, "USD")),
    ):
        application, _ = step(application, event)
    return application


def retrying(state: State = State.RUNNING, *, retries: int = 1) -> Application:
    return application(state, spec=spec(retries=retries), admitted_at=START)


def test_what_the_infrastructure_failed_waits_for_another_attempt_and_the_first_is_kept() -> None:
    again = failed(retrying(), LOST)
    assert (again.state, again.attempt, again.started_at, again.summary) == (State.WAITING, 2, None, None)
    assert again.not_before == after(5)
    assert [(one.number, one.reason, one.cost) for one in again.attempts] == [(1, LOST, Cost(1.0, "USD"))]
    assert resume(again) == (Release(),)


def test_the_next_attempt_is_admitted_only_when_nothing_is_left_of_the_one_before() -> None:
    again = failed(retrying(), LOST)
    assert step(again, Admitted(START, HANDLE)) == (again, ())
    released, _ = step(again, Released(START))
    started, instructions = step(released, Admitted(START, HANDLE))
    assert (started.state, instructions) == (State.STARTING, (Launch(),))


def test_attempts_come_to_an_end_and_their_costs_are_summed() -> None:
    again, _ = step(failed(retrying(), LOST), Released(START))
    second, _ = step(again, Admitted(START, HANDLE))
    ended = failed(second, LOST)
    assert (ended.state, ended.reason, ended.cost) == (State.FAILED, LOST, Cost(2.0, "USD"))


@pytest.mark.parametrize("reason", [Reason("driver_failed", "1"), Reason("module_missing", "x"), LIMIT, STOP])
def test_what_lies_in_the_application_itself_is_not_tried_again(reason: Reason) -> None:
    assert failed(retrying(retries=5), reason, exit_code=1).state.final


def test_a_stop_between_two_attempts_is_the_end() -> None:
    ended, _ = step(failed(retrying(), LOST), EndRequested(START, STOP))
    assert ended.state is State.STOPPED
    assert resume(ended) == (Release(),)
    assert len(ended.attempts) == 1


def test_pauses_between_attempts_double_to_ten_minutes() -> None:
    pauses = [back_off(attempt).total_seconds() for attempt in range(1, 12)]
    assert pauses[:4] == [5, 10, 20, 40]
    assert max(pauses) == pauses[-1] == 600


@dataclass
class World:
    """The real cluster of one application, independent of the records, with the guarantees of every backend."""

    admissions: int = 0
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
        if isinstance(instruction, lifecycle.CollectArtifacts):
            assert not self.running, "artifacts kept of a driver that still writes"
            self.kept += 1
            return ArtifactsCollected(START, {"kept": True})
        self.exists = self.running = False
        self.exit_code = None
        return Released(START)


class Lives(RuleBasedStateMachine):
    """Any order of events and instructions, with the supervisor killed before, between and after any of them."""

    def __init__(self) -> None:
        super().__init__()
        self.application: Application = application(spec=spec(retries=2))
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
        before = self.application
        self.apply(Admitted(START, HANDLE))
        if self.application != before:
            assert not self.world.exists, "an attempt before the cluster of the last one was released"
            self.world.admissions += 1

    @precondition(lambda self: not self.world.exists)
    @rule()
    def refuse(self) -> None:
        self.apply(Refused(START, FULL))

    @precondition(lambda self: self.world.exists)
    @rule()
    def see_cluster(self) -> None:
        self.apply(ClusterSeen(START))

    @precondition(lambda self: self.world.exists)
    @rule()
    def lose_cluster_after_it_was_seen(self) -> None:
        """Lose the pod, or the directory, while no supervisor lives."""
        self.apply(ClusterSeen(START))
        self.killed()
        if not self.due and not self.application.state.final:
            self.world.exists = self.world.running = False

    @precondition(lambda self: self.world.running)
    @rule()
    def start_context(self) -> None:
        self.apply(ContextStarted(START, "spark-1"))

    @precondition(lambda self: self.world.running)
    @rule(code=st.sampled_from([0, 1, 137]), noticed=st.booleans(), why=st.sampled_from(["driver_failed", "killed"]))
    def driver_ends(self, code: int, noticed: bool, why: str) -> None:
        self.world.running, self.world.exit_code = False, code
        if noticed:
            self.apply(DriverEnded(START, code, Reason(why, "x") if code else None))

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
    def there_is_one_driver_at_most_for_each_admission(self) -> None:
        assert self.world.launches <= self.world.admissions <= self.application.spec.retries + 1
        assert self.application.attempt == len(self.application.attempts) + 1

    @invariant()
    def whoever_sees_the_end_finds_the_logs(self) -> None:
        if self.application.state.final and self.world.launches:
            assert self.world.kept

    @invariant()
    def released_means_that_nothing_is_left(self) -> None:
        if self.application.state.final and self.application.cluster is None:
            assert not self.world.exists

    def teardown(self) -> None:
        """After any history, the next supervisor ends the application and leaves nothing behind."""
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
