"""Sorting everything: each byte is read, shuffled and written once."""

from __future__ import annotations

from penstock.engine.application import ClusterSize
from penstock.profiles import base
from penstock.profiles.etl import UPLOADS
from penstock.profiles.setting import Layer, Setting, mebibytes
from penstock.profiles.sources import PLATFORM_TERASORT, SPARK_TUNING
from penstock.profiles.store import S3A
from penstock.units import GIB, MIB


def _split(size: ClusterSize) -> str:
    """As large as a core's share of the heap sorts without spilling, within what the document tried."""
    share = size.executor.memory_bytes // size.executor.cores // 4
    return mebibytes(min(max(share, 128 * MIB), GIB))


LAYER = Layer(
    "terasort",
    "sorting everything: each byte read, shuffled and written once",
    (
        *UPLOADS,
        base.DRIVER_THAT_SCHEDULES,
        Setting(
            S3A + "block.size",
            _split,
            "Sorting 10 TB took half the time with partitions of 1024 MB instead of 128 MB: fewer tasks and fewer "
            "requests at once; here a quarter of a core's heap at most, so that a partition is sorted in memory",
            PLATFORM_TERASORT,
        ),
        Setting(
            "spark.shuffle.compress",
            "false",
            "The benchmark's keys are random, and its rules forbid to gain by what is not: each byte is to be moved",
            "docs/design/lab.md",
        ),
        Setting(
            "spark.serializer",
            "org.apache.spark.serializer.KryoSerializer",
            "RDD records are shuffled as objects, which Kryo writes faster and smaller than Java does",
            f"{SPARK_TUNING}, data serialization",
        ),
    ),
)
