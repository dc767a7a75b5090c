"""Reports show the reads of queries beside their times, for one run and for two arms of which one reads less."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.lab.analysis.resources import query_reads
from penstock.lab.records import Run
from penstock.lab.report import report
from penstock.lab.report.elements.render import Document, Table
from tests.unit.lab import lab_runs as made

Reads = Mapping[str, tuple[int, int]]


def query(name: str, seconds: float, reads: Reads, *, gets: int = 0, iteration: int = 1) -> dict[str, Any]:
    return {
        "kind": "query",
        "query": name,
        "iteration": iteration,
        "started_ms": 0,
        "elapsed_ms": seconds * 1000,
        "rows": 1,
        "status": "ok",
        "reads": {table: {"files": files, "bytes": size} for table, (files, size) in reads.items()},
        "lake": {"requests_get": gets, "bytes_received": 1000 * gets},
    }


def arm(name: str, queries: Mapping[str, tuple[list[float], Reads]], more: list[dict[str, Any]] | None = None) -> Run:
    """The seconds of each query in each round, with the same reads in all of them."""
    rounds = len(next(iter(queries.values()))[0])
    samples = list(more or [])
    for number in range(rounds):
        work = [
            query(one, seconds[number], reads, gets=2 * sum(files for files, _ in reads.values()))
            for one, (seconds, reads) in queries.items()
        ]
        samples += made.repetition(number + 1, work)
    return made.run("tpcds", samples, arm=name)


WITHOUT = {
    "q3": ([2.0, 2.1, 2.0, 2.0, 2.1], {"store_sales": (100, 10**6), "item": (1, 10)}),
    "q72": ([10.0, 10.2, 9.9, 10.0, 10.0], {"inventory": (90, 10**7), "catalog_sales": (50, 10**6)}),
    "q9": ([4.0, 4.1, 4.0, 4.0, 4.1], {"store_sales": (100, 10**6)}),
    "q10": ([1.0, 1.01, 1.0, 1.0, 1.0], {"store_sales": (100, 10**6)}),
}
WITH = {
    "q3": ([1.8, 1.8, 1.8, 1.8, 1.8], {"store_sales": (60, 6 * 10**5), "item": (1, 10)}),
    "q72": ([2.5, 2.4, 2.6, 2.5, 2.5], {"inventory": (9, 10**6), "catalog_sales": (40, 8 * 10**5)}),
    "q9": ([4.4, 4.5, 4.4, 4.4, 4.5], {"store_sales": (100, 10**6)}),
    "q10": ([1.04, 0.99, 1.2, 1.02, 1.04], {"store_sales": (100, 10**6)}),
}


def table(document: Document, title: str) -> Table:
    (section,) = [section for section in document.sections if section.title == title]
    (part,) = section.parts
    assert isinstance(part, Table)
    return part


def rows(found: Table) -> dict[str, tuple[str, ...]]:
    return {row[0]: tuple(row[1:]) for row in found.rows}


def compared() -> Document:
    return report.document([arm("without", WITHOUT), arm("with", WITH)])


def test_queries_that_gained_and_lost_are_counted_and_a_loss_without_a_verdict_is_distinguished() -> None:
    counted = rows(table(compared(), "Gains of with"))
    assert counted["gained more than 5%"] == ("2", "q72 +75 %, q3 +12 %")
    assert counted["gained more than 40%"] == ("1", "q72 +75 %")
    assert counted["lost more than 3%"] == ("2", "q9 -10 %, q10 -5 %")
    assert counted["lost more than 3%, verdict “slower”"] == ("1", "q9 -10 %")


def test_of_many_queries_that_gained_those_that_gained_most_are_named() -> None:
    seconds = {f"q{number}": 1 + number / 100 for number in range(1, 21)}
    reads = {"store_sales": (100, 10**6)}
    slow = {name: ([2 * each] * 5, reads) for name, each in seconds.items()}
    fast = {name: ([1.0] * 5, reads) for name in seconds}
    counted = rows(table(report.document([arm("without", slow), arm("with", fast)]), "Gains of with"))
    count, named = counted["gained more than 40%"]
    assert count == "20"
    assert named.startswith("q20 +58 %, q19 +58 %, ")
    assert named.endswith(", q9 +54 % and 8 more")


def test_with_too_few_rounds_no_loss_has_a_verdict() -> None:
    two = [{name: (seconds[:2], reads) for name, (seconds, reads) in side.items()} for side in (WITHOUT, WITH)]
    counted = rows(table(report.document([arm("without", two[0]), arm("with", two[1])]), "Gains of with"))
    assert counted["lost more than 3%"] == ("1", "q9 -10 %")
    assert counted["lost more than 3%, verdict “slower”"][0] == "0"


def test_a_query_shows_both_arms_files_bytes_and_requests_and_the_tables_that_made_the_difference() -> None:
    found = table(compared(), "Reads: with")
    files, size, gets, gets_per_file, read, seconds, ratio, tables = rows(found)["q72"]
    assert (files, size, gets, read) == ("140 → 49", "11.0 MB → 1.80 MB", "280 → 98", "280 kB → 98.0 kB")
    assert gets_per_file == "2", "both arms sent two for each file"
    assert (seconds, ratio) == ("10.00 → 2.50", "0.249")
    assert tables == "inventory 90 → 9, catalog_sales 50 → 40"
    assert rows(found)["q9"][:3] == ("100", "1.00 MB", "200")
    assert rows(found)["q9"][-1] == ""
    assert rows(found)["total"][0] == "441 → 310"


def test_the_json_form_has_each_arms_reads_by_query_and_table() -> None:
    reads = compared().data["reads"]
    assert reads["with"]["q72"]["files"] == {"inventory": 9, "catalog_sales": 40}
    assert reads["without"]["q72"]["gets"] == 280


def test_a_query_whose_files_vary_has_the_median_of_its_executions() -> None:
    work = [query("q1", 1, {"item": (files, 10)}, gets=files, iteration=files) for files in (1, 3, 9)]
    found = query_reads(made.run("tpcds", made.repetition(1, work)))
    assert (found["q1"].all_files, found["q1"].gets) == (3, 3)


def test_failed_queries_and_warm_up_do_not_count_as_reads() -> None:
    failed = {**query("q1", 1, {"item": (5, 5)}), "status": "failed", "error": "boom"}
    samples = made.repetition(0, [query("q2", 1, {"item": (7, 7)})]) + made.repetition(1, [failed])
    assert query_reads(made.run("tpcds", samples)) == {}


def test_runs_of_before_reads_were_recorded_compare_as_ever() -> None:
    def old(name: str) -> Run:
        samples = [{k: v for k, v in query("q1", 1, {}).items() if k not in ("reads", "lake")}]
        return made.run("tpcds", made.repetition(1, samples), arm=name)

    for document in (report.document([old("a"), old("b")]), report.document([old("a")])):
        assert not [section for section in document.sections if "Reads" in section.title]


def test_files_are_reported_without_requests_where_those_were_not_counted() -> None:
    plain = {k: v for k, v in query("q1", 1, {"item": (5, 5)}).items() if k != "lake"}
    found = table(report.document([made.run("tpcds", made.repetition(1, [plain]))]), "Reads per query")
    assert rows(found)["q1"] == ("5", "5 B", "", "", "")


def test_the_cost_of_the_index_is_that_of_the_arm_that_built_it_per_thousand_files() -> None:
    built = {"kind": "index", "table": "inventory", "files": 500, "build_ms": 4000.0, "refresh_ms": 250.0}
    document = report.document([arm("without", WITHOUT), arm("with", WITH, [built])])
    assert rows(table(document, "Skipping index"))["inventory"] == ("500", "4.00", "8.00", "0.250")


def test_each_of_three_arms_is_set_against_the_first() -> None:
    titles = [
        section.title
        for section in report.document([arm("a", WITHOUT), arm("b", WITH), arm("c", WITH)]).sections
        if "Gains" in section.title
    ]
    assert titles == ["Gains of b", "Gains of c"]
