"""Other clients of the same lake, for comparisons: on top of any profile, everything else being equal.

`tpcds+s3a-default` is the profile `tpcds` with Hadoop's own S3A, set as Hadoop sets it. Everything that Penstock plugs
into S3A is off in these; the application, the cluster and the counting of requests stay the same. On an HDFS the
settings of S3 are left out and nothing takes their place: the commit protocol, the reader and the block sizes are
Spark's and Hadoop's own, since the baseline is HDFS as it is used, not as Penstock would have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from penstock.profiles import s3a
from penstock.profiles.base import (
    CEPH_LAKE_REQUESTS,
    COMMITTERS,
    S3A_COMMITTERS,
    S3A_GUIDE,
    S3A_PERFORMANCE,
    SPARK_CLOUD,
)
from penstock.profiles.layers import Layer, Setting
from penstock.profiles.s3a import S3A

LAB_JARS = Path(__file__).parent.parent / "jars" / "lab"
"""Jars that only a comparison needs, on no other application's class path."""

_HADOOP = "spark.hadoop."
_HADOOPS_OWN = "core-default.xml of Hadoop 3.4.2"

_WITHOUT_PENSTOCK = Layer(
    "s3a",
    "Hadoop's S3A with nothing of Penstock's plugged in",
    (
        Setting(
            S3A + "impl",
            "org.apache.hadoop.fs.s3a.S3AFileSystem",
            "The file system itself, without block locations and without writing through",
            S3A_GUIDE,
        ),
        Setting(
            S3A + "input.stream.type",
            "classic",
            "Reads go to the store each time: nothing is kept on the node",
            S3A_PERFORMANCE,
        ),
        Setting(
            S3A + "s3.client.factory.impl",
            "org.apache.hadoop.fs.s3a.DefaultS3ClientFactory",
            "One endpoint, as S3A knows it",
            S3A_GUIDE,
        ),
        Setting(
            S3A + "committer.name",
            "magic",
            "Spark 4.1 chooses it by itself for this scheme, so a comparison without it would flatter",
            "docs/guide/lab.md, 'Lab files'",
        ),
        Setting(
            _HADOOP + "mapreduce.outputcommitter.factory.scheme.s3a",
            "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
            "S3A's committers, not Penstock's",
            SPARK_CLOUD,
        ),
        Setting(
            "spark.sql.sources.commitProtocolClass",
            "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
            "Spark's own binding to S3A's committers, not Penstock's",
            SPARK_CLOUD,
        ),
        Setting(
            "spark.sql.parquet.output.committer.class",
            "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
            "Spark's own binding to S3A's committers, not Penstock's",
            SPARK_CLOUD,
        ),
    ),
)

_DEFAULTS = {
    "experimental.input.fadvise": "normal",
    "readahead.range": "64K",
    "vectored.active.ranged.reads": "4",
    "vectored.read.min.seek.size": "128K",
    "vectored.read.max.merged.size": "2M",
    "fast.upload.buffer": "disk",
    "fast.upload.active.blocks": "4",
    "multipart.size": "64M",
    "block.size": "32M",
    "connection.maximum": "500",
    "threads.max": "96",
    "connection.establish.timeout": "30s",
    "connection.timeout": "200s",
    "attempts.maximum": "5",
    "retry.limit": "7",
    "retry.throttle.interval": "100ms",
    "committer.threads": "8",
    "committer.magic.track.commits.in.memory.enabled": "false",
}

_AS_SHIPPED = Layer.of(
    "s3a-default",
    {S3A + name: value for name, value in _DEFAULTS.items()},
    reason="S3A as Spark ships it: set as Hadoop sets it",
    source=_HADOOPS_OWN,
)

_TUNED = Layer(
    "s3a-tuned",
    "S3A with the documents' tuning, and Penstock's own of its requests and connections",
    (
        Setting(
            S3A + "experimental.input.fadvise",
            "random",
            "Reading by ranges was three times faster there, and the gateways' errors 500 were gone",
            CEPH_LAKE_REQUESTS,
        ),
        Setting(
            S3A + "readahead.range",
            "64K",
            "So much is read on rather than that a connection is closed, which made every read open a new one",
            CEPH_LAKE_REQUESTS,
        ),
    ),
)

_ANALYTICS = Layer(
    "s3a-analytics",
    "S3A with the analytics stream, which prefetches by the format of what it reads",
    (
        Setting(
            S3A + "input.stream.type",
            "analytics",
            "The reader that Hadoop's authors recommend for Parquet",
            S3A_PERFORMANCE,
        ),
        *(
            Setting(
                f"spark.{role}.extraClassPath",
                str(LAB_JARS / "*"),
                "The stream is in a library that hadoop-aws does not bring",
                S3A_PERFORMANCE,
            )
            for role in ("driver", "executor")
        ),
    ),
)

_RENAMING = Layer(
    "s3a-renaming",
    "S3A as s3a-tuned, with the committer that renames: what is written is copied into place",
    (
        Setting(
            S3A + "committer.name",
            "file",
            "Hadoop's classic committer; a rename in an object store copies every byte and deletes the first copy",
            f"{COMMITTERS}; {S3A_COMMITTERS}",
        ),
        Setting(
            _HADOOP + "mapreduce.outputcommitter.factory.scheme.s3a",
            "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitterFactory",
            "The committer of every other file system",
            S3A_COMMITTERS,
        ),
        Setting(
            _HADOOP + "mapreduce.fileoutputcommitter.algorithm.version",
            "1",
            "The one of its two algorithms under which a failed task leaves nothing behind",
            S3A_COMMITTERS,
        ),
        Setting(
            "spark.sql.sources.commitProtocolClass",
            "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol",
            "Spark SQL's own commit protocol, as without any cloud settings",
            SPARK_CLOUD,
        ),
        Setting(
            "spark.sql.parquet.output.committer.class",
            "org.apache.parquet.hadoop.ParquetOutputCommitter",
            "Parquet's own committer, as without any cloud settings",
            SPARK_CLOUD,
        ),
    ),
)

LAYERS: dict[str, tuple[Layer, ...]] = {
    "s3a-default": (_WITHOUT_PENSTOCK, _AS_SHIPPED),
    "s3a-tuned": (_WITHOUT_PENSTOCK, _TUNED),
    "s3a-analytics": (_WITHOUT_PENSTOCK, _AS_SHIPPED, _ANALYTICS),
    "s3a-renaming": (_WITHOUT_PENSTOCK, _TUNED, _RENAMING),
}
"""By the name that follows a profile's after a plus; weakest first."""


def without_s3(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """The same layers without the one of the store, and without S3A's settings in any other."""
    return tuple(
        replace(layer, settings=tuple(one for one in layer.settings if not one.key.startswith(s3a.S3A)))
        for layer in layers
        if layer is not s3a.STORE
    )
