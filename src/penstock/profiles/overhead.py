"""The memory of driver and executors beside their heaps, as Spark on Kubernetes computes it from its settings.

Spark's own figures are in `BasicDriverFeatureStep`, `BasicExecutorFeatureStep` and `ResourceProfile` of 4.1. They are
computed once, when a submission is checked: queue, pods and Spark's settings then have the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.engine.application import ClusterSize, Overhead
from penstock.profiles import values

FACTOR = Overhead.factor
"""The part of the heap where neither the user nor the cluster's file says another."""

PYTHON_IN_PODS = 0.40
"""The same for a Python application whose pods Kubernetes holds to their memory: Python's is beside the heap."""

FIXED = ("spark.driver.memoryOverhead", "spark.executor.memoryOverhead")
LEAST = ("spark.driver.minMemoryOverhead", "spark.executor.minMemoryOverhead")
FACTORS = ("spark.driver.memoryOverheadFactor", "spark.executor.memoryOverheadFactor")

_PYTHON = "spark.executor.pyspark.memory"


def with_overheads(size: ClusterSize, settings: Mapping[str, str], *, factor: float, python: bool) -> ClusterSize:
    """The size with the overheads that the final settings ask for; `factor` is for whom they name none."""
    driver, executor = (
        Overhead(
            factor=_number(settings.get(factor_key), factor),
            least_bytes=_bytes(settings.get(least), Overhead.least_bytes),
            fixed_bytes=_bytes(settings[fixed], 0) if fixed in settings else None,
        )
        for factor_key, least, fixed in zip(FACTORS, LEAST, FIXED, strict=True)
    )
    more = off_heap_bytes(settings) + (_bytes(settings.get(_PYTHON), 0) if python else 0)
    return replace(size, driver_overhead=driver, executor_overhead=replace(executor, more_bytes=more))


def off_heap_bytes(settings: Mapping[str, str]) -> int:
    """The bytes that Spark itself adds to an executor's pod."""
    if not values.flag(settings.get("spark.memory.offHeap.enabled", "")):
        return 0
    return _whole_mebibytes(values.size_in_bytes(settings.get("spark.memory.offHeap.size", "0")))


def _bytes(text: str | None, otherwise: int) -> int:
    return otherwise if text is None else _whole_mebibytes(values.size_in_bytes(text, unit="m"))


def _whole_mebibytes(count: int | None) -> int:
    return (count or 0) >> 20 << 20


def _number(text: str | None, otherwise: float) -> float:
    found = None if text is None else values.number(text)
    return otherwise if found is None else found
