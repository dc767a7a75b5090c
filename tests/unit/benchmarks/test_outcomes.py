"""The verdict on a load with kills: it reports applications that end twice, wrongly, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.service import outcomes
from benchmarks.service.outcomes import Outcome, ProgramRun, StateAt
from penstock.model import State

BEFORE_THE_END = (State.ACCEPTED, State.STARTING, State.RUNNING, State.STOPPING)


def outcome(kind: str = outcomes.FINISHES, last: State = State.FINISHED, **changes: object) -> Outcome:
    """Return an application that changes state every second; the client observes each change half a second later."""
    states = (*BEFORE_THE_END, last)
    usual = Outcome(
        "load-1",
        kind,
        exit_code={State.FINISHED: 0, State.FAILED: outcomes.EXIT_CODE}.get(last, 143),
        runs=[ProgramRun(1.5, 2.75)],
        observed=[StateAt(state, at + 0.5) for at, state in enumerate(states)],
        recorded=[StateAt(state, at) for at, state in enumerate(states)],
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", outcomes.EXPECTED)
def test_the_expected_end_of_each_kind_violates_nothing(kind: str) -> None:
    assert outcomes.violations(outcome(kind, outcomes.EXPECTED[kind])) == []


@pytest.mark.parametrize("kind", outcomes.EXPECTED)
@pytest.mark.parametrize("last", [state for state in State if state.final])
def test_every_other_end_is_a_violation(kind: str, last: State) -> None:
    if last is not outcomes.EXPECTED[kind]:
        assert any(f"is {last.value}" in claim for claim in outcomes.violations(outcome(kind, last)))


def test_a_second_end_is_a_violation() -> None:
    twice = outcome()
    twice = replace(twice, recorded=[*twice.recorded, StateAt(State.FINISHED, 9.0)])
    assert outcomes.violations(twice) == ["load-1 ended 2 times"]


def test_an_application_that_never_ends_is_a_violation() -> None:
    without_end = [StateAt(state, 0.0) for state in BEFORE_THE_END]
    assert outcomes.violations(outcome(recorded=without_end, observed=without_end)) == ["load-1 ended 0 times"]


def test_more_runs_of_a_program_than_attempts_are_a_violation() -> None:
    assert outcomes.violations(outcome(runs=[ProgramRun(1.0, 2.0), ProgramRun(1.1, 2.1)])) == [
        "load-1 ran 2 times in 1 attempts"
    ]
    assert outcomes.violations(outcome(runs=[ProgramRun(1.0), ProgramRun(2.0, 3.0)], attempts=2)) == []


def test_finished_without_the_programs_last_line_is_a_violation() -> None:
    assert outcomes.violations(outcome(runs=[ProgramRun(1.0)])) == [
        "load-1, which finishes, never reached its last line"
    ]


def test_a_failure_for_another_reason_than_the_programs_own_is_a_violation() -> None:
    lost = outcome(outcomes.FAILS, State.FAILED, exit_code=1, reason="lake_error")
    assert outcomes.violations(lost) == ["load-1 failed with 1 in place of 3 (lake_error)"]


def test_a_state_observed_after_the_end_is_a_violation() -> None:
    usual = outcome()
    back = replace(usual, observed=[*usual.observed, StateAt(State.RUNNING, 9.0)])
    assert outcomes.violations(back) == ["load-1 was observed as running after its end"]


def test_an_end_that_nobody_observed_is_a_violation() -> None:
    unseen = outcome(observed=[StateAt(state, 0.0) for state in BEFORE_THE_END])
    assert outcomes.violations(unseen) == ["load-1 was observed as []"]


def test_of_a_hundred_84_finish_10_fail_5_are_stopped_and_one_takes_too_long() -> None:
    kinds = [outcomes.kind_of(number) for number in range(100, 200)]
    assert {kind: kinds.count(kind) for kind in outcomes.EXPECTED} == {
        outcomes.FINISHES: 84,
        outcomes.FAILS: 10,
        outcomes.IS_STOPPED: 5,
        outcomes.TAKES_TOO_LONG: 1,
    }


def test_lags_count_from_the_record_and_from_the_programs_last_line() -> None:
    assert outcomes.state_lags(outcome()) == [0.5] * 5
    assert outcomes.completion_lag(outcome()) == 4.5 - 2.75
    assert outcomes.completion_lag(outcome(outcomes.IS_STOPPED, State.STOPPED)) is None


def test_states_of_several_attempts_have_no_lag() -> None:
    assert outcomes.state_lags(outcome(attempts=2)) == []
