"""The runner takes arms in turns, records what failed, and refuses what cannot work before it starts."""

from __future__ import annotations

import pytest
from lab_world import Lab

from penstock.errors import InvalidInput, MissingRequirement
from penstock.lab import caches, runner
from penstock.lab.runner import Plan


def test_arms_are_measured_in_turns_and_each_is_first_equally_often(lab: Lab) -> None:
    lab.measure("ab", Plan(repetitions=2))
    assert lab.done == [("a", 1), ("b", 1), ("b", 2), ("a", 2)]


def test_what_a_plan_says_it_will_do_is_what_is_done(lab: Lab) -> None:
    experiment = runner.Experiment(lab.arms("abc"), Plan(repetitions=2, warmup=1))
    runner.measure_all(lab.open_bench, [experiment], lab.listener)
    assert [(arm.name, repetition) for repetition, arm in experiment.order()] == lab.done


def test_experiments_are_measured_one_after_the_other(lab: Lab) -> None:
    first, second = lab.measure_all("ab", "c", plan=Plan(repetitions=2))
    assert lab.done == [("a", 1), ("b", 1), ("b", 2), ("a", 2), ("c", 1), ("c", 2)]
    assert [run.description.arm for run in (*first, *second)] == ["a", "b", "c"]
    assert len({run.description.experiment for run in first}) == 1


def test_warm_up_is_recorded_and_marked_as_such(lab: Lab) -> None:
    (run,) = lab.measure("a", Plan(repetitions=1, warmup=1))
    assert [(s["repetition"], s.get("warmup", False)) for s in run.of_kind("measure")] == [(0, True), (1, False)]


def test_a_repetition_that_failed_is_recorded_as_failed_and_the_others_go_on(lab: Lab) -> None:
    lab.failing = {("a", 1)}
    (run,) = lab.measure("a", Plan(repetitions=2))
    assert [sample["status"] for sample in run.of_kind("repetition")] == ["failed", "ok"]
    assert run.outcome == "failed"


def test_a_wrong_result_makes_the_run_wrong_even_where_something_else_failed(lab: Lab) -> None:
    lab.failing, lab.wrong = {("a", 1)}, {("a", 2)}
    (run,) = lab.measure("a", Plan(repetitions=2))
    assert run.outcome == "wrong"


def test_each_repetition_says_what_it_used_of_the_machine(lab: Lab) -> None:
    (run,) = lab.measure("a", Plan(repetitions=2))
    usage = run.of_kind("usage")
    assert [sample["repetition"] for sample in usage] == [1, 2]
    assert all(sample["machine_core_seconds"] >= 0 and sample["elapsed_ms"] >= 0 for sample in usage)


def test_after_the_first_repetition_it_says_how_long_the_rest_will_take(lab: Lab) -> None:
    lab.measure("ab", Plan(repetitions=2))
    first, *others = lab.listener.notes
    assert first == "1 of 4"
    assert [note.partition(";")[0] for note in others] == ["2 of 4", "3 of 4", "4 of 4"]
    assert all("about" in note for note in others)


def test_an_impossible_option_is_refused_before_anything_is_recorded(lab: Lab) -> None:
    with pytest.raises(InvalidInput, match="no such letter"):
        lab.measure_all("a", "b?", plan=Plan())
    assert lab.done == []
    assert not (lab.home.root / "lab").exists()


def test_a_disk_too_small_is_refused_before_the_work_starts(lab: Lab) -> None:
    lab.lake_kind = "embedded"
    with pytest.raises(MissingRequirement, match=r"needs about 1\S* "):
        runner.measure(lab.open_bench, lab.arms("a", bytes_needed=1 << 60), Plan(), lab.listener)
    assert lab.done == []


def test_caches_are_dropped_before_every_repetition_where_the_plan_says_so(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[tuple[str, int]] = []
    monkeypatch.setattr(caches, "require", lambda _: None)
    monkeypatch.setattr(caches, "prepare", lambda policy, home: prepared.append((policy, len(lab.done))))
    (run,) = lab.measure("a", Plan(repetitions=2, caches=caches.DROP))
    assert prepared == [("drop", 0), ("drop", 1)]
    assert run.description.plan["caches"] == "drop"
