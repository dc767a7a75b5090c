"""Transformation, loading and enrichment: much is written, much of it once."""

from __future__ import annotations

from penstock.engine.application import ClusterSize
from penstock.profiles import base
from penstock.profiles.setting import Layer, Setting
from penstock.profiles.sources import CEPH_LAKE_S3A, COMMITTED_SORTS, SPARK_SQL_TUNING
from penstock.profiles.store import S3A
from penstock.units import GIB


def _memory_to_spare(size: ClusterSize) -> bool:
    """What the document's executors had: 22 GB for 5 cores."""
    return size.executor.memory_bytes >= 4 * GIB * size.executor.cores


UPLOADS = (
    Setting(
        S3A + "fast.upload.buffer",
        "array",
        "With 4 GiB of heap a core, a task's blocks fit into memory and need not pass through the scratch disk",
        CEPH_LAKE_S3A,
        when=_memory_to_spare,
    ),
    Setting(
        S3A + "multipart.size",
        "32M",
        "A part goes up while the next one is written: sorting 1 GB into objects of 128 MB on Ceph took 6 % less time "
        "than with the document's 100M",
        f"{CEPH_LAKE_S3A}; {COMMITTED_SORTS}",
    ),
)

LAYER = Layer(
    "etl",
    "transforming, loading and enriching: much is written",
    (
        *UPLOADS,
        base.DRIVER_THAT_SCHEDULES,
        Setting(
            "spark.sql.adaptive.coalescePartitions.parallelismFirst",
            "false",
            "The last shuffle's partitions become files: better as many as their size asks for than as many as there "
            "are cores",
            SPARK_SQL_TUNING,
        ),
        Setting(
            "spark.sql.adaptive.advisoryPartitionSizeInBytes",
            "128m",
            "A partition of this size is an object of a few tens of megabytes once it is compressed Parquet",
            SPARK_SQL_TUNING,
        ),
    ),
)
