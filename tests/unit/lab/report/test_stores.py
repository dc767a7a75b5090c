"""The page of stores has the price and the performance of each, and no figure that is unknown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from penstock.errors import InvalidInput
from penstock.lab.analysis.stores import StoreChoices
from penstock.lab.records import Run
from penstock.lab.report import report, stores
from penstock.lab.report.elements.render import Document, Plot, Table
from tests.unit.lab.lab_runs import check, repetition, terasort
from tests.unit.lab.store_runs import eight, lake, timed, tpcds


def table(document: Document, title: str, number: int = 0) -> list[list[str]]:
    (section,) = (section for section in document.sections if section.title == title)
    found = [part for part in section.parts if isinstance(part, Table)][number]
    return [list(found.columns), *(list(row) for row in found.rows)]


@pytest.fixture(scope="session")
def page() -> Document:
    """The page of all eight workloads, which takes seconds to generate."""
    return stores.document(eight())


def test_the_headline_has_time_and_price_of_every_store() -> None:
    found = stores.document([timed("enrichment", name, rounds=5) for name in ("HDFS", "Ceph 3x", "Ceph 4+2")])
    assert found.result == (
        "Over 1 workload, against HDFS: Ceph 3x takes 1.05× the time at the same price of raw capacity; "
        "Ceph 4+2 takes 1.37× the time at 0.5× the price."
    )
    assert found.good


def test_the_stores_are_listed_with_their_protection_and_the_price_of_their_capacity(page: Document) -> None:
    """With the packaged prices a TB on hard disks is 16 USD, and they are filled to 80 %: 16 × 3 / 0.8 = 60."""
    rows = table(page, "Stores")
    assert rows[1] == ["HDFS", "3x", "3×", "60.00", "1×", "1×", "1×"]
    assert rows[3] == ["Ceph 4+2", "4+2", "1.5×", "30.00", "1.37×", "0.5×", "0.685×"]


def test_bytes_are_reported_as_users_store_them_and_as_they_are_on_drives(page: Document) -> None:
    rows = table(page, "Bytes and throughput")
    assert rows[0] == ["workload", "stored", "raw, HDFS", "raw, Ceph 3x", "raw, Ceph 4+2", "raw, embedded"]
    assert ["TeraSort", "10.0 GB", "30.0 GB", "30.0 GB", "15.0 GB", "10.0 GB"] in rows


def test_each_store_has_a_figure_of_its_price_beside_its_performance(page: Document) -> None:
    plots = [part for section in page.sections for part in section.parts if isinstance(part, Plot)]
    assert [plot.name for plot in plots] == ["performance", "price-1", "price-2", "price-3"]
    price, performance = plots[2].figure["data"]
    assert price["x"] == [0.5] * 8
    assert performance["x"] == [pytest.approx(1 / 1.37)] * 8
    assert len({tuple(plot.figure["layout"]["xaxis"]["range"]) for plot in plots}) == 1, "they have one scale"


def test_the_stores_work_stands_beside_the_applications_and_reading_and_writing_are_metered_once(
    page: Document,
) -> None:
    rows = table(page, "Work of the stores")
    assert rows[1][0] == "DFSIO"
    assert [row[0] for row in rows].count("DFSIO") == 1
    assert ["Enrichment", "10 (150)", "10.5 (158)", "13.7 (206)", "8 (120)"] in rows
    daemons = table(page, "Work of the stores", 2)
    assert ["TeraSort", "Ceph 3x", "osd.1", "1.05", "400.0 MiB", "100 MB", "1.00 GB"] in daemons
    assert not any(row[1] == "HDFS" for row in daemons[1:]), "one process is the whole store"


def test_workloads_that_differ_only_in_an_option_are_distinguished() -> None:
    runs = [one for name in ("HDFS", "embedded") for one in (tpcds(name), tpcds(name))]
    for number, one in enumerate(runs):
        one.description.options["scale"] = 0.1  # type: ignore[index]
        one.description.options["layout"] = ("by-day", "by-size")[number % 2]  # type: ignore[index]
    rows = table(stores.document(runs), "Time")
    assert [row[0] for row in rows[1:]] == ["TPC-DS, scale 0.1, layout by-day", "TPC-DS, scale 0.1, layout by-size"]


def test_a_comparison_lists_a_different_medium_of_the_metadata() -> None:
    slow, fast = timed("etl", "Ceph 3x"), timed("etl", "Ceph 3x")
    store = {**fast.description.lake["store"], "layout": {"metadata": "/dev/vda, ext4"}}
    slow = Run(replace(slow.description, id="slow", lake={**slow.description.lake, "store": store}), slow.samples)
    rows = table(report.document([slow, fast]), "Differences")
    assert ["store, metadata", "/dev/vda, ext4", "tmpfs"] in rows


def test_what_is_wrong_is_said_first() -> None:
    wrong = timed("etl", "HDFS")
    samples = [*wrong.samples, *repetition(4, [check("rows", False, "one is missing")])]
    found = stores.document(
        [Run(wrong.description, tuple({"at_ms": 0, **one} for one in samples)), timed("etl", "embedded")]
    )
    assert found.headline.startswith("Failed check")
    assert found.doubts[0].sentence.startswith("ETL on HDFS: 1 check failed (rows). ")
    assert not found.good


def test_an_arm_that_failed_says_why_and_the_others_are_compared() -> None:
    runs = [timed("etl", name) for name in ("HDFS", "Ceph 3x", "embedded")]
    runs[1] = broken(runs[1], "no OSD")
    found = stores.document(runs)
    assert found.headline.startswith("Failed round, ")
    assert found.doubts[0].sentence.startswith("ETL on Ceph 3x: 2 of 2 rounds failed (no. 1, 2). ")
    assert "Over 1 workload, against HDFS: embedded takes 0.8× the time" in found.headline
    assert table(found, "Failures")[1:] == [["ETL on Ceph 3x", "1, 2", "✗ no OSD"]]
    assert table(found, "Time")[1][3] == "✗ failed"


def test_arms_of_one_workload_are_compared_without_the_one_that_failed() -> None:
    hdfs, ceph, embedded = (timed("etl", name) for name in ("HDFS", "Ceph 3x", "embedded"))
    for runs in ([broken(hdfs, "no OSD"), ceph, embedded], [broken(hdfs, "no OSD"), ceph]):
        found = report.document(runs)
        assert found.headline.startswith("Failed round")
        assert found.doubts[0].sentence.startswith("HDFS: 2 of 2 rounds failed (no. 1, 2). ")
        assert table(found, "Failures")[1:] == [["HDFS", "1, 2", "✗ no OSD"]]
        assert not found.good
    assert "Ceph 3x" in report.document([broken(hdfs, "a"), broken(ceph, "b")]).doubts[0].sentence


def broken(run: Run, why: str) -> Run:
    ends = [{"kind": "repetition", "repetition": number, "status": "failed", "error": why} for number in (1, 2)]
    return replace(run, samples=tuple({"at_ms": 0, "attempt": 1, "elapsed_ms": 0, **end} for end in ends))


def test_another_baseline_turns_the_comparison_round() -> None:
    question = stores.StoreOptions(StoreChoices(baseline="Ceph 4+2"))
    rows = table(stores.document([timed("etl", "HDFS"), timed("etl", "Ceph 4+2")], question), "Stores")
    assert [row[0] for row in rows[1:]] == ["Ceph 4+2", "HDFS"]
    assert rows[2][4:] == ["0.73×", "2×", "1.46×"]


def test_runs_of_several_workloads_are_reported_as_stores_in_every_form(page: Document) -> None:
    runs = eight()
    assert report.document(runs).headline == page.headline
    written = json.loads(report.as_json(runs))
    assert written["stores"]["Ceph 4+2"]["raw_factor"] == 1.5
    cell = written["workloads"]["K-means"]["Ceph 4+2"]
    assert (cell["raw_bytes"], cell["price_performance"]) == (15e9, pytest.approx(0.685))
    assert "## Relative price and performance: Ceph 4+2" in report.as_markdown(runs)


def test_runs_of_several_workloads_that_share_no_arm_are_refused() -> None:
    with pytest.raises(InvalidInput, match="different things") as raised:
        report.document([terasort(lake=lake("embedded")), timed("etl", "HDFS")])
    assert "no two arms completed the same workload" in raised.value.why
