"""Every comparison has memory and requests of the arms beside their processor time."""

from __future__ import annotations

import itertools
from typing import Any

from penstock.lab.records import Run
from penstock.lab.report import report
from penstock.lab.report.elements.render import Document, Section, Table, terminal_tables
from tests.unit.lab import lab_runs
from tests.unit.lab.store_runs import timed


def arm(name: str, *, gets: int | None, executors: int = 1, seconds: float = 10.0, at_store: int | None = None) -> Run:
    samples: list[dict[str, Any]] = []
    for number, more in enumerate((0, 1, 2), start=1):
        application = lab_runs.application("power", core_seconds=20.0 + more)
        query = {"kind": "query", "query": "q3", "iteration": 1, "status": "ok", "elapsed_ms": 1000 * seconds}
        reads = {"reads": {"item": {"files": 4, "bytes": 1}}}
        lake = {} if gets is None else {"lake": {"requests_get": gets + more}}
        application["summary"] = {} if gets is None else application["summary"]
        counted = {} if at_store is None else {"store_requests": {"GET": at_store + more, "PUT": 5, "POST": 2}}
        usage = {"kind": "usage", "elapsed_ms": 1000, **counted}
        samples += lab_runs.repetition(number, [application, {**query, **reads, **lake}, usage])
    return lab_runs.run("tpcds", samples, arm=name, size=lab_runs.size(executors))


def table(page: Document) -> tuple[Section, Table]:
    (section,) = [section for section in page.sections if section.title == "Resources"]
    (found,) = section.parts
    assert isinstance(found, Table)
    assert found in terminal_tables(page)
    return section, found


def test_two_arms_are_compared_by_memory_and_requests_too() -> None:
    page = report.document([arm("plain Spark", gets=None), arm("Penstock", gets=8)])
    section, found = table(page)
    assert found.columns == [
        *("arm", "core-seconds", "core-seconds, range", "peak memory", "peak memory, range"),
        *("GETs", "GETs, range", "GETs per opened file", "GETs per opened file, range"),
    ]
    plain, ours = found.rows
    assert plain[:4] == ["plain Spark", "21", "20–22", "1.5 GiB"]
    assert ours[5:] == ["9", "8–10", "2.25", "2–2.5"]
    assert plain[5:] == [""] * 4
    assert "those of plain Spark, and those at this store, are not counted." in section.note
    assert page.data["resources"]["Penstock"]["gets_per_opened_file"] == [2, 2.25, 2.5]


def test_requests_of_all_arms_are_those_that_the_store_counted() -> None:
    page = report.document([arm("plain Spark", gets=None, at_store=40), arm("Penstock", gets=8, at_store=12)])
    section, found = table(page)
    assert list(found.columns[5:]) == [
        *("GETs", "GETs, range", "GETs per opened file", "GETs per opened file, range"),
        *("PUTs", "other requests"),
    ]
    assert [row[5:] for row in found.rows] == [
        ["41", "40–42", "10.2", "10–10.5", "5", "2"],
        ["13", "12–14", "3.25", "3–3.5", "5", "2"],
    ]
    assert "where no other client used the store" in section.note
    assert page.data["resources"]["plain Spark"]["requests"][0] == {"GET": 40, "PUT": 5, "POST": 2}


def test_one_table_has_one_instrument() -> None:
    page = report.document([arm("elsewhere", gets=8), arm("Penstock", gets=8, at_store=12)])
    assert [row[5] for row in table(page)[1].rows] == ["9", "9"]
    assert page.data["resources"]["Penstock"]["requests_counted_by"] == "client"


def test_a_single_run_has_the_requests_at_its_store() -> None:
    usage = {"kind": "usage", "elapsed_ms": 1000}
    rounds = [
        lab_runs.repetition(number, [lab_runs.measure("sort", 2.0), {**usage, "store_requests": {"GET": 11 + number}}])
        for number in (1, 2, 3)
    ]
    page = report.document([lab_runs.run("terasort", itertools.chain(*rounds))])
    (section,) = [section for section in page.sections if section.title == "Store, disk and machine"]
    (found,) = [part for part in section.parts if isinstance(part, Table)]
    assert ("store, GET requests", "13", "12 to 14") in found.rows


def test_a_curve_of_sizes_and_a_table_of_stores_have_them_as_well() -> None:
    curve = report.document([arm(f"{n} executors", gets=4, executors=n, seconds=20 / n) for n in (1, 2, 4)])
    assert [row[0] for row in table(curve)[1].rows] == ["1 executors", "2 executors", "4 executors"]
    stores = report.document([timed(work, store) for work in ("etl", "kmeans") for store in ("HDFS", "embedded")])
    assert [row[5] for row in table(stores)[1].rows] == ["320"] * 4


def test_without_applications_there_is_no_such_table() -> None:
    runs = [lab_runs.objects(seconds=5, arm=name) for name in ("a", "b")]
    assert not [section for section in report.document(runs).sections if section.title == "Resources"]
