"""Admission decides whether one cluster fits, now or ever; `scheduling` decides which application starts next.

Pure: a cluster's promise against the free room. Memory is a hard limit: a false promise would make the kernel kill
another application's process. The kernel shares cores, so they may be promised `CORES_PER_CORE` times over: a driver
is idle while its executors work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from penstock.model import (
    CAPACITY,
    CORES_PER_CORE,
    MORE_NODES,
    Capacity,
    ClusterSize,
    Node,
    ProcessSize,
    Reason,
    ResourceLimit,
    promised,
)
from penstock.profiles import layers
from penstock.profiles.base import SCRATCH_MEMORY
from penstock.units import gibibytes

_FREE_SHARE = 0.9
"""The share of a node that applications get; the system's own pods have the rest."""
_UNKNOWN_NODE = Node(cores=4, memory_bytes=16 << 30)
"""The assumed node of a cluster that has no nodes yet and declares no node size."""

_LEAST_HEAP = 512 << 20
_STEP = 64 << 20
_ROUNDING = 1e-6
"""The rounding error allowed in sums of fractional cores."""


def room(
    size: ClusterSize, running: Iterable[ClusterSize], capacity: Capacity, cores_per_core: float = CORES_PER_CORE
) -> Reason | None:
    """The reason why a cluster of `size` cannot start beside the others now; None if it can.

    `cores_per_core` is how often a core may be promised; measurements of oversubscription raise it.
    """
    others = list(running)
    taken = [promised(other) for other in others]
    wanted = promised(size)
    free_memory = capacity.memory_bytes - sum(other.memory_bytes for other in taken)
    free_cores = int(capacity.cores * cores_per_core) - sum(other.cores for other in taken)
    if wanted.memory_bytes > free_memory:
        return Reason("memory", f"it needs {gibibytes(wanted.memory_bytes)}, {gibibytes(max(free_memory, 0))} are free")
    if wanted.cores > free_cores:
        return Reason("cores", f"it needs {wanted.cores} cores, {max(free_cores, 0)} are free")
    for bound in capacity.bounds:
        free, more = bound.maximum - sum(bound.demand(other) for other in others), bound.demand(size)
        if more > free + _ROUNDING:
            message = f"it needs {bound.format(more)} of {bound.name}, {bound.format(max(free, 0))} are free"
            return Reason("quota_exceeded", message, bound.fix)
    return None


def usual_size(capacity: Capacity) -> ClusterSize:
    """The default cluster size.

    One executor has all cores and a quarter of the memory as its heap (at most 8 GiB), the driver an eighth (at most
    4 GiB); each heap is at least 512 MiB.

    With several machines, the executor gets the cores and memory of one: a pod larger than every node waits for ever.
    """
    one = of_one_machine(capacity)
    return ClusterSize(
        driver=ProcessSize(1, usual_heap(one.memory_bytes // 8, at_most=4 << 30)),
        executor=ProcessSize(max(one.cores, 1), usual_heap(one.memory_bytes // 4, at_most=8 << 30)),
        executors=1,
    )


def of_one_machine(capacity: Capacity) -> Capacity:
    """The capacity for a single process: all of it, or the part of the largest node that applications get."""
    node = capacity.node or (_UNKNOWN_NODE if capacity.elastic else None)
    if node is None:
        return capacity
    cores, memory = int(node.cores * _FREE_SHARE), int(node.memory_bytes * _FREE_SHARE)
    return replace(capacity, cores=min(capacity.cores, cores), memory_bytes=min(capacity.memory_bytes, memory))


def usual_heap(wanted: int, *, at_most: int) -> int:
    """`wanted` bytes in whole MiB, at least 512 MiB and at most `at_most`."""
    return min(max(wanted, _LEAST_HEAP), at_most) >> 20 << 20


def refuse(size: ClusterSize, capacity: Capacity) -> Reason | None:
    """The reason why a cluster of `size` could not start even alone; its fix names the largest that could."""
    if _fits_alone(size, capacity):
        return None
    if obstacle := _obstacle(size, capacity):
        return Reason("too_large", obstacle.message, obstacle.fix)
    wanted = promised(size)
    cores = int(capacity.cores * CORES_PER_CORE)
    if wanted.cores > cores:
        problem = (
            f"the cluster has {wanted.cores} cores in all; with {capacity.cores} here, "
            f"each promised {CORES_PER_CORE:g} times, the limit is {cores}"
        )
    elif wanted.memory_bytes > capacity.memory_bytes:
        scratch = f" and {gibibytes(size.scratch_memory_bytes)} for scratch" if size.scratch_memory_bytes else ""
        problem = (
            f"the cluster needs {gibibytes(wanted.memory_bytes)} with overheads{scratch}; "
            f"{gibibytes(capacity.memory_bytes)} can be promised here"
        )
    else:
        bound = next(one for one in capacity.bounds if not _keeps(size, one))
        needed, limit = bound.format(bound.demand(size)), bound.format(bound.maximum)
        problem = f"the cluster needs {needed} of {bound.name}; the limit is {limit}"
    smaller = _largest(size, capacity, cores)
    if smaller is None:
        fixes = [*dict.fromkeys(bound.fix for bound in capacity.bounds)] or [
            f"ask for less {' and '.join(layers.OVERHEADS)}"
        ]
        return Reason("too_large", problem, "; ".join(fixes))
    return Reason("too_large", problem, f"ask for less: {_options(size, smaller)}")


def too_large(size: ClusterSize, capacity: Capacity) -> Reason | None:
    """The reason why a cluster of `size` can never start.

    It exceeds the machine, or an elastic backend's declared maximum. None where it can start, and where no maximum is
    declared.
    """
    return None if capacity.limit is None else refuse(size, capacity.limit)


def waits_for(size: ClusterSize, capacity: Capacity) -> Reason | None:
    """The reason why a cluster of `size`, which is not `too_large`, exceeds today's capacity.

    None where it fits once others have ended.
    """
    if _fits_alone(size, capacity):
        return None
    if obstacle := _obstacle(size, capacity):
        return obstacle
    for bound in capacity.bounds:
        if not _keeps(size, bound):
            needs, allowed = bound.format(bound.demand(size)), bound.format(bound.maximum)
            needs = f"it needs {needs} of {bound.name}, which allows {allowed}"
            return Reason("quota_exceeded", needs, bound.fix)
    wanted, cores = promised(size), int(capacity.cores * CORES_PER_CORE)
    needs = f"it waits for nodes with {wanted.cores} cores and {gibibytes(wanted.memory_bytes)} in all"
    return Reason(CAPACITY, f"{needs}; today's have {cores} and {gibibytes(capacity.memory_bytes)}", MORE_NODES)


def _obstacle(size: ClusterSize, capacity: Capacity) -> Reason | None:
    return capacity.obstacle(size) if capacity.obstacle else None


def _fits_alone(size: ClusterSize, capacity: Capacity) -> bool:
    """Return whether a cluster of `size` fits while no other runs."""
    wanted = promised(size)
    within = wanted.memory_bytes <= capacity.memory_bytes and wanted.cores <= int(capacity.cores * CORES_PER_CORE)
    return within and all(_keeps(size, bound) for bound in capacity.bounds) and _obstacle(size, capacity) is None


def _keeps(size: ClusterSize, bound: ResourceLimit) -> bool:
    return bound.demand(size) <= bound.maximum + _ROUNDING


def _largest(size: ClusterSize, capacity: Capacity, cores: int) -> ClusterSize | None:
    """The cluster size closest to `size` that fits; None where a bound excludes even the smallest one."""
    on_disk = replace(size, scratch_memory_bytes=0)
    if _fits_alone(on_disk, capacity):
        free = (capacity.memory_bytes - promised(on_disk).memory_bytes) >> 20 << 20
        in_part = replace(size, scratch_memory_bytes=min(free, size.scratch_memory_bytes))
        return in_part if _fits_alone(in_part, capacity) else on_disk
    if not size.executors:
        heap = max(size.driver_overhead.largest_heap(capacity.memory_bytes), _LEAST_HEAP)
        alone = ProcessSize(min(size.driver.cores, cores), min(size.driver.memory_bytes, heap))
        return _within(capacity.bounds, replace(on_disk, driver=alone))
    driver_cores = min(size.driver.cores, max(1, cores - 1))
    executor_cores = min(size.executor.cores, max(1, cores - driver_cores))
    driver_heap = max(size.driver_overhead.largest_heap(capacity.memory_bytes // 4), _LEAST_HEAP)
    driver = ProcessSize(driver_cores, min(size.driver.memory_bytes, driver_heap))
    least = replace(on_disk, driver=driver, executor=ProcessSize(executor_cores, _LEAST_HEAP))
    left = capacity.memory_bytes - least.driver_bytes
    executors = max(1, min(size.executors, (cores - driver_cores) // executor_cores, left // least.executor_bytes))
    executor_heap = max(size.executor_overhead.largest_heap(left // executors), _LEAST_HEAP)
    executor = ProcessSize(executor_cores, min(size.executor.memory_bytes, executor_heap))
    smaller = replace(least, executor=executor, executors=executors)
    if promised(smaller).memory_bytes > capacity.memory_bytes:
        return None
    return _within(capacity.bounds, smaller)


def _within(bounds: Sequence[ResourceLimit], size: ClusterSize) -> ClusterSize | None:
    """Reduce `size` step by step, in the dimension of a broken bound, until it keeps all bounds."""
    smaller: ClusterSize | None = size
    while smaller is not None and (broken := next((one for one in bounds if not _keeps(smaller, one)), None)):
        before = broken.demand(smaller)
        smaller = next((one for one in _smaller_by_a_step(smaller) if broken.demand(one) < before), None)
    return smaller


def _smaller_by_a_step(size: ClusterSize) -> Iterator[ClusterSize]:
    if size.executors > 1:
        yield replace(size, executors=size.executors - 1)
    yield from (replace(size, executor=less) for less in _less_by_a_step(size.executor))
    yield from (replace(size, driver=less) for less in _less_by_a_step(size.driver))


def _less_by_a_step(process: ProcessSize) -> Iterator[ProcessSize]:
    if process.memory_bytes > _LEAST_HEAP:
        yield replace(process, memory_bytes=max(process.memory_bytes - _STEP, _LEAST_HEAP))
    if process.cores > 1:
        yield replace(process, cores=process.cores - 1)


def _options(size: ClusterSize, smaller: ClusterSize) -> str:
    """The command-line options that request `smaller` instead of `size`."""
    memory = smaller.scratch_memory_bytes >> 20
    scratch = [f"--conf {SCRATCH_MEMORY}={f'{memory}m' if memory else 0}"] if size.scratch_memory_bytes else []
    driver, executor = smaller.driver, smaller.executor
    if replace(smaller, scratch_memory_bytes=size.scratch_memory_bytes) == size:
        return " ".join(scratch)
    cluster = [f"--driver-cores {driver.cores} --driver-memory {driver.memory_bytes >> 20}m"]
    if size.executors:
        cluster.append(
            f"--executors {smaller.executors} --executor-cores {executor.cores} "
            f"--executor-memory {executor.memory_bytes >> 20}m"
        )
    return " ".join([*cluster, *scratch])
