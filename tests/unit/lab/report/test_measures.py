"""The report of any workload states failures first, then speed, then cost."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from penstock.lab.analysis.samples import failed_checks
from penstock.lab.records import Run
from penstock.lab.report import report
from penstock.lab.report.elements.render import Document, Plot, Table, terminal_tables
from tests.unit.lab import lab_runs, store_runs
from tests.unit.lab.lab_runs import GB, check, measure, repetition

RUNS = {
    "timed work": lab_runs.terasort,
    "curves": lab_runs.dfsio,
    "load": lab_runs.objects,
    "gone wrong": lab_runs.terasort_gone_wrong,
}


def titles(document: Document) -> list[str]:
    return [section.title for section in document.sections]


def figures(document: Document) -> dict[str, tuple[str, str]]:
    return {figure.label: (figure.value, figure.detail) for figure in document.key_figures}


def table(document: Document, title: str) -> list[dict[str, str]]:
    section = next(section for section in document.sections if section.title == title)
    (found,) = (part for part in section.parts if isinstance(part, Table))
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def test_the_headline_says_what_was_done_how_fast_and_that_it_is_right() -> None:
    assert report.document([lab_runs.terasort()]).headline == (
        "TeraSort on 2 cores: generate 4.16 s (1.00 GB, 240 MB/s), sort 12.5 s (1.00 GB, 80.1 MB/s), "
        "validate 2.50 s (1.00 GB, 401 MB/s); all 8 checks passed."
    )


def test_work_against_clients_is_summarised_by_its_best_rate() -> None:
    headline = report.document([lab_runs.dfsio()]).headline
    assert "write reaches 380 MB/s with 16 clients, read reaches 887 MB/s with 16 clients" in headline


def test_unchecked_work_is_reported_as_such() -> None:
    run = lab_runs.run("sorting", repetition(1, [measure("sort", 1)]))
    assert report.document([run]).headline == "Unchecked answer. Sorting: sort 1.00 s; nothing was checked."


def test_a_wrong_check_comes_first_and_a_failed_repetition_next() -> None:
    document = report.document([lab_runs.terasort_gone_wrong()])
    assert document.headline.startswith("Failed check, failed round. TeraSort on 2 cores: ")
    assert document.headline.endswith("; 8 of 9 checks passed.")
    assert [doubt.sentence.partition(". The")[0] for doubt in document.doubts] == [
        "1 check failed (order)",
        "1 of 4 rounds failed (no. 4). No figure includes a failed round; the reasons are listed below.",
    ]
    assert not document.good
    assert titles(document)[:2] == ["Failed checks", "Failures"]
    assert table(document, "All measures")[1]["times"] == "3", "the fourth failed"


def test_a_failed_repetition_is_said_first_where_nothing_was_wrong() -> None:
    run = lab_runs.terasort(more=repetition(4, [measure("sort", 1000)], error="no space left"), outcome="failed")
    document = report.document([run])
    assert document.headline.startswith("Failed round. ")
    assert document.doubts[0].sentence.startswith("1 of 4 rounds failed (no. 4). ")
    assert not document.good
    assert "1000" not in report.as_markdown([run])


def test_key_figures_price_the_work_of_the_application() -> None:
    found = figures(report.document([lab_runs.terasort()]))
    assert found["GB per core and hour"] == ("144", "sort")  # 1 GB / 2 cores / 12.48 s × 3600
    assert found["Core-seconds per GB"] == ("22.5", "sort")
    assert found["Checks passed"][0] == "8 of 8"


def test_a_workload_without_applications_has_no_cores_to_divide_by() -> None:
    document = report.document([lab_runs.objects()])
    assert "core" not in document.headline
    assert "GB per core and hour" not in figures(document)


def test_resources_of_the_machine_are_reported_where_they_were_metered() -> None:
    usage = {"kind": "usage", "store_core_seconds": 3.25, "disk_busy_share": 0.4215, "disk_written_bytes": 2 * GB}
    document = report.document([lab_runs.run("sorting", repetition(1, [measure("sort", 1), usage]))])
    assert table(document, "Store, disk and machine") == [
        {"": "store, core-seconds", "median": "3.25"},
        {"": "shuffle disk, busy", "median": "42 %"},
        {"": "shuffle disk, written", "median": "2.00 GB"},
    ]
    assert figures(document)["Core-seconds of the store"][0] == "3.25"


def test_bytes_that_spark_does_not_count_are_reported_by_origin() -> None:
    lake = {"bytes_received": 50_000_000, "bytes_from_memory": 900_000_000, "bytes_from_store": 100_000_000}
    samples = [lab_runs.application("sort", core_seconds=2, bytes_read=0, lake=lake)]
    rows = {row[""]: row["sort"] for row in table(report.document([lab_runs.run("terasort", samples)]), "Resources")}
    assert rows["read from cache"] == "90.0%"
    assert rows["read from memory"] == "900 MB" and rows["received from the store"] == "50.0 MB"
    assert "sent to the store" not in rows, "what was not counted is not zero"


def test_a_generator_near_its_ceiling_is_no_measure_of_the_store() -> None:
    def load(share: float) -> Run:
        errors = {"kind": "errors", "name": "get", "errors": {"503": 2, "timeout": 7}, "first": {"503": "slow down"}}
        work = measure("get", 30, basis="rate", operations=900, of_ceiling=share)
        ceiling = {"kind": "ceiling", "name": "get", "operations_per_second": 900.0, "bytes_per_second": 3e9}
        return lab_runs.run("objects", [ceiling, *repetition(1, [work, errors])])

    assert table(report.document([load(0.93)]), "Load generator")[0]["limited by the store"].startswith("✗")
    document = report.document([load(0.2)])
    assert table(document, "Load generator")[0] == {
        "operation": "get",
        "ceiling, operations/s": "900",
        "ceiling": "3.00 GB/s",
        "share of ceiling": "20 %",
        "limited by the store": "✓",
    }
    assert [row["error"] for row in table(document, "Errors")] == ["timeout", "503"]
    assert titles(document).count("Errors") == 1


def test_errors_of_a_program_on_the_jvm_have_its_one_message() -> None:
    errors = {"kind": "errors", "name": "put", "errors": {"HTTP 503": 3}, "first": "Slow Down"}
    run = lab_runs.run("ingest", repetition(1, [measure("put", 30, operations=900), errors]))
    (row,) = table(report.document([run]), "Errors")
    assert (row["count"], row["first message"]) == ("3", "✗ Slow Down")


def test_a_comparison_shows_the_requests_that_failed() -> None:
    def load(arm: str, failed: int) -> Run:
        errors = {"kind": "errors", "name": "put", "errors": {"overloaded": failed}, "first": {}}
        rounds = [
            repetition(number, [measure("put", 30, operations=1000), check("put"), *([errors] if failed else [])])
            for number in range(1, 6)
        ]
        return lab_runs.run("objects", [sample for one in rounds for sample in one], arm=arm)

    document = report.document([load("A", 0), load("B", 50_000)])
    assert not document.good
    assert [(row["run"], row["count"]) for row in table(document, "Errors")] == [("B", "250\u202f000")]


def test_the_terminal_shows_what_the_question_was_and_not_how_to_run_it_again() -> None:
    document = report.document([lab_runs.objects()])
    columns = [table.columns[0] for table in terminal_tables(document)]
    assert columns == ["measure", "operation"]


@pytest.mark.parametrize("name", RUNS)
def test_every_plot_has_a_summary_and_a_unique_name(name: str) -> None:
    parts = [part for section in report.document([RUNS[name]()]).sections for part in section.parts]
    plots = [part for part in parts if isinstance(part, Plot)]
    assert plots
    assert len({plot.name for plot in plots}) == len(plots)
    assert all(len(plot.summary) > 10 for plot in plots)


@pytest.mark.parametrize("name", RUNS)
def test_bars_start_at_zero(name: str) -> None:
    for section in report.document([RUNS[name]()]).sections:
        for part in section.parts:
            if isinstance(part, Plot) and any(trace["type"] == "bar" for trace in part.figure["data"]):
                assert part.figure["layout"]["xaxis"]["rangemode"] == "tozero"


@pytest.mark.parametrize("name", RUNS)
def test_a_run_cut_short_anywhere_has_a_report_in_every_form(name: str) -> None:
    whole = RUNS[name]()
    for end in (0, 1, 5, len(whole.samples) - 1, len(whole.samples)):
        part = Run(whole.description, whole.samples[:end])
        assert "<h1" in report.as_html([part])
        assert json.loads(report.as_json([part]))["headline"] in report.as_markdown([part])
        if part.outcome == "unfinished" and not failed_checks(part):
            assert report.document([part]).headline.startswith("Unfinished")


def test_two_arms_are_compared_measure_by_measure() -> None:
    arms = [("plain Spark", 20.0), ("Penstock", 10.0)]
    document = report.document([lab_runs.terasort(seconds=s, arm=arm, repetitions=5) for arm, s in arms])
    assert document.result == (
        "Penstock took 0.5× the time of plain Spark over 3 measures in 5 rounds: 16.3 s against 32.5 s; "
        "no measure has the verdict “slower” and a ratio above 1.1."
    )
    assert [row["measure"] for row in table(document, "All measures")] == ["total", "generate", "sort", "validate"]


def test_loads_are_compared_by_what_was_done_in_the_time() -> None:
    document = report.document([lab_runs.objects(arm="one"), lab_runs.objects(arm="two", faster=2.0)])
    assert document.result.startswith("Two took 0.503× the time of one in the geometric mean over 3 measures")


def test_many_arms_are_set_against_the_first() -> None:
    speeds = (("S3A", 1), ("cache", 1.5), ("again", 1), ("far", 0.5))
    document = report.document([lab_runs.dfsio(arm=arm, faster=by, repetitions=5) for arm, by in speeds])
    assert document.result == (
        "Cache is faster than S3A in 5 rounds: 0.667× its time, the least of 4 arms; no difference shown (again)."
    )
    assert [(row["arm"], row["verdict"]) for row in table(document, "Arms")] == [
        ("S3A", "baseline"),
        ("cache", "faster"),
        ("again", "no difference shown"),
        ("far", "slower"),
    ]


@pytest.mark.parametrize("arms", [2, 3])
def test_the_page_of_any_number_of_arms_has_failures_left_out_measures_and_cache_use(arms: int) -> None:
    lake = {"page_hits": 9, "page_misses": 1, "bytes_from_memory": 9, "bytes_from_store": 1}
    cached = [lab_runs.application("sort", core_seconds=1, s3_requests={"GET": 1}, lake=lake)]
    others = [lab_runs.terasort(arm=f"arm {number}") for number in range(1, arms)]
    failed = repetition(4, [measure("sort", 1)], error="no space left")
    first = lab_runs.terasort(arm="first", more=[*repetition(5, [*cached, measure("extra", 1)]), *failed])
    document = report.document([first, *others])
    assert table(document, "Failures") == [{"run": "first", "repetitions": "4", "reason": "✗ no space left"}]
    assert {row["arm"] for row in table(document, "Page cache")} == {"first"}
    (overview, *_) = (section for section in document.sections if "Left out" in section.note)
    assert overview.note.endswith("Left out of the total, because not every arm completed them: extra.")


def test_a_baseline_that_nothing_beats_is_said_to_be_the_fastest() -> None:
    speeds = (("S3A", 1), ("far", 0.5), ("farther", 0.3))
    arms = [lab_runs.dfsio(arm=arm, faster=by, repetitions=5) for arm, by in speeds]
    assert report.document(arms).result == "S3A is the fastest of 3 arms in 5 rounds."


def test_an_arm_that_is_faster_is_said_to_be_even_if_another_s_noise_hides_a_lower_median() -> None:
    arms = [
        lab_runs.terasort(arm="renaming", seconds=20, repetitions=5),
        lab_runs.terasort(arm="magic", seconds=13, stumble=3, repetitions=5),
        lab_runs.terasort(arm="cache", seconds=19, repetitions=5),
    ]
    assert report.document(arms).result == (
        "Cache is faster than renaming in 5 rounds: 0.95× its time; no difference shown (magic)."
    )


@pytest.mark.parametrize(
    ("rounds", "experiment", "headline"),
    [
        (3, "one", "Too few rounds. Cache took 0.75× the time of renaming in 3 rounds, the least of 3 arms."),
        (5, None, "Not measured in turns. Cache took 0.75× the time of renaming, the least of 3 arms."),
    ],
    ids=["three rounds", "three experiments"],
)
def test_arms_without_a_verdict_have_figures_and_the_reason_once(
    rounds: int, experiment: str | None, headline: str
) -> None:
    arms = [
        lab_runs.terasort(arm=arm, seconds=seconds, repetitions=rounds, experiment=experiment)
        for arm, seconds in (("renaming", 20), ("magic", 19), ("cache", 15))
    ]
    assert report.document(arms).headline == headline


def test_a_measure_that_one_of_three_arms_failed_stays_on_the_page() -> None:
    runs = [store_runs.tpcds("embedded", failing=failing) for failing in ("", "q3", "")]
    named = [Run(replace(run.description, arm=arm), run.samples) for run, arm in zip(runs, "abc", strict=True)]
    document = report.document(named)
    (overview,) = [section for section in document.sections if section.title == "Arms"]
    assert overview.note.endswith("because not every arm completed them: q3 (failed in b).")
    assert table(document, "All queries")[0] == {
        "query": "q3",
        "unit": "s",
        "a": "0.800",
        "b": "✗ failed",
        "c": "0.800 (1×)",
    }


def test_what_was_different_about_the_arms_is_listed_and_nothing_else() -> None:
    arms: list[dict[str, Any]] = [{"settings": {"same": "1", "x": "1"}}, {"settings": {"same": "1", "x": "2"}}]
    runs = [lab_runs.terasort(arm=f"arm {n}", **described) for n, described in enumerate(arms)]
    assert table(report.document(runs), "Differences") == [{"": "x", "arm 0": "1", "arm 1": "2"}]


def test_an_arm_with_a_wrong_result_puts_the_comparison_in_doubt() -> None:
    wrong = lab_runs.terasort(arm="quick", seconds=1, more=[check("order", False)], outcome="wrong")
    document = report.document([lab_runs.terasort(arm="right"), wrong])
    assert document.headline.startswith("Failed check, ")
    assert document.doubts[0].sentence.startswith("quick: 1 check failed (order). ")
    assert not document.good
