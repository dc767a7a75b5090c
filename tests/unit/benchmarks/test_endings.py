"""The load with kills finds what it is there to find: applications that end twice, wrongly, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.service import endings
from benchmarks.service.endings import Change, Ending, Program, Shown
from penstock.engine.application import State

WAY = (State.ACCEPTED, State.STARTING, State.RUNNING, State.STOPPING)


def ending(way: str = endings.FINISHES, last: State = State.FINISHED, **more: object) -> Ending:
    """An application of that way, with a change a second and each shown half a second later."""
    states = (*WAY, last)
    usual = Ending(
        "load-1",
        way,
        exit_code={State.FINISHED: 0, State.FAILED: endings.EXIT_CODE}.get(last, 143),
        programs=[Program(1.5, 2.75)],
        shown=[Shown(state, at + 0.5) for at, state in enumerate(states)],
        changes=[Change(state, at) for at, state in enumerate(states)],
    )
    return replace(usual, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", endings.RIGHT)
def test_the_right_end_of_each_way_breaks_nothing(way: str) -> None:
    assert endings.wrong(ending(way, endings.RIGHT[way])) == []


@pytest.mark.parametrize("way", endings.RIGHT)
@pytest.mark.parametrize("last", [state for state in State if state.final])
def test_every_other_end_is_told(way: str, last: State) -> None:
    if last is not endings.RIGHT[way]:
        assert any(f"is {last.value}" in claim for claim in endings.wrong(ending(way, last)))


def test_a_second_end_is_told() -> None:
    twice = ending()
    twice = replace(twice, changes=[*twice.changes, Change(State.FINISHED, 9.0)])
    assert endings.wrong(twice) == ["load-1 ended 2 times"]


def test_one_without_an_end_is_told() -> None:
    lost = ending(changes=[Change(state, 0.0) for state in WAY], shown=[Shown(state, 0.0) for state in WAY])
    assert endings.wrong(lost) == ["load-1 ended 0 times"]


def test_a_program_that_ran_more_often_than_there_were_attempts_is_told() -> None:
    assert endings.wrong(ending(programs=[Program(1.0, 2.0), Program(1.1, 2.1)])) == [
        "load-1 ran 2 times in 1 attempts"
    ]
    assert endings.wrong(ending(programs=[Program(1.0), Program(2.0, 3.0)], attempts=2)) == []


def test_one_that_is_said_to_have_finished_without_its_last_line_is_told() -> None:
    assert endings.wrong(ending(programs=[Program(1.0)])) == ["load-1, which finishes, never came to its last line"]


def test_a_failure_for_another_reason_than_its_own_is_told() -> None:
    lost = ending(endings.FAILS, State.FAILED, exit_code=1, why="lake_error")
    assert endings.wrong(lost) == ["load-1 failed with 1 in place of 3 (lake_error)"]


def test_a_state_that_is_shown_after_the_end_is_told() -> None:
    usual = ending()
    back = replace(usual, shown=[*usual.shown, Shown(State.RUNNING, 9.0)])
    assert endings.wrong(back) == ["load-1 was shown as running after its end"]


def test_one_whose_end_nobody_was_shown_is_told() -> None:
    assert endings.wrong(ending(shown=[Shown(state, 0.0) for state in WAY])) == ["load-1 was shown as []"]


def test_of_a_hundred_84_finish_10_fail_5_are_stopped_and_one_takes_too_long() -> None:
    ways = [endings.way_of(number) for number in range(100, 200)]
    assert {way: ways.count(way) for way in endings.RIGHT} == {
        endings.FINISHES: 84,
        endings.FAILS: 10,
        endings.IS_STOPPED: 5,
        endings.TAKES_TOO_LONG: 1,
    }


def test_lateness_counts_from_the_record_and_from_the_programs_last_line() -> None:
    assert endings.late_states(ending()) == [0.5] * 5
    assert endings.late_end(ending()) == 4.5 - 2.75
    assert endings.late_end(ending(endings.IS_STOPPED, State.STOPPED)) is None


def test_the_states_of_one_that_was_tried_again_have_no_lateness() -> None:
    assert endings.late_states(ending(attempts=2)) == []
