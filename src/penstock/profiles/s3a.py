"""The layers of every application on an object store: S3A of Hadoop 3.4.2, the page cache, and skipping.

The lake is written without renames and read by ranges; data that was read or written stays cached for the next reader;
where a table has a skipping index, files that cannot match are never read. Place and size of the page cache belong to a
machine and not to a profile: the cluster's backend sets them (`penstock cache status`).
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
CACHE_ENABLED = CACHE_PREFIX + "enabled"
CACHE_MEMORY = (CACHE_PREFIX + "memory.size", CACHE_PREFIX + "memory.dir")

CACHE_SETTINGS = (
    Setting(
        CACHE_ENABLED,
        "true",
        "Pages that were read or written once are read again from this machine's memory or disk, also by the next "
        "application: only new data is read from the store",
        f"{_CACHE_GUIDE}; {MEMORY_ACCELERATOR}",
    ),
    Setting(
        _S3A + "input.stream.type",
        "custom",
        "S3A's extension point for another class that reads objects; the rest of S3A is unchanged",
        _CACHE_GUIDE,
    ),
    Setting(
        _S3A + "input.stream.custom.factory",
        "io.penstock.fs.read.PageStreamFactory",
        "Reads through the page cache; missing pages are fetched with as few requests as possible",
        _CACHE_GUIDE,
    ),
    Setting(
        _S3A + "impl",
        "io.penstock.fs.PenstockFileSystem",
        "S3A that also reports the preferred hosts of a file's pages, and caches the pages that it writes",
        "docs/guide/filesystem.md, 'Locality'",
    ),
)


S3A = "spark.hadoop.fs.s3a."
_GUIDE = "docs/guide/filesystem.md"

# A task reads up to four ranges of each of two open files, and uploads up to four blocks, at the same time.
_RANGES = 4
_BLOCKS = 4
_CONNECTIONS_PER_TASK = 2 * _RANGES + _BLOCKS


def _busiest_process(size: ClusterSize) -> int:
    return max(size.driver.cores, size.executor.cores)


def _threads(size: ClusterSize) -> str:
    return str(max(32, 2 * _BLOCKS * _busiest_process(size)))


def _connections(size: ClusterSize) -> str:
    # Twice the need: a pool that is too small causes timeouts, one that is too large does no harm.
    return str(max(128, 2 * _CONNECTIONS_PER_TASK * _busiest_process(size)))


_COMMIT = (
    Setting(
        "spark.sql.sources.commitProtocolClass",
        "io.penstock.fs.commit.AtomicCommitProtocol",
        "For appends, overwrites and dynamic partition overwrites, each task uploads to the final place, one small "
        "object commits the whole job, and only then are old files deleted: no copy, no rename, and nothing is visible "
        "before. Spark's binding to S3A's committers rejects the third, and deletes old files before a job has begun",
        ATOMIC_COMMITS,
    ),
    Setting(
        S3A + "committer.magic.track.commits.in.memory.enabled",
        "true",
        "The data that completes an upload stays in the executor's memory until its task ends, instead of in two "
        "objects per file that are written, listed, read and deleted again",
        f"{S3A_COMMITTERS}; {ATOMIC_COMMITS}",
    ),
    Setting(
        S3A + "committer.magic.enabled",
        "true",
        "The file system has to treat __magic paths as uploads",
        S3A_COMMITTERS,
    ),
    Setting(
        S3A + "committer.name",
        "magic",
        "For output of RDDs, not of Spark SQL: uploads to the final place too, visible when the job ends. Even the "
        "staging committer, which writes to the local disk first, was 1.5 times faster than the one that renames",
        f"{COMMITTERS}; {S3A_COMMITTERS}",
    ),
    Setting(
        "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a",
        "io.penstock.fs.commit.AtomicCommitterFactory",
        "Output of RDDs is committed as a whole, as Spark SQL's is. Without any such setting Hadoop falls back to the "
        "committer that renames",
        f"{SPARK_CLOUD}; {ATOMIC_COMMITS}",
    ),
    Setting(
        "spark.hadoop.mapred.output.committer.class",
        "io.penstock.fs.commit.AtomicMapredCommitter",
        "The same for Hadoop's older interface, which saveAsTextFile and saveAsHadoopFile use. S3A has no committer "
        "for it, so that Hadoop would copy every file into place",
        ATOMIC_COMMITS,
    ),
    Setting(
        "spark.sql.streaming.checkpointFileManagerClass",
        "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager",
        "A stream's checkpoint appears atomically when its upload completes, instead of by a rename",
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
        "A file that must not exist yet is created by a conditional PUT, so that exactly one of two writers succeeds",
        S3A_PERFORMANCE,
    ),
)

_READ = (
    Setting(
        S3A + "experimental.input.fadvise",
        "normal",
        "Starts as a scan and changes to ranges at the first backward seek; Parquet requests ranges itself when it "
        "opens a file, and text keeps its one long request (workloads that only read columns set random)",
        f"{S3A_PERFORMANCE}; {CEPH_LAKE_REQUESTS}",
    ),
    Setting(
        S3A + "readahead.range",
        "64K",
        "A stream reads ahead this far rather than close its connection: with it and ranges, queries were three times "
        "faster, and the gateways' errors 500 disappeared",
        CEPH_LAKE_REQUESTS,
    ),
    Setting(
        "spark.hadoop.parquet.hadoop.vectored.io.enabled",
        "true",
        "The column chunks of a row group are requested together, so that S3A fetches them in parallel",
        S3A_PERFORMANCE,
    ),
    Setting(
        "spark.sql.extensions",
        "io.penstock.fs.scan.ScanExtension,io.penstock.fs.commit.CommitExtension",
        "Spark sends a HEAD for each Parquet file that a task opens, although the driver's listing has its result "
        "already; with that result the file system sends none, and reads a cached file without a request. And Spark "
        "drops a table that saveAsTable overwrites before it runs the query, which may fail: the table is kept until "
        "the new rows are committed",
        f"{_GUIDE}, 'File system' and 'Commits'",
    ),
    Setting(
        "spark.sql.sources.parallelPartitionDiscovery.parallelism",
        lambda size: str(2 * size.executor_cores),
        "Spark lists each directory of a table in a task of its own; neighboring directories in one task are listed in "
        "pages of a thousand objects",
        f"{_GUIDE}, 'Listing'",
    ),
    Setting(
        "spark.hadoop.parquet.page.verify-checksum.enabled",
        "true",
        "Parquet writes a checksum with each page and by default does not verify it: S3 has none for a range, so "
        "without TLS a bit that flips in transit would lead to a wrong answer",
        FAULTS,
    ),
    Setting(
        S3A + "vectored.active.ranged.reads",
        str(_RANGES),
        "The number of ranges of one file that are read in parallel; every core may be reading a file",
        S3A_PERFORMANCE,
    ),
    Setting(
        S3A + "vectored.read.min.seek.size",
        "1M",
        "Ranges with a smaller gap become one request: 1 MB is transferred in the 10 ms that another request takes. "
        "TPC-DS sends a tenth fewer requests than with Hadoop's 128 KB",
        f"{S3A_PERFORMANCE}; {SMALL_CLUSTERS}",
    ),
    Setting(
        S3A + "vectored.read.max.merged.size",
        "8M",
        "Merged ranges stay small enough to be transferred in parallel",
        S3A_PERFORMANCE,
    ),
)

_WRITE = (
    Setting(
        S3A + "fast.upload.buffer",
        "disk",
        "Blocks wait for their upload on the cluster's own scratch disk: buffers in memory are faster, but with a slow "
        "store they exhaust the executor's memory",
        S3A_PERFORMANCE,
    ),
    Setting(
        S3A + "buffer.dir",
        "${java.io.tmpdir}/s3a",
        "Each process has scratch of its own, removed with the cluster; all users of a machine share Hadoop's default",
        S3A_GUIDE,
    ),
    Setting(
        S3A + "fast.upload.active.blocks",
        str(_BLOCKS),
        "The number of blocks of one file that are uploaded or wait for it; bounds the buffers of a task",
        CEPH_LAKE_S3A,
    ),
    Setting(
        S3A + "multipart.size",
        "64M",
        "An object of the published layout's 32 MB is one part; the largest file in parts of this size is 640 GB",
        S3A_PERFORMANCE,
    ),
    Setting(
        S3A + "block.size",
        "32M",
        "The split size of formats without row groups: the object size of the published layout",
        CEPH_LAKE_S3A,
    ),
)

_CONNECTIONS = (
    Setting(
        S3A + "connection.maximum",
        _connections,
        f"{_CONNECTIONS_PER_TASK} for each core of the busiest process, doubled: a pool that is too small for the open "
        "connections causes 'Timeout waiting for connection from pool'",
        S3A_PERFORMANCE,
    ),
    Setting(
        S3A + "threads.max",
        _threads,
        "Uploads, vectored reads and deletes share these threads; with more threads than connections, they would wait "
        "for each other",
        S3A_PERFORMANCE,
    ),
    Setting(
        S3A + "connection.establish.timeout",
        "10s",
        "A gateway that has not accepted a connection by then is down: a retry is better than to wait Hadoop's 30 s",
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
        "Attempts within the SDK, over open connections, before S3A's own slower retries",
        S3A_CONNECTING,
    ),
    Setting(
        S3A + "retry.limit",
        "7",
        "S3A's retries with doubling pauses from 500 ms: about a minute, the time that a gateway takes to restart",
        S3A_GUIDE,
    ),
    Setting(
        S3A + "retry.throttle.interval",
        "500ms",
        "With retries after the 100 ms of core-default.xml, a store that answered '503 Slow Down' stays overloaded",
        S3A_PERFORMANCE,
    ),
)

_SIGHT = (
    Setting(
        S3A + "audit.execution.interceptors",
        "io.penstock.fs.metrics.RequestCounter,io.penstock.fs.connections.ConnectionLeakDetector,io.penstock.fs.store.EmptyBodies",
        "Counts the requests that are sent, retries included, for the summary of every application; reports the owners "
        "of the connections when the pool is exhausted; and signs empty objects in a way that Ceph 16 accepts",
        "docs/design/file-system.md; docs/guide/filesystem.md",
    ),
    Setting(
        "spark.plugins",
        "io.penstock.fs.metrics.LakeMetrics,io.penstock.fs.scan.DamagedFilePlugin,io.penstock.fs.commit.CommitPlugin",
        "The file system's counters are Spark metrics too, so that any of Spark's sinks shows them; cached pages of a "
        "file that a reader cannot parse are dropped: they may have been damaged in transit; the third brings what "
        "tasks report of their files to the driver, which commits them",
        "docs/guide/filesystem.md",
    ),
)

STORE = Layer(
    "store",
    "reading and writing the lake through S3A",
    (*_COMMIT, *_READ, *CACHE_SETTINGS, *_WRITE, *_CONNECTIONS, *_SIGHT),
)


SKIPPING_PREFIX = "spark.penstock.skipping."
"""The prefix of settings that users may set, unlike all others under `spark.penstock.`."""

_SKIPPING_GUIDE = "docs/guide/skipping.md"

SKIPPING = Layer(
    "skipping",
    "files that cannot match are never read",
    (
        Setting(
            "spark.sql.extensions",
            "io.penstock.skipping.SkippingExtension",
            "Files that a filter or a join's keys exclude are not opened. Only tables with an index gain; for others, "
            "its absence is checked once. The results are the same with and without",
            _SKIPPING_GUIDE,
        ),
        Setting(
            "spark.sql.queryExecutionListeners",
            "io.penstock.skipping.history.QueryHistory",
            "Advice on a table's layout is based on the filters and joins of past queries and what they read; these "
            "are recorded in parallel to the queries, in one small object of the lake per application",
            _SKIPPING_GUIDE,
        ),
    ),
)

NO_SKIPPING = Layer(
    "no-skipping",
    "every file of the remaining partitions is read, as by Spark alone",
    (
        Setting(
            SKIPPING_PREFIX + "enabled",
            "false",
            "The other arm of a comparison: the same cluster, settings and tables, and no file skipped",
            f"{_SKIPPING_GUIDE}, 'When it does not help'",
        ),
    ),
)
