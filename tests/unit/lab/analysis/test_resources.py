"""Processor time, memory and requests are those of one repetition, and no sum over several of them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.lab.analysis import resources
from penstock.lab.records import Run
from tests.unit.lab.lab_runs import application, repetition, run

MB = 1 << 20


def used(peak: int | None, *times: int, cores: float | None = 1.0, gets: int | None = None) -> dict[str, Any]:
    """An application with a peak of that many MB, from `times[0]` to `times[1]` where those are known."""
    found = application("power", core_seconds=cores)
    known = {"submitted_ms": times[0], "elapsed_ms": times[1] - times[0]} if times else {}
    requests = {} if gets is None else {"s3_requests": {"GET": gets, "PUT": 9}}
    return {**found, "peak_memory_bytes": None if peak is None else peak * MB, "summary": requests, **known}


def query(files: dict[str, int], gets: int | None, *, status: str = "ok") -> dict[str, Any]:
    lake = {} if gets is None else {"lake": {"requests_get": gets}}
    reads = {table: {"files": count, "bytes": 1} for table, count in files.items()}
    return {"kind": "query", "query": "q3", "iteration": 1, "status": status, "elapsed_ms": 1, "reads": reads, **lake}


def runs(*rounds: list[dict[str, Any]]) -> Run:
    return run("tpcds", [sample for number, of in enumerate(rounds, start=1) for sample in repetition(number, of)])


def test_more_repetitions_are_not_more_processor_time_or_memory() -> None:
    rounds = [[used(100 + number, cores=10 + number)] for number in range(5)]
    found = runs(*rounds)
    assert resources.core_seconds_by_round(found) == [10, 11, 12, 13, 14]
    assert resources.core_seconds(found) == 12
    assert resources.peak_memory(found) == 102 * MB


@pytest.mark.parametrize(
    ("applications", "peak"),
    [
        ([used(100, 0, 10), used(70, 10, 20)], 100),
        ([used(100, 0, 10), used(70, 9, 20)], 170),
        ([used(100, 0, 10), used(70, 2, 5), used(60, 5, 8)], 170),
        ([used(100), used(70)], 100),
    ],
    ids=["one after the other", "overlapping", "two within one", "times unknown"],
)
def test_peaks_add_up_where_applications_are_at_work_at_once(applications: list[dict[str, Any]], peak: int) -> None:
    assert resources.peak_memory_by_round(runs(applications)) == [peak * MB]


def test_a_repetition_with_an_unknown_peak_has_none() -> None:
    assert resources.peak_memory_by_round(runs([used(100), used(None)], [used(90)])) == [90 * MB]
    assert resources.peak_memory(runs([used(None)])) is None


def test_requests_are_those_of_the_queries_over_the_files_that_these_opened() -> None:
    found = runs(
        [query({"item": 2, "store_sales": 8}, 25), query({"item": 2}, 5), query({"item": 100}, 1, status="failed")],
        [query({"item": 2, "store_sales": 8}, 10), query({"item": 2}, 2)],
        [query({"item": 1}, None)],
    )
    assert [(one.gets, one.files, one.gets_per_file) for one in resources.requests_by_round(found)] == [
        (30, 12, 2.5),
        (12, 12, 1.0),
    ]


def test_without_queries_requests_are_those_of_the_applications_and_no_file_is_counted() -> None:
    found = resources.requests_by_round(runs([used(1, gets=7), used(1, gets=5)], [used(1, gets=7), used(1)]))
    assert [(one.gets, one.gets_per_file) for one in found] == [(12, None)]


def test_files_are_those_of_all_applications_of_a_round_or_unknown() -> None:
    def opened(files: int) -> dict[str, Any]:
        return {"kind": "opened", "files": files}

    found = runs(
        [used(1, gets=7), opened(2), used(1, gets=5), opened(4)], [used(1, gets=7), opened(2), used(1, gets=1)]
    )
    assert [(one.gets, one.files) for one in resources.requests_by_round(found)] == [(12, 6), (8, None)]
    counted = runs([used(1), opened(2), at_store({"GET": 30})], [used(1), at_store({"GET": 20})])
    assert [(one.gets, one.gets_per_file) for one in resources.requests_at_store(counted)] == [(30, 15.0), (20, None)]


def at_store(requests: dict[str, int] | None) -> dict[str, Any]:
    return {"kind": "usage", "elapsed_ms": 1000, **({"store_requests": requests} if requests else {})}


def test_requests_at_the_store_are_those_of_the_round_over_all_files_of_its_queries() -> None:
    warm_up = {**query({"item": 2}, None), "warmup": True}
    failed = {"kind": "query", "query": "q7", "iteration": 1, "status": "failed", "elapsed_ms": 1}
    found = runs(
        [warm_up, query({"item": 8}, None), at_store({"GET": 30, "PUT": 4, "LIST": 3, "DELETE": 2})],
        [query({"item": 10}, None), failed, at_store({"GET": 20})],
    )
    first, second = resources.requests_at_store(found)
    assert resources.counted_at_store(found)
    assert (first.gets, first.gets_per_file, first.others("GET", "PUT", "LIST")) == (30, 3.0, 2)
    assert (second.gets, second.gets_per_file, second.others("GET")) == (20, None, None)


def test_a_round_that_the_store_did_not_count_leaves_all_to_the_client() -> None:
    assert not resources.counted_at_store(runs([at_store({"GET": 1})], [at_store(None)]))
    assert not resources.counted_at_store(runs([query({}, 3)]))


def test_a_query_that_opens_no_file_has_no_requests_for_each() -> None:
    reads = resources.query_reads(runs([query({}, 3)]))["q3"]
    assert (reads.gets, reads.gets_per_file) == (3, None)
    assert resources.query_reads(runs([query({"item": 2}, 3)]))["q3"].gets_per_file == 1.5
