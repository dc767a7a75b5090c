"""The layers of every application on an object store: S3A of Hadoop 3.4.2, the page cache, and skipping.

The lake is written without renames and read by ranges; what is read or written stays near for the next reader; files
that cannot match are never read where a table has a skipping index. Where pages are kept, and how many, belongs to a
machine and not to a profile: the cluster's backend decides it (`penstock cache status`).
"""

from __future__ import annotations

from penstock.model import ClusterSize
from penstock.profiles.base import (
    ATOMIC_COMMITS,
    CEPH_LAKE_REQUESTS,
    CEPH_LAKE_S3A,
    COMMITTERS,
    FAULTS,
    MEMORY_ACCELERATOR,
    S3A_COMMITTERS,
    S3A_CONNECTING,
    S3A_GUIDE,
    S3A_PERFORMANCE,
    SMALL_CLUSTERS,
    SPARK_CLOUD,
)
from penstock.profiles.layers import Layer, Setting

_S3A = "spark.hadoop.fs.s3a."
_CACHE_GUIDE = "docs/guide/filesystem.md, 'Cache'"

CACHE_PREFIX = _S3A + "penstock.cache."
ENABLED = CACHE_PREFIX + "enabled"
MEMORY = (CACHE_PREFIX + "memory.size", CACHE_PREFIX + "memory.dir")

SETTINGS = (
    Setting(
        ENABLED,
        "true",
        "Pages that were read or written once are read again from this machine's memory or disk, also by the next "
        "application: the store is asked only for what is new",
        f"{_CACHE_GUIDE}; {MEMORY_ACCELERATOR}",
    ),
    Setting(
        _S3A + "input.stream.type",
        "custom",
        "S3A's own way of letting another class read objects; everything else of it stays as it is",
        _CACHE_GUIDE,
    ),
    Setting(
        _S3A + "input.stream.custom.factory",
        "io.penstock.fs.read.PageStreamFactory",
        "Reads through the page cache; what is in no page is fetched by as few requests as will do",
        _CACHE_GUIDE,
    ),
    Setting(
        _S3A + "impl",
        "io.penstock.fs.PenstockFileSystem",
        "S3A that also says on which hosts a file's pages are wanted, and leaves the pages of what it writes behind",
        "docs/guide/filesystem.md, 'Locality'",
    ),
)


S3A = "spark.hadoop.fs.s3a."
_GUIDE = "docs/guide/filesystem.md"

# At once, one task reads up to four ranges of each of two open files and uploads four blocks of what it writes.
_RANGES = 4
_BLOCKS = 4
_CONNECTIONS_PER_TASK = 2 * _RANGES + _BLOCKS


def _busiest_process(size: ClusterSize) -> int:
    return max(size.driver.cores, size.executor.cores)


def _threads(size: ClusterSize) -> str:
    return str(max(32, 2 * _BLOCKS * _busiest_process(size)))


def _connections(size: ClusterSize) -> str:
    # Twice the need: a pool that is too small shows up as a time-out, one that is too large not at all.
    return str(max(128, 2 * _CONNECTIONS_PER_TASK * _busiest_process(size)))


_COMMIT = (
    Setting(
        "spark.sql.sources.commitProtocolClass",
        "io.penstock.fs.commit.AtomicCommitProtocol",
        "Appends, overwrites and overwrites of the partitions that are written: each task uploads to the final place, "
        "one small object decides the whole job, and old files go only then. No copy, no rename, nothing visible "
        "before. Spark's binding of S3A's committers refuses the third and deletes old files before a job has begun",
        ATOMIC_COMMITS,
    ),
    Setting(
        S3A + "committer.magic.track.commits.in.memory.enabled",
        "true",
        "What completes an upload stays in the executor's memory until its task ends, instead of in two objects for "
        "each file that are written, listed, read and deleted again",
        f"{S3A_COMMITTERS}; {ATOMIC_COMMITS}",
    ),
    Setting(
        S3A + "committer.magic.enabled",
        "true",
        "The file system must agree to treat __magic paths as uploads",
        S3A_COMMITTERS,
    ),
    Setting(
        S3A + "committer.name",
        "magic",
        "For what is not written by Spark SQL (RDDs): uploads to the final place too, visible when the job ends. Even "
        "the staging committer, which goes by way of the local disk, was 1.5 times faster than the one that renames",
        f"{COMMITTERS}; {S3A_COMMITTERS}",
    ),
    Setting(
        "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a",
        "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
        "Without it Hadoop falls back to the committer that renames",
        SPARK_CLOUD,
    ),
    Setting(
        "spark.sql.streaming.checkpointFileManagerClass",
        "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager",
        "A stream's checkpoint appears whole when its upload completes, instead of by a rename",
        SPARK_CLOUD,
    ),
    Setting(
        S3A + "committer.threads",
        lambda size: str(max(8, 2 * size.driver.cores)),
        "Uploads of one job are completed in parallel; each is a short request",
        S3A_COMMITTERS,
    ),
    Setting(
        S3A + "create.conditional.enabled",
        "true",
        "A file that must not exist yet is created by a conditional PUT, so that one of two writers wins and knows it",
        S3A_PERFORMANCE,
    ),
)

_READ = (
    Setting(
        S3A + "experimental.input.fadvise",
        "normal",
        "Starts as a scan and turns to ranges at the first backward seek; Parquet asks for ranges itself when it opens "
        "a file, and text keeps its one long request (workloads that only read columns say random)",
        f"{S3A_PERFORMANCE}; {CEPH_LAKE_REQUESTS}",
    ),
    Setting(
        S3A + "readahead.range",
        "64K",
        "How far a stream reads on rather than close its connection: with it and ranges, queries were three times "
        "faster and the gateways' errors 500 were gone",
        CEPH_LAKE_REQUESTS,
    ),
    Setting(
        "spark.hadoop.parquet.hadoop.vectored.io.enabled",
        "true",
        "A row group's column chunks are asked for together, so that S3A fetches them in parallel",
        S3A_PERFORMANCE,
    ),
    Setting(
        "spark.sql.extensions",
        "io.penstock.fs.scan.ScanExtension,io.penstock.fs.commit.CommitExtension",
        "Each Parquet file that a task opens costs a HEAD in Spark, for what the driver's listing told already; told "
        "again to the file system it costs none: a file whose pages are near is read without a request. And Spark "
        "drops a table that saveAsTable overwrites before it runs the query, which may fail: it is kept until the new "
        "rows are committed",
        f"{_GUIDE}, 'What is asked for' and 'Commits'",
    ),
    Setting(
        "spark.sql.sources.parallelPartitionDiscovery.parallelism",
        lambda size: str(2 * size.executor_cores),
        "Spark lists each directory of a table in a task of its own; neighbours in one task are listed by pages of a "
        "thousand objects",
        f"{_GUIDE}, 'Listing'",
    ),
    Setting(
        "spark.hadoop.parquet.page.verify-checksum.enabled",
        "true",
        "Parquet writes a check sum beside each page and by default nobody looks at it: S3 has none for a range, so "
        "without TLS a bit that is wrong on its way would be a wrong answer",
        FAULTS,
    ),
    Setting(
        S3A + "vectored.active.ranged.reads",
        str(_RANGES),
        "Ranges of one file on their way at once; every core may be reading one",
        S3A_PERFORMANCE,
    ),
    Setting(
        S3A + "vectored.read.min.seek.size",
        "1M",
        "Ranges with a smaller gap are one request: 1 MB arrives in the 10 ms that another request takes to answer. "
        "TPC-DS sends a tenth fewer requests than with Hadoop's 128 KB",
        f"{S3A_PERFORMANCE}; {SMALL_CLUSTERS}",
    ),
    Setting(
        S3A + "vectored.read.max.merged.size",
        "8M",
        "Merged ranges stay small enough to arrive side by side",
        S3A_PERFORMANCE,
    ),
)

_WRITE = (
    Setting(
        S3A + "fast.upload.buffer",
        "disk",
        "Blocks wait for their upload on the cluster's own scratch disk: memory buffers are faster, but a store that "
        "falls behind then kills the executor",
        S3A_PERFORMANCE,
    ),
    Setting(
        S3A + "buffer.dir",
        "${java.io.tmpdir}/s3a",
        "Each process's own scratch, gone with the cluster; Hadoop's default is shared by all users of a machine",
        S3A_GUIDE,
    ),
    Setting(
        S3A + "fast.upload.active.blocks",
        str(_BLOCKS),
        "Blocks of one file being uploaded or waiting; bounds what one task can have buffered",
        CEPH_LAKE_S3A,
    ),
    Setting(
        S3A + "multipart.size",
        "64M",
        "An object of the layout's 32 MB is one part; the longest file S3 allows at this size is 640 GB",
        S3A_PERFORMANCE,
    ),
    Setting(
        S3A + "block.size",
        "32M",
        "What formats without row groups are split by: the object size of the documents' layout",
        CEPH_LAKE_S3A,
    ),
)

_CONNECTIONS = (
    Setting(
        S3A + "connection.maximum",
        _connections,
        f"{_CONNECTIONS_PER_TASK} for each core of the busiest process, doubled: a pool smaller than what the tasks "
        "hold open shows up as 'Timeout waiting for connection from pool'",
        S3A_PERFORMANCE,
    ),
    Setting(
        S3A + "threads.max",
        _threads,
        "Uploads, vectored reads and deletes share these threads; fewer than connections, or they wait for each other",
        S3A_PERFORMANCE,
    ),
    Setting(
        S3A + "connection.establish.timeout",
        "10s",
        "A gateway that has not taken a connection by then is down: better to try again than to wait Hadoop's 30 s",
        S3A_CONNECTING,
    ),
    Setting(
        S3A + "connection.timeout",
        "200s",
        "The longest silence inside a request: an erasure-coded pool under load is slow, not gone",
        S3A_CONNECTING,
    ),
    Setting(
        S3A + "attempts.maximum",
        "5",
        "Tries inside the SDK, with connections still warm, before S3A's own slower retries",
        S3A_CONNECTING,
    ),
    Setting(
        S3A + "retry.limit",
        "7",
        "S3A's retries from 500 ms, doubling: about a minute, the time a gateway takes to restart",
        S3A_GUIDE,
    ),
    Setting(
        S3A + "retry.throttle.interval",
        "500ms",
        "Asked again after the 100 ms of core-default.xml, a store that answered '503 Slow Down' stays overloaded",
        S3A_PERFORMANCE,
    ),
)

_SIGHT = (
    Setting(
        S3A + "audit.execution.interceptors",
        "io.penstock.fs.RequestCounter,io.penstock.fs.pool.PoolDoctor,io.penstock.fs.EmptyBodies",
        "Counts the requests that really go out, retries included, for the summary of every application; says who "
        "holds the connections when the pool has none left; and has empty objects signed as Ceph 16 takes them",
        "docs/design/file-system.md; docs/guide/filesystem.md",
    ),
    Setting(
        "spark.plugins",
        "io.penstock.fs.LakeMetrics,io.penstock.fs.scan.UnreadableFiles",
        "What the file system counts is among Spark's metrics too, so that any of its sinks shows it; what the page "
        "cache has of a file that a reader could make no sense of is dropped: it may have been damaged on its way",
        "docs/guide/filesystem.md",
    ),
)

STORE = Layer(
    "store",
    "reading and writing the lake through S3A",
    (*_COMMIT, *_READ, *SETTINGS, *_WRITE, *_CONNECTIONS, *_SIGHT),
)


SKIPPING_PREFIX = "spark.penstock.skipping."
"""Of settings that belong to users, unlike all else under `spark.penstock.`."""

_SKIPPING_GUIDE = "docs/guide/skipping.md"

SKIPPING = Layer(
    "skipping",
    "files that cannot match are never read",
    (
        Setting(
            "spark.sql.extensions",
            "io.penstock.skipping.SkippingExtension",
            "Files that a filter or a join's keys rule out are not even opened. Only tables with an index gain, others "
            "are asked once whether they have one; the answers are the same with and without",
            _SKIPPING_GUIDE,
        ),
        Setting(
            "spark.sql.queryExecutionListeners",
            "io.penstock.skipping.history.QueryHistory",
            "Which filters and joins came, and what they read, is what advice on a table's layout goes by; noted "
            "beside the queries, in one small object of the lake for each application",
            _SKIPPING_GUIDE,
        ),
    ),
)

OFF = Layer(
    "no-skipping",
    "every file of the partitions that are left is read, as by Spark alone",
    (
        Setting(
            SKIPPING_PREFIX + "enabled",
            "false",
            "The other arm of a comparison: the same cluster, settings and tables, and no file skipped",
            f"{_SKIPPING_GUIDE}, 'Comparing'",
        ),
    ),
)
