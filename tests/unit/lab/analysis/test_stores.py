"""Stores are compared by time and by the price of their raw capacity, with figures that a reader can do by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.lab.analysis import cost, stores
from penstock.lab.analysis.stores import StoreChoices
from penstock.lab.records import Run
from penstock.lab.report.stores import row_labels
from tests.unit.lab.analysis.test_cost import DISKS, PRICES
from tests.unit.lab.lab_runs import GB, measure, repetition, run, size
from tests.unit.lab.store_runs import STORES, dfsio, eight, lake, timed, tpcds


def test_enrichment_on_erasure_coded_ceph_is_37_percent_slower_at_half_the_price() -> None:
    found = stores.store_matrix([timed("enrichment", "HDFS"), timed("enrichment", "Ceph 4+2")])
    (row,), (_, ceph) = found.rows, found.stores
    against = found.relative(row, ceph)
    assert against is not None
    assert against.time == pytest.approx(1.37)
    assert against.performance == pytest.approx(1 / 1.37)
    assert against.capacity == 0.5
    assert against.price_performance == pytest.approx(0.685)


def test_one_copy_has_a_third_of_the_price_of_three() -> None:
    found = stores.store_matrix([timed("etl", "HDFS"), timed("etl", "embedded"), timed("etl", "Ceph 3x")])
    assert [found.capacity(store) for store in found.stores] == [1, pytest.approx(1 / 3), 1]


def test_the_raw_bytes_are_those_of_the_data_set_times_the_factor() -> None:
    found = stores.store_matrix([timed("etl", name) for name in STORES])
    (row,) = found.rows
    assert [row.cells[store.name].raw_bytes(store) for store in found.stores] == [
        30 * GB,
        30 * GB,
        15 * GB,
        10 * GB,
    ], "a data set that was recorded twice is stored once"


def test_throughput_is_that_per_core_and_hour() -> None:
    """10 GB in 20 s on 2 cores: 10 / 2 / 20 × 3600 = 900 GB per core and hour."""
    found = stores.store_matrix([timed("etl", "HDFS"), timed("etl", "embedded", seconds=40)])
    (row,) = found.rows
    assert row.cells["HDFS"].gb_per_core_hour == pytest.approx(900)
    assert row.cells["embedded"].gb_per_core_hour == pytest.approx(450)


def test_reading_and_writing_are_two_workloads_and_the_numbers_of_clients_one() -> None:
    found = stores.store_matrix([dfsio("HDFS"), dfsio("Ceph 4+2")])
    assert [row.series for row in found.rows] == ["write", "read"]
    write, read = found.rows
    assert write.cells["HDFS"].seconds == pytest.approx(16), "8 s with two clients and 8 s with four"
    assert read.cells["HDFS"].seconds == pytest.approx(8)
    assert write.cells["HDFS"].gb_per_core_hour == pytest.approx(2 / 2 / 16 * 3600), "2 GB were written"
    assert write.cells["HDFS"].stored_bytes == GB, "but only one is stored at a time"


def test_a_query_that_failed_anywhere_is_in_no_stores_time() -> None:
    found = stores.store_matrix([tpcds("HDFS"), tpcds("Ceph 3x", failing="q42")])
    (row,) = found.rows
    assert row.left_out == ("q42",)
    assert row.cells["HDFS"].seconds == pytest.approx(1.0)
    assert row.cells["HDFS"].stored_bytes == 25 * 10**6


def test_the_mean_over_the_workloads_is_geometric_and_of_those_that_both_completed() -> None:
    runs = [
        *(timed("etl", name, seconds=seconds) for name, seconds in (("HDFS", 10.0), ("embedded", 20.0))),
        *(timed("kmeans", name, seconds=seconds) for name, seconds in (("HDFS", 10.0), ("embedded", 5.0))),
        timed("terasort", "HDFS"),
    ]
    found = stores.store_matrix(runs)
    assert len(found.rows) == 3
    assert found.mean_time(found.stores[1]) == pytest.approx(1.0), "twice as slow once and twice as fast once"
    assert found.ratio(found.rows[2], found.stores[1]) is None


def test_the_baseline_is_the_first_arm_or_the_one_that_is_named() -> None:
    runs = [timed("etl", "embedded"), timed("etl", "HDFS")]
    assert stores.store_matrix(runs).baseline.name == "embedded"
    assert stores.store_matrix(runs, StoreChoices(baseline="HDFS")).baseline.name == "HDFS"


def test_the_protection_of_an_external_store_can_be_given() -> None:
    def foreign(arm: str) -> dict[str, object]:
        return {"name": arm, "kind": "external", "endpoints": [], "store": {"software": "external", "protection": ""}}

    runs = [
        replace(one, description=replace(one.description, lake=foreign(one.description.arm)))
        for one in (timed("etl", "HDFS"), timed("etl", "Ceph 4+2"))
    ]
    found = stores.store_matrix(runs)
    assert found.relative(found.rows[0], found.stores[1]) is None
    chosen = StoreChoices(protections={"HDFS": cost.parse_protection("3x"), "Ceph 4+2": cost.parse_protection("8+3")})
    found = stores.store_matrix(runs, chosen)
    assert found.capacity(found.stores[1]) == pytest.approx(1.375 / 3)


def test_a_run_of_an_older_release_that_recorded_no_store_is_compared_by_time() -> None:
    older = {"name": "old", "kind": "external", "endpoints": []}
    one = timed("etl", "HDFS")
    found = stores.store_matrix(
        [replace(one, description=replace(one.description, lake=older)), timed("etl", "embedded")]
    )
    assert found.ratio(found.rows[0], found.stores[1]) is not None
    assert found.capacity(found.stores[1]) is None


def on(one: Run, **changed: Any) -> Run:
    return replace(one, description=replace(one.description, **changed))


def test_each_cluster_of_a_workload_is_a_row_of_its_own() -> None:
    larger = [on(timed("etl", name), size=size(4)) for name in ("HDFS", "embedded")]
    runs = [timed("etl", "HDFS"), timed("etl", "embedded"), *larger]
    found = stores.store_matrix(runs)
    assert [list(row.cells) for row in found.rows] == [["HDFS", "embedded"]] * 2
    assert [label.rpartition("; ")[2] for label in row_labels(found)] == [
        "1 executor of 2 cores, 2.0 GiB",
        "4 executors of 2 cores, 2.0 GiB",
    ]


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"size": size(4)}, "cluster size"),
        ({"profile": "etl"}, "profile"),
        ({"settings": {"spark.x": "1"}}, "settings"),
        ({"launcher": "plain"}, "launcher"),
    ],
)
def test_another_cluster_is_not_another_store(changed: dict[str, Any], difference: str) -> None:
    with pytest.raises(ValueError, match=f"etl: the arms HDFS, embedded differ in {difference}, not only in the store"):
        stores.store_matrix([timed("etl", "HDFS"), on(timed("etl", "embedded"), **changed)])


def test_eight_workloads_on_four_stores_make_a_whole_table() -> None:
    found = stores.store_matrix(eight())
    assert len(found.rows) == 8
    assert all(list(row.cells) == list(STORES) for row in found.rows)


def test_the_price_of_raw_capacity_is_that_of_the_drives_it_fills() -> None:
    """A TB on three copies, drives filled to 80 %, at 15 a TB: 15 × 3 / 0.8 = 56.25; on 4+2 half of that."""
    assert stores.capacity_price(PRICES, DISKS, cost.parse_protection("3x")) == pytest.approx(56.25)
    assert stores.capacity_price(PRICES, DISKS, cost.parse_protection("4+2")) == pytest.approx(28.125)


@pytest.mark.parametrize(
    ("runs", "chosen", "why"),
    [
        ([timed("etl", "HDFS")], StoreChoices(), "all runs are of one arm"),
        (
            [timed("etl", "HDFS"), timed("etl", "embedded")],
            StoreChoices("S3"),
            "there is no arm S3; the arms are HDFS, embedded",
        ),
        ([timed("etl", "HDFS")] * 2 + [timed("etl", "embedded")], StoreChoices(), "measured twice on HDFS"),
        ([run("etl", [], arm="a"), run("etl", [], arm="b")], StoreChoices(), "no workload was completed"),
        (
            [timed("etl", "HDFS"), run("kmeans", [], arm="HDFS", lake=lake("embedded")), timed("etl", "embedded")],
            StoreChoices(),
            "the arm HDFS has different lakes in different workloads",
        ),
    ],
)
def test_runs_that_make_no_table_are_refused_with_the_reason(runs: list, chosen: StoreChoices, why: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValueError, match=why):
        stores.store_matrix(runs, chosen)


def test_a_difference_that_is_shown_alone_may_be_chance_among_many_cells() -> None:
    def measured(workload: str, store: str, *seconds: float) -> Run:
        rounds = [
            sample
            for number, took in enumerate(seconds, start=1)
            for sample in repetition(number, [measure(workload, took, bytes=GB)])
        ]
        return run(workload, rounds, arm=store, lake=lake(store), experiment=workload)

    def pair(workload: str, *ratios: float) -> list[Run]:
        return [
            measured(workload, "HDFS", *[10.0] * 5),
            measured(workload, "Ceph 3x", *(10 * ratio for ratio in ratios)),
        ]

    suspect = pair("etl", 1.05, 1.03, 1.07, 1.02, 1.06)
    others = [run for name in ("kmeans", "terasort", "mixed") for run in pair(name, 1.05, 0.95, 1.04, 0.97, 1.0)]
    alone, among = (stores.store_matrix(runs) for runs in (suspect, [*suspect, *others]))
    (one,), (same, *_) = alone.rows, among.rows
    before, after = alone.ratio(one, alone.stores[1]), among.ratio(same, among.stores[1])
    assert before is not None
    assert after is not None
    assert (before.ratio, before.verdict) == (after.ratio, "slower")
    assert after.verdict == "no difference shown"
    assert (after.p_value or 0) >= len(among.rows) * (before.p_value or 1)
