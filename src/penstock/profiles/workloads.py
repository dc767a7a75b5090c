"""The layers of workloads (SQL, TPC-DS, ETL, sorting, machine learning), and the profiles by name."""

from __future__ import annotations

from penstock.errors import NotFound
from penstock.model import ClusterSize
from penstock.profiles import base, s3a, variants
from penstock.profiles.base import (
    CEPH_LAKE_REQUESTS,
    CEPH_LAKE_S3A,
    COMMITTED_SORTS,
    MEMORY_ACCELERATOR,
    PLATFORM_LAYOUT,
    PLATFORM_TERASORT,
    SMALL_CLUSTERS,
    SPARK_CONFIGURATION,
    SPARK_SQL_TUNING,
    SPARK_TUNING,
)
from penstock.profiles.layers import Layer, Setting, mebibytes
from penstock.profiles.s3a import S3A
from penstock.units import GIB, MIB

SQL = Layer(
    "sql",
    "queries over columnar tables with statistics in the catalog",
    (
        Setting(
            "spark.sql.cbo.enabled",
            "true",
            "Only the cost-based optimizer reads the column statistics; without them, joins are sized by file bytes",
            f"{SPARK_SQL_TUNING}; {PLATFORM_LAYOUT}",
        ),
        Setting(
            "spark.sql.cbo.joinReorder.enabled",
            "true",
            "Joins run in the order that keeps intermediate results small, not in the order of the query's text",
            f"{SPARK_SQL_TUNING}; {PLATFORM_LAYOUT}",
        ),
        Setting(
            "spark.driver.extraJavaOptions",
            "-XX:TieredStopAtLevel=1",
            "Planning runs much code a few times: the optimizing compiler took 62 of the 359 core-seconds of the 103 "
            "TPC-DS queries without a gain for the planner. Executors keep it: their loops are hot",
            SMALL_CLUSTERS,
        ),
        Setting(
            S3A + "experimental.input.fadvise",
            "random",
            "Columnar files are read by ranges only, also by readers that do not declare it at the opening of a file "
            "(ORC)",
            CEPH_LAKE_REQUESTS,
        ),
    ),
)


def _shuffle_partitions(size: ClusterSize) -> str:
    return str(size.executor_cores) if size.executor_cores <= 16 else base.shuffle_partitions(size)


TPCDS = Layer(
    "tpcds",
    "TPC-DS: many short queries in one session",
    (
        Setting(
            "spark.sql.shuffle.partitions",
            _shuffle_partitions,
            "At the scales that fit a small cluster, queries shuffle little: one task per core has the least overhead",
            SMALL_CLUSTERS,
        ),
    ),
)


def _memory_to_spare(size: ClusterSize) -> bool:
    """Return whether executors have 4 GiB per core, as in the paper: 22 GB for 5 cores."""
    return size.executor.memory_bytes >= 4 * GIB * size.executor.cores


UPLOADS = (
    Setting(
        S3A + "fast.upload.buffer",
        "array",
        "With 4 GiB of heap per core, a task's blocks fit into memory and need not pass through the scratch disk",
        CEPH_LAKE_S3A,
        applies=_memory_to_spare,
    ),
    Setting(
        S3A + "multipart.size",
        "32M",
        "A part is uploaded while the next one is written: sorting 1 GB into objects of 128 MB on Ceph took 6 % less "
        "time than with the paper's 100M",
        f"{CEPH_LAKE_S3A}; {COMMITTED_SORTS}",
    ),
)

ETL = Layer(
    "etl",
    "transforming, loading and enriching, with much output",
    (
        *UPLOADS,
        base.SCHEDULING_DRIVER,
        Setting(
            "spark.sql.adaptive.coalescePartitions.parallelismFirst",
            "false",
            "The last shuffle's partitions become files, whose number should follow from their size and not from the "
            "number of cores",
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


def _split(size: ClusterSize) -> str:
    """Return the largest split that a core's share of the heap sorts without spilling, within the paper's range."""
    share = size.executor.memory_bytes // size.executor.cores // 4
    return mebibytes(min(max(share, 128 * MIB), GIB))


TERASORT = Layer(
    "terasort",
    "sorting: each byte is read, shuffled and written once",
    (
        *UPLOADS,
        base.SCHEDULING_DRIVER,
        Setting(
            S3A + "block.size",
            _split,
            "Sorting 10 TB took half the time with partitions of 1024 MB instead of 128 MB: fewer tasks and fewer "
            "simultaneous requests; here at most a quarter of a core's heap, so that a partition is sorted in memory",
            PLATFORM_TERASORT,
        ),
        Setting(
            "spark.shuffle.compress",
            "false",
            "The benchmark's keys are random, and its rules forbid gains from other bytes: each byte has to be moved",
            "docs/design/lab.md",
        ),
        Setting(
            "spark.serializer",
            "org.apache.spark.serializer.KryoSerializer",
            "RDD records are shuffled as objects, which Kryo serializes faster and smaller than Java does",
            f"{SPARK_TUNING}, data serialization",
        ),
    ),
)


ML = Layer(
    "ml",
    "iterative learning over cached data (K-means)",
    (
        Setting(
            "spark.memory.storageFraction",
            "0.5",
            "Every iteration reads the cached input: evicted blocks are read from the lake again",
            f"{MEMORY_ACCELERATOR}, K-means; {SPARK_TUNING}, memory management",
        ),
        Setting(
            "spark.serializer",
            "org.apache.spark.serializer.KryoSerializer",
            "Cached and broadcast objects are smaller and faster to read than with Java's serialization",
            f"{SPARK_TUNING}, data serialization",
        ),
        Setting(
            "spark.rdd.compress",
            "false",
            "Cached partitions are read in every iteration; PySpark, which turns this on, would unpack them each time",
            f"{SPARK_CONFIGURATION}, compression and serialization",
        ),
        Setting(
            "spark.sql.execution.arrow.pyspark.enabled",
            "true",
            "Python receives columns instead of pickled rows; without pyarrow, Spark falls back to rows",
            f"{SPARK_CONFIGURATION}, runtime SQL configuration",
        ),
        *(
            Setting(
                f"spark.{role}.extraJavaOptions",
                "--add-modules=jdk.incubator.vector",
                "MLlib's linear algebra uses the processor's vector instructions through this module",
                "Spark 4.1.2, org.apache.spark.launcher.JavaModuleOptions: spark-submit always passes it",
            )
            for role in ("driver", "executor")
        ),
    ),
)


DEFAULT = Layer("default", "any application: the settings of all profiles, and nothing more", ())

_EVERY = (base.BASE, s3a.STORE, s3a.SKIPPING, base.ICEBERG)

_WORKLOADS: dict[str, tuple[Layer, ...]] = {
    "default": (DEFAULT,),
    "sql": (SQL,),
    "tpcds": (SQL, TPCDS),
    "etl": (ETL,),
    "etl-memory": (base.SCRATCH, ETL),
    "terasort": (TERASORT,),
    "terasort-memory": (base.SCRATCH, TERASORT),
    "ml": (ML,),
}


_VARIANTS: dict[str, tuple[Layer, ...]] = {**variants.LAYERS, s3a.NO_SKIPPING.name: (s3a.NO_SKIPPING,)}


def profile_names() -> tuple[str, ...]:
    return tuple(_WORKLOADS)


def client_names() -> tuple[str, ...]:
    """Return the variants that replace the client of the lake."""
    return tuple(variants.LAYERS)


def variant_names() -> tuple[str, ...]:
    """Return the suffixes of a profile's name, each after a plus, for comparisons: another client, or no skipping."""
    return tuple(_VARIANTS)


def profile_layers(name: str) -> tuple[Layer, ...]:
    """Return the layers of a workload profile, weakest first.

    These are the layers of every application, the workload's own, and those of the variants in the name
    (`tpcds+s3a-default+no-skipping`). Raises `NotFound`.
    """
    workload, variants = split_profile(name)
    return (*workload, *variants)


def split_profile(name: str) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """Return the layers of the workload, and those of the variants, which override a lake's settings too."""
    workload, *variants = name.split("+")
    if workload not in _WORKLOADS:
        raise NotFound(
            f"There is no profile {workload!r}",
            why=f"the profiles are {', '.join(_WORKLOADS)}",
            fix="penstock profile list",
        )
    for variant in variants:
        if variant not in _VARIANTS:
            raise NotFound(
                f"There is no variant {variant!r} of a profile",
                why=f"the variants are {', '.join(_VARIANTS)}; without one, all of Penstock is active",
                fix=f"{workload}+{next(iter(_VARIANTS))}, or {workload} alone",
            )
    return (*_EVERY, *_WORKLOADS[workload]), tuple(layer for variant in variants for layer in _VARIANTS[variant])


def profile_summary(name: str) -> str:
    """Return the purpose of the profile: the summary of its own layer, and of scratch in memory where it has that."""
    own = profile_layers(name)[len(_EVERY) :]
    return "; ".join(layer.summary for layer in reversed(own)) if base.SCRATCH in own else own[-1].summary
