"""The runner measures arms in turns, records failures, and refuses impossible experiments before it starts."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.engine.submission import Submission
from penstock.errors import InvalidInput, LakeError, MissingRequirement
from penstock.lab import experiment, launchers, runner
from penstock.lab.experiment import Experiment, MeasurementPlan
from penstock.lab.session import Session
from penstock.lake import stores
from penstock.lake.ceph import rbd
from penstock.lake.stores import StoreFacts
from penstock.model import ApplicationSpec, ClusterSize, State
from tests.unit.lab.lab_fakes import PretendingEngine
from tests.unit.lab.lab_world import Lab


def test_arms_are_measured_in_turns_and_each_is_first_equally_often(lab: Lab) -> None:
    lab.measure("ab", MeasurementPlan(repetitions=2))
    assert lab.done == [("a", 1), ("b", 1), ("b", 2), ("a", 2)]


def test_what_a_plan_says_it_will_do_is_what_is_done(lab: Lab) -> None:
    experiment = Experiment(lab.arms("abc"), MeasurementPlan(repetitions=2, warmup=1))
    runner.measure_all(lab.open_bench, [experiment], lab.listener)
    assert [(arm.name, repetition) for repetition, arm in experiment.order()] == lab.done


def test_experiments_are_measured_one_after_the_other(lab: Lab) -> None:
    first, second = lab.measure_all("ab", "c", plan=MeasurementPlan(repetitions=2))
    assert lab.done == [("a", 1), ("b", 1), ("b", 2), ("a", 2), ("c", 1), ("c", 2)]
    assert [run.description.arm for run in (*first, *second)] == ["a", "b", "c"]
    assert len({run.description.experiment for run in first}) == 1


def test_the_requests_of_the_applications_are_recorded_and_not_the_labs_own(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {"GET": 5}
    monkeypatch.setattr(stores, "requests", lambda *_: dict(counts))
    monkeypatch.setattr("penstock.lab.metering._QUIET_SECONDS", 0)
    monkeypatch.setattr(launchers, "workloads_jar", lambda: Path("workloads.jar"))

    def work(_: ApplicationSpec) -> State:
        counts["GET"] += 100
        return State.FINISHED

    def session_work(session: Session) -> None:
        counts["GET"] += 7
        session.application("sort", "Main", (), name="TeraSort")
        counts["GET"] += 9

    lab.engine, lab.during_session = PretendingEngine(work), session_work
    (run,) = lab.measure("a", MeasurementPlan(repetitions=1))
    (used,) = run.of_kind("usage")
    assert (used["store_requests"], used["store_foreign_requests"]) == ({"GET": 100}, 0)


def test_warm_up_is_recorded_and_marked_as_such(lab: Lab) -> None:
    (run,) = lab.measure("a", MeasurementPlan(repetitions=1, warmup=1))
    assert [(s["repetition"], s.get("warmup", False)) for s in run.of_kind("measure")] == [(0, True), (1, False)]


def test_a_repetition_that_failed_is_recorded_as_failed_and_the_others_go_on(lab: Lab) -> None:
    lab.failing = {("a", 1)}
    (run,) = lab.measure("a", MeasurementPlan(repetitions=2))
    assert [sample["status"] for sample in run.of_kind("repetition")] == ["failed", "ok"]
    assert run.outcome == "failed"


def test_an_arm_whose_data_cannot_be_made_has_failed_and_the_others_are_measured(lab: Lab) -> None:
    lab.unprepared = {"a"}
    (first, second), (third,) = lab.measure_all("ab", "c", plan=MeasurementPlan(repetitions=2))
    assert [run.outcome for run in (first, second, third)] == ["failed", "ok", "ok"]
    assert [(sample["status"], sample["error"]) for sample in first.of_kind("repetition")] == [
        ("failed", "there is no data")
    ] * 2
    assert lab.done == [("b", 1), ("b", 2), ("c", 1), ("c", 2)]
    assert "a is not measured. there is no data" in lab.listener.notes


def test_a_lake_that_takes_no_copy_of_the_record_ends_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise LakeError("the lake is away")

    lab.during = lambda: monkeypatch.setattr(lab.store, "put", away)
    (run,) = lab.measure("a", MeasurementPlan())
    assert run.outcome == "ok"
    assert any("not copied into the lake" in note for note in lab.listener.notes)


def test_a_wrong_result_makes_the_run_wrong_even_where_something_else_failed(lab: Lab) -> None:
    lab.failing, lab.wrong = {("a", 1)}, {("a", 2)}
    (run,) = lab.measure("a", MeasurementPlan(repetitions=2))
    assert run.outcome == "wrong"


def test_an_arm_uses_as_many_of_its_lakes_gateways_as_it_says(lab: Lab) -> None:
    lab.endpoints = ("http://127.0.0.1:1", "http://127.0.0.1:2")
    one, both = (replace(arm, gateways=many) for arm, many in zip(lab.arms("ab"), (1, None), strict=True))
    runs = runner.measure(lab.open_bench, [one, both], MeasurementPlan(), lab.listener)
    assert [run.description.lake["endpoints"] for run in runs] == [["http://127.0.0.1:1"], list(lab.endpoints)]
    bench = lab.open_bench(None)
    assert bench.through(1).gateway_settings() == {
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:1",
        "spark.hadoop.fs.s3a.penstock.endpoints": "http://127.0.0.1:1",
    }
    assert bench.through(None).gateway_settings() == {}, "the engine names all of them itself"


def test_more_gateways_than_a_lake_has_are_refused_before_anything_is_recorded(lab: Lab) -> None:
    with pytest.raises(InvalidInput, match="no 3 gateways"):
        runner.measure(lab.open_bench, [replace(lab.arms("a")[0], gateways=3)], MeasurementPlan(), lab.listener)
    assert not (lab.home.root / "lab").exists()


@pytest.mark.parametrize(
    ("endpoints", "bucket", "refused"),
    [
        (("http://127.0.0.1:2",), "bucket", True),
        (("http://127.0.0.1:2",), "other", False),
        (("http://127.0.0.1:2", "http://127.0.0.1:1"), "bucket", False),
    ],
)
def test_stores_whose_buckets_have_one_name_would_share_the_page_cache(
    lab: Lab, endpoints: tuple[str, ...], bucket: str, refused: bool
) -> None:
    near = lab.open_bench(None)
    far = replace(near, lake=replace(near.lake, name="far", endpoints=endpoints, bucket=bucket))
    arms = [replace(arm, lake=lake) for arm, lake in zip(lab.arms("ab"), ("test", "far"), strict=True)]
    with pytest.raises(InvalidInput, match="both have a bucket") if refused else nullcontext():
        runner.measure(lambda name: far if name == "far" else near, arms, MeasurementPlan(), lab.listener)
    assert bool(lab.done) is not refused


def test_a_place_to_shuffle_in_that_is_not_there_is_refused_before_anything_is_recorded(lab: Lab) -> None:
    arm = replace(lab.arms("a")[0], settings={"spark.penstock.scratch.disk": "/nowhere"})
    with pytest.raises(MissingRequirement, match="no directory /nowhere"):
        runner.measure(lab.open_bench, [arm], MeasurementPlan(), lab.listener)
    assert lab.done == []


def test_a_setting_of_penstock_is_refused_for_plain_spark_which_would_ignore_it(lab: Lab) -> None:
    for key in ("spark.penstock.scratch.memory", "spark.hadoop.fs.s3a.penstock.cache.enabled"):
        arm = replace(lab.arms("a")[0], launcher="plain", settings={key: "0", "spark.speculation": "true"})
        with pytest.raises(InvalidInput, match=f"Plain Spark cannot take {key}") as refused:
            runner.measure(lab.open_bench, [arm], MeasurementPlan(), lab.listener)
        assert "--conf-penstock" in refused.value.fix
    assert not (lab.home.root / "lab").exists()


def test_plain_spark_is_refused_where_clusters_are_on_other_machines_than_this_one(lab: Lab) -> None:
    lab.engine.backend.name = "kubernetes"
    plain = replace(lab.arms("a")[0], launcher="plain")
    with pytest.raises(InvalidInput, match="plain Spark runs on this machine, and Penstock's clusters do not"):
        runner.measure(lab.open_bench, [plain], MeasurementPlan(), lab.listener)
    assert lab.done == []


def test_a_record_has_the_size_that_is_promised_and_paid_for(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(spec: ApplicationSpec) -> Submission:
        return Submission(replace(spec, size=replace(spec.size, scratch_memory_bytes=1 << 30)), {}, ())

    monkeypatch.setattr(lab.engine, "resolve", resolve)
    ours, theirs = lab.arms("ab")
    theirs = replace(theirs, launcher="plain", settings={"spark.executor.memoryOverhead": "1g"})
    ran = runner.measure(lab.open_bench, [ours], MeasurementPlan(), lab.listener)[0].description
    size = launchers.promised_size(lab.engine, theirs.size, "plain", "default", theirs.settings)  # type: ignore[arg-type]
    assert ClusterSize.from_json(ran.size) == replace(ours.size, scratch_memory_bytes=1 << 30)
    assert size.executor_bytes == theirs.size.executor.memory_bytes + (1 << 30)


@pytest.mark.parametrize(
    ("kind", "reason"), [("s3", "no block devices to shuffle on"), ("ceph", "kernel does not support")]
)
def test_shuffling_on_a_block_device_is_refused_with_the_reason_where_there_is_none(
    lab: Lab, kind: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rbd, "_KERNEL", tmp_path / "nowhere")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    lab.lake_kind = kind
    arm = replace(lab.arms("a")[0], settings={"spark.penstock.scratch.disk": "krbd"})
    with pytest.raises(MissingRequirement, match=reason):
        runner.measure(lab.open_bench, [arm], MeasurementPlan(), lab.listener)
    assert lab.done == []


def test_an_interrupted_arm_goes_on_with_the_gateways_it_began_with(lab: Lab) -> None:
    lab.endpoints = ("http://127.0.0.1:1", "http://127.0.0.1:2")
    lab.interrupted = {("a", 1)}
    with pytest.raises(KeyboardInterrupt):
        runner.measure(lab.open_bench, [replace(lab.arms("a")[0], gateways=1)], MeasurementPlan(), lab.listener)
    seen: list[int | None] = []
    lab.during_session = lambda session: seen.append(session.bench.gateways)
    lab.resume()
    assert seen == [1]


def test_each_repetition_says_what_it_used_of_the_machine(lab: Lab) -> None:
    (run,) = lab.measure("a", MeasurementPlan(repetitions=2))
    usage = run.of_kind("usage")
    assert [sample["repetition"] for sample in usage] == [1, 2]
    assert all(sample["machine_core_seconds"] >= 0 and sample["elapsed_ms"] >= 0 for sample in usage)


def test_each_repetition_records_its_turn_and_the_load_before_and_during_it(lab: Lab) -> None:
    runs = lab.measure("ab", MeasurementPlan(repetitions=2, warmup=1))
    turns = {run.description.arm: [sample["order"] for sample in run.of_kind("begin")] for run in runs}
    assert turns == {"a": [1, 4, 5], "b": [2, 3, 6]}
    assert all(sample["load_1m"] >= 0 for run in runs for sample in run.of_kind("begin"))
    assert all(sample["disturbed"] in (True, False) for run in runs for sample in run.of_kind("usage"))
    assert {run.description.backend for run in runs} == {"local"}


def test_the_load_of_this_machine_is_not_recorded_for_applications_on_kubernetes(lab: Lab) -> None:
    lab.engine.backend.name = "kubernetes"
    (run,) = lab.measure("a", MeasurementPlan())
    (begin,), (usage,) = run.of_kind("begin"), run.of_kind("usage")
    assert run.description.backend == "kubernetes"
    assert "load_1m" not in begin
    assert not {"disturbed", "other_core_seconds"} & usage.keys()
    assert "machine_core_seconds" in usage


def test_a_repetition_beside_other_programs_is_marked_as_disturbed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "disturbance_warning", lambda *_: "this time is doubtful")
    (run,) = lab.measure("a", MeasurementPlan())
    assert [sample["disturbed"] for sample in run.of_kind("usage")] == [True]
    assert "this time is doubtful" in lab.listener.notes


def test_after_the_first_repetition_it_says_how_long_the_rest_will_take(lab: Lab) -> None:
    lab.measure("ab", MeasurementPlan(repetitions=2))
    first, *others = lab.listener.notes
    assert first == "1 of 4"
    assert [note.partition(";")[0] for note in others] == ["2 of 4", "3 of 4", "4 of 4"]
    assert all("about" in note for note in others)


def test_an_impossible_option_is_refused_before_anything_is_recorded(lab: Lab) -> None:
    with pytest.raises(InvalidInput, match="no such letter"):
        lab.measure_all("a", "b?", plan=MeasurementPlan())
    assert lab.done == []
    assert not (lab.home.root / "lab").exists()


def test_a_disk_too_small_is_refused_before_the_work_starts(lab: Lab) -> None:
    lab.lake_kind = "embedded"
    with pytest.raises(MissingRequirement, match=r"needs about 1\S* "):
        runner.measure(lab.open_bench, lab.arms("a", bytes_needed=1 << 60), MeasurementPlan(), lab.listener)
    assert lab.done == []


@pytest.mark.parametrize(("times", "needed"), [(3.0, "3.0 PiB"), (1.5, "1.5 PiB"), (None, "1.0 PiB")])
def test_data_needs_as_much_disk_as_its_store_keeps_it(
    lab: Lab, times: float | None, needed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.lake_kind = "ceph"
    monkeypatch.setattr(stores, "store_facts", lambda *_: StoreFacts("Ceph", raw_factor=times))
    with pytest.raises(MissingRequirement, match=f"needs about {needed}"):
        runner.measure(lab.open_bench, lab.arms("a", bytes_needed=1 << 50), MeasurementPlan(), lab.listener)


def test_caches_are_dropped_before_every_repetition_where_the_plan_says_so(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[tuple[str, int]] = []
    monkeypatch.setattr(runner, "require_caches", lambda _: None)
    monkeypatch.setattr(runner, "prepare_caches", lambda policy, home: prepared.append((policy, len(lab.done))))
    (run,) = lab.measure("a", MeasurementPlan(repetitions=2, caches=experiment.DROP))
    assert prepared == [("drop", 0), ("drop", 1)]
    assert run.description.plan["caches"] == "drop"
