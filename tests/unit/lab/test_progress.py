"""Small parts of the lab: query sets, turns, estimates, formats."""

from __future__ import annotations

import io
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from penstock import units
from penstock.errors import InvalidInput
from penstock.lab import experiment, progress
from penstock.lab.workloads import tpcds


def test_there_are_104_queries() -> None:
    assert len(tpcds.ALL) == len(set(tpcds.ALL)) == 104


def test_the_io_intensive_set_covers_the_54_of_the_documents() -> None:
    assert len({name.rstrip("ab") for name in tpcds.SETS["io54"]}) == 54


def test_a_misspelt_query_is_answered_with_what_was_meant() -> None:
    with pytest.raises(InvalidInput, match="q14") as caught:
        tpcds.select_queries("q3,q14", "all")
    assert "q14a,q14b" in caught.value.fix


@given(st.integers(1, 4), st.integers(1, 9))
def test_every_arm_has_its_turn_in_every_repetition(arms: int, repetitions: int) -> None:
    order = list(experiment.interleaved(range(arms), repetitions))
    assert len(order) == arms * repetitions
    assert Counter(order).most_common(1)[0][1] == 1
    assert [repetition for repetition, _ in order] == sorted(repetition for repetition, _ in order)


def test_arms_take_turns_in_going_first() -> None:
    assert [arm for _, arm in experiment.interleaved("AB", 3)] == ["A", "B", "B", "A", "A", "B"]


def test_the_position_is_read_from_the_job_description() -> None:
    assert progress.parse_position("q3 (5 of 104)") == ("q3", 5, 104)
    assert progress.parse_position("collect at Load.scala:40") is None
    assert progress.parse_position(None) is None


@given(st.integers(0, 10), st.floats(0, 1000), st.booleans())
def test_what_is_left_is_never_negative_and_nothing_at_the_end(done: int, elapsed: float, timed: bool) -> None:
    order = [f"q{n}" for n in range(10)]
    past = dict.fromkeys(order, 2.0) if timed else {}
    left = progress.seconds_left(order, done, elapsed, past)
    assert left is None or left >= 0
    assert progress.seconds_left(order, 10, elapsed, past) == 0


def test_an_earlier_run_makes_the_estimate() -> None:
    past = {"short": 1.0, "long": 99.0}
    assert progress.seconds_left(["short", "long"], 1, 1.0, past) == 99.0


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("name", ["Spark [tuned]", "a [/b] b", "[bold]"])
def test_an_arms_name_is_printed_as_it_is_whatever_brackets_it_has(name: str, terminal: bool) -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=terminal, color_system=None)
    with progress.TerminalProgress(console).showing() as listener:
        listener.step(name)
        listener.now(f"of {name}")
    printed = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert f"✓ 1  {name}  " in printed[-1]


def test_a_detail_of_many_lines_takes_one_that_is_not_too_long() -> None:
    console = Console(file=io.StringIO(), width=80)
    times = iter(range(0, 1000, 20))
    listener = progress.TerminalProgress(console, clock=lambda: next(times))
    listener.step("Tables")
    listener.now(f"statistics of sales\n(columns=[{', '.join(['ss_item_sk'] * 50)}])")
    detail = console.file.getvalue().splitlines()[1]  # type: ignore[attr-defined]
    assert detail.startswith("    statistics of sales (columns=[ss_item_sk, ")
    assert detail.endswith(" …")
    assert len(detail) <= 124


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.50 s"), (59.9, "59.9 s"), (59.97, "1 min 00 s"), (245, "4 min 05 s"), (7260, "2 h 01 min")],
)
def test_times_read_as_people_say_them(value: float, text: str) -> None:
    assert units.seconds(value) == text
