"""The recorded samples of a stage."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.loadgen.processes import StageResult
from penstock.lab.loadgen.results import measured_operations, samples
from penstock.lab.loadgen.statistics import WRONG_CONTENT, OperationStats
from penstock.lab.loadgen.workload import Limit, Numbers, Operation, OperationKind, Sizes, Stage, Targets, Work

TARGETS = Targets(Numbers(1, 1), Numbers(1, 9))
GET = Operation(OperationKind.GET, 1, TARGETS, Sizes.constant(1 << 20))


def tally_of(ends: list[float], size: int = 1 << 20) -> OperationStats:
    tally = OperationStats()
    for end in ends:
        tally.succeeded(size, end)
        tally.timed(5000, 2000, end, "c1/o1", "http://g")
    return tally


def taken(
    *tallies: OperationStats, works: tuple[Work, ...] | None = None, ran_out: bool = False, **ceilings: float
) -> list[dict[str, Any]]:
    works = works or (Work("w", 16, (GET,), Limit(seconds=3)),)
    per_work = [[tally] for tally in tallies]
    result = StageResult(Stage("main", works), per_work, [ran_out] * len(works), frozenset(), core_seconds=1.5)
    return list(samples(result, {name.replace("_", " "): rate for name, rate in ceilings.items()}, processes=2))


def of_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [sample for sample in found if sample["kind"] == kind]


def test_a_rate_counts_the_whole_time_and_seconds_without_any_answer_are_shown() -> None:
    found = taken(tally_of([0.1, 0.2, 2.5]))
    (measure,) = of_kind(found, "measure")
    assert measure["name"] == "get 1 MiB, 16 workers"
    assert (measure["elapsed_ms"], measure["operations"], measure["bytes"]) == (3000, 3, 3 << 20)
    assert measure["basis"] == "rate"
    assert [(p["second"], p["operations"]) for p in of_kind(found, "point")] == [(0, 2), (1, 0), (2, 1)]
    assert {sample["phase"] for sample in of_kind(found, "latency")} == {"first_byte", "total"}


def test_work_that_was_through_before_its_time_is_counted_to_its_end() -> None:
    (measure,) = of_kind(taken(tally_of([0.5, 1.5]), ran_out=True), "measure")
    assert measure["elapsed_ms"] == 1500


def test_a_store_that_stopped_answering_is_counted_to_the_end_of_the_time() -> None:
    (measure,) = of_kind(taken(tally_of([0.5])), "measure")
    assert measure["elapsed_ms"] == 3000


def test_wrong_content_is_an_error_and_a_wrong_check() -> None:
    tally = tally_of([0.5])
    tally.failed(WRONG_CONTENT, "c1/o2 differs at byte 7")
    found = taken(tally)
    (check,) = of_kind(found, "check")
    assert not check["right"]
    assert "c1/o2 differs at byte 7" in check["note"]
    assert of_kind(found, "errors")[0]["errors"] == {WRONG_CONTENT: 1}
    assert of_kind(found, "measure")[0]["errors"] == {WRONG_CONTENT: 1}


def test_what_never_succeeded_has_errors_and_no_rate() -> None:
    tally = OperationStats()
    tally.failed("cannot connect", "c1/o1: refused")
    found = taken(tally)
    assert not of_kind(found, "measure") + of_kind(found, "check") + of_kind(found, "point")
    assert of_kind(found, "errors")[0]["first"] == {"cannot connect": "c1/o1: refused"}


def test_only_what_was_tried_in_vain_is_fruitless() -> None:
    never, late, failed = OperationStats(), OperationStats(late=1), OperationStats()
    failed.failed("time-out", "c1/o1")
    works = tuple(Work(name, 1, (GET,), Limit(seconds=3)) for name in "abcd")
    per_work = [[tally] for tally in (never, late, failed, tally_of([0.1]))]
    result = StageResult(Stage("main", works), per_work, [False] * 4, frozenset(), 0.0)
    assert [one.fruitless for one in measured_operations(result)] == [False, True, True, False]


def test_a_rate_is_compared_with_the_generators_own_ceiling() -> None:
    ceilings = {"get 1 MiB, 16 workers": 4.0}
    result = StageResult(
        Stage("main", (Work("w", 16, (GET,), Limit(seconds=3)),)),
        [[tally_of([0.1, 0.2, 2.5])]],
        [False],
        frozenset(),
        1.5,
    )
    (measure,) = of_kind(list(samples(result, ceilings, 2)), "measure")
    assert measure["of_ceiling"] == 0.25


def test_names_are_never_the_same_twice() -> None:
    works = tuple(Work(name, 16, (GET,), Limit(seconds=3)) for name in ("a", "b", "b"))
    found = taken(tally_of([0.1]), tally_of([0.1]), tally_of([0.1]), works=works)
    names = [sample["name"] for sample in of_kind(found, "measure")]
    assert names == ["get 1 MiB, 16 workers", "get 1 MiB, 16 workers, b", "get 1 MiB, 16 workers, b (2)"]


@given(st.lists(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 10**6)), max_size=30), min_size=1, max_size=5))
def test_tallies_of_processes_add_up_to_that_of_one(parts: list[list[tuple[float, int]]]) -> None:
    whole, merged = OperationStats(), OperationStats()
    for part in parts:
        tally = OperationStats()
        for end, amount in part:
            for counting in (tally, whole):
                counting.succeeded(amount, end)
                counting.timed(amount, amount // 2, end, f"c1/o{amount}", "g")
                if amount % 7 == 0:
                    counting.failed("missing object", str(amount))
        merged.merge(tally)
    assert (merged.operations, merged.bytes, merged.elapsed) == (whole.operations, whole.bytes, whole.elapsed)
    assert merged.seconds == whole.seconds
    assert merged.errors == whole.errors
    assert merged.first_error == whole.first_error
    assert merged.total.pairs() == whole.total.pairs()
    assert merged.first_byte.pairs() == whole.first_byte.pairs()
    assert sorted(merged.slowest) == sorted(whole.slowest)
