"""The TPC-DS suite does only the necessary work, and records the true outcome."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InvalidInput
from penstock.lab import conditions, runner
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.workloads import tpcds
from penstock.lab.workloads.tpcds_data import TpcdsData
from tests.unit.lab.lab_fakes import NOW, Silent
from tests.unit.lab.tpcds_world import LAKE, SIZE, World

LAYOUTS = ("by-size", "by-day", "by-range", "advised", "iceberg")
SUITE = tpcds.Tpcds(scale=0.1, queries=("q1", "q2"))


def values_of(world: World, main: str, option: str) -> list[str]:
    """Return the values of an option in the submissions of a main class, in order."""
    return [
        spec.arguments[spec.arguments.index(option) + 1]
        for spec in world.engine.submitted
        if str(spec.main_class).endswith(f".{main}")
    ]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_the_first_run_loads_and_the_second_does_not(world: World) -> None:
    assert world.measure(SUITE).outcome == "ok"
    assert world.measure(SUITE).outcome == "ok"
    assert world.mains() == ["LoadTables", "PowerRun", "PowerRun"]


def test_data_whose_load_was_cut_short_is_loaded_again(world: World) -> None:
    world.measure(SUITE)
    world.store.delete("tpcds/sf0p1/_manifest.json")
    world.measure(SUITE)
    assert world.mains() == ["LoadTables", "PowerRun"] * 2


def test_a_catalog_that_lost_its_tables_gets_them_back(world: World) -> None:
    world.measure(SUITE)
    world.tables.clear()
    world.measure(SUITE)
    assert world.mains() == ["LoadTables", "PowerRun"] * 2


def test_another_object_size_is_another_data_set_beside_the_first() -> None:
    small, large = TpcdsData(1), TpcdsData(1, 128 << 20)
    assert (small.prefix, large.prefix) == ("tpcds/sf1", "tpcds/sf1_128m")
    assert small.database(LAKE) != large.database(LAKE)


def test_another_layout_is_another_data_set_and_so_is_every_object_size_below_a_megabyte() -> None:
    sizes = [TpcdsData(1, size) for size in (32 << 20, 256 << 10, 64 << 10, 100_000)]
    assert [data.name for data in sizes] == ["sf1", "sf1_256k", "sf1_64k", "sf1_100000b"]
    layouts = [TpcdsData(1, 256 << 10, layout=layout).database(LAKE) for layout in LAYOUTS]
    assert layouts == [
        "tpcds_sf1_256k",
        "tpcds_sf1_256k_by_day",
        "tpcds_sf1_256k_by_range",
        "tpcds_sf1_256k_advised",
        "tpcds_sf1_256k_iceberg",
    ]


def test_lakes_that_share_a_catalog_have_databases_of_their_own() -> None:
    names = ("embedded", "ceph", "ceph-ec", "ceph_ec", "Ceph", "ceph.ec")
    databases = [TpcdsData(0.1).database(replace(LAKE, name=name)) for name in names]
    assert databases[:3] == ["tpcds_sf0p1", "tpcds_sf0p1_ceph", "tpcds_sf0p1_ceph_ec"]
    assert len(set(databases)) == len(names)


def test_data_is_used_in_the_layout_that_was_asked_for(world: World) -> None:
    world.measure(SUITE)
    world.measure(replace(SUITE, layout="by-day"))
    world.measure(replace(SUITE, layout="by-day"))
    assert world.mains() == ["LoadTables", "PowerRun", "LoadTables", "PowerRun", "PowerRun"]
    assert [values_of(world, "LoadTables", "--layout"), values_of(world, "PowerRun", "--database")] == [
        ["by-size", "by-day"],
        ["tpcds_sf0p1", "tpcds_sf0p1_by_day", "tpcds_sf0p1_by_day"],
    ]


def test_a_layout_is_advised_by_what_was_asked_of_the_data_that_is_laid_out_by_size(world: World) -> None:
    world.measure(replace(SUITE, layout="advised"))
    assert world.mains() == ["LoadTables", "LoadTables", "PowerRun"]
    assert values_of(world, "LoadTables", "--layout") == ["by-size", "advised"]
    advised = world.engine.submitted[1].arguments
    assert advised[advised.index("--from-database") + 1] == "tpcds_sf0p1"
    assert advised[advised.index("--from") + 1].endswith("tpcds/sf0p1")
    assert values_of(world, "PowerRun", "--database") == ["tpcds_sf0p1_advised"]
    with pytest.raises(InvalidInput, match="local copy"):
        world.measure(replace(SUITE, layout="advised", location="local"))


def test_iceberg_tables_have_the_files_of_by_size_which_are_what_the_independent_engine_reads(world: World) -> None:
    iceberg = replace(SUITE, layout="iceberg")
    assert world.measure(iceberg).outcome == "ok"
    assert world.mains() == ["LoadTables", "IcebergTables", "PowerRun"]
    made = dict(zip(world.engine.submitted[1].arguments[::2], world.engine.submitted[1].arguments[1::2], strict=True))
    assert made == {
        "--location": "s3a://bucket/tpcds/sf0p1_iceberg",
        "--database": "tpcds_sf0p1_iceberg",
        "--from": "s3a://bucket/tpcds/sf0p1",
        "--from-database": "tpcds_sf0p1",
    }
    assert {key for key in world.store.reads if key.endswith(".parquet")} == {"tpcds/sf0p1/item/part-0.parquet"}
    assert values_of(world, "PowerRun", "--database") == ["tpcds_sf0p1_iceberg"]
    world.measure(iceberg)
    assert world.mains()[3:] == ["PowerRun"]


def test_iceberg_tables_are_made_again_once_their_files_were(world: World) -> None:
    iceberg = replace(SUITE, layout="iceberg")
    world.measure(iceberg)
    world.store.modified = NOW + timedelta(minutes=1)
    world.measure(replace(SUITE, reload=True))
    world.measure(iceberg)
    assert world.mains()[3:] == ["LoadTables", "PowerRun", "IcebergTables", "PowerRun"]


def test_iceberg_tables_are_in_the_lake_and_have_no_index(world: World) -> None:
    for change, words in (({"location": "local"}, "local copy"), ({"index": True}, "no skipping index")):
        with pytest.raises(InvalidInput, match=words):
            world.measure(replace(SUITE, layout="iceberg", **change))
    assert not world.mains()


def test_a_layout_there_is_not_is_refused_before_anything_starts(world: World) -> None:
    with pytest.raises(InvalidInput, match="by-moon"):
        world.measure(replace(SUITE, layout="by-moon"))
    assert not world.mains()


def test_the_index_is_built_where_a_table_lacks_it_and_anew_with_new_data(world: World) -> None:
    indexed = replace(SUITE, index=True)
    first, second = world.measure(indexed), world.measure(indexed)
    assert world.mains() == ["LoadTables", "Index", "PowerRun", "PowerRun"]
    assert values_of(world, "Index", "--tables") == ["item"]
    assert [sample["files"] for sample in first.of_kind("index")] == [1]
    assert not second.of_kind("index")
    world.store.delete("tpcds/sf0p1/item/_skipindex/_manifest.json")
    world.measure(indexed)
    assert world.mains()[-2:] == ["Index", "PowerRun"]
    world.measure(replace(indexed, reload=True))
    assert world.mains()[-3:] == ["LoadTables", "Index", "PowerRun"]


def test_the_independent_engine_reads_no_file_of_an_index(world: World) -> None:
    run = world.measure(replace(SUITE, index=True))
    assert run.outcome == "ok"
    assert not [key for key in world.store.reads if key.endswith(".parquet") and "_skipindex" in key]


def test_what_is_made_before_the_measuring_does_not_wait_for_a_round_trip(world: World) -> None:
    far = Arm("far", replace(SUITE, index=True), SIZE, settings=conditions.round_trip_settings("5ms"))
    runner.measure(lambda _: world.bench, [far], MeasurementPlan(), Silent())
    waiting = [any("round.trip" in value for value in spec.settings.values()) for spec in world.engine.submitted]
    assert world.mains() == ["LoadTables", "Index", "PowerRun"]
    assert waiting == [False, False, True]


def test_a_run_whose_driver_died_before_its_last_query_has_failed(world: World) -> None:
    world.dies_after = 1
    run = world.measure(SUITE)
    assert run.outcome == "failed"
    assert [sample["query"] for sample in run.of_kind("query")] == ["q1"]


def test_an_answer_with_a_line_separator_is_one_answer(world: World) -> None:
    world.store.put("answers.jsonl", json.dumps({"rows": [["a\u2028b\x85c"]]}, ensure_ascii=False).encode())
    assert world.bench.json_lines("answers.jsonl") == [{"rows": [["a\u2028b\x85c"]]}]


def test_a_wrong_answer_is_a_failure_that_shows_the_rows(world: World) -> None:
    world.answers["q2"] = [["2.60"]]
    run = world.measure(SUITE)
    assert run.outcome == "wrong"
    (wrong,) = [sample for sample in run.of_kind("answer") if sample["verdict"] == "different"]
    assert wrong["query"] == "q2"
    assert wrong["lines"][2:] == ["  - 2.5", "  + 2.60"]


def test_an_answer_that_was_lost_is_recorded_as_unchecked(world: World) -> None:
    del world.answers["q2"]
    run = world.measure(SUITE)
    assert run.outcome == "ok"
    assert [(s["query"], s["verdict"], s["rows"]) for s in run.of_kind("answer")] == [
        ("q1", "equal", 1),
        ("q2", "unchecked", 0),
    ]


def test_a_failed_query_is_recorded_and_the_others_are_still_checked(world: World) -> None:
    world.failing = {"q1"}
    run = world.measure(SUITE)
    assert run.outcome == "failed"
    assert [sample["query"] for sample in run.of_kind("answer")] == ["q2"]


def test_an_application_that_left_nothing_is_a_failed_repetition_that_says_why(world: World) -> None:
    world.leaves_samples = False
    run = world.measure(SUITE)
    assert run.outcome == "failed"
    (repetition,) = run.of_kind("repetition")
    assert "queries, scale 0.1 ended as" in repetition["error"]


def test_the_independent_engine_is_asked_once_per_data_set(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.measure(SUITE)
    world.store.reads.clear()
    world.measure(SUITE)
    assert not [key for key in world.store.reads if key.endswith(".parquet")]


def test_answers_from_one_layouts_files_are_the_right_ones_for_another(world: World) -> None:
    other = replace(SUITE, layout="by-range")
    world.measure(SUITE)
    world.store.reads.clear()
    assert world.measure(other).outcome == "ok"
    assert not [key for key in world.store.reads if key.endswith(".parquet")]
    world.answers["q2"] = [["2.60"]]
    assert world.measure(other).outcome == "wrong"


def test_data_with_another_number_of_rows_has_answers_of_its_own(world: World) -> None:
    world.measure(SUITE)
    key = "tpcds/sf0p1/_manifest.json"
    fewer = json.loads(world.store.get(key))
    fewer["tables"][0]["rows"] -= 1
    world.store.put(key, json.dumps(fewer).encode())
    world.store.reads.clear()
    world.measure(SUITE)
    assert [key for key in world.store.reads if key.endswith(".parquet")]


def test_the_run_is_in_the_lake_too(world: World) -> None:
    run = world.measure(SUITE)
    kept = world.store.objects[f"penstock/lab/{run.description.id}/samples.jsonl"]
    assert len(kept.splitlines()) == len(run.samples)


def test_interrupted_it_stops_the_application(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(world.engine, "supervise", interrupt)
    with pytest.raises(KeyboardInterrupt):
        world.measure(SUITE)
    assert world.engine.stopped == ["app-1"]


def test_local_tables_are_a_copy_of_the_lakes_made_once_and_their_answers_are_checked(world: World) -> None:
    local = replace(SUITE, location="local")
    assert world.measure(local).outcome == "ok"
    assert world.mains() == ["LoadTables", "LoadTables", "PowerRun"]
    assert world.measure(SUITE).outcome == "ok"
    world.answers["q2"] = [["2.60"]]
    assert world.measure(local).outcome == "wrong"
    assert world.mains() == ["LoadTables", "LoadTables", "PowerRun", "PowerRun", "PowerRun"]
    databases = [spec.arguments[spec.arguments.index("--database") + 1] for spec in world.engine.submitted]
    assert databases == ["tpcds_sf0p1", "tpcds_sf0p1_local", "tpcds_sf0p1_local", "tpcds_sf0p1", "tpcds_sf0p1_local"]


def test_tables_are_read_from_a_place_there_is(world: World) -> None:
    with pytest.raises(InvalidInput, match="moon"):
        world.measure(replace(SUITE, location="moon"))
    assert not world.mains()
