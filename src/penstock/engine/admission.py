"""What a cluster is promised, and whether there is room for it: pure policy. Whose turn it is: `fairness.py`.

Memory is a hard limit, for the machine would kill somebody else's process to keep a false promise. Cores are shared
out by the kernel, so they may be promised `CORES_PER_CORE` times over: a driver is idle while its executors work.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from penstock.clusters.base import Capacity
from penstock.engine.application import ApplicationSpec, ClusterSize, ProcessSize, Reason
from penstock.profiles.scratch import MEMORY as SCRATCH_MEMORY
from penstock.profiles.scratch import budget_bytes

CORES_PER_CORE = 2.0

_LEAST_OVERHEAD = 384 << 20
_OVERHEAD_SHARE = 0.10
_LEAST_HEAP = 512 << 20


def promised_memory(process: ProcessSize) -> int:
    """Heap and what a JVM needs beside it (Spark's own rule: 10 %, at least 384 MiB), in bytes."""
    return process.memory_bytes + max(_LEAST_OVERHEAD, int(process.memory_bytes * _OVERHEAD_SHARE))


def promised(size: ClusterSize) -> Capacity:
    return Capacity(
        cores=size.driver.cores + size.executor_cores,
        # Files in memory are as much memory as heaps are.
        memory_bytes=promised_memory(size.driver)
        + size.executors * promised_memory(size.executor)
        + size.scratch_memory_bytes,
    )


def room(
    size: ClusterSize, beside: Iterable[ClusterSize], capacity: Capacity, cores_per_core: float = CORES_PER_CORE
) -> Reason | None:
    """Why a cluster of `size` cannot start beside the others now; None when it can.

    `cores_per_core` is how often a core may be promised; more than usual only to measure what a crowd does to itself.
    """
    taken = [promised(other) for other in beside]
    wanted = promised(size)
    beside_all = capacity.beside_bytes * (len(taken) + 1)
    free_memory = capacity.memory_bytes - sum(other.memory_bytes for other in taken) - beside_all
    free_cores = int(capacity.cores * cores_per_core) - sum(other.cores for other in taken)
    if wanted.memory_bytes > free_memory:
        return Reason("memory", f"it needs {gibibytes(wanted.memory_bytes)}, {gibibytes(max(free_memory, 0))} are free")
    if wanted.cores > free_cores:
        return Reason("cores", f"it needs {wanted.cores} cores, {max(free_cores, 0)} are free")
    return None


def refuse(size: ClusterSize, capacity: Capacity) -> Reason | None:
    """Why a cluster of `size` could not start even alone, with the largest one that could; None when it could."""
    wanted = promised(size)
    cores = int(capacity.cores * CORES_PER_CORE)
    capacity = replace(capacity, memory_bytes=capacity.memory_bytes - capacity.beside_bytes)
    if wanted.memory_bytes <= capacity.memory_bytes and wanted.cores <= cores:
        return None
    if wanted.cores > cores:
        problem = (
            f"the cluster has {wanted.cores} cores in all; with {capacity.cores} here, "
            f"each promised {CORES_PER_CORE:g} times, {cores} are the most"
        )
    else:
        scratch = f" and {gibibytes(size.scratch_memory_bytes)} for scratch" if size.scratch_memory_bytes else ""
        problem = (
            f"the cluster needs {gibibytes(wanted.memory_bytes)} with overheads{scratch}; "
            f"{gibibytes(capacity.memory_bytes)} can be promised here"
        )
    return Reason("too_large", problem, f"ask for less: {_largest(size, capacity, cores)}")


def _largest(size: ClusterSize, capacity: Capacity, cores: int) -> str:
    """Options that would fit, as near to what was asked as the machine allows."""
    on_disk = replace(size, scratch_memory_bytes=0)
    if size.scratch_memory_bytes:
        free = capacity.memory_bytes - promised(on_disk).memory_bytes
        if promised(on_disk).cores <= cores and free >= 0:
            return f"--conf {SCRATCH_MEMORY}={free >> 20}m"
        return f"{_largest(on_disk, capacity, cores)} --conf {SCRATCH_MEMORY}=0"
    driver_cores = min(size.driver.cores, max(1, cores - 1))
    executor_cores = min(size.executor.cores, max(1, cores - driver_cores))
    driver_memory = min(size.driver.memory_bytes, max(_heap(capacity.memory_bytes // 4), _LEAST_HEAP))
    left = capacity.memory_bytes - promised_memory(ProcessSize(driver_cores, driver_memory))
    by_memory = left // promised_memory(ProcessSize(executor_cores, _LEAST_HEAP))
    executors = max(1, min(size.executors, (cores - driver_cores) // executor_cores, by_memory))
    executor_memory = min(size.executor.memory_bytes, max(_heap(left // executors), _LEAST_HEAP))
    return (
        f"--driver-cores {driver_cores} --driver-memory {driver_memory >> 20}m --executors {executors} "
        f"--executor-cores {executor_cores} --executor-memory {executor_memory >> 20}m"
    )


def _heap(promise: int) -> int:
    """The largest heap, in whole MiB, that a promise of so many bytes allows."""
    heap = min(promise - _LEAST_OVERHEAD, int(promise / (1 + _OVERHEAD_SHARE)))
    return max(heap >> 20, 1) << 20


def gibibytes(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"


def with_scratch(spec: ApplicationSpec) -> ApplicationSpec:
    """The size with the memory that profile and user give to scratch: it is promised as the heaps are."""
    scratch = _scratch_bytes(spec.profile, spec.size, tuple(spec.settings.items()))
    return replace(spec, size=replace(spec.size, scratch_memory_bytes=scratch))


@lru_cache(maxsize=64)
def _scratch_bytes(profile: str, size: ClusterSize, settings: tuple[tuple[str, str], ...]) -> int:
    # Remembered: whoever submits a thousand submits the same a thousand times.
    from penstock.profiles.catalogue import layers_of
    from penstock.profiles.layers import resolve

    return budget_bytes(resolve(layers_of(profile), size, dict(settings)).values())
