"""The layer of every application: a dedicated cluster, started for it, used by it alone, and thrown away.

Also the layer of Iceberg's tables, the settings of scratch space (shuffle and spill in memory up to a budget, and on
disk beyond it), and the sources that the reasons of settings cite.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock import units
from penstock.model import ClusterSize
from penstock.profiles.layers import Layer, Setting, mebibytes
from penstock.units import GIB, MIB

SCRATCH_MEMORY = "spark.penstock.scratch.memory"
"""The scratch in memory of all executors of an application together, as a size; 0 for none."""

SCRATCH_DISK = "spark.penstock.scratch.disk"
"""The directory of scratch on disk, which may be a device of its own; by default scratch is in the home."""

_SOURCE = "docs/guide/filesystem.md, 'Scratch'"


def scratch_memory_bytes(settings: Mapping[str, str]) -> int:
    """Return the size of scratch in memory by the final settings, in bytes."""
    return units.parse_size(settings.get(SCRATCH_MEMORY, "0")) or 0


def _quarter_of_the_heaps(size: ClusterSize) -> str:
    return mebibytes(size.executors * size.executor.memory_bytes // 4)


SCRATCH_ON_DISK = Setting(
    SCRATCH_MEMORY,
    "0",
    "Memory reserved for shuffle and spill is not available to other clusters, and the system's page cache keeps a "
    "small shuffle off the disk anyway; profiles with “memory” in their name reserve it",
    _SOURCE,
)

SCRATCH = Layer(
    "memory",
    "shuffle and spill in memory, up to a quarter of the executors' heap",
    (
        Setting(
            SCRATCH_MEMORY,
            _quarter_of_the_heaps,
            "Where the shuffle's disk is the bottleneck, data that fits into memory avoids it; the rest goes to disk",
            _SOURCE,
        ),
    ),
)


PLATFORM = "Spark on OpenShift Data Foundation (Red Hat, IBM)"
CEPH_LAKE = "Ceph data lake (Intel)"
MEMORY_ACCELERATOR = "In-memory data accelerator (Intel)"
NVM = "NVM, Spark and Ceph (Intel)"

PLATFORM_SCALE = f"{PLATFORM}, 'Analytics scale and concurrency'"
PLATFORM_TABLE_6 = f"{PLATFORM}, 'Analytics scale and concurrency', table 6"
PLATFORM_LAYOUT = f"{PLATFORM}, 'TPC Benchmark Decision Support', data layout and statistics"
PLATFORM_TERASORT = f"{PLATFORM}, 'TeraGen/TeraSort', table 5 and lessons on partition sizes"
CEPH_LAKE_S3A = f"{CEPH_LAKE}, 'S3A Key Performance Configuration'"
CEPH_LAKE_REQUESTS = f"{CEPH_LAKE}, 'Optimizing HTTP Requests'"
COMMITTERS = f"{MEMORY_ACCELERATOR}, 'S3A Connector Adapter Optimization', table 3"
NVM_CONFIGURATION = f"{NVM}, 'Benchmark Configurations & Workloads'"

SPARK_CONFIGURATION = "Spark 4.1.2 documentation, 'Spark Configuration'"
SPARK_TUNING = "Spark 4.1.2 documentation, 'Tuning Spark'"
SPARK_SQL_TUNING = "Spark 4.1.2 documentation, 'Performance Tuning'"
SPARK_CLOUD = "Spark 4.1.2 documentation, 'Integration with Cloud Infrastructures'"
SPARK_MONITORING = "Spark 4.1.2 documentation, 'Monitoring and Instrumentation'"
S3A_PERFORMANCE = "Hadoop 3.4.2 documentation, 'Maximizing Performance when working with the S3A Connector'"
S3A_CONNECTING = "Hadoop 3.4.2 documentation, 'Connecting to an Amazon S3 Bucket through the S3A Connector'"
S3A_COMMITTERS = "Hadoop 3.4.2 documentation, 'Committing work to S3 with the S3A Committers'"
S3A_GUIDE = "Hadoop 3.4.2 documentation, 'Hadoop-AWS module: Integration with Amazon Web Services'"

SMALL_CLUSTERS = "docs/results.md, 'Settings on two cores'"
COMMITTED_SORTS = "docs/results.md, 'TeraSort, by what commits it'"
FAULTS = "docs/guide/faults.md"
ATOMIC_COMMITS = "docs/guide/filesystem.md, 'Commits'"


_JVM_OPTIONS = "-XX:+UseParallelGC -XX:ReservedCodeCacheSize=512m"
_LESS_EAGER_DRIVER = (
    "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=5000 -XX:Tier4CompileThreshold=40000"
)
_LESS_EAGER_EXECUTOR = (
    "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=2400 "
    "-XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000"
)
_JVM_REASON = (
    "The parallel collector, unlike G1, takes no processor time while tasks run; "
    "the default code cache of 240 MB fills up with Spark's generated code, and the JVM then discards compiled code"
)


def many_executors(size: ClusterSize) -> bool:
    """Return whether lost connections are likelier than lost executors; the published clusters had 20 to 100."""
    return size.executors >= 16


def _roomy_heaps(size: ClusterSize) -> bool:
    return min(size.driver.memory_bytes, size.executor.memory_bytes) >= 2 * GIB


def _large_executors(size: ClusterSize) -> bool:
    return size.executor.memory_bytes >= 4 * GIB


def shuffle_partitions(size: ClusterSize) -> str:
    return str(3 * size.executor_cores)


def _file_listing_cache(size: ClusterSize) -> str:
    share = size.driver.memory_bytes // 8
    return str(min(max(share, 64 * MIB), 10 * GIB))


_ADAPTIVE = (
    Setting(
        "spark.sql.adaptive.enabled",
        "true",
        "Joins and partitions are planned again by the sizes at run time; with it all 104 queries passed at 10 TB",
        PLATFORM_SCALE,
    ),
    Setting(
        "spark.sql.adaptive.coalescePartitions.enabled",
        "true",
        "Small shuffle partitions are read by one task, so a generous partition count costs little",
        PLATFORM_SCALE,
    ),
    Setting(
        "spark.sql.shuffle.partitions",
        shuffle_partitions,
        "Three tasks per core even out their run times; most of Spark's 200 partitions are empty on a small cluster, "
        "but each costs a task",
        f"{SPARK_TUNING}, level of parallelism; {SMALL_CLUSTERS}",
    ),
    Setting(
        "spark.default.parallelism",
        lambda size: str(size.executor_cores),
        "Spark splits files and merges shuffle partitions by it; by default it is the number of cores of the executors "
        "that happen to be up already",
        f"{SPARK_CONFIGURATION}, execution behavior",
    ),
    Setting(
        "spark.sql.autoBroadcastJoinThreshold",
        "30m",
        "Sending a table of this size to every executor is cheaper than shuffling the table that it is joined with",
        NVM_CONFIGURATION,
        applies=_roomy_heaps,
    ),
    Setting(
        "spark.sql.broadcastTimeout",
        "3600s",
        "With Spark's default of five minutes, a broadcast side that is a long query itself fails the whole query",
        NVM_CONFIGURATION,
    ),
)

_MEMORY = (
    Setting(
        "spark.memory.fraction",
        "0.8",
        "Spark's 0.6 made stages fail or retry at 10 TB; from 4 GiB on, a fifth is enough for everything else",
        PLATFORM_SCALE,
        applies=_large_executors,
    ),
    Setting(
        "spark.memory.storageFraction",
        "0.2",
        "A job that reads its input once caches little; memory reserved for cached blocks is lost to sorts and joins",
        PLATFORM_SCALE,
        applies=_large_executors,
    ),
    Setting(
        "spark.sql.hive.filesourcePartitionFileCacheSize",
        _file_listing_cache,
        "Queries failed or were retried while listing objects at 10 TB until this cache had 10 GB; "
        "here it has an eighth of the driver's heap, since it is part of that heap",
        PLATFORM_SCALE,
    ),
    Setting(
        "spark.sql.codegen.cache.maxEntries",
        "2000",
        "A session of many queries reuses generated code; with Spark's 100 entries it is compiled again",
        SMALL_CLUSTERS,
    ),
)

_NETWORK = (
    Setting(
        "spark.network.timeout",
        "600s",
        "Longer than any garbage collection or slow store; a closed connection, not this timeout, reveals a dead "
        "executor",
        f"{SPARK_CONFIGURATION}, networking",
        applies=lambda size: not many_executors(size),
    ),
    Setting(
        "spark.network.timeout",
        "3600s",
        "With 100 executors, shorter timeouts declared busy executors dead",
        PLATFORM_TABLE_6,
        applies=many_executors,
    ),
    Setting(
        "spark.shuffle.io.maxRetries",
        "10",
        "A fetch that finally fails makes Spark compute the lost stage again: retries are cheaper",
        PLATFORM_TABLE_6,
    ),
    Setting(
        "spark.shuffle.io.retryWait",
        "60s",
        "An overloaded executor among 100 needs long to recover; ten retries at Spark's five seconds are too short",
        PLATFORM_TABLE_6,
        applies=many_executors,
    ),
    *(
        Setting(
            f"spark.{module}.io.{kind}Threads",
            "64",
            "Spark uses at most 8 threads by default, too few to serve 100 executors at once",
            PLATFORM_TABLE_6,
            applies=many_executors,
        )
        for module in ("shuffle", "rpc")
        for kind in ("server", "client")
    ),
    Setting(
        "spark.rpc.io.threads",
        "64",
        "As for the shuffle's threads (Spark 4 does not read spark.shuffle.io.threads, which is in the same table)",
        PLATFORM_TABLE_6,
        applies=many_executors,
    ),
    Setting(
        "spark.shuffle.checksum.algorithm",
        "CRC32C",
        "Spark computes a checksum of every shuffled byte, and processors have an instruction for this one; Spark's "
        "Adler-32 took 0.6 of the 26 core-seconds of an executor that sorted 1 GB",
        f"{SPARK_CONFIGURATION}, shuffle behavior; {SMALL_CLUSTERS}",
    ),
    Setting(
        "spark.io.compression.codec",
        "zstd",
        "Shuffle and spill files become smaller than with lz4, for more processor time: worth it where many executors "
        "share the network and the shuffle drives, which were the bottleneck there",
        f"{SPARK_CONFIGURATION}, compression and serialization; {PLATFORM_SCALE}",
        applies=many_executors,
    ),
)

_RECORDS = (
    Setting(
        "spark.eventLog.enabled",
        "true",
        "The cluster and its web UI are gone after the run; the event log in the lake remains",
        SPARK_MONITORING,
    ),
    Setting(
        "spark.eventLog.rolling.enabled",
        "false",
        "One file per application; rolling logs are for applications that never end",
        SPARK_MONITORING,
    ),
    Setting(
        "spark.eventLog.compress",
        "true",
        "The event log is repetitive, is uploaded to the lake after every run, and is rarely read",
        SPARK_MONITORING,
    ),
    Setting(
        "spark.executor.metrics.pollingInterval",
        "500ms",
        "Peak memory between two heartbeats counts too; by heartbeats alone a short application has no figure",
        SPARK_MONITORING,
    ),
    Setting(
        "spark.ui.enabled",
        "false",
        "A web server slows every start, and few users look at it: the first request through the service starts it. "
        "With --conf spark.ui.enabled=true it runs from the start",
        "docs/results.md, 'From submission to the first task'",
    ),
    Setting(
        "spark.ui.killEnabled",
        "false",
        "The service forwards no request that ends work to the Spark UI: such links would lead nowhere",
        f"{SPARK_CONFIGURATION}, Spark UI",
    ),
    Setting(
        "spark.ui.port",
        "0",
        "Each of several clusters on one machine finds a free port",
        f"{SPARK_CONFIGURATION}, Spark UI",
    ),
    Setting(
        "spark.ui.showConsoleProgress",
        "false",
        "Penstock draws the progress; two progress bars on one terminal garble each other",
        f"{SPARK_CONFIGURATION}, Spark UI",
    ),
)

_JVM = (
    Setting(
        "spark.driver.extraJavaOptions",
        f"{_JVM_OPTIONS} {_LESS_EAGER_DRIVER}",
        f"{_JVM_REASON}. A driver runs much code a few hundred times: at its default thresholds, the optimizing "
        "compiler takes a tenth of a small cluster's processor time during startup. Loops keep their own thresholds",
        f"{NVM_CONFIGURATION}; docs/design/clusters.md",
    ),
    Setting(
        "spark.executor.extraJavaOptions",
        f"{_JVM_OPTIONS} {_LESS_EAGER_EXECUTOR}",
        f"{_JVM_REASON}. Most code of an executor that lives for one job runs for less time than its optimization "
        "takes: at four times the default thresholds, the compilers take 22 core-seconds less in TPC-DS and 4 less in "
        "sorting 1 GB, and the tasks are no slower. A hot loop reaches them in milliseconds",
        f"{NVM_CONFIGURATION}; {SMALL_CLUSTERS}",
    ),
)

SCHEDULING_DRIVER = Setting(
    "spark.driver.extraJavaOptions",
    "-XX:TieredStopAtLevel=1",
    "A driver that only schedules has no hot code: the optimizing compiler took 12 of 85 core-seconds in sorting and "
    "validating 1 GB, which the executor needed. A program that computes in its driver turns it on again with "
    "-XX:TieredStopAtLevel=4",
    SMALL_CLUSTERS,
)

_FORMATS = (
    Setting(
        "spark.sql.parquet.compression.codec",
        "zstd",
        "Fewer bytes to store and to transfer than with snappy, also for every later reader",
        f"{SPARK_SQL_TUNING}; TPC-DS scale 1 is 252 MB with it",
    ),
)

BASE = Layer(
    "base",
    "every application on a dedicated cluster",
    (*_ADAPTIVE, *_MEMORY, SCRATCH_ON_DISK, *_NETWORK, *_RECORDS, *_JVM, *_FORMATS),
)


_CATALOG_GUIDE = "docs/guide/catalog.md, 'Iceberg tables'"

ICEBERG = Layer(
    "iceberg",
    "tables in Iceberg's format, which every engine can change",
    (
        Setting(
            "spark.sql.catalog.spark_catalog",
            "io.penstock.catalog.SessionCatalog",
            "CREATE TABLE … USING iceberg works, in the same databases as all other tables, for which nothing changes",
            _CATALOG_GUIDE,
        ),
        Setting(
            "spark.sql.extensions",
            "io.penstock.catalog.IcebergExtension",
            "Adds Iceberg's statements to Spark's: partition fields, branches, tags and the order of writes",
            _CATALOG_GUIDE,
        ),
        Setting(
            "spark.hadoop.iceberg.engine.hive.lock-enabled",
            "false",
            "A commit replaces a table's metadata in the metastore only where it is what the writer has read "
            "(HIVE-26882, in Spark's own client); Iceberg's default is a lock, which outlives a killed application",
            _CATALOG_GUIDE,
        ),
        Setting(
            "spark.hadoop.hive.metastore.fs.handler.class",
            "io.penstock.catalog.WarehouseFiles",
            "Of two applications that create a database or a table at once, the one that PostgreSQL refuses would "
            "delete the directory of the other, with all that is in it",
            _CATALOG_GUIDE,
        ),
    ),
)
