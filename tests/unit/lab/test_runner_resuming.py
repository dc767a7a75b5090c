"""An interrupted run resumes where it stopped, repeats nothing, and belongs to one process at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import StateError
from penstock.lab import environment, records, runner
from penstock.lab.analysis import samples
from penstock.lab.experiment import MeasurementPlan
from penstock.lab.progress import ProgressListener
from penstock.lab.records import Run
from penstock.model import Application, ApplicationSpec, State
from tests.unit.lab.lab_fakes import NOW
from tests.unit.lab.lab_world import SIZE, Lab


def measures_by_name(run: Run) -> list[tuple[int, float]]:
    return [(sample["repetition"], sample["elapsed_ms"]) for sample in run.of_kind("measure")]


def interrupt(lab: Lab, *groups: str, at: tuple[str, int], plan: MeasurementPlan) -> None:
    lab.interrupted = {at}
    with pytest.raises(KeyboardInterrupt):
        lab.measure_all(*groups, plan=plan)


def test_it_goes_on_without_repeating_what_is_done(lab: Lab) -> None:
    interrupt(lab, "ab", at=("b", 2), plan=MeasurementPlan(repetitions=2))
    ((first, second),) = lab.resume()
    assert lab.done == [("a", 1), ("b", 1), ("b", 2), ("b", 2), ("a", 2)]
    assert (first.outcome, second.outcome) == ("ok", "ok")
    assert measures_by_name(second) == [(1, 2), (2, 4)], "readers skip the interrupted attempt"


def test_arms_keep_their_order(lab: Lab) -> None:
    """Run ids of the same second sort by name; the turns must not."""
    interrupt(lab, "ba", at=("b", 1), plan=MeasurementPlan(repetitions=2))
    ((first, second),) = lab.resume()
    assert [run.description.arm for run in (first, second)] == ["b", "a"]
    assert lab.done[1:] == [("b", 1), ("a", 1), ("a", 2), ("b", 2)]


def test_experiments_that_were_not_begun_are_measured_too(lab: Lab) -> None:
    interrupt(lab, "a", "bc", "d", at=("b", 1), plan=MeasurementPlan())
    experiments = lab.resume()
    assert lab.done == [("a", 1), ("b", 1), ("b", 1), ("c", 1), ("d", 1)]
    assert [[run.outcome for run in runs] for runs in experiments] == [["ok"], ["ok", "ok"], ["ok"]]


def test_interrupted_again_and_again_it_still_comes_to_its_end(lab: Lab) -> None:
    interrupt(lab, "a", at=("a", 1), plan=MeasurementPlan())
    for _ in range(3):
        lab.interrupted = {("a", 1)}
        with pytest.raises(KeyboardInterrupt):
            lab.resume()
    ((run,),) = lab.resume()
    assert measures_by_name(run) == [(1, 5)]


def test_a_resumed_repetition_whose_data_cannot_be_made_has_failed_and_its_killed_attempts_do_not_count(
    lab: Lab,
) -> None:
    interrupt(lab, "a", at=("a", 1), plan=MeasurementPlan())
    lab.interrupted = {("a", 1)}
    with pytest.raises(KeyboardInterrupt):
        lab.resume()
    lab.unprepared = {"a"}
    ((run,),) = lab.resume()
    assert run.outcome == "failed"
    assert not samples.counted(run, "measure")


def test_what_an_interrupted_attempt_left_in_the_lake_is_removed(lab: Lab) -> None:
    interrupt(lab, "a", at=("a", 1), plan=MeasurementPlan())
    ((run,),) = lab.resume()
    outputs = [key for key in lab.store.objects if "output" in key]
    assert outputs == [f"penstock/lab/{run.description.id}/repetition-1.2/output/part-0"]


def test_applications_that_outlived_the_interrupted_lab_are_ended_first(lab: Lab) -> None:
    interrupt(lab, "a", at=("a", 1), plan=MeasurementPlan())
    (run_id,) = records.run_ids(lab.home)
    ours = Application("ours", ApplicationSpec("x.jar", SIZE, "x", tags=("lab", run_id)), State.RUNNING, NOW)
    others = Application("others", replace(ours.spec, tags=("lab", "another run")), State.RUNNING, NOW)
    lab.engine.strays = [ours, others]
    lab.resume()
    assert lab.engine.stopped == ["ours"]


def test_two_cannot_go_on_with_one_run_at_once(lab: Lab) -> None:
    interrupt(lab, "ab", at=("b", 1), plan=MeasurementPlan())
    first, second = records.run_ids(lab.home)
    refused: list[str] = []

    def resume_both() -> None:
        for run_id in (first, second):
            with pytest.raises(StateError, match="is being measured by another process") as raised:
                lab.resume(run_id)
            refused.append(raised.value.problem)

    lab.during = resume_both
    lab.resume(second)
    assert refused
    assert lab.done == [("a", 1), ("b", 1), ("b", 1)]


def test_a_run_that_is_being_measured_is_not_taken_for_an_interrupted_one(lab: Lab) -> None:
    seen: list[bool] = []

    def look() -> None:
        (run_id,) = records.run_ids(lab.home)
        seen.append(records.in_progress(lab.home, run_id))
        with pytest.raises(StateError, match="No run on this machine was interrupted"):
            lab.resume("last")

    lab.during = look
    (run,) = lab.measure("a", MeasurementPlan())
    assert seen == [True]
    assert not records.in_progress(lab.home, run.description.id)


MEASURE_AND_HANG = """
import os, sys, time
from pathlib import Path
from tests.unit.lab.lab_world import Lab, Noted
from penstock.home import Home
from penstock.lab import environment
from penstock.lab.experiment import MeasurementPlan

environment.versions = dict
lab = Noted.lab = Lab(Home(Path(sys.argv[1])))

def during():
    if len(lab.done) == 2:
        print("measuring", flush=True)
        time.sleep(60)

lab.during = during
lab.measure("ab", MeasurementPlan(repetitions=2))
"""


def test_killed_in_the_middle_of_a_repetition_it_goes_on(lab: Lab) -> None:
    paths = os.pathsep.join([str(Path(__file__).parents[3]), *sys.path])
    command = [sys.executable, "-c", MEASURE_AND_HANG, str(lab.home.root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths}) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"measuring\n"
        with pytest.raises(StateError, match="No run on this machine was interrupted"):
            lab.resume()
        process.kill()
    ((first, second),) = lab.resume()
    assert lab.done == [("b", 1), ("b", 2), ("a", 2)], "a's first repetition was done before the kill"
    assert (first.outcome, second.outcome) == ("ok", "ok")
    assert [repetition for repetition, _ in measures_by_name(second)] == [1, 2]


def test_what_came_to_its_end_is_not_resumed(lab: Lab) -> None:
    (run,) = lab.measure("a", MeasurementPlan())
    with pytest.raises(StateError, match="was not interrupted"):
        lab.resume(run.description.id)
    with pytest.raises(StateError, match="No run on this machine was interrupted"):
        lab.resume()


def test_that_it_goes_on_with_another_version_is_said_and_recorded(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def now(commit: str, cores: int, versions: dict[str, str]) -> None:
        monkeypatch.setattr(environment, "commit", lambda: commit)
        monkeypatch.setattr(environment, "machine", lambda: {"cores": cores, "system": "Linux"})
        monkeypatch.setattr(environment, "versions", lambda: versions)

    now("before", 2, {"spark": "4.1.0"})
    interrupt(lab, "a", at=("a", 1), plan=MeasurementPlan())
    now("after", 4, {"spark": "4.1.0", "duckdb": "1.4"})
    ((run,),) = lab.resume()
    (resumed,) = run.of_kind("resumed")
    assert (resumed["commit"], resumed["machine"]["cores"]) == ("after", 4)
    assert resumed["versions"] == {"spark": "4.1.0", "duckdb": "1.4"}
    assert [note.partition(" was ")[2] for note in lab.listener.notes if "resumed" in note] == [
        "begun with commit before and is resumed with after.",
        "begun with machine cores 2 and is resumed with cores 4.",
        "begun with versions duckdb None and is resumed with duckdb 1.4.",
    ]


def test_a_repetition_done_again_keeps_its_turn(lab: Lab) -> None:
    interrupt(lab, "ab", at=("b", 2), plan=MeasurementPlan(repetitions=2))
    ((first, second),) = lab.resume()
    assert [[sample["order"] for sample in run.of_kind("begin")] for run in (first, second)] == [[1, 4], [2, 3]]


def test_a_run_that_ended_before_the_others_were_interrupted_is_not_said_to_be_resumed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    conclude = runner._conclude

    def killed_at_the_second(begun: runner.StartedArm, listener: ProgressListener) -> Run:
        if begun.arm.name == "b":
            raise KeyboardInterrupt
        return conclude(begun, listener)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(runner, "_conclude", killed_at_the_second)
        lab.measure("ab", MeasurementPlan())
    ((first, second),) = lab.resume()
    assert [len(run.of_kind("resumed")) for run in (first, second)] == [0, 1]


def test_damaged_records_of_others_do_not_keep_a_run_from_being_resumed(lab: Lab) -> None:
    (other,) = lab.measure("b", MeasurementPlan())
    (lab.home.root / "lab" / other.description.id / "run.json").write_text("{")
    interrupt(lab, "a", at=("a", 1), plan=MeasurementPlan())
    ((run,),) = lab.resume()
    assert run.outcome == "ok"


def test_a_repetition_whose_end_is_damaged_is_measured_again(lab: Lab) -> None:
    interrupt(lab, "a", at=("a", 2), plan=MeasurementPlan(repetitions=2))
    (run_id,) = records.run_ids(lab.home)
    samples = lab.home.root / "lab" / run_id / "samples.jsonl"
    samples.write_bytes(samples.read_bytes().replace(b'{"kind": "repetition"', b'{"kind": "repetitio\0"'))
    ((run,),) = lab.resume()
    assert lab.done == [("a", 1), ("a", 2), ("a", 1), ("a", 2)]
    assert (run.outcome, run.damaged_lines) == ("ok", 1)
