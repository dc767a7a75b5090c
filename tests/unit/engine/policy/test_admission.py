"""Admission never promises memory twice, and a refusal says what would fit."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.policy import admission
from penstock.model import CORES_PER_CORE, Capacity, ClusterSize, Overhead, ProcessSize, ResourceLimit, promised
from tests.unit.engine.engine_making import GIB, size

overheads = st.one_of(
    st.just(Overhead()),
    st.builds(Overhead, factor=st.floats(0.01, 0.9)),
    st.builds(Overhead, fixed_bytes=st.integers(0, 512).map(lambda mib: mib << 20)),
)
sizes = st.builds(
    ClusterSize,
    st.builds(ProcessSize, st.integers(1, 16), st.integers(512, 64 << 10).map(lambda mib: mib << 20)),
    st.builds(ProcessSize, st.integers(1, 64), st.integers(512, 64 << 10).map(lambda mib: mib << 20)),
    st.integers(0, 40),
    st.one_of(st.just(0), st.integers(1, 64 << 10).map(lambda mib: mib << 20)),
    overheads,
    overheads,
)
bounds = st.one_of(
    st.integers(2, 50).map(lambda most: ResourceLimit("processes", most, lambda size: 1 + size.executors, "wait")),
    st.integers(3, 50).map(lambda most: ResourceLimit("cores", most, lambda size: 1 + promised(size).cores, "wait")),
    st.integers(3, 99).map(
        lambda gib: ResourceLimit("heaps", gib * GIB, lambda size: 2.0 * promised(size).memory_bytes, "wait")
    ),
)
capacities = st.builds(
    Capacity,
    st.integers(1, 64),
    st.integers(3, 256).map(lambda gib: gib * GIB),
    st.one_of(st.just(()), st.lists(bounds, max_size=3).map(tuple)),
)


@given(capacities, st.lists(sizes, max_size=30))
def test_what_started_together_fits_together(capacity: Capacity, wanted: list[ClusterSize]) -> None:
    running: list[ClusterSize] = []
    for one in wanted:
        if admission.room(one, running, capacity) is None:
            running.append(one)
    given = [promised(one) for one in running]
    assert sum(one.memory_bytes for one in given) <= capacity.memory_bytes
    assert sum(one.cores for one in given) <= capacity.cores * CORES_PER_CORE
    for bound in capacity.bounds:
        assert sum(bound.demand(one) for one in running) <= bound.maximum


@given(capacities, sizes)
def test_an_idle_machine_starts_whatever_it_does_not_refuse(capacity: Capacity, wanted: ClusterSize) -> None:
    assert (admission.room(wanted, [], capacity) is None) == (admission.refuse(wanted, capacity) is None)


@given(capacities, sizes)
def test_what_a_refusal_offers_would_start(capacity: Capacity, wanted: ClusterSize) -> None:
    refusal = admission.refuse(wanted, capacity)
    if refusal is None:
        return
    if refusal.fix == "wait":
        small = ProcessSize(1, 512 << 20)
        least = replace(wanted, driver=small, executor=small, executors=1, scratch_memory_bytes=0)
        assert admission.refuse(least, capacity) is not None
        return
    offered = dict(re.findall(r"--(\S+) (\d+)", refusal.fix))
    scratch = re.search(r"--conf spark\.penstock\.scratch\.memory=(\d+)m?$", refusal.fix)
    assert (scratch is not None) == (wanted.scratch_memory_bytes > 0)
    memory = int(scratch[1]) << 20 if scratch else 0
    smaller = replace(wanted, scratch_memory_bytes=memory)
    if offered:
        smaller = replace(
            smaller,
            driver=ProcessSize(int(offered["driver-cores"]), int(offered["driver-memory"]) << 20),
        )
        if wanted.executors:
            executor = ProcessSize(int(offered["executor-cores"]), int(offered["executor-memory"]) << 20)
            smaller = replace(smaller, executor=executor, executors=int(offered["executors"]))
    assert admission.room(smaller, [], capacity) is None


def test_a_limit_below_the_smallest_cluster_is_reported_with_its_own_fix() -> None:
    pods = ResourceLimit("the team's pods", 1, lambda size: 1 + size.executors, "have it raised")
    machine = Capacity(8, 16 * GIB, (pods,))
    refused = admission.refuse(size(), machine)
    assert refused is not None
    assert (refused.code, refused.fix) == ("too_large", "have it raised")
    assert refused.message == "the cluster needs 2 of the team's pods; the limit is 1"


def test_an_overhead_that_fits_no_machine_is_named_where_no_heap_would_be_small_enough() -> None:
    refused = admission.refuse(replace(size(), executor_overhead=Overhead(fixed_bytes=64 * GIB)), Capacity(8, 16 * GIB))
    assert refused is not None
    assert refused.fix == "ask for less spark.driver.memoryOverhead and spark.executor.memoryOverhead"


@given(overheads, st.integers(1 << 30, 1 << 40))
def test_the_largest_heap_leaves_room_for_its_overhead(overhead: Overhead, room: int) -> None:
    heap = overhead.largest_heap(room)
    assert heap + overhead.of(heap) <= room
    larger = heap + (3 << 20)
    assert larger + overhead.of(larger) > room


def test_files_in_memory_are_promised_as_heaps_are() -> None:
    machine = Capacity(8, 16 * GIB)
    with_scratch = replace(size(), scratch_memory_bytes=10 * GIB)
    assert admission.room(with_scratch, [], machine) is None
    assert admission.room(with_scratch, [with_scratch], machine) is not None
    assert admission.room(size(), [with_scratch], machine) is None
