"""The requests of workers, and their order."""

from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.loadgen.schedule import Request, RequestSequence
from penstock.lab.loadgen.workload import (
    Division,
    Limit,
    Numbers,
    Operation,
    OperationKind,
    Sizes,
    Targets,
    Work,
    parse_sizes,
)

SOME = Targets(Numbers(1, 3, in_turn=True), Numbers(1, 7, in_turn=True))
NAMES = {f"c{container}/o{number}" for container in (1, 2, 3) for number in range(1, 8)}
KIB = Sizes.constant(1024)


def work(*operations: Operation, workers: int = 1, limit: Limit | None = None) -> Work:
    return Work("main", workers, operations, limit or Limit(seconds=1))


def first(count: int, plan: RequestSequence) -> list[Request]:
    return list(itertools.islice(plan, count))


@given(st.integers(1, 40))
def test_preparing_meets_each_object_exactly_once_however_many_workers_there_are(workers: int) -> None:
    preparing = work(Operation(OperationKind.PUT, 1, SOME, KIB), workers=workers, limit=Limit())
    names = [request.name for index in range(workers) for request in RequestSequence(preparing, index, seed=1)]
    assert Counter(names) == Counter(NAMES)


@given(st.integers(1, 30))
def test_workers_that_take_turns_meet_each_object_once_before_one_comes_again(workers: int) -> None:
    reading = work(Operation(OperationKind.GET, 1, SOME), workers=workers)
    rounds = -(-len(NAMES) // workers)
    plans = [first(rounds, RequestSequence(reading, index, seed=1)) for index in range(workers)]
    in_order = [plan[turn].name for turn in range(rounds) for plan in plans]
    assert set(in_order[: len(NAMES)]) == NAMES


def test_operations_come_as_often_as_their_ratios_say() -> None:
    mix = work(
        Operation(OperationKind.GET, 80, SOME),
        Operation(OperationKind.PUT, 15, SOME, KIB),
        Operation(OperationKind.LIST, 5, SOME),
    )
    kinds = Counter(request.kind for request in first(10_000, RequestSequence(mix, 0, seed=1)))
    # Four standard deviations of that many draws, and the seed is fixed.
    assert abs(kinds[OperationKind.GET] - 8000) < 160
    assert abs(kinds[OperationKind.PUT] - 1500) < 143
    assert abs(kinds[OperationKind.LIST] - 500) < 87


def test_a_plan_is_the_same_each_time_and_another_for_each_worker_and_seed() -> None:
    targets = Targets(Numbers(1, 3), Numbers(1, 1000))
    reading = work(Operation(OperationKind.GET, 1, targets), workers=2)
    assert first(50, RequestSequence(reading, 0, seed=1)) == first(50, RequestSequence(reading, 0, seed=1))
    assert first(50, RequestSequence(reading, 0, seed=1)) != first(50, RequestSequence(reading, 1, seed=1))
    assert first(50, RequestSequence(reading, 0, seed=1)) != first(50, RequestSequence(reading, 0, seed=2))


@given(st.integers(1, 12), st.sampled_from([Division.CONTAINER, Division.OBJECT]))
def test_workers_with_parts_of_their_own_do_not_meet(workers: int, division: Division) -> None:
    targets = Targets(Numbers(1, 12), Numbers(1, 12), division=division)
    reading = work(Operation(OperationKind.GET, 1, targets), workers=workers)
    seen = [
        {request.name for request in first(100, RequestSequence(reading, index, seed=1))} for index in range(workers)
    ]
    assert all(left.isdisjoint(right) for left, right in itertools.combinations(seen, 2))


@given(st.integers(1, 5), st.integers(1, 6), st.floats(0.1, 10), st.integers())
def test_a_mixed_load_never_deletes_a_missing_object(workers: int, objects: int, deletes: float, seed: int) -> None:
    targets = Targets(
        Numbers(1, 2, in_turn=True), Numbers(1, workers * objects, in_turn=True), division=Division.OBJECT
    )
    mix = work(
        Operation(OperationKind.DELETE, deletes, targets, churn=True),
        Operation(OperationKind.PUT, 1, targets, KIB, churn=True),
        workers=workers,
    )
    for index in range(workers):
        there = {targets.name(c, n) for c in (1, 2) for n in range(1, workers * objects + 1)}
        for request in first(200, RequestSequence(mix, index, seed)):
            if request.kind is OperationKind.DELETE:
                assert request.name in there
                there.remove(request.name)
            else:
                there.add(request.name)


def test_deleting_alone_ends_when_everything_is_gone() -> None:
    targets = Targets(Numbers(1, 2, in_turn=True), Numbers(1, 10, in_turn=True), division=Division.OBJECT)
    deleting = work(Operation(OperationKind.DELETE, 1, targets, churn=True), workers=3)
    names = [request.name for index in range(3) for request in RequestSequence(deleting, index, seed=1)]
    assert len(names) == len(set(names)) == 20


@given(st.integers(0, 100), st.integers(1, 30))
def test_a_number_of_operations_is_shared_out_to_the_last_one(total: int, workers: int) -> None:
    reading = work(Operation(OperationKind.GET, 1, SOME), workers=workers, limit=Limit(operations=total))
    assert sum(len(list(RequestSequence(reading, index, seed=1))) for index in range(workers)) == total


@given(st.integers(1, 10_000), st.integers())
def test_a_range_lies_inside_its_object(length: int, seed: int) -> None:
    ranges = Operation(OperationKind.RANGE, 1, SOME, parse_sizes("u(1,9000)B"), range_bytes=length)
    for request in first(20, RequestSequence(work(ranges), 0, seed)):
        assert request.size is not None
        assert request.length == min(length, request.size)
        assert 0 <= request.start <= request.last < request.size


def test_a_list_is_of_a_container() -> None:
    listing = work(Operation(OperationKind.LIST, 1, SOME))
    assert [request.name for request in first(4, RequestSequence(listing, 0, seed=1))] == ["c1", "c2", "c3", "c1"]
